"""The system: a tree of actors in a block."""

from __future__ import annotations

import logging
import random
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, TypeVar, final

import trio

from lifecycle import leaves, scope_until

from ._asks import Interrupts
from ._body import accepted_types
from ._cell import STRENGTH
from ._current import current_cell
from ._dead_letters import DeadLetters
from ._errors import RestartLimitExceeded, SystemStopped, WouldDeadlock
from ._message import ControlTypes
from ._node import Node
from ._slice import Slice
from ._spawning import Spawner
from ._timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from lifecycle import ServiceContext, ShutdownDeadline, ShutdownReport, StopMode, TaskGroup

    from ._cell import Cell
    from ._dump import TreeDump
    from ._message import Exit
    from ._tracing import Tracer

T = TypeVar("T")

_log = logging.getLogger("tenure.actors")

ACCEPTED_KEPT = 1024
UNSEEN_KEPT = 100


@final
class System(Spawner):
    """The tree of actors of one `open_system` block. Actors that are spawned on it are its top level."""

    def __init__(
        self, service: ServiceContext, shutdown_within: float, inline: bool, slices: Literal["time", "count"],
        tracer: Tracer | None, seed: int | None, owns_runtime: bool,
    ) -> None:  # fmt: skip
        self.service = service
        """The service context that the tree hangs in."""
        self.group: TaskGroup = service.group
        self.inline: bool = inline and tracer is None
        self.tracer = tracer
        self.slice: Slice = Slice(slices)
        self.control_types: ControlTypes = ControlTypes()
        self.random: random.Random = random.Random(seed)
        self.timers: Timers = Timers()
        self.dead_letters: DeadLetters = DeadLetters()
        """Messages that nobody will handle: counts, the last ones, subscriptions."""
        self.root: Node = Node(self, None)
        self.interrupts: Interrupts = Interrupts()
        self.crashes: int = 0
        """How often an exception has left a handler or a hook, whatever came of it."""
        self.unseen_failures: deque[tuple[str, BaseException]] = deque(maxlen=UNSEEN_KEPT)
        """Supervised actors that have failed for good while nobody watched them or waited for their end: path and cause
        of the last hundred. What is not supervised leaves the block instead."""
        self._within = shutdown_within
        self._owns_runtime = owns_runtime
        self._token = trio.lowlevel.current_trio_token()
        self._accepted: dict[Any, tuple[type[object], ...] | None] = {}
        self._failures: list[Exception] = []
        self._body_scope = trio.CancelScope()
        self._asked = trio.Event()
        self._mode: StopMode = "drain"
        self._reason = "finished"
        self._report: ShutdownReport | None = None

    def __repr__(self) -> str:
        return f"<System {self.name} {self.group.state}>"

    def node_(self) -> Node:
        return self.root

    @property
    def name(self) -> str:
        """The system's name, for reports and logs."""
        return self.service.name

    @property
    def stopping(self) -> trio.Event:
        """Set when the system is told to end."""
        return self.group.stopping

    @property
    def deadline(self) -> ShutdownDeadline:
        """The shutdown deadline; its times are `inf` until a shutdown is requested."""
        return self.group.deadline

    @property
    def report(self) -> ShutdownReport | None:
        """How the tree ended. There after the block; None before."""
        return self.service.runtime.report if self._owns_runtime else self._report

    async def wait_stopped(self) -> None:
        """Wait until every actor has ended. A checkpoint. `await system.wait_stopped()` is how a service's main waits
        for its signal. Raises `WouldDeadlock` within an actor of the system."""
        here = current_cell()
        if here is not None and here.system is self and here.owns_task(trio.lowlevel.current_task()):
            raise WouldDeadlock(here.path, "system.wait_stopped()")
        await self.group.wait_over()

    # -- the end

    def stop(self) -> None:
        """Tell all actors to end after the message in hand. Sync; the block ends when they have."""
        self._end("stop", "stop")

    def drain(self) -> None:
        """Tell all actors to end when their mailboxes are empty. Sync; the block ends when they have."""
        self._end("drain", "drain")

    def kill(self) -> None:
        """Cancel all actors now. Sync; clean-up has until the shutdown deadline."""
        self._end("kill", "kill")

    def _end(self, mode: StopMode, reason: str) -> None:
        if not self._asked.is_set():
            self._reason = reason
        if STRENGTH[mode] > STRENGTH[self._mode]:
            self._mode = mode
        self._asked.set()
        if self._owns_runtime:
            self.service.runtime.request_shutdown(reason, self._within)
        else:
            self.group.freeze(self._within, reason)
        if mode == "kill":
            self.deadline.kill(trio.current_time())
        if mode != "drain" or not self._owns_runtime:
            self.group.close(mode)

    def child_failed(self, causes: list[Exception]) -> None:
        """A top-level actor without a supervisor has failed: the block fails with it."""
        self._failures.extend(causes)
        self._end("kill", "failed")
        self._body_scope.cancel()

    # -- what its actors use

    def now(self) -> float:
        """The time on Trio's clock."""
        return trio.current_time()

    def cleanup(self, within: float | None = None) -> AbstractContextManager[trio.CancelScope]:
        """A shielded scope that ends by itself, at the shutdown deadline at the latest."""
        return self.group.tree.cleanup(self.group, self._within if within is None else within)

    def count_crash(self, cell: Cell, exc: Exception) -> None:
        """An exception has left a handler or a hook."""
        self.crashes += 1
        if cell.is_ready:  # a start that fails is told to the one who spawned it
            path = cell.path
            _log.error("actor %s crashed: %r", path, exc, exc_info=exc, extra={"actor": path, "system": self.name})

    def failed_unseen(self, cell: Cell, exit_: Exit) -> None:
        """A supervised actor has failed for good, and nobody but the supervisor is told."""
        if exit_.cause is not None:
            self.unseen_failures.append((cell.path, exit_.cause))

    def note_cut(self, cell: Cell, hook: str) -> None:
        """A hook ran out of time and was cancelled."""
        path = cell.path
        _log.error("actor %s: its %s() ran out of time", path, hook, extra={"actor": path, "system": self.name})

    def accepted_by(self, body: Any) -> tuple[type[object], ...] | None:
        """The message classes that a function actor's annotation names."""
        try:
            if body not in self._accepted:
                if len(self._accepted) >= ACCEPTED_KEPT:
                    self._accepted.clear()
                self._accepted[body] = accepted_types(body)
            return self._accepted[body]
        except TypeError:  # a body that cannot be hashed
            return accepted_types(body)

    def call_soon(self, fn: Callable[[T], object], argument: T) -> None:
        """Call `fn(argument)` in the system's thread, from any thread, if it still runs."""
        try:
            self._token.run_sync_soon(fn, argument)
        except trio.RunFinishedError:
            pass

    def dump(self) -> TreeDump:
        """The tree as it stands: state, mailbox, message in hand, age and stack of every actor. Sync."""
        from ._dump import dump_system

        return dump_system(self)

    # -- the block

    def leave_(self, error: BaseException | None) -> None:
        """The block's body has ended."""
        if error is None:
            self._end("drain", "finished")
        else:
            self._end("kill", "failed" if isinstance(error, Exception) else "cancelled")

    def refused_(self, error: BaseException | None) -> bool:
        """Whether the body has ended because it spawned when the system had been told to end: an end like any other."""
        errors = leaves(error) if error is not None else []
        mine = [isinstance(each, SystemStopped) and each.name == self.name for each in errors]
        return bool(mine) and all(mine) and self.stopping.is_set()

    @property
    def has_failed_(self) -> bool:
        """Whether a top-level actor without a supervisor has failed."""
        return bool(self._failures)

    def failure_(self, errors: list[BaseException]) -> BaseException | None:
        """What the block raises: what its body raised, and, as from a nursery, what actors have failed with."""
        found = [*errors, *self._failures]
        if not found:
            return None
        if len(found) == 1 and (errors or isinstance(found[0], RestartLimitExceeded)):  # the latter is a group already
            failure = found[0]
        else:
            failure = BaseExceptionGroup(f"actors failed in system {self.name!r}", found)
        try:
            failure.report = self.report  # type: ignore[attr-defined]
        except Exception:
            _log.debug("%s takes no attribute: the report is in the log only", type(failure).__name__)
        return failure

    async def drive_(self) -> None:
        """In a runtime of somebody else: keep to the deadline of the system's own."""
        await self._asked.wait()
        deadline = self.group.freeze(self._within, self._reason)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_body, deadline)
            self._report = report = await self.group.shutdown(self._within, mode=self._mode, reason=self._reason)
            level = logging.INFO if report.is_healthy() else logging.ERROR
            _log.log(level, "%s", report.render(), extra={"system": self.name, "healthy": report.is_healthy()})
            await self.group.wait_over()

    async def _end_body(self, deadline: ShutdownDeadline) -> None:
        """Cancel the block's body when the tree has ended, and at the work deadline."""
        with scope_until(deadline, lambda: deadline.work):
            await self.group.wait_over()
        self._body_scope.cancel()

    async def follow_(self) -> None:
        """In a runtime of somebody else: when that shuts down, the system does too."""
        await self.group.stopping.wait()
        if not self._asked.is_set():
            self._reason = self.deadline.reason or "closed"
            self._asked.set()

    @property
    def body_scope_(self) -> trio.CancelScope:
        return self._body_scope
