"""What a pending write holds of the process's budget: one operation and its bytes, which a newer content may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from ._budget_node import free, note_refusal, refusal

if TYPE_CHECKING:
    from ._budget import Budget
    from ._budget_node import Obstacle
    from ._permit import Permit


@final
class Charge:
    """A permit whose bytes follow the content of a queued write. Never released in between: others do not get ahead."""

    __slots__ = ("_permit", "size")

    def __init__(self, budget: Budget, size: int) -> None:
        self._permit: Permit = budget.reserve(size)
        self.size: int = size

    def resize(self, size: int) -> None:
        """Hold `size` bytes instead. Raises `BudgetExhausted` or `BudgetClosed`, and holds what it held."""
        more = size - self.size
        if more > 0:
            self._grow(more)
        elif more < 0:
            free(self._permit.chain_, 0, -more, False)
        self._permit.bytes_ = self.size = size

    def release(self) -> None:
        """Give it back."""
        self._permit.release()

    def _grow(self, more: int) -> None:
        # The operation was admitted before, so neither its count nor a rate is asked again.
        chain = self._permit.chain_
        for node in chain:
            data_bytes = node.bytes - node.control_bytes
            found: Obstacle | None = None
            if node.closed:
                found = (node, "closed")
            elif node.bytes + more > node.bytes_limit or data_bytes + more > node.data_bytes_limit:
                found = (node, "bytes")
            if found is not None:
                note_refusal(chain[-1], found)
                raise refusal(chain[-1], found, 1, self.size + more, False)
        for node in chain:
            node.bytes += more
