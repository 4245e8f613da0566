"""Budgets: limits in a tree, for what work may hold at a time and be admitted over time."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, final

import trio
from trio.lowlevel import checkpoint_if_cancelled

from ._budget_errors import AmountInvalid, BudgetClosed, BudgetInvalid, BudgetKeyInUse, BudgetKeysExhausted
from ._budget_key import BudgetKey
from ._budget_limits import BudgetLimits, Rate, Reserve, check_limits, check_name
from ._budget_node import Node, closed_node, commit, give_back, impossible, note_refusal, obstacle, refusal, take_again
from ._budget_snapshot import BudgetSnapshot
from ._budget_tree import Tree
from ._budget_waiters import Acquirer, CallbackWaiter
from ._permit import Permit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ._budget_errors import BudgetRefusal
    from ._budget_node import Chain, Obstacle

NO_RESERVE = Reserve()


@final
class Budget:
    """A limit in a tree of limits. Whatever is reserved here is reserved in all budgets above too, or nowhere.

    `Budget.root` makes a tree; everything in it belongs to the thread that runs Trio. A budget lives as long as its
    tree; for what comes and goes, use `key`.
    """

    __slots__ = ("chain_",)

    def __init__(self, node: Node, /) -> None:
        self.chain_: Chain = node.chain

    @classmethod
    def root(
        cls,
        name: str,
        *,
        count: int | None = None,
        bytes: int | None = None,
        rate: Rate | None = None,
        control_reserve: Reserve = NO_RESERVE,
        max_age: float | None = None,
        clock: Callable[[], float] = trio.current_time,
        key_capacity: int = 4096,
    ) -> Budget:
        """A new tree. `clock` gives seconds for rates and ages; `key_capacity` bounds the keys that are registered at a
        time. For the limits see `child`."""
        limits = BudgetLimits(count, bytes, rate, control_reserve, max_age)
        name = name.strip()
        check_name(name, name)
        check_limits(name, limits, None)
        return cls(Node(Tree(clock, key_capacity), None, name, limits))

    def child(
        self,
        name: str,
        *,
        count: int | None = None,
        bytes: int | None = None,
        rate: Rate | None = None,
        control_reserve: Reserve = NO_RESERVE,
        max_age: float | None = None,
    ) -> Budget:
        """A budget below this one, for the life of the tree.

        `count` and `bytes` limit what is held at a time, `rate` what is admitted over time, `control_reserve` is the
        part of each that only control work may use, `max_age` (seconds) is for queues whose policy looks at age. None:
        those above hold, and no limit may be above theirs. Raises `BudgetInvalid`, and `BudgetClosed` below a closed
        key.
        """
        limits = BudgetLimits(count, bytes, rate, control_reserve, max_age)
        node = self._new_node(name, limits, 0)
        if node.name in self._node.children:
            raise BudgetInvalid(node.path, "name_in_use")
        self._node.children[node.name] = node
        return Budget(node)

    def key(
        self,
        name: str,
        *,
        count: int | None = None,
        bytes: int | None = None,
        rate: Rate | None = None,
        control_reserve: Reserve = NO_RESERVE,
        max_age: float | None = None,
    ) -> BudgetKey:
        """Register a budget that can be closed and retired, for a tenant or a connection. The limits are as for
        `child`. Raises also `BudgetKeyInUse` and `BudgetKeysExhausted`."""
        limits = BudgetLimits(count, bytes, rate, control_reserve, max_age)
        tree = self._node.tree
        node = self._new_node(name, limits, tree.generation + 1)
        other = self._node.children.get(node.name)
        if other is not None:
            raise BudgetKeyInUse(node.path, other.generation)
        if tree.keys >= tree.key_capacity:
            raise BudgetKeysExhausted(node.path, tree.key_capacity)
        tree.generation += 1
        tree.keys += 1
        self._node.children[node.name] = node
        return BudgetKey(Budget(node))

    def _new_node(self, name: str, limits: BudgetLimits, generation: int) -> Node:
        parent = self._node
        name = name.strip()
        path = f"{parent.path}/{name}"
        check_name(path, name)
        check_limits(path, limits, parent.in_force)
        found = closed_node(self.chain_)
        if found is not None:
            raise BudgetClosed(path, found[0].path)
        return Node(parent.tree, parent, name, limits, generation)

    # -- what it is

    def __repr__(self) -> str:
        return f"<Budget {self.path!r}>"

    @property
    def _node(self) -> Node:
        return self.chain_[-1]

    @property
    def name(self) -> str:
        """Its name among its siblings."""
        return self._node.name

    @property
    def path(self) -> str:
        """The names from the root to it, joined by slashes."""
        return self._node.path

    @property
    def parent(self) -> Budget | None:
        """The budget above; None for the root."""
        return None if self._node.parent is None else Budget(self._node.parent)

    @property
    def limits(self) -> BudgetLimits:
        """The limits that it was given."""
        return self._node.limits

    @property
    def limits_in_force(self) -> BudgetLimits:
        """The limits that hold: where it was given none, those of the nearest budget above that was. The reserve is its
        own."""
        return self._node.in_force

    def snapshot(self) -> BudgetSnapshot:
        """What is held here and what was counted. Sync."""
        node = self._node
        node.tree.collect()
        return BudgetSnapshot(
            path=node.path,
            generation=node.generation,
            limits=node.limits,
            closed=any(level.closed for level in self.chain_),
            current_count=node.used,
            current_bytes=node.bytes,
            control_count=node.control_used,
            control_bytes=node.control_bytes,
            admitted_count=node.admitted,
            released_count=node.admitted - node.used,
            rejected_count=node.rejected,
            throttled_count=node.throttled,
            dropped_count=node.dropped,
            coalesced_count=node.coalesced,
            closed_slow_consumer_count=node.closed_slow,
            leaked_count=node.leaked,
            waiting=node.tree.waiting_for(node),
        )

    def walk(self) -> Iterator[Budget]:
        """This budget and all below it, each before those below it."""
        todo = [self._node]
        while todo:
            node = todo.pop()
            yield Budget(node)
            todo.extend(reversed(node.children.values()))

    # -- taking

    @trio.lowlevel.enable_ki_protection
    def reserve(self, bytes: int = 0, *, count: int = 1, control: bool = False) -> Permit:
        """Take a share here and in all budgets above, or raise `BudgetExhausted` or `BudgetClosed` and take nothing.

        `control` work may use what is reserved for it. Sync, no checkpoint; it takes what is free now, whoever waits
        for more than that. Raises `AmountInvalid` for a count below 1 or bytes below 0.
        """
        if count > 0 <= bytes and not control:
            chain = self.chain_
            for node in chain:
                if node.used + count > node.count_until or node.bytes + bytes > node.bytes_until:
                    break
            else:
                for node in chain:
                    node.used += count
                    node.bytes += bytes
                    node.admitted += count
                return Permit(chain, count, bytes, False)
        result = self._reserve(bytes, count, control)
        if isinstance(result, Permit):
            return result
        raise refusal(self._node, result, count, bytes, control)

    @trio.lowlevel.enable_ki_protection
    def try_reserve(self, bytes: int = 0, *, count: int = 1, control: bool = False) -> Permit | None:
        """`reserve` that returns None where that raises for want of room."""
        result = self._reserve(bytes, count, control)
        return result if isinstance(result, Permit) else None

    def _reserve(self, nbytes: int, count: int, control: bool) -> Permit | Obstacle:
        self._check(nbytes, count)
        node = self._node
        node.tree.collect()
        found = obstacle(self.chain_, count, nbytes, control)
        if found is not None:
            note_refusal(node, found)
            return found
        commit(self.chain_, count, nbytes, control)
        return Permit(self.chain_, count, nbytes, control)

    @trio.lowlevel.enable_ki_protection
    async def acquire(self, bytes: int = 0, *, count: int = 1, control: bool = False, deadline: float = inf) -> Permit:
        """Take a share, waiting for it: first come, first served among all that wait on this tree, data and control
        apart.

        Waits for capacity and for rate. Raises at once what will never fit (`BudgetExhausted`), `BudgetClosed`, and
        `WaitExpired` when `deadline` (on Trio's clock) has come, even if there is room. Always a cancel point, before
        anything is taken and never after; it suspends only to wait.
        """
        await checkpoint_if_cancelled()
        self._check(bytes, count)
        node = self._node
        found = closed_node(self.chain_) or impossible(self.chain_, count, bytes, control)
        if found is not None:
            note_refusal(node, found)
            raise refusal(node, found, count, bytes, control, "wait")
        waiter = Acquirer(self.chain_, count, bytes, control, deadline)
        node.tree.enter(waiter)
        await waiter.wait()
        return waiter.permit

    # -- for mailboxes

    def offer_(self, nbytes: int, control: bool, instead_of: Sequence[Permit] = ()) -> Permit | BudgetRefusal:
        """Reserve one, as though the permits `instead_of` (all of this budget) were released. They are, if it fits."""
        node = self._node
        node.tree.collect()
        for permit in instead_of:
            give_back(self.chain_, permit.count_, permit.bytes_, permit.control_)
        found = obstacle(self.chain_, 1, nbytes, control)
        if found is not None:
            for permit in instead_of:
                take_again(self.chain_, permit.count_, permit.bytes_, permit.control_)
            note_refusal(node, found)
            return refusal(node, found, 1, nbytes, control)
        commit(self.chain_, 1, nbytes, control)
        for permit in instead_of:
            permit.take_()
        if instead_of and node.tree.busy:
            node.tree.settle(self.chain_)
        return Permit(self.chain_, 1, nbytes, control)

    def fits_(self, nbytes: int, instead_of: Sequence[Permit]) -> bool:
        """Whether `offer_` would succeed, for data work."""
        for permit in instead_of:
            give_back(self.chain_, permit.count_, permit.bytes_, permit.control_)
        found = obstacle(self.chain_, 1, nbytes, control=False)
        for permit in instead_of:
            take_again(self.chain_, permit.count_, permit.bytes_, permit.control_)
        return found is None

    def hopeless_(self, nbytes: int) -> BudgetRefusal | None:
        """Why to wait for one would be in vain, for data work."""
        found = closed_node(self.chain_) or impossible(self.chain_, 1, nbytes, control=False)
        return None if found is None else refusal(self._node, found, 1, nbytes, control=False, policy="wait")

    def wait_(
        self,
        nbytes: int,
        on_granted: Callable[[Permit], object],
        on_failed: Callable[[BudgetRefusal], object],
        call_after: Callable[[float, Callable[[], None]], object],
    ) -> CallbackWaiter:
        """Wait for one without a task, for data work that is not hopeless. One of the first two is called, perhaps at
        once."""
        waiter = CallbackWaiter(self.chain_, nbytes, on_granted, on_failed, call_after)
        self._node.tree.enter(waiter)
        return waiter

    def is_awaited_(self) -> bool:
        """Whether others wait for a share, at this level or above."""
        return any(node.data_waiters or node.control_waiters for node in self.chain_)

    def room_(self) -> int:
        """For how many of no bytes there is room."""
        return min(0 if node.closed else node.data_count_limit - node.used for node in self.chain_)

    def _check(self, nbytes: int, count: int) -> None:
        if count < 1 or nbytes < 0:
            raise AmountInvalid(self._node.path)
