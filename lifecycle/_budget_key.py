"""Keys: budgets that come and go with what they are for, such as tenants and connections."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, final

import attrs
import trio

if TYPE_CHECKING:
    from ._budget import Budget
    from ._budget_node import Node


@attrs.frozen
class KeyRetirement:
    """How far a key has been retired."""

    released: bool
    """Whether this call has freed the name. False for a key whose name was freed before, and may be another's now."""
    outstanding_count: int
    """What was held still."""
    outstanding_bytes: int


@final
class BudgetKey:
    """A budget with an end. `Budget.key` registers it.

    Its `generation` is a number that no other key of the tree has had: one that was retired can neither charge nor
    release a later one of its name.
    """

    __slots__ = ("_budget", "_node")

    def __init__(self, budget: Budget, /) -> None:
        self._budget = budget
        self._node: Node = budget.chain_[-1]

    def __repr__(self) -> str:
        return f"<BudgetKey {self._node.path!r}, generation {self._node.generation}>"

    @property
    def budget(self) -> Budget:
        """What to reserve from."""
        return self._budget

    @property
    def name(self) -> str:
        """The name among the children of its budget."""
        return self._node.name

    @property
    def path(self) -> str:
        """Its place in the tree."""
        return self._node.path

    @property
    def generation(self) -> int:
        """Which registration it is, counted over the tree."""
        return self._node.generation

    @property
    def closed(self) -> bool:
        """Whether it admits nothing more."""
        return self._node.closed

    def close(self) -> None:
        """Admit nothing more: by nobody that has got hold of the budget, by no budget below it, by no permit that is to
        be moved in. Those that wait get `BudgetClosed`. What is held stays held, and may be released, used, and moved
        within or out. Sync; the second time it does nothing."""
        node = self._node
        if not node.closed:
            node.close()
            node.tree.close(node)

    async def retire(self, until: float = inf) -> KeyRetirement:
        """Close it, wait until nothing is held, and free its name; at the latest until `until`, on Trio's clock.

        If something is held then, the key stays closed and registered, and the call may be repeated. A checkpoint;
        cancelling it is like the end of the time.
        """
        self.close()
        node = self._node
        node.tree.collect()
        await trio.lowlevel.checkpoint()
        if node.used and self._registered:
            node.tree.idlers += 1
            node.tree.note_busy()
            node.idle = node.idle or trio.lowlevel.ParkingLot()
            try:
                with trio.CancelScope(deadline=until):
                    while node.used:
                        await node.idle.park()
            finally:
                node.tree.idlers -= 1
                node.tree.note_busy()
        released = node.used == 0 and self._registered
        if released:
            self._unregister()
        return KeyRetirement(released, node.used, node.bytes)

    @property
    def _registered(self) -> bool:
        parent = self._node.parent
        return parent is not None and parent.children.get(self._node.name) is self._node

    def _unregister(self) -> None:
        node = self._node
        assert node.parent is not None
        del node.parent.children[node.name]
        todo = [node]
        while todo:  # the keys below have ended with it
            level = todo.pop()
            node.tree.keys -= level.generation > 0
            todo += level.children.values()
            level.children = {}
