"""Drain leases: a fixed number of last calls for a scope that has closed."""

from __future__ import annotations

from math import inf, isnan
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple, final

import trio

from ._group import name_of
from ._lane_call import CallPlan, make_call
from ._lane_errors import LaneMisused, LeaseExhausted, LeaseExpired
from ._lane_foreign import ForeignCall

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._group import TaskGroup
    from ._lane_call import Call
    from ._lane_policy import LaneKind
    from ._lane_pool import LaneBoard, LanePool

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@final
class DrainLease:
    """The right to a number of calls in a lane that the stop of the scope does not refuse. Made by `Lane.drain_lease`.

    It may be used by several tasks at once, which share the allowance. Calls made before the stop count too.
    """

    __slots__ = ("_allowance", "_board", "_deadline", "_left", "_pool", "_scope")

    def __init__(self, pool: LanePool, board: LaneBoard, scope: TaskGroup, deadline: float, allowance: int, /) -> None:
        if allowance < 1 or isnan(deadline):
            raise LaneMisused(board.name, "a drain lease is for at least one call, and its deadline must be a number")
        self._pool = pool
        self._board = board
        self._scope = scope
        self._deadline = deadline
        self._allowance = allowance
        self._left = allowance
        if trio.current_time() >= self.deadline:
            raise LeaseExpired(board.name, "drain_lease")

    def __repr__(self) -> str:
        return f"<DrainLease of {self._board.name} for {self._scope.path}, {self._left} of {self._allowance} left>"

    @property
    def deadline(self) -> float:
        """When it ends, on Trio's clock: at the time that was given, or at the shutdown's end if that is earlier."""
        return min(self._deadline, self._scope.deadline.end)

    @property
    def left(self) -> int:
        """Calls that may still be made."""
        return self._left

    def tighten(self, deadline: float) -> bool:
        """Move the deadline earlier, for calls made from now on; True if it moved. It never moves later."""
        if not deadline < self._deadline:
            return False
        self._deadline = deadline
        return True

    async def run(
        self,
        fn: Callable[[*Ts], T],
        /,
        *args: *Ts,
        queue_timeout: float | None = None,
        task_timeout: float | None = None,
        deadline: float = inf,
        name: str | None = None,
        kind: LaneKind = "short_io",
    ) -> T:
        """`Lane.run`, also when the scope has closed, and waiting for room where that raises `LaneFull`.

        A given `deadline` may only be earlier than the lease's. Raises `LeaseExhausted` and `LeaseExpired`. A call
        whose closure did not start, for whatever reason, uses nothing of the allowance. A checkpoint.
        """
        plan = CallPlan(self._board, name or name_of(fn), kind, queue_timeout, task_timeout, deadline)
        pool = self._pool
        if pool.is_elsewhere():
            foreign = self._foreign(plan, trio.current_time(), fn, args)
            del fn, args
            return await foreign.wait_in_trio(pool.owner)
        call = make_call(pool, self._board, plan, fn, args)
        del fn, args
        return await self._run(call, plan)

    def _foreign(self, plan: CallPlan, now: float, fn: Callable[[*Ts], T], args: tuple[*Ts]) -> ForeignCall[T]:
        def start() -> Awaitable[T]:
            there = plan.moved(now)
            return self._run(make_call(self._pool, self._board, there, fn, args), there)

        return ForeignCall(self._board.name, plan.name, self._scope, start, after_close=True)

    async def _run(self, call: Call[T], plan: CallPlan) -> T:
        if call.called_at >= self.deadline:
            raise LeaseExpired(self._board.name, call.name)
        if not self._left:
            raise LeaseExhausted(self._board.name, call.name, self._allowance)
        self._left -= 1
        try:
            return await self._perform(call, plan.until(self._deadline))
        finally:
            if not call.started:
                self._left += 1

    async def _perform(self, call: Call[T], plan: CallPlan) -> T:
        """The call, ended by the shutdown's end too, wherever that moves meanwhile."""
        with self._scope.tree.until_end(self._scope) as scope:
            return await self._pool.perform(call, None, plan)
        assert scope.cancelled_caught
        raise self._pool.ran_out(call, by_deadline=True)
