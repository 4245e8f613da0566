"""A slot: one pending write of one resource, which many submissions may share, and what they are told of its end.

Submissions are coalesced by changing the slot that is queued, so a receipt is only the slot and the generation that was
asked for: nothing is registered until somebody waits.

What the receipts of a slot are told is kept apart for the generation that was written (`own`) and for the older ones
that it took along (`older`). When a write fails while a newer content is queued, the older ones did not fail with it:
their content was never tried. They follow the queued one, the *heir*, and share its success. They follow once: if the
heir fails too, they are told the first failure, so that a broken disk cannot keep a busy resource's receipts open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from ._metadata_errors import MetadataWaitersFull

if TYPE_CHECKING:
    from ._metadata_types import MetadataOutcome
    from ._permit import Permit

Tell = Callable[["MetadataOutcome"], object]


@final
class Desk:
    """Counts who waits at one writer."""

    __slots__ = ("limit", "waiters", "writer")

    def __init__(self, writer: str, limit: int) -> None:
        self.writer: str = writer
        self.limit: int = limit
        self.waiters: int = 0


@final
class Slot:
    """One pending write. While it is queued, generation and data may be replaced by newer ones."""

    __slots__ = (
        "charge", "data", "desk", "elders", "fallback", "generation", "older", "own", "resource", "watchers",
    )  # fmt: skip

    def __init__(self, resource: str, generation: int, data: bytes, desk: Desk) -> None:
        self.resource: str = resource
        self.generation: int = generation
        self.data: bytes = data
        self.desk: Desk = desk
        self.charge: Permit | None = None
        self.own: MetadataOutcome | None = None
        self.older: MetadataOutcome | None = None
        self.fallback: MetadataOutcome | None = None
        """The failure that this slot falls back to when the heir that it follows fails too."""
        self.elders: list[Slot] | None = None
        """The slots that follow this one."""
        self.watchers: dict[object, tuple[int, Tell]] | None = None

    def outcome(self, generation: int) -> MetadataOutcome | None:
        """What a receipt for `generation` is told; None while it is open."""
        return self.own if generation == self.generation else self.older

    @property
    def watching(self) -> int:
        """How many wait here, those included that came with a slot before."""
        slots = (self, *(self.elders or ()))
        return sum(len(slot.watchers) for slot in slots if slot.watchers is not None)

    def watch(self, generation: int, tell: Tell) -> Callable[[], None]:
        """Have `tell` called once with the outcome for `generation`, which is open. Returns what takes it back.

        Raises `MetadataWaitersFull`.
        """
        desk = self.desk
        if desk.waiters >= desk.limit:
            raise MetadataWaitersFull(desk.writer, desk.limit)
        token = object()
        if self.watchers is None:
            self.watchers = {}
        watchers = self.watchers
        watchers[token] = (generation, tell)
        desk.waiters += 1

        def take_back() -> None:
            if watchers.pop(token, None) is not None:
                desk.waiters -= 1

        return take_back

    def inherit(self, elder: Slot) -> None:
        """Let what is open of `elder` follow this slot, and what followed `elder` too. Its content is not kept."""
        elder.data = b""
        followers, elder.elders = elder.elders, None
        if self.elders is None:
            self.elders = []
        self.elders.append(elder)
        self.elders += followers or ()

    def settle(self, outcome: MetadataOutcome, *, durable: bool, heir: Slot | None) -> None:
        """The write has ended. With a failure and an `heir`, the older generations stay open and follow that."""
        elders, self.elders = self.elders, None
        self.own = outcome
        self._older(outcome, durable, heir)
        for elder in elders or ():
            elder._older(outcome, durable, heir)

    def _older(self, outcome: MetadataOutcome, durable: bool, heir: Slot | None) -> None:
        """What was not written itself hears how the write ended that was to stand for it."""
        if durable or heir is None or self.fallback is not None:
            self.older = outcome if durable or self.fallback is None else self.fallback
            if self.own is None:
                self.own = self.older  # it had not begun when a newer one took it along
            self.data = b""
        else:
            self.fallback = outcome
            heir.inherit(self)
        self._tell()

    def _tell(self) -> None:
        watchers = self.watchers
        if watchers:
            for token, (generation, tell) in list(watchers.items()):
                outcome = self.outcome(generation)
                if outcome is not None and watchers.pop(token, None) is not None:
                    self.desk.waiters -= 1
                    tell(outcome)
