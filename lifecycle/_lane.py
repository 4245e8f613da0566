"""A lane as one scope sees it: the door to capacity that others share."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import trio

from ._group import name_of
from ._lane_call import CallPlan, make_call
from ._lane_errors import LaneClosed, LaneManaged, LaneMisused
from ._lane_foreign import ForeignCall
from ._lane_lease import DrainLease
from ._lane_snapshot import snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._group import TaskGroup
    from ._lane_policy import LaneKind, LanePolicy
    from ._lane_pool import LaneBoard, LanePool
    from ._lane_snapshot import LaneSnapshot

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Lane:
    """Runs blocking closures in threads, under limits that it shares with all other scopes, and for one scope.

    When the scope stops, new calls are refused and calls that wait for a slot end at once with `LaneClosed`; closures
    that run go on. Made by a runtime's lanes.
    """

    __slots__ = ("_board", "_pool", "_scope")

    def __init__(self, pool: LanePool, board: LaneBoard, scope: TaskGroup, /) -> None:
        self._pool = pool
        self._board = board
        self._scope = scope

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of {self._scope.path}>"

    @property
    def name(self) -> str:
        """The name of the lane, the same for all scopes."""
        return self._board.name

    @property
    def policy(self) -> LanePolicy:
        """The limits of the lane, the same for all scopes."""
        return self._board.policy

    @property
    def blocking_still_running(self) -> int:
        """Closures of this lane, of all scopes, that have not returned."""
        board = self._board
        return self._pool.count(lambda call: call.board is board and call.started)

    def snapshot(self) -> LaneSnapshot:
        """The lane as it stands now, for all scopes. Sync."""
        return snapshot(self._pool, self._board)

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
        """Run `fn(*args)` in a thread once there is a slot, and return what it returns or raise what it raises.

        `queue_timeout` are seconds for the wait for a slot, `task_timeout` seconds for the wait for the closure after
        that; without them those of the policy hold. `deadline` is a time on Trio's clock that bounds both.

        Raises before the closure has started, and then it never runs: `LaneFull`, `LaneClosed`, `LaneQueueTimedOut`,
        `LongRunningRefused`. Raises `LaneTaskTimedOut` later: the closure runs on, its outcome is unknown, and it keeps
        its slot until it has returned. Cancelling is the same: a call that waits for its slot never runs, a closure
        that runs goes on. A checkpoint.

        Called in another Trio program than the one of the runtime, the call is made there, while that runs
        (`LanesGone`), by a task of this scope; the deadline goes across as time left.
        """
        plan = CallPlan(self._board, name or name_of(fn), kind, queue_timeout, task_timeout, deadline)
        pool = self._pool
        if pool.is_elsewhere():
            foreign = self._foreign(plan, trio.current_time(), fn, args)
            del fn, args
            return await foreign.wait_in_trio(pool.owner)
        call = make_call(pool, self._board, plan, fn, args)
        del fn, args  # what the closure was given is to go when it has returned, and not when its caller has noticed
        return await pool.perform(call, self._scope, plan)

    def call_from_thread(
        self,
        fn: Callable[[*Ts], T],
        /,
        *args: *Ts,
        queue_timeout: float | None = None,
        task_timeout: float | None = None,
        within: float = inf,
        name: str | None = None,
        kind: LaneKind = "short_io",
    ) -> T:
        """`run` for a thread that no Trio program runs in: blocks it. `within` are seconds for the whole call.

        The call is made in the runtime's program, by a task of this scope. Raises `LanesGone` when that program does
        not run, `LaneCallCancelled` when the scope is cancelled meanwhile, `LaneMisused` inside a Trio program, whose
        loop it would block, and otherwise what `run` raises.
        """
        if trio.lowlevel.in_trio_run():
            raise LaneMisused(self.name, "call_from_thread() would block the loop of a Trio program: await run() there")
        plan = CallPlan(self._board, name or name_of(fn), kind, queue_timeout, task_timeout, within)
        foreign = self._foreign(plan, 0.0, fn, args)
        del fn, args
        return foreign.wait_in_thread(self._pool.owner)

    def drain_lease(self, deadline: float, allowance: int) -> DrainLease:
        """The right to `allowance` calls that the stop of this scope does not refuse, until `deadline` on Trio's clock
        and never past the shutdown's end. Take it while the scope is open.

        Raises `LaneClosed` when the scope has closed, `LeaseExpired` when the deadline has come, `LaneMisused` for an
        allowance below 1.
        """
        if self._scope.stop_requested or self._pool.stopped:
            raise LaneClosed(self.name, "drain_lease", self._scope.path)
        return DrainLease(self._pool, self._board, self._scope, deadline, allowance)

    def stop_admission(self) -> None:
        """Raises `LaneManaged`: only isolated lanes can be closed by one of their users."""
        raise LaneManaged(self.name)

    def _foreign(self, plan: CallPlan, now: float, fn: Callable[[*Ts], T], args: tuple[*Ts]) -> ForeignCall[T]:
        """A call for the owner's loop. The deadline of `plan` is on the clock that gave `now`."""

        def start() -> Awaitable[T]:
            there = plan.moved(now)
            return self._pool.perform(make_call(self._pool, self._board, there, fn, args), self._scope, there)

        return ForeignCall(self.name, plan.name, self._scope, start, after_close=False)
