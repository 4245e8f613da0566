"""What all budgets of one tree share: the clock, the keys, those that wait, and permits that were lost."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeAlias, final

import trio

from ._budget_errors import BudgetClosed, BudgetRefusal
from ._budget_node import commit, free, note_refusal, refusal
from ._budget_waiters import expired

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._budget_node import Chain, Node
    from ._budget_waiters import Waiter

Share: TypeAlias = "tuple[Chain, int, int, bool]"
"""What a permit held: its chain, count, bytes, and whether it was control work."""


@final
class Tree:
    """The state that belongs to no single level."""

    __slots__ = (
        "_due", "_lost", "_serving", "_ticket", "_token", "_waiting", "busy", "clock", "generation", "idlers",
        "key_capacity", "keys",
    )  # fmt: skip

    def __init__(self, clock: Callable[[], float], key_capacity: int) -> None:
        self.clock: Callable[[], float] = clock
        self.key_capacity: int = key_capacity
        self.keys: int = 0
        self.generation: int = 0
        self.busy: bool = False
        """Whether a release has to look for anything beyond the numbers."""
        self.idlers: int = 0
        """Tasks that wait for a level to be empty."""
        self._ticket: int = 0
        self._waiting: dict[Waiter, None] = {}
        self._due: list[tuple[Node, bool]] = []
        self._serving: bool = False
        self._lost: deque[Share] = deque()
        self._token: trio.lowlevel.TrioToken | None = None

    # -- after a release

    def settle(self, nodes: Chain) -> None:
        """Something has been released at these levels: let in those that wait for it, the longest first."""
        for node in nodes:
            if node.data_waiters:
                self._due.append((node, False))
            if node.control_waiters:
                self._due.append((node, True))
            if node.idle is not None and node.used == 0:
                node.idle.unpark_all()
        if self._serving:
            return  # by what is being let in: the loop below goes on with it
        self._serving = True
        try:
            while self._due:
                self._serve()
        finally:
            self._serving = False
            self.note_busy()

    def note_busy(self) -> None:
        """Find out again whether releases have to look."""
        self.busy = bool(self._waiting or self.idlers or self._lost)

    def _serve(self) -> None:
        front: Waiter | None = None
        lines: list[tuple[Node, bool]] = []
        for place in self._due:
            line = place[0].waiters(place[1])
            if line and place not in lines:
                lines.append(place)
                first = line[0]
                if front is None or (not first.control, first.ticket) < (not front.control, front.ticket):
                    front = first
        self._due = lines
        if front is not None and not self._attempt(front):
            assert front.line is not None
            if (front.line, front.control) in lines:
                lines.remove((front.line, front.control))

    # -- waiting

    def enter(self, waiter: Waiter) -> None:
        """Take a share for the waiter, now or as soon as its turn comes."""
        self._ticket += 1
        waiter.ticket = self._ticket
        if self._lost:
            self.collect()
        self._waiting[waiter] = None
        self.busy = True
        self._attempt(waiter)
        if not waiter.done and self._token is None:
            self._token = trio.lowlevel.current_trio_token()

    def retry(self, waiter: Waiter) -> None:
        """Time has passed for one that waits for it."""
        error = expired(waiter)
        if error is not None:
            self.fail(waiter, error)
        elif waiter.line is not None:
            self.settle((waiter.line,))

    def withdraw(self, waiter: Waiter) -> None:
        """The waiter gives up; those behind it may have been waiting for it only."""
        if not waiter.done:
            line = self._leave(waiter)
            if line is not None:
                self.settle((line,))
            self.note_busy()

    def fail(self, waiter: Waiter, error: BudgetRefusal) -> None:
        """Let the waiter wait no longer."""
        line = self._leave(waiter)
        waiter.failed(error)
        if line is not None:
            self.settle((line,))
        self.note_busy()

    def close(self, node: Node) -> None:
        """A level has been closed: nobody waits for it any more."""
        for waiter in [waiter for waiter in self._waiting if node in waiter.chain]:
            if not waiter.done:
                self.fail(waiter, BudgetClosed(waiter.chain[-1].path, node.path))

    def waiting_for(self, node: Node) -> int:
        """How many wait for a share of this level."""
        return sum(node in waiter.chain for waiter in self._waiting)

    def _attempt(self, waiter: Waiter) -> bool:
        """Whether the waiter has left the line that it stood in: for good, or for that of another level."""
        if waiter.paused:
            return False
        error = expired(waiter)
        if error is not None:
            self._leave(waiter)
            waiter.failed(error)
            return True
        blocked: Node | None = None
        seconds: float | None = None
        for node in waiter.chain:
            if _has_before(node, waiter):
                blocked = node
                break
            dimension = node.refuses(waiter.count, waiter.bytes, waiter.control)
            if dimension is None:
                continue
            blocked = node
            if dimension == "rate" and node.rate is not None:
                if waiter.fails_on_rate:
                    self._leave(waiter)
                    leaf = waiter.chain[-1]
                    note_refusal(leaf, (node, "rate"))
                    waiter.failed(refusal(leaf, (node, "rate"), waiter.count, waiter.bytes, waiter.control, "wait"))
                    return True
                seconds = node.rate.seconds_until(waiter.count, waiter.control)
            break
        if blocked is not None:
            return self._stand(waiter, blocked, seconds)
        self._leave(waiter)
        commit(waiter.chain, waiter.count, waiter.bytes, waiter.control)
        waiter.granted()
        return True

    def _stand(self, waiter: Waiter, node: Node, seconds: float | None) -> bool:
        moved = waiter.line is not node
        if moved:
            self._leave_line(waiter)
            line = node.waiters(waiter.control)
            place = len(line)
            while place and line[place - 1].ticket > waiter.ticket:
                place -= 1
            line.insert(place, waiter)
            waiter.line = node
        waiter.blocked_until(float("inf") if seconds is None else seconds)
        return moved

    def _leave(self, waiter: Waiter) -> Node | None:
        waiter.done = True
        self._waiting.pop(waiter, None)
        return self._leave_line(waiter)

    def _leave_line(self, waiter: Waiter) -> Node | None:
        line, waiter.line = waiter.line, None
        if line is not None:
            line.waiters(waiter.control).remove(waiter)
        return line

    # -- permits that nobody has released

    def lose(self, share: Share) -> None:
        """A permit was collected that held this. May be called from any thread, between any two steps."""
        self._lost.append(share)
        self.busy = True
        if self._token is not None:
            try:
                self._token.run_sync_soon(self.collect, idempotent=True)
            except trio.RunFinishedError:
                pass

    def collect(self) -> None:
        """Release what was lost."""
        while self._lost:
            chain, count, nbytes, control = self._lost.popleft()
            chain[-1].leaked += count
            free(chain, count, nbytes, control)


def _has_before(node: Node, waiter: Waiter) -> bool:
    """Whether somebody stands in line at this level whose turn is before the waiter's."""
    line = node.waiters(waiter.control)
    if line and line[0].ticket < waiter.ticket:
        return True
    return not waiter.control and bool(node.control_waiters)
