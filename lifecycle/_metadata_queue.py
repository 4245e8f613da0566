"""The policy of the metadata writer, without any I/O: who is admitted, what is written next, what a result means.

One write per resource at a time, and at most one queued behind it: a newer content takes the place of the queued one.
Resources take turns. A write that has begun holds its bytes, its budget and its target until its result is given to
`settle`, whatever the task that started it has come to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, final

import attrs

from ._metadata_errors import (
    GenerationConflict,
    GenerationsExhausted,
    MetadataBytesExceeded,
    MetadataClosed,
    MetadataFenced,
    MetadataQueueFull,
    MetadataRequestInvalid,
)
from ._metadata_history import digest_of
from ._metadata_receipt import MetadataReceipt
from ._metadata_slot import Desk, Slot
from ._metadata_types import (
    LAST_GENERATION,
    CommitOutcomeUnknown,
    Durable,
    FailedBeforeCommit,
    MetadataWrite,
    TargetConflict,
)

if TYPE_CHECKING:
    from ._budget import Budget
    from ._metadata_history import History
    from ._metadata_targets import MetadataTargets
    from ._metadata_types import MetadataOutcome, MetadataSettings, Retirement


@attrs.frozen(eq=False)
class Work:
    """A write that is to be done now. `settle` or `withdraw` ends it."""

    history: History
    slot: Slot


@final
class MetadataQueue:
    """What one writer holds. Plain and single-threaded; `on_ready` is called when there may be work, `on_idle` when the
    last pending write has ended."""

    def __init__(
        self,
        name: str,
        settings: MetadataSettings,
        targets: MetadataTargets,
        *,
        budget: Budget | None = None,
        on_ready: Callable[[], object] = lambda: None,
        on_idle: Callable[[], object] = lambda: None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.targets = targets
        self.accepting = True
        self.operations = 0
        self.bytes = 0
        self.running = 0
        self.submitted = 0
        self.coalesced = 0
        self.written = 0
        self.failed = 0
        self.desk = Desk(name, settings.waiters)
        self._max_bytes = settings.max_bytes
        self._budget = budget
        self._on_ready = on_ready
        self._on_idle = on_idle
        self.known: dict[str, History] = {}
        self._ready: deque[History] = deque()

    # -- admission

    def submit(self, request: MetadataWrite) -> MetadataReceipt | TargetConflict:
        """Admit a content, or join one that makes it superfluous. Never waits."""
        resource, generation, data = request.resource, request.generation, request.data
        history = self.known.get(resource)
        if history is None or history.target is not request.target or history.closed or not self.accepting:
            found = self.find(request)
            if isinstance(found, TargetConflict):
                return found
            history = found
        size = len(data)
        slot = history.queued
        if slot is not None and generation > slot.generation and not history.fence:
            # The path that a busy resource takes: nothing is made but the receipt.
            self._check(request)
            total = self.bytes - len(slot.data) + size
            if total > self._max_bytes:
                raise MetadataBytesExceeded(self.name, total, self._max_bytes)
            if slot.charge is not None:
                slot.charge.resize(size)
            self.bytes = total
            self.submitted += 1
            self.coalesced += 1
            slot.generation = history.highest = generation
            slot.data = data
            return MetadataReceipt(generation, slot)
        try:
            self._check(request)
            if generation <= history.highest:
                return self._join(history, request)
            return self._enqueue(history, generation, data)
        finally:
            self.tidy(history)

    def submit_next(self, resource: str, target: Path, data: bytes) -> MetadataReceipt | TargetConflict:
        """Admit a content as the newest of its resource."""
        history = self.known.get(resource) or self.targets.get_(resource)
        last = max(self.targets.last_generation, 0 if history is None else history.highest)
        if last >= LAST_GENERATION:
            raise GenerationsExhausted(resource, LAST_GENERATION)
        self.targets.last_generation = last + 1
        return self.submit(MetadataWrite(resource, last + 1, target, data))

    def _check(self, request: MetadataWrite) -> None:
        if type(request.data) is not bytes:
            raise MetadataRequestInvalid(request.resource, "its data must be bytes, which nobody can change")
        if not 0 < request.generation <= LAST_GENERATION:
            raise MetadataRequestInvalid(request.resource, f"its generation must be from 1 to {LAST_GENERATION}")

    def find(self, request: MetadataWrite) -> History | TargetConflict:
        """The history of the request's resource at the request's target."""
        resource = request.resource
        if not self.accepting:
            raise MetadataClosed(self.name, resource)
        history = self.known.get(resource)
        if history is not None and history.target == request.target:
            history.target = request.target
        else:
            self._check(request)
            found = self.targets.bind_(resource, request.target, self)
            if isinstance(found, str):
                return TargetConflict(request, found)
            history = self.known[resource] = found
        if history.closed:
            raise MetadataClosed(self.name, resource)
        return history

    def _join(self, history: History, request: MetadataWrite) -> MetadataReceipt:
        generation = request.generation
        durable = history.durable
        if durable is not None and generation <= durable:
            if generation == durable and digest_of(request.data) != history.digest:
                raise GenerationConflict(history.resource, generation)
            assert history.last is not None
            return MetadataReceipt(generation, history.last)
        if history.fence:
            raise MetadataFenced(history.resource, max(history.fence))
        slot = history.in_flight
        if slot is None or generation > slot.generation:
            slot = history.queued
        assert slot is not None, "what is up to the highest generation is durable or pending"
        if generation == slot.generation and request.data != slot.data:
            raise GenerationConflict(history.resource, generation)
        return MetadataReceipt(generation, slot)

    def _enqueue(self, history: History, generation: int, data: bytes) -> MetadataReceipt:
        if history.fence:
            raise MetadataFenced(history.resource, max(history.fence))
        if self.operations >= self.settings.max_operations:
            raise MetadataQueueFull(self.name, self.settings.max_operations)
        total = self.bytes + len(data)
        if total > self._max_bytes:
            raise MetadataBytesExceeded(self.name, total, self._max_bytes)
        slot = Slot(history.resource, generation, data, self.desk)
        if self._budget is not None:
            slot.charge = self._budget.reserve(len(data))
        history.queued = slot
        history.highest = generation
        self.bytes = total
        self.operations += 1
        self.submitted += 1
        if history.in_flight is None:
            self._ready.append(history)
            self._on_ready()
        return MetadataReceipt(generation, slot)

    # -- execution

    def take(self) -> Work | None:
        """The next write to be done, if one may begin now. It counts as running until it is settled or withdrawn."""
        if not self._ready or self.running >= self.settings.max_concurrent_writes:
            return None
        history = self._ready.popleft()
        slot = history.queued
        assert slot is not None
        history.queued = None
        history.in_flight = slot
        self.running += 1
        return Work(history, slot)

    def settle(self, work: Work, outcome: MetadataOutcome, digest: bytes = b"") -> None:
        """A write has really ended: nothing of it runs any more. `digest` is that of its content."""
        history, slot = work.history, work.slot
        heir = history.queued
        durable = isinstance(outcome, Durable)
        history.in_flight = None
        self.running -= 1
        if isinstance(outcome, Durable):
            self.written += 1
            history.fence = {}  # a whole write that came later says what the target holds
            history.confirm(slot.generation, digest, slot)
        else:
            self.failed += 1
            if isinstance(outcome, CommitOutcomeUnknown):
                history.fence[slot.generation] = digest
            history.refresh()
        self._give_back(slot)
        if heir is not None:
            self._ready.append(history)  # at the back: a busy resource lets the others through
        slot.settle(outcome, durable=durable, heir=heir)
        self.tidy(history)
        if self._ready or not self.accepting:
            self._on_ready()
        if self.operations == 0 and not self.accepting:
            self._on_idle()

    def withdraw(self, work: Work) -> None:
        """A write that was taken has not begun and never will; it is queued again, unless a newer one is."""
        history, slot = work.history, work.slot
        newer = history.queued
        history.in_flight = None
        self.running -= 1
        if newer is None:
            history.queued = slot
        else:
            self.coalesced += 1
            self._give_back(slot)
            newer.inherit(slot)
        self._ready.appendleft(history)
        self._on_ready()

    def _give_back(self, slot: Slot) -> None:
        self.operations -= 1
        self.bytes -= len(slot.data)
        charge, slot.charge = slot.charge, None
        if charge is not None:
            charge.release()

    def tidy(self, history: History) -> None:
        """Forget a resource of which there is nothing to remember, so that names that fail do not pile up."""
        if history.empty and not history.closed:
            self.targets.forget_(history)
            if self.known.get(history.resource) is history:
                del self.known[history.resource]

    # -- the end

    def stop_admission(self) -> None:
        """Admit nothing more. What is pending goes on."""
        if self.accepting:
            self.accepting = False
            self._on_ready()
            if self.operations == 0:
                self._on_idle()

    def close_resource(self, resource: str) -> bool:
        """Admit nothing more for one resource. False if it is not known here."""
        history = self.known.get(resource)
        if history is None:
            return False
        history.closed = True
        return True

    def give_up(self) -> int:
        """Admit nothing more, and fail what has not begun. What has begun is settled when it ends. Returns how many
        were failed."""
        self.accepting = False
        queued = [history for history in self._ready if history.queued is not None]
        queued += [history for history in self.known.values() if history.in_flight and history.queued]
        self._ready.clear()
        for history in queued:
            slot = history.queued
            assert slot is not None
            history.queued = None
            self.failed += 1
            self._give_back(slot)
            history.refresh()
            outcome = FailedBeforeCommit(slot.generation, NEVER_BEGUN)
            slot.settle(outcome, durable=False, heir=None)
            self.tidy(history)
        self._on_ready()
        if self.operations == 0:
            self._on_idle()
        return len(queued)

    def retire(self, resource: str) -> Retirement:
        """Forget a resource, so that its name and its target are free for something else."""
        history = self.targets.get_(resource)
        if history is None:
            return "not_found"
        if history.owner is not self:
            self.known.pop(resource, None)
            return "history_changed"
        if self.accepting and not history.closed:
            return "admission_open"
        if history.working:
            return "work_in_progress"
        if history.fence:
            return "reconciliation_required"
        self.targets.forget_(history)
        self.known.pop(resource, None)
        return "retired"


NEVER_BEGUN = "never begun"
