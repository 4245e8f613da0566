"""The lanes of one capacity in one Trio program: who runs, who waits, and how a call gets from one to the other."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar, final

import trio

from ._lane_admission import LaneAdmission, LaneRule, LaneTicket
from ._lane_call import Call
from ._lane_errors import LaneClosed, LaneFull, LaneQueueTimedOut, LaneTaskTimedOut
from ._schedule_snapshot import Durations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._group import TaskGroup
    from ._lane_call import CallPlan
    from ._lane_policy import LanePolicy
    from ._report import BlockingTask

T = TypeVar("T")


@final
class LaneBoard:
    """What is counted of one lane."""

    __slots__ = (
        "failed",
        "index",
        "name",
        "policy",
        "queue_waits",
        "rejected",
        "run_times",
        "timed_out_queued",
        "timed_out_running",
        "unqueued",
    )

    def __init__(self, index: int, name: str, policy: LanePolicy) -> None:
        self.index: int = index
        self.name: str = name
        self.policy: LanePolicy = policy
        self.rejected: int = 0
        self.failed: int = 0
        self.timed_out_queued: int = 0
        self.timed_out_running: int = 0
        self.unqueued: int = 0
        """Calls that did not wait for their slot; those that did are in `queue_waits`."""
        self.queue_waits: Durations = Durations()
        self.run_times: Durations = Durations()


@final
class LanePool:
    """Several lanes over one capacity. All of it is for the loop of one Trio program, `owner`."""

    __slots__ = (
        "_changed",
        "_last_id",
        "admission",
        "boards",
        "calls",
        "name",
        "open_to_leases",
        "owner",
        "registry",
        "stopped",
    )

    def __init__(self, name: str, capacity: int, lanes: Sequence[tuple[str, LanePolicy]]) -> None:
        self.name: str = name
        self.boards: tuple[LaneBoard, ...] = tuple(
            LaneBoard(index, lane, policy) for index, (lane, policy) in enumerate(lanes)
        )
        self.admission: LaneAdmission = LaneAdmission(
            capacity, [LaneRule(policy.max_concurrency, policy.max_queue, policy.reserved) for _, policy in lanes]
        )
        self.calls: dict[Call[object], None] = {}
        self.stopped: bool = False
        self.open_to_leases: bool = True
        self.owner: trio.lowlevel.TrioToken | None = None
        self.registry: dict[LanePool, None] | None = None
        """Where a runtime looks for what runs. A stopped pool is dropped there; a lease's call puts it back."""
        self._changed: trio.Event | None = None
        self._last_id = 0

    def attach(self, owner: trio.lowlevel.TrioToken | None = None) -> None:
        """Belong to the Trio program `owner`, or the one that runs in this thread, unless there is one already."""
        if self.owner is None:
            self.owner = trio.lowlevel.current_trio_token() if owner is None else owner

    def is_elsewhere(self) -> bool:
        """Whether the pool belongs to another Trio program than the one that runs in this thread."""
        here = trio.lowlevel.current_trio_token()
        if self.owner is None:
            self.owner = here
        return self.owner is not here

    def now(self) -> float | None:
        """The time on the owner's clock; None outside its loop, where that clock cannot be read."""
        if trio.lowlevel.in_trio_run() and self.owner is trio.lowlevel.current_trio_token():
            return trio.current_time()
        return None

    def next_id(self) -> int:
        """A number that no other call of this pool has."""
        self._last_id += 1
        return self._last_id

    # -- one call

    async def perform(self, call: Call[T], scope: TaskGroup | None, plan: CallPlan) -> T:
        """Run the closure of `call` in a thread. A `scope` ends the wait for a slot when it stops; None is for calls
        that may outlast it."""
        if self.enter(call, scope, plan):
            call.started_at = call.called_at
        else:
            await self.wait_for_slot(call, scope, plan)
        until = min(call.started_at + plan.task_timeout, plan.deadline)
        board = call.board
        try:
            with trio.CancelScope(deadline=until) as timer:
                result = await call.in_thread()
                took = trio.current_time() - call.started_at
                board.run_times.add(took)
                if took > board.policy.warn_after:
                    call.warn(took)
                return result
        except Exception:
            board.failed += 1
            raise
        finally:
            if not call.started:
                self.let_go(call)  # and it never will
        assert timer.cancelled_caught
        raise self.ran_out(call, by_deadline=until >= plan.deadline)

    def enter(self, call: Call[T], scope: TaskGroup | None, plan: CallPlan) -> bool:
        """Take in a call: True if it holds a slot at once, False if it has to wait for one. Raises `LaneFull`,
        `LaneClosed` or `LaneQueueTimedOut`."""
        if self._is_closed_to(scope):
            call.board.rejected += 1
            raise self._closed(call, scope)
        if call.called_at >= plan.deadline:
            call.board.rejected += 1
            raise self._too_late(call, by_deadline=True)
        call.leased = scope is None
        place = self.admission.offer(call, call.called_at, overflow=call.leased)
        if place == "outside":
            call.board.rejected += 1
            raise LaneFull(call.board.name, call.name, call.board.policy.max_queue)
        self.calls[call] = None  # type: ignore[index]
        if self.registry is not None:
            self.registry[self] = None
        if place == "holding":
            call.board.unqueued += 1
            return True
        return False

    async def wait_for_slot(self, call: Call[T], scope: TaskGroup | None, plan: CallPlan) -> None:
        """Return when a call that was taken in holds a slot and may start. Raises `LaneClosed`, `LaneQueueTimedOut`."""
        until = min(call.called_at + plan.queue_timeout, plan.deadline)
        await self._wait_until(call, scope, until, by_deadline=until >= plan.deadline)
        self._check_granted(call, scope)
        call.started_at = trio.current_time()
        call.board.queue_waits.add(call.started_at - call.called_at)

    async def _wait_until(self, call: Call[T], scope: TaskGroup | None, until: float, by_deadline: bool) -> None:
        def abort(_: object) -> trio.lowlevel.Abort:
            # Now, and not when the task comes round to it: a slot that it got until then would be lost to others.
            self.let_go(call)
            return trio.lowlevel.Abort.SUCCEEDED

        take_back = None if scope is None else scope.at_stop(lambda: self.refuse(call))
        call.task = trio.lowlevel.current_task()
        try:
            with trio.CancelScope(deadline=until):
                await trio.lowlevel.wait_task_rescheduled(abort)
                return  # whoever has been granted a slot has it, even if the time has run out since
        finally:
            call.task = None
            if take_back is not None:
                take_back()
        call.board.timed_out_queued += 1
        raise self._too_late(call, by_deadline)

    def _check_granted(self, call: Call[T], scope: TaskGroup | None) -> None:
        """The scope may have stopped between the grant and the turn of the task."""
        if call.refused or self._is_closed_to(scope):
            self.let_go(call)
            raise self._closed(call, scope)

    def ran_out(self, call: Call[T], by_deadline: bool) -> LaneTaskTimedOut | LaneQueueTimedOut:
        """The error for a call whose time ended after it had been given a slot."""
        if not call.started:
            call.board.timed_out_queued += 1
            return self._too_late(call, by_deadline)
        call.board.timed_out_running += 1
        waited = trio.current_time() - call.called_at
        return LaneTaskTimedOut(call.board.name, call.name, waited, by_deadline, not call.returned)

    def _too_late(self, call: Call[T], by_deadline: bool) -> LaneQueueTimedOut:
        return LaneQueueTimedOut(call.board.name, call.name, trio.current_time() - call.called_at, by_deadline)

    def _closed(self, call: Call[T], scope: TaskGroup | None) -> LaneClosed:
        return LaneClosed(call.board.name, call.name, self.name if scope is None or self.stopped else scope.path)

    # -- slots

    def let_go(self, call: Call[T]) -> None:
        """Give back what `call` holds, once: its slot or place in the queue, then its record."""
        if call.over:
            return
        call.over = True
        call.drop()
        granted = self.admission.leave(call)
        del self.calls[call]  # type: ignore[arg-type]
        if granted is not None:
            self._wake(granted)
        if self._changed is not None and not self.admission.running:
            self._changed.set()
            self._changed = None

    def refuse(self, call: Call[T]) -> None:
        """End the wait of `call` for a slot, if it waits."""
        if call.task is not None and call.place in ("queued", "overflow"):
            call.refused = True
            self.let_go(call)
            trio.lowlevel.reschedule(call.task)

    @staticmethod
    def _wake(ticket: LaneTicket) -> None:
        assert isinstance(ticket, Call)
        assert ticket.task is not None, "who waits in the queue has a task that waits"
        trio.lowlevel.reschedule(ticket.task)

    # -- the end

    def _is_closed_to(self, scope: TaskGroup | None) -> bool:
        """Whether calls of this scope are refused; without one they are those of a drain lease."""
        if scope is None:
            return not self.open_to_leases
        return self.stopped or scope.stop_requested

    def scope_stopped(self) -> None:
        """The scope that an isolated lane was made for has stopped: only its leases are good for more."""
        self.stopped = True
        for call in tuple(self.calls):
            if not call.leased:
                self.refuse(call)

    def stop(self) -> None:
        """Take no more calls, and end the waits of those that have no slot. Closures that run go on. Sync."""
        self.stopped = True
        self.open_to_leases = False
        for call in tuple(self.calls):
            self.refuse(call)

    async def wait_idle(self) -> None:
        """Wait until no closure runs. A checkpoint; cancelling ends only the wait."""
        if not self.admission.running:
            await trio.lowlevel.checkpoint()
        while self.admission.running:
            if self._changed is None:
                self._changed = trio.Event()
            await self._changed.wait()

    def records(self, *, queued: bool = True) -> list[BlockingTask]:
        """The calls that have not returned, oldest first, with the stacks of their threads."""
        now = self.now()
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
        return [
            call.record(now, frames)
            for call in tuple(self.calls)
            if not call.returned and (queued or call.state != "queued")
        ]

    def count(self, choose: Callable[[Call[object]], bool]) -> int:
        """How many calls that have not returned are like that."""
        return sum(1 for call in tuple(self.calls) if not call.returned and choose(call))
