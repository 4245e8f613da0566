"""The queue whose items are charged to a budget."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Self, TypeVar, cast, final

import trio
from trio.lowlevel import (
    Abort,
    checkpoint,
    checkpoint_if_cancelled,
    current_clock,
    current_task,
    wait_task_rescheduled,
)

from ._budget_errors import BudgetExhausted, BudgetRefusal, DifferentTree, PermitSpent, QueueClosed, WaitExpired
from ._budget_node import closed_node, free, impossible
from ._queue_item import ENQUEUED, BudgetedItem, Pushed, QueueSnapshot, Rejected
from ._queue_state import QueueState
from ._queue_waiters import PushWaiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._budget import Budget
    from ._permit import Permit
    from ._queue_policies import QueuePolicy

T = TypeVar("T")

SLICE_ITEMS = 64
"""Items between two schedule points, at most."""

SLICE_SECONDS = 50e-6
"""Seconds between two schedule points: the item that passes them is the last."""


def _no_clock() -> float:
    return inf


@final
class BudgetedQueue(QueueState[T]):
    """A queue whose items are charged to a budget, one each and the bytes that `size(item)` says.

    The budget is the only limit: give each queue a child of its own. `policy` says what happens when it is full (see
    `coalesce`, `drop_stale` and the others); whatever is not accepted stays with the caller, and nothing is charged
    for it. An item cannot be None.

    `push` and `recv` are always cancel points, before they do anything and never after, and schedule points at least
    once per slice of 64 items or 50 microseconds; beyond that they suspend only to wait. Those that wait are served
    first come, first served, on either side. All else is synchronous, and everything belongs to the thread that runs
    Trio.
    """

    __slots__ = ("_clock", "_end", "_left")

    def __init__(
        self, budget: Budget, *, policy: QueuePolicy = "reject", size: Callable[[T], int] | None = None
    ) -> None:
        super().__init__(budget, policy, size)
        self._left: int = 0
        self._end: float = 0.0
        self._clock: Callable[[], float] = _no_clock

    def __repr__(self) -> str:
        return f"<BudgetedQueue on {self._leaf.path!r}, {self._name}, {len(self._items)} queued>"

    def __len__(self) -> int:
        return len(self._items)

    def __bool__(self) -> bool:
        return True

    @property
    def path(self) -> str:
        """The path of its budget."""
        return self._leaf.path

    @property
    def closed(self) -> bool:
        """Whether it takes nothing more. What was queued may still be there."""
        return self._closed

    def snapshot(self) -> QueueSnapshot:
        """What is queued and what was counted."""
        return self._snapshot()

    # -- pushing

    @trio.lowlevel.enable_ki_protection
    def try_push(self, item: T, *, control: bool = False) -> Pushed | Rejected[T]:
        """Put an item in without waiting; `Rejected` with the item where the policy does not make room for it.

        Under `wait` it takes what is free now, whoever waits for more than that, and is rejected otherwise. An item
        that a task waits for is charged, and released as it is handed over.
        """
        size = self._size
        nbytes = 0 if size is None else size(item)
        if self._quick and not (control or self._receivers) and nbytes >= 0 and item is not None:
            chain = self._chain
            for node in chain:
                if node.used >= node.count_until or node.bytes + nbytes > node.bytes_until:
                    break
            else:
                for node in chain:
                    node.used += 1
                    node.bytes += nbytes
                    node.admitted += 1
                self._items.append((item, nbytes, 1, False, self._tree.clock()))
                return ENQUEUED
        self._check(item, nbytes)
        return self._offer(item, nbytes, 1, control)

    @trio.lowlevel.enable_ki_protection
    def try_push_budgeted(self, item: T, permit: Permit) -> Pushed | Rejected[T]:
        """Put an item in with the permit that covers it already, which is moved to the queue's budget: what lies above
        both is not charged again. `size` is not asked.

        The permit is spent if the item was accepted, and held as before otherwise. Raises `DifferentTree` for a permit
        of another tree, `PermitSpent`.
        """
        if not permit.held:
            raise PermitSpent
        if permit.chain_[0] is not self._chain[0]:
            raise DifferentTree(permit.path, self._leaf.path)
        self._check(item, permit.bytes_)
        return self._offer(item, permit.bytes_, permit.count_, permit.control_, permit)

    @trio.lowlevel.enable_ki_protection
    async def push(self, item: T, *, control: bool = False, deadline: float = inf) -> Pushed:
        """Put an item in; under the policy `wait`, wait for room first.

        Raises what `try_push` puts into `Rejected`; under `wait` also `WaitExpired` when `deadline` (on Trio's clock)
        has come, even if there is room. A closed queue, an item that can never fit and, under `Wait(rate=False)`, an
        exhausted rate raise without a wait. A push that is cancelled was not accepted.
        """
        left = self._left - 1
        if left > 0 and self._clock() < self._end:
            self._left = left
            await checkpoint_if_cancelled()
        else:
            await self._new_slice()
        if self._wait is None:
            result = self.try_push(item, control=control)
            if isinstance(result, Rejected):
                raise result.error
            return result
        size = self._size
        nbytes = 0 if size is None else size(item)
        special = control or self._tree.busy or deadline != inf or nbytes < 0 or item is None
        if not special and self._quick and not self._receivers and self._put(item, nbytes):
            return ENQUEUED
        self._check(item, nbytes)
        return await self._push_in_turn(item, nbytes, control, deadline)

    def _put(self, item: T, nbytes: int) -> bool:
        """Put an item in if that is the plain case. False: nothing was done."""
        chain = self._chain
        for node in chain:
            if node.used >= node.count_until or node.bytes + nbytes > node.bytes_until:
                return False
        for node in chain:
            node.used += 1
            node.bytes += nbytes
            node.admitted += 1
        self._items.append((item, nbytes, 1, False, self._tree.clock()))
        return True

    async def _push_in_turn(self, item: T, nbytes: int, control: bool, deadline: float) -> Pushed:
        assert self._wait is not None
        if self._closed:
            raise self._reject(item, QueueClosed(self.path, self._slow)).error
        found = closed_node(self._chain) or impossible(self._chain, 1, nbytes, control)
        if found is not None:
            raise self._refuse(item, found, nbytes, 1, control).error
        waiter = PushWaiter(self, self._chain, item, nbytes, control, deadline)
        waiter.fails_on_rate = not self._wait.rate
        self._tree.enter(waiter)
        if not waiter.done:
            self._pushers[waiter] = None
            self._waited += 1
        try:
            await waiter.wait()
        except BudgetRefusal as error:
            error.item = item
            self._expired += isinstance(error, WaitExpired)
            if isinstance(error, BudgetExhausted):
                self._rejected += 1
                self._throttled += 1
            raise
        finally:
            self._pushers.pop(waiter, None)
        return ENQUEUED

    # -- receiving

    @trio.lowlevel.enable_ki_protection
    def try_recv(self) -> T | None:
        """The next item, whose charge is released; None if there is none now."""
        if self._quick and self._items:
            item, nbytes, count, control, _ = self._items.popleft()
            self._received += 1
            if control:
                free(self._chain, count, nbytes, True)
                return item
            for node in self._chain:
                node.used -= count
                node.bytes -= nbytes
            if self._tree.busy:
                self._tree.settle(self._chain)
            return item
        return cast("T | None", self._take(keeps_charge=False))

    @trio.lowlevel.enable_ki_protection
    def try_recv_budgeted(self) -> BudgetedItem[T] | None:
        """The next item, which stays charged until it is closed; None if there is none now."""
        return cast("BudgetedItem[T] | None", self._take(keeps_charge=True))

    @trio.lowlevel.enable_ki_protection
    async def recv(self) -> T | None:
        """Wait for the next item; its charge is released as it leaves the queue. None once the queue is closed and
        empty. A receive that is cancelled has taken nothing."""
        left = self._left - 1
        if left > 0 and self._quick and self._items and self._clock() < self._end:
            self._left = left
            await checkpoint_if_cancelled()
            item, nbytes, count, control, _ = self._items.popleft()
            self._received += 1
            if control:
                free(self._chain, count, nbytes, True)
                return item
            for node in self._chain:
                node.used -= count
                node.bytes -= nbytes
            if self._tree.busy:
                self._tree.settle(self._chain)
            return item
        return cast("T | None", await self._recv(keeps_charge=False))

    @trio.lowlevel.enable_ki_protection
    async def recv_budgeted(self) -> BudgetedItem[T] | None:
        """Wait for the next item, which stays charged until it is closed. Otherwise like `recv`."""
        return cast("BudgetedItem[T] | None", await self._recv(keeps_charge=True))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        item = await self.recv()
        if item is None:
            raise StopAsyncIteration
        return item

    async def _recv(self, keeps_charge: bool) -> T | BudgetedItem[T] | None:
        left = self._left - 1
        if self._items and left > 0 and self._clock() < self._end:
            self._left = left
            await checkpoint_if_cancelled()
        elif self._items or self._closed:
            await self._new_slice()
        else:
            await checkpoint_if_cancelled()
        found = self._take(keeps_charge)
        if found is not None or self._closed:
            return found
        task = current_task()
        self._receivers[task] = keeps_charge

        def abort(_: object) -> Abort:
            del self._receivers[task]
            return Abort.SUCCEEDED

        received: T | BudgetedItem[T] | None = await wait_task_rescheduled(abort)
        self._renew()
        return received

    async def _new_slice(self) -> None:
        await checkpoint()
        self._renew()

    def _renew(self) -> None:
        # Trio's own clock: a run on a virtual one is repeated exactly.
        self._clock = current_clock().current_time
        self._left = SLICE_ITEMS
        self._end = self._clock() + SLICE_SECONDS

    # -- the rest

    def retain(self, wanted: Callable[[T], bool]) -> int:
        """Keep the queued items for which `wanted(item)` is true, in their order, and drop the others. How many were
        dropped."""
        return self._retain(wanted)

    def sweep(self) -> int:
        """Apply the age limit now: nothing else does while nobody pushes or receives. How many items were dropped."""
        dropped = self._dropped
        self._drop_aged()
        return self._dropped - dropped

    def clear(self) -> int:
        """Drop all that is queued. How many items were dropped."""
        return self._drop_all()

    def close(self) -> None:
        """Take nothing more. Pushes that wait fail with `QueueClosed`; what is queued may be received, then `recv`
        returns None. The second time it does nothing."""
        self._close()
