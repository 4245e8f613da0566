"""What goes into a queue, what comes out, and what a push answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, Self, TypeAlias, TypeVar, final

import attrs

from ._budget_errors import BudgetRefusal
from ._permit import Permit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

T = TypeVar("T")

Entry: TypeAlias = "Sequence[object]"


@attrs.frozen
class Pushed:
    """An item was accepted. True in a condition."""

    kind: Literal["enqueued", "coalesced", "dropped_stale"] = "enqueued"
    """*coalesced*: in the place of others; *dropped_stale*: after others were dropped."""
    displaced: int = 0
    """How many others that were."""

    def __bool__(self) -> Literal[True]:
        return True


ENQUEUED = Pushed()


@attrs.frozen(eq=False)
class Rejected(Generic[T]):
    """An item was not accepted. False in a condition."""

    item: T
    """The item, the same object."""
    error: BudgetRefusal
    """Why: `BudgetExhausted`, `BudgetClosed` or `QueueClosed`."""

    def __bool__(self) -> Literal[False]:
        return False


@final
class BudgetedItem(Generic[T]):
    """An item that was taken out of a queue and is charged to its budget until it is closed.

    A context manager that closes it. Closing it again does nothing.
    """

    __slots__ = ("_enqueued_at", "_item", "_permit")

    def __init__(self, item: T, permit: Permit, enqueued_at: float, /) -> None:
        self._item = item
        self._permit = permit
        self._enqueued_at = enqueued_at

    def __repr__(self) -> str:
        return f"<BudgetedItem {type(self._item).__qualname__}, {self._permit!r}>"

    @property
    def item(self) -> T:
        """The item itself."""
        return self._item

    @property
    def enqueued_at(self) -> float:
        """When it was pushed, on the clock of its budget."""
        return self._enqueued_at

    @property
    def permit(self) -> Permit:
        """The charge, to be promoted or moved to another budget while the item is worked on."""
        return self._permit

    def close(self) -> None:
        """Release the charge. Sync."""
        self._permit.release()

    def into_item(self) -> T:
        """Release the charge and return the item."""
        self._permit.release()
        return self._item

    def into_parts(self) -> tuple[T, Permit, float]:
        """Hand over the item, its permit and the time of its push; from now on closing this releases nothing."""
        permit = self._permit
        self._permit = Permit((), 0, 0, permit.control_)
        return self._item, permit, self._enqueued_at

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._permit.release()


@attrs.frozen
class QueueSnapshot:
    """A queue at one moment."""

    path: str
    """Of its budget."""
    policy: str
    depth: int
    """Items that are queued."""
    reserved_count: int
    """What the budget holds: also items that were taken out and are charged still."""
    retained_bytes: int
    """Bytes that the budget holds."""
    oldest_age: float | None
    """Seconds since the oldest queued item was pushed; None if there is none."""
    pushed_count: int
    received_count: int
    throttled_count: int
    """Pushes refused by rate."""
    rejected_count: int
    """Pushes refused for want of room, by rate included."""
    dropped_count: int
    """Items dropped: stale, cleared, or by closing."""
    coalesced_count: int
    """Items replaced by newer ones."""
    closed_slow_consumer_count: int
    waiters: int
    """Pushes that wait for room now."""
    wait_count: int
    """Pushes that have ever waited."""
    deadline_exceeded_count: int
    """Pushes that lost to their deadline."""
    closed: bool
