"""What is known of one resource: its target, what is durable, what is pending, what is unknown."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol, final

if TYPE_CHECKING:
    from pathlib import Path

    from ._metadata_slot import Slot


class Owner(Protocol):
    """A writer, as far as the registry knows it."""

    @property
    def accepting(self) -> bool:
        """Whether it admits anything."""
        ...


def digest_of(data: bytes) -> bytes:
    """What is kept of a content, to recognise it."""
    return blake2b(data, digest_size=16).digest()


@final
class History:
    """One resource: its target, its durable generation, what is pending for it, what is unknown about it."""

    __slots__ = (
        "closed", "digest", "durable", "fence", "highest", "in_flight", "last", "owner", "path", "queued", "reads",
        "resource", "target",
    )  # fmt: skip

    def __init__(self, resource: str, target: Path, path: Path, owner: Owner) -> None:
        self.resource: str = resource
        self.target: Path = target
        """As it was given last, to recognise it without looking it up."""
        self.path: Path = path
        """Absolute, without symbolic links."""
        self.owner: Owner = owner
        self.closed: bool = False
        """Whether admission ended for this resource alone."""
        self.durable: int | None = None
        self.digest: bytes = b""
        """Of the durable content."""
        self.last: Slot | None = None
        """The slot of the durable write: the receipt of all that came too late."""
        self.in_flight: Slot | None = None
        self.queued: Slot | None = None
        self.highest: int = 0
        """The newest generation that is durable or pending: only a newer one needs a write."""
        self.fence: dict[int, bytes] = {}
        """The generations of which it is unknown whether they were committed, with their digests."""
        self.reads: int = 0
        """Reads of the target that are going on."""

    @property
    def working(self) -> bool:
        """Whether anything is pending."""
        return self.in_flight is not None or self.queued is not None or self.reads > 0

    @property
    def live(self) -> bool:
        """Whether a writer may still write it."""
        return self.working or (self.owner.accepting and not self.closed)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to be remembered: nothing durable, nothing pending, nothing unknown."""
        return self.durable is None and not self.fence and not self.working

    def handed_to(self, owner: Owner) -> History:
        """What a successor goes on with. The one before it keeps an object of its own, in which nothing happens."""
        history = History(self.resource, self.target, self.path, owner)
        history.durable, history.digest, history.last = self.durable, self.digest, self.last
        history.highest = self.highest
        history.fence = self.fence.copy()
        return history

    def confirm(self, generation: int, digest: bytes, slot: Slot) -> None:
        """`generation` is durable; `slot` is what receipts that come too late are given."""
        self.durable, self.digest, self.last = generation, digest, slot
        self.refresh()

    def refresh(self) -> None:
        """Find `highest` again, after a write has ended."""
        slot = self.queued or self.in_flight
        self.highest = slot.generation if slot is not None else self.durable or 0
