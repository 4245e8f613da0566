"""What a queue holds, and its policies: everything but the fast paths and the waiting."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from outcome import Value
from trio.lowlevel import reschedule

from ._budget_errors import AmountInvalid, QueueClosed, QueueInvalid
from ._budget_node import commit, free, give_back, note_refusal, obstacle, refusal, take_again
from ._permit import Permit, added_nodes
from ._queue_item import ENQUEUED, BudgetedItem, Pushed, QueueSnapshot, Rejected
from ._queue_policies import CloseSlowConsumer, Coalesce, CoalesceLatest, DropStale, Wait, age_in_force, policy_name

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import trio

    from ._budget import Budget
    from ._budget_errors import BudgetRefusal
    from ._budget_node import Chain, Node, Obstacle
    from ._budget_tree import Tree
    from ._queue_policies import QueuePolicy
    from ._queue_waiters import PushWaiter

T = TypeVar("T")

Entry: TypeAlias = "tuple[T, int, int, bool, float]"
"""An item, its bytes, its count, whether it is control work, and when it was pushed."""


class QueueState(Generic[T]):
    """The items, their charges, and those that wait on either side.

    Tasks wait for items only while there are none, so an item goes either to the first of them or into the queue.
    """

    __slots__ = (
        "_age", "_chain", "_close_on_full", "_closed", "_coalesced", "_dropped", "_expired", "_items", "_keys",
        "_latest", "_name", "_pushers", "_quick", "_received", "_receivers", "_rejected", "_removed", "_replaced",
        "_size", "_slow", "_throttled", "_tree", "_wait", "_waited",
    )  # fmt: skip

    def __init__(self, budget: Budget, policy: QueuePolicy, size: Callable[[T], int] | None) -> None:
        chain = budget.chain_
        self._chain: Chain = chain
        self._tree: Tree = chain[0].tree
        self._size: Callable[[T], int] | None = size
        self._items: deque[Entry[T]] = deque()
        self._receivers: dict[trio.lowlevel.Task, bool] = {}
        """Tasks that wait for an item, and whether they want to keep its charge."""
        self._pushers: dict[PushWaiter[T], None] = {}
        self._closed: bool = False
        self._slow: bool = False
        """Whether it closed itself."""
        # The policy.
        self._name: str = policy_name(policy)
        self._wait: Wait | None = policy if isinstance(policy, Wait) else Wait() if policy == "wait" else None
        self._latest: bool = isinstance(policy, CoalesceLatest)
        self._close_on_full: bool = isinstance(policy, CloseSlowConsumer)
        self._keys: tuple[Callable[[T], Hashable], dict[Hashable, int]] | None = (
            (policy.key, {}) if isinstance(policy, Coalesce) else None
        )
        self._age: float = inf
        """Seconds after which an item is stale."""
        if isinstance(policy, (DropStale, CloseSlowConsumer)):
            self._age = age_in_force(policy, chain[-1].path, chain[-1].in_force.max_age)
        self._quick: bool = self._keys is None and self._age == inf
        """Whether an item may be put in without a look at anything but the budget."""
        # Counters. An item leaves at the front as received, or is removed; a replaced one never had a place of its own.
        self._received: int = 0
        self._removed: int = 0
        self._replaced: int = 0
        self._dropped: int = 0
        self._coalesced: int = 0
        self._rejected: int = 0
        self._throttled: int = 0
        self._waited: int = 0
        self._expired: int = 0

    @property
    def _leaf(self) -> Node:
        return self._chain[-1]

    # -- putting in

    def _check(self, item: T, nbytes: int) -> None:
        if item is None:
            raise QueueInvalid(self._leaf.path, "None cannot be queued, it is what recv() returns at the end")
        if nbytes < 0:
            raise AmountInvalid(self._leaf.path)

    def _offer(
        self, item: T, nbytes: int, count: int, control: bool, permit: Permit | None = None
    ) -> Pushed | Rejected[T]:
        """Put the item in, or do what the policy says; with `permit`, which is in the same tree, move its share."""
        if self._closed:
            return self._reject(item, QueueClosed(self._leaf.path, self._slow))
        self._tree.collect()
        nodes = self._chain if permit is None else added_nodes(permit.chain_, self._chain)
        for node in nodes:
            if node.closed:
                return self._refuse(item, (node, "closed"), nbytes, count, control)
        dropped = self._drop_aged()
        if self._closed:
            return self._reject(item, QueueClosed(self._leaf.path, self._slow))
        place = None if self._keys is None else self._place_of(self._keys[0](item))
        entry = (item, nbytes, count, control, self._tree.clock())
        if place is not None:
            return self._replace(place, entry, nodes, permit)
        found = obstacle(nodes, count, nbytes, control)
        if found is None:
            commit(nodes, count, nbytes, control)
            self._take_over(permit)
            self.accept_(entry)
            return Pushed("dropped_stale", dropped) if dropped else ENQUEUED
        if found[0] is self._leaf and found[1] in ("count", "bytes"):
            if self._latest and self._items:
                return self._replace_all(entry, nodes, permit)
            if self._close_on_full and self._leaf.never_admits(count, nbytes, control) is None:
                self._close_slow()
                return self._reject(item, QueueClosed(self._leaf.path, slow_consumer=True))
        return self._refuse(item, found, nbytes, count, control)

    def accept_(self, entry: Entry[T]) -> None:
        """Take an item whose share has been charged: to the task that has waited longest, or into the queue."""
        if self._receivers:
            self._hand_over(entry)
            return
        if self._keys is not None:
            key_of, numbers = self._keys
            numbers[key_of(entry[0])] = self._received + self._removed + len(self._items)
            if len(numbers) > 2 * len(self._items) + 64:  # keys of items that were taken long ago
                first = self._received + self._removed
                self._keys = key_of, {key: number for key, number in numbers.items() if number >= first}
        self._items.append(entry)

    def _hand_over(self, entry: Entry[T]) -> None:
        task = next(iter(self._receivers))
        keeps_charge = self._receivers.pop(task)
        self._received += 1
        item, nbytes, count, control, since = entry
        if keeps_charge:
            reschedule(task, Value(BudgetedItem(item, Permit(self._chain, count, nbytes, control), since)))
        else:
            reschedule(task, Value(item))
            free(self._chain, count, nbytes, control)

    def _take_over(self, permit: Permit | None) -> None:
        """The share of a permit has become that of an item: free what it held outside of this queue's budget."""
        if permit is not None:
            chain = permit.take_()
            left = added_nodes(self._chain, chain)
            if left:
                free(left, permit.count_, permit.bytes_, permit.control_)

    def _reject(self, item: T, error: BudgetRefusal) -> Rejected[T]:
        error.item = item
        return Rejected(item, error)

    def _refuse(self, item: T, found: Obstacle, nbytes: int, count: int, control: bool) -> Rejected[T]:
        note_refusal(self._leaf, found)
        self._rejected += 1
        self._throttled += found[1] == "rate"
        return self._reject(item, refusal(self._leaf, found, count, nbytes, control, self._name))

    # -- the policies

    def _place_of(self, key: Hashable) -> int | None:
        """Where the item of that key is queued; None if there is none."""
        assert self._keys is not None
        number = self._keys[1].get(key, -1)
        place = number - self._received - self._removed
        return place if place >= 0 else None

    def _replace(self, place: int, entry: Entry[T], nodes: Chain, permit: Permit | None) -> Pushed | Rejected[T]:
        """Put the item in the place of the one with its key, if its charge fits there."""
        item, nbytes, count, control, _ = entry
        old = self._items[place]
        give_back(self._chain, old[2], old[1], old[3])
        found = obstacle(nodes, count, nbytes, control)
        if found is not None:
            take_again(self._chain, old[2], old[1], old[3])
            return self._refuse(item, found, nbytes, count, control)
        commit(nodes, count, nbytes, control)
        self._items[place] = entry
        self._replaced += 1
        self._count_coalesced(1)
        self._take_over(permit)
        self._settle()
        return Pushed("coalesced", 1)

    def _replace_all(self, entry: Entry[T], nodes: Chain, permit: Permit | None) -> Pushed | Rejected[T]:
        """Put the item in the place of all, if it fits there. What is queued is touched only then."""
        item, nbytes, count, control, _ = entry
        for old in self._items:
            give_back(self._chain, old[2], old[1], old[3])
        found = obstacle(nodes, count, nbytes, control)
        if found is not None:
            for old in self._items:
                take_again(self._chain, old[2], old[1], old[3])
            return self._refuse(item, found, nbytes, count, control)
        commit(nodes, count, nbytes, control)
        replaced = len(self._items)
        self._items.clear()
        self._items.append(entry)
        self._removed += replaced
        self._count_coalesced(replaced)
        self._take_over(permit)
        self._settle()
        return Pushed("coalesced", replaced)

    def _count_coalesced(self, number: int) -> None:
        self._coalesced += number
        self._leaf.coalesced += number

    def _drop_aged(self) -> int:
        """Apply the age limit, if there is one. How many items were dropped for it; it may close the queue."""
        if self._age == inf or not self._items:
            return 0
        now = self._tree.clock()
        if now - self._items[0][4] < self._age:
            return 0
        if self._close_on_full:
            self._close_slow()
            return 0
        number = 0
        while number < len(self._items) and now - self._items[number][4] >= self._age:
            number += 1
        return self._drop([self._items.popleft() for _ in range(number)])

    def _close_slow(self) -> None:
        self._slow = True
        self._leaf.closed_slow += 1
        self._drop_all()
        self._close()

    # -- taking out

    def _take(self, keeps_charge: bool) -> T | BudgetedItem[T] | None:
        """The next item that is not stale; None if there is none."""
        self._drop_aged()
        if not self._items:
            return None
        item, nbytes, count, control, since = self._items.popleft()
        self._received += 1
        if keeps_charge:
            return BudgetedItem(item, Permit(self._chain, count, nbytes, control), since)
        free(self._chain, count, nbytes, control)
        return item

    def _drop(self, entries: list[Entry[T]]) -> int:
        """Release items that were taken out of the queue and go to nobody."""
        number = len(entries)
        self._removed += number
        self._dropped += number
        self._leaf.dropped += number
        for _, nbytes, count, control, _ in entries:
            give_back(self._chain, count, nbytes, control)
        self._settle()
        return number

    def _drop_all(self) -> int:
        entries = list(self._items)
        self._items.clear()
        return self._drop(entries)

    def _retain(self, wanted: Callable[[T], bool]) -> int:
        kept: deque[Entry[T]] = deque()
        entries: list[Entry[T]] = []
        for entry in self._items:
            (kept if wanted(entry[0]) else entries).append(entry)
        if entries:
            self._items = kept
            self._drop(entries)
            if self._keys is not None:
                key_of = self._keys[0]
                first = self._received + self._removed
                self._keys = key_of, {key_of(entry[0]): first + place for place, entry in enumerate(kept)}
        return len(entries)

    def _settle(self) -> None:
        if self._tree.busy:
            self._tree.settle(self._chain)

    # -- the end

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._quick = False
        for pusher in list(self._pushers):
            if not pusher.done:
                self._tree.fail(pusher, QueueClosed(self._leaf.path, self._slow))
        receivers, self._receivers = self._receivers, {}
        for task in receivers:
            reschedule(task, Value(None))

    def _snapshot(self) -> QueueSnapshot:
        self._tree.collect()
        oldest = min((entry[4] for entry in self._items), default=None)
        return QueueSnapshot(
            path=self._leaf.path,
            policy=self._name,
            depth=len(self._items),
            reserved_count=self._leaf.used,
            retained_bytes=self._leaf.bytes,
            oldest_age=None if oldest is None else self._tree.clock() - oldest,
            pushed_count=self._received + self._removed + self._replaced + len(self._items),
            received_count=self._received,
            throttled_count=self._throttled,
            rejected_count=self._rejected,
            dropped_count=self._dropped,
            coalesced_count=self._coalesced,
            closed_slow_consumer_count=int(self._slow),
            waiters=sum(not pusher.done for pusher in self._pushers),
            wait_count=self._waited,
            deadline_exceeded_count=self._expired,
            closed=self._closed,
        )
