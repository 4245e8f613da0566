"""The permit: a share of a budget, held until it is released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, final

import trio

from ._budget_errors import AmountInvalid, DifferentTree, PermitSpent
from ._budget_node import commit, free, note_refusal, obstacle, refusal

if TYPE_CHECKING:
    from types import TracebackType

    from ._budget import Budget
    from ._budget_node import Chain


@final
class Permit:
    """A share of a budget and of all budgets above it, held from `reserve` until `release`, once.

    Use it as a context manager, or move it with the payload that it covers: into a queue by
    `BudgetedQueue.try_push_budgeted`, to another budget of its tree by `rebind`. Releasing it again does nothing, nor
    does leaving its block after it was moved. All methods are synchronous, no checkpoint, and belong to the thread that
    runs Trio. One that is collected while it still holds something is released then, and counted as `leaked_count`.
    """

    __slots__ = ("bytes_", "chain_", "control_", "count_")

    def __init__(self, chain: Chain, count: int, nbytes: int, control: bool, /) -> None:
        self.chain_: Chain = chain
        self.count_: int = count
        self.bytes_: int = nbytes
        self.control_: bool = control

    def __repr__(self) -> str:
        if not self.chain_:
            return "<Permit, released>"
        share = f"count {self.count_}, {self.bytes_} bytes" + (", control" if self.control_ else "")
        return f"<Permit of {self.chain_[-1].path!r}: {share}>"

    @property
    def held(self) -> bool:
        """Whether it holds its share still."""
        return bool(self.chain_)

    @property
    def path(self) -> str:
        """The path of the budget that it is a share of. Raises `PermitSpent` if it holds nothing."""
        return self._holds()[-1].path

    @property
    def count(self) -> int:
        """How many it counts for; 0 once it holds nothing."""
        return self.count_ if self.chain_ else 0

    @property
    def bytes(self) -> int:
        """How many bytes it covers; 0 once it holds nothing."""
        return self.bytes_ if self.chain_ else 0

    @property
    def control(self) -> bool:
        """Whether it may use what is reserved for control work."""
        return self.control_

    @trio.lowlevel.enable_ki_protection
    def release(self) -> None:
        """Give the share back. The second time it does nothing."""
        chain = self.chain_
        if chain:
            self.chain_ = ()
            if self.control_:
                free(chain, self.count_, self.bytes_, True)
                return
            count = self.count_
            nbytes = self.bytes_
            for node in chain:
                node.used -= count
                node.bytes -= nbytes
            if chain[0].tree.busy:
                chain[0].tree.settle(chain)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        chain = self.chain_
        if chain:
            # The collector may run in any thread, and between any two steps of another permit.
            self.chain_ = ()
            chain[0].tree.lose((chain, self.count_, self.bytes_, self.control_))

    @trio.lowlevel.enable_ki_protection
    def promote(self) -> None:
        """Make it control work: the share that data may use is free for others, the totals stay as they are. Does
        nothing to one that is control work already. Raises `PermitSpent`."""
        chain = self._holds()
        if self.control_:
            return
        self.control_ = True
        for node in chain:
            node.control_used += self.count_
            node.control_bytes += self.bytes_
            if node.rate is not None:
                node.rate.promote(self.count_)
        tree = chain[0].tree
        if tree.busy:
            tree.settle(chain)

    @trio.lowlevel.enable_ki_protection
    def rebind(self, target: Budget) -> None:
        """Move it to another budget of the same tree. What lies above both is neither released nor charged again.

        Raises `DifferentTree`, `BudgetExhausted`, `BudgetClosed` (the target or one above it is closed, and the permit
        comes from outside) or `PermitSpent`; the permit stays where it was then.
        """
        chain = self._holds()
        goal = target.chain_
        if goal[0] is not chain[0]:
            raise DifferentTree(chain[-1].path, goal[-1].path)
        added = added_nodes(chain, goal)
        found = obstacle(added, self.count_, self.bytes_, self.control_)
        if found is not None:
            note_refusal(goal[-1], found)
            raise refusal(goal[-1], found, self.count_, self.bytes_, self.control_)
        commit(added, self.count_, self.bytes_, self.control_)
        self.chain_ = goal
        left = chain[len(goal) - len(added) :]
        if left:
            free(left, self.count_, self.bytes_, self.control_)

    @trio.lowlevel.enable_ki_protection
    def resize(self, bytes: int) -> None:
        """Cover so many bytes from now on, for a payload that has changed. Nothing is released in between, so that
        others do not get ahead, and neither its count nor a rate is asked again: it was admitted before.

        Raises `BudgetExhausted` or `BudgetClosed`, and holds what it held; `AmountInvalid` for bytes below 0,
        `PermitSpent`.
        """
        chain = self._holds()
        if bytes < 0:
            raise AmountInvalid(chain[-1].path)
        more = bytes - self.bytes_
        if more > 0:
            found = obstacle(chain, 0, more, self.control_)
            if found is not None:
                note_refusal(chain[-1], found)
                raise refusal(chain[-1], found, self.count_, bytes, self.control_)
            commit(chain, 0, more, self.control_)
        elif more < 0:
            free(chain, 0, -more, self.control_)
        self.bytes_ = bytes

    def split(self, count: int, bytes: int = 0) -> Permit:
        """Take a part of it into a permit of its own, which is then released on its own. The totals stay as they are.

        `count` must leave at least 1 and `bytes` at least 0. Raises `PermitSpent` if there is not so much in it.
        """
        chain = self._holds()
        if not 0 < count < self.count_ or not 0 <= bytes <= self.bytes_:
            raise PermitSpent
        self.count_ -= count
        self.bytes_ -= bytes
        return Permit(chain, count, bytes, self.control_)

    def take_(self) -> Chain:
        """Take the share out of the permit, for something else to hold."""
        chain, self.chain_ = self.chain_, ()
        return chain

    def _holds(self) -> Chain:
        if not self.chain_:
            raise PermitSpent
        return self.chain_


def added_nodes(chain: Chain, goal: Chain) -> Chain:
    """The nodes of `goal` that are not in `chain`."""
    common = 0
    for one, other in zip(chain, goal, strict=False):
        if one is not other:
            break
        common += 1
    return goal[common:]
