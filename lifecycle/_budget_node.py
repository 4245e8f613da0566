"""A budget's own state: plain integers, and the steps that take from them and give back.

A chain is a node and all above it, the root first. All steps are synchronous and look before they take, so that a
refusal at any level has changed nothing at the others. `Budget`, `Permit` and the queue repeat the plain case inline
(data work, no rate, open), which is what `count_until` and `bytes_until` are for: anything else is made to fail there.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal, TypeAlias, final

from ._budget_errors import BudgetClosed, BudgetExhausted, BudgetRefusal
from ._budget_rate import Buckets

if TYPE_CHECKING:
    import trio

    from ._budget_errors import Dimension
    from ._budget_limits import BudgetLimits
    from ._budget_tree import Tree
    from ._budget_waiters import Waiter

UNLIMITED = 1 << 60


@final
class Node:
    """One level of the tree of budgets."""

    __slots__ = (
        "admitted", "bytes", "bytes_limit", "bytes_until", "chain", "children", "closed", "closed_slow", "coalesced",
        "control_bytes", "control_used", "control_waiters", "count_limit", "count_until", "data_bytes_limit",
        "data_count_limit", "data_waiters", "dropped", "generation", "idle", "in_force", "leaked", "limits", "name",
        "parent", "path", "rate", "rejected", "throttled", "tree", "used",
    )  # fmt: skip

    def __init__(self, tree: Tree, parent: Node | None, name: str, limits: BudgetLimits, generation: int = 0) -> None:
        self.tree: Tree = tree
        self.parent: Node | None = parent
        self.name: str = name
        self.path: str = name if parent is None else f"{parent.path}/{name}"
        self.generation: int = generation
        self.limits: BudgetLimits = limits
        self.in_force: BudgetLimits = limits if parent is None else limits.under(parent.in_force)
        self.chain: Chain = (self,) if parent is None else (*parent.chain, self)
        self.children: dict[str, Node] = {}
        reserve = limits.control_reserve
        self.count_limit: int = UNLIMITED if limits.count is None else limits.count
        self.bytes_limit: int = UNLIMITED if limits.bytes is None else limits.bytes
        self.data_count_limit: int = self.count_limit - reserve.count
        self.data_bytes_limit: int = self.bytes_limit - reserve.bytes
        self.rate: Buckets | None = None if limits.rate is None else Buckets(limits.rate, reserve.rate)
        self.count_until: int = self.data_count_limit if self.rate is None else -1
        self.bytes_until: int = self.data_bytes_limit
        self.used: int = 0
        self.bytes: int = 0
        self.control_used: int = 0
        self.control_bytes: int = 0
        self.closed: bool = False
        self.admitted: int = 0
        self.rejected: int = 0
        self.throttled: int = 0
        self.dropped: int = 0
        self.coalesced: int = 0
        self.closed_slow: int = 0
        self.leaked: int = 0
        self.data_waiters: deque[Waiter] = deque()
        self.control_waiters: deque[Waiter] = deque()
        self.idle: trio.lowlevel.ParkingLot | None = None

    def refuses(self, count: int, nbytes: int, control: bool) -> Dimension | None:
        """What there is too little of at this level."""
        if self.used + count > self.count_limit:
            return "count"
        if self.bytes + nbytes > self.bytes_limit:
            return "bytes"
        if not control:
            if self.used - self.control_used + count > self.data_count_limit:
                return "count"
            if self.bytes - self.control_bytes + nbytes > self.data_bytes_limit:
                return "bytes"
        if self.rate is not None and self.rate.refuses(count, control, self.tree.clock()):
            return "rate"
        return None

    def never_admits(self, count: int, nbytes: int, control: bool) -> Dimension | None:
        """What there would be too little of at this level if all were free."""
        if count > (self.count_limit if control else self.data_count_limit):
            return "count"
        if nbytes > (self.bytes_limit if control else self.data_bytes_limit):
            return "bytes"
        if self.rate is not None and self.rate.never(count, control):
            return "rate"
        return None

    def close(self) -> None:
        """Admit nothing more, here and below."""
        self.closed = True
        self.count_until = -1

    def waiters(self, control: bool) -> deque[Waiter]:
        """Those that wait for this level, in the order in which they came."""
        return self.control_waiters if control else self.data_waiters


Chain: TypeAlias = "tuple[Node, ...]"
Obstacle: TypeAlias = "tuple[Node, Dimension | Literal['closed']]"
"""Where something was refused, and why."""


def obstacle(nodes: Chain, count: int, nbytes: int, control: bool) -> Obstacle | None:
    """What is in the way of a reservation, nearest the root; None if nothing is. Changes nothing."""
    for node in nodes:
        dimension = node.refuses(count, nbytes, control)
        if dimension is not None:
            return closed_node(nodes) or (node, dimension)
    return closed_node(nodes)


def closed_node(nodes: Chain) -> Obstacle | None:
    """The closed node nearest the root, as what is in the way."""
    for node in nodes:
        if node.closed:
            return node, "closed"
    return None


def impossible(nodes: Chain, count: int, nbytes: int, control: bool) -> Obstacle | None:
    """What would be in the way of a reservation if all were free."""
    for node in nodes:
        dimension = node.never_admits(count, nbytes, control)
        if dimension is not None:
            return node, dimension
    return None


def commit(nodes: Chain, count: int, nbytes: int, control: bool) -> None:
    """Take what `obstacle` has found free."""
    for node in nodes:
        node.used += count
        node.bytes += nbytes
        node.admitted += count
        if control:
            node.control_used += count
            node.control_bytes += nbytes
        if node.rate is not None:
            node.rate.take(count, control)


def give_back(nodes: Chain, count: int, nbytes: int, control: bool) -> None:
    """Return what was taken, without letting others have it yet. Rate tokens do not come back."""
    for node in nodes:
        node.used -= count
        node.bytes -= nbytes
        if control:
            node.control_used -= count
            node.control_bytes -= nbytes


def take_again(nodes: Chain, count: int, nbytes: int, control: bool) -> None:
    """Undo `give_back`."""
    give_back(nodes, -count, -nbytes, control)


def free(nodes: Chain, count: int, nbytes: int, control: bool) -> None:
    """Return what was taken and let those have it that wait for it."""
    give_back(nodes, count, nbytes, control)
    tree = nodes[0].tree
    if tree.busy:
        tree.settle(nodes)


def note_refusal(asked: Node, found: Obstacle) -> None:
    """Count a refusal where it was met and where it was asked."""
    node, why = found
    for level in (node,) if node is asked else (node, asked):
        level.rejected += 1
        if why == "rate":
            level.throttled += 1


def refusal(
    asked: Node, found: Obstacle, count: int, nbytes: int, control: bool, policy: str = "reject"
) -> BudgetRefusal:
    """The error for a refusal."""
    node, why = found
    if why == "closed":
        return BudgetClosed(asked.path, node.path)
    never = node.never_admits(count, nbytes, control)
    return BudgetExhausted(asked.path, node.path, never or why, never is not None, policy)
