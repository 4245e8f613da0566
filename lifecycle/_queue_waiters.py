"""Pushes that wait for room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, final

from ._budget_waiters import TaskWaiter

if TYPE_CHECKING:
    from ._budget_node import Chain
    from ._queue_state import QueueState

T = TypeVar("T")


@final
class PushWaiter(TaskWaiter, Generic[T]):
    """A push that waits. Its item is in the queue in the step that makes room for it."""

    __slots__ = ("_item", "_queue")

    def __init__(
        self, queue: QueueState[T], chain: Chain, item: T, nbytes: int, control: bool, deadline: float
    ) -> None:
        super().__init__(chain, 1, nbytes, control, deadline)
        self._queue: QueueState[T] = queue
        self._item: T = item

    def granted(self) -> None:
        now = self.chain[0].tree.clock()
        self._queue.accept_((self._item, self.bytes, 1, self.control, now))
        self.wake()
