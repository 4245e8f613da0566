"""Those that wait for room in a budget: first come, first served, also across queues.

A waiter stands in the line of the level that it lacks room at, in the order of tickets. Whatever frees something at a
level looks at the lines there, the lowest ticket first, until their fronts find no room. A waiter passes nobody of its
class (data or control) that stands in a line on its chain with a lower ticket: a large one is not starved by small
ones. Room is taken, and what waits for it let in, in the step that freed it: no wake-up can be lost.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, final

import trio
from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

from ._budget_errors import WaitExpired
from ._permit import Permit

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._budget_errors import BudgetRefusal
    from ._budget_node import Chain, Node


class Waiter:
    """What waits for a share. `granted`, `failed` and `blocked_until` are called synchronously and must not raise."""

    __slots__ = ("bytes", "chain", "control", "count", "deadline", "done", "fails_on_rate", "line", "paused", "ticket")

    def __init__(self, chain: Chain, count: int, nbytes: int, control: bool, deadline: float = inf) -> None:
        self.chain: Chain = chain
        self.count: int = count
        self.bytes: int = nbytes
        self.control: bool = control
        self.deadline: float = deadline
        self.fails_on_rate: bool = False
        self.ticket: int = -1
        self.line: Node | None = None
        """The level whose line it stands in."""
        self.paused: bool = False
        """Whether it keeps its place but cannot take anything now."""
        self.done: bool = False

    def granted(self) -> None:
        """The share has been taken for it."""
        raise NotImplementedError

    def failed(self, error: BudgetRefusal) -> None:
        """It waits no longer, and has nothing."""
        raise NotImplementedError

    def blocked_until(self, seconds: float) -> None:
        """It is the first in a line, and time alone will make room for it: call `Tree.retry` in so many seconds (`inf`:
        no need)."""
        raise NotImplementedError


class TaskWaiter(Waiter):
    """A task that waits."""

    __slots__ = ("_scope", "_seconds", "_task", "error")

    def __init__(self, chain: Chain, count: int, nbytes: int, control: bool, deadline: float) -> None:
        super().__init__(chain, count, nbytes, control, deadline)
        self.error: BudgetRefusal | None = None
        self._task: trio.lowlevel.Task | None = None
        self._scope: trio.CancelScope | None = None
        self._seconds: float = inf

    def failed(self, error: BudgetRefusal) -> None:
        self.error = error
        self.wake()

    def blocked_until(self, seconds: float) -> None:
        self._seconds = seconds
        if self._scope is not None:
            self._scope.deadline = self._until()

    def wake(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            reschedule(task)

    async def wait(self) -> None:
        """Wait for the end of it. A cancelled wait has taken nothing; one that was granted before returns normally."""
        tree = self.chain[0].tree
        try:
            while not self.done:
                with trio.CancelScope(deadline=self._until()) as self._scope:
                    self._task = current_task()
                    await wait_task_rescheduled(self._abort)
                if not self.done:  # the time has come
                    self.paused = False
                    tree.retry(self)
        finally:
            self._scope = None
            if not self.done:
                tree.withdraw(self)
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # the frame and the error would keep each other alive

    def _until(self) -> float:
        return self.deadline if self._seconds == inf else min(self.deadline, trio.current_time() + self._seconds)

    def _abort(self, _: object) -> Abort:
        # By a cancellation or by the timer: which of them, the task knows when it runs. Its place is kept until then.
        self._task = None
        self.paused = True
        return Abort.SUCCEEDED


@final
class Acquirer(TaskWaiter):
    """A task that waits for a permit."""

    __slots__ = ("permit",)

    permit: Permit

    def granted(self) -> None:
        self.permit = Permit(self.chain, self.count, self.bytes, self.control)
        self.wake()


@final
class CallbackWaiter(Waiter):
    """What waits without a task, such as a mailbox. Made by `Budget.wait_`."""

    __slots__ = ("_call_after", "_on_failed", "_on_granted", "_timed")

    def __init__(
        self,
        chain: Chain,
        nbytes: int,
        on_granted: Callable[[Permit], object],
        on_failed: Callable[[BudgetRefusal], object],
        call_after: Callable[[float, Callable[[], None]], object],
    ) -> None:
        super().__init__(chain, 1, nbytes, control=False)
        self._on_granted: Callable[[Permit], object] = on_granted
        self._on_failed: Callable[[BudgetRefusal], object] = on_failed
        self._call_after: Callable[[float, Callable[[], None]], object] = call_after
        self._timed: bool = False

    def granted(self) -> None:
        self._on_granted(Permit(self.chain, self.count, self.bytes, self.control))

    def failed(self, error: BudgetRefusal) -> None:
        self._on_failed(error)

    def blocked_until(self, seconds: float) -> None:
        if seconds != inf and not self._timed:
            self._timed = True
            self._call_after(seconds, self._retry)

    def withdraw(self) -> None:
        """Wait no longer."""
        self.chain[0].tree.withdraw(self)

    def _retry(self) -> None:
        self._timed = False
        self.chain[0].tree.retry(self)


def expired(waiter: Waiter) -> WaitExpired | None:
    """The error for a waiter whose deadline has come. It is looked at before the room is: a tie is lost."""
    if waiter.deadline != inf and trio.current_time() >= waiter.deadline:
        return WaitExpired(waiter.chain[-1].path)
    return None
