"""The receipt: proof that a content was accepted. That it is durable is a second, separate proof."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, final

import trio

from ._metadata_errors import MetadataCommitUnknown, MetadataWriteFailed
from ._metadata_types import CommitOutcomeUnknown, Durable, Settled, Unobserved

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._metadata_slot import Slot
    from ._metadata_types import MetadataObservation, MetadataOutcome


@final
class MetadataReceipt:
    """A content was accepted, and nothing is said of the file yet.

    It has an outcome when nothing that is pending can change it: durable when this generation or a newer one is; failed
    when its write failed, or when the newer one that took its place failed and the one queued behind that did too.
    Outcomes never change, and are there after the writer has ended and the resource was retired.
    """

    __slots__ = ("_slot", "generation")

    def __init__(self, generation: int, slot: Slot, /) -> None:
        self.generation: int = generation
        """The generation that was submitted."""
        self._slot = slot

    def __repr__(self) -> str:
        return f"<MetadataReceipt {self.resource} {self.generation} {self.outcome or 'accepted'}>"

    @property
    def resource(self) -> str:
        """The name of what was written."""
        return self._slot.resource

    @property
    def outcome(self) -> MetadataOutcome | None:
        """How the write ended; None while that is open."""
        return self._slot.outcome(self.generation)

    async def durable(self) -> int:
        """Wait until the content is durable and return the durable generation, which may be newer than this one.

        Raises `MetadataWriteFailed` when the target is as it was, `MetadataCommitUnknown` when nobody knows,
        `MetadataWaitersFull` when too many wait already. A checkpoint; cancelling ends only the wait.
        """
        await self._wait()
        generation = self.durable_now()
        assert generation is not None
        return generation

    def durable_now(self) -> int | None:
        """The durable generation, None while the outcome is open; raises as `durable` does when it failed. Sync."""
        outcome = self.outcome
        if outcome is None or isinstance(outcome, Durable):
            return None if outcome is None else outcome.generation
        error = MetadataCommitUnknown if isinstance(outcome, CommitOutcomeUnknown) else MetadataWriteFailed
        raise error(self.resource, outcome.generation, outcome.step) from outcome.cause

    async def observe(self, until: float = inf) -> MetadataObservation:
        """Wait for the outcome, at most until the time `until` on Trio's clock, and return it: raises nothing for a
        failure. `Unobserved` proves nothing about the file. Raises `MetadataWaitersFull`. A checkpoint."""
        with trio.CancelScope(deadline=until):
            await self._wait()
        outcome = self.outcome
        return Unobserved(self.generation) if outcome is None else Settled(self.generation, outcome)

    def notify(self, callback: Callable[[MetadataOutcome], object]) -> Callable[[], None]:
        """Call `callback` once with the outcome, at once if it is there. Sync; it must not raise.

        Counts as a wait: raises `MetadataWaitersFull`. Returns the function that takes it back.
        """
        outcome = self.outcome
        if outcome is not None:
            callback(outcome)
            return _nothing
        return self._slot.watch(self.generation, callback)

    async def _wait(self) -> None:
        if self.outcome is None:
            event = trio.Event()
            take_back = self.notify(lambda _: event.set())
            try:
                await event.wait()
            finally:
                take_back()
        else:
            await trio.lowlevel.checkpoint()


def _nothing() -> None:
    pass
