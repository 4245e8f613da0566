"""One call in a lane: its record, and what its thread runs."""

from __future__ import annotations

import logging
import threading
import time
from contextvars import copy_context
from copy import copy
from math import isnan
from types import CoroutineType
from typing import TYPE_CHECKING, Generic, TypeVar, TypeVarTuple, cast, final

import trio

from ._lane_admission import LaneTicket
from ._lane_errors import LaneMisused, LongRunningRefused
from ._report import BlockingState, BlockingTask
from ._stack import thread_frames

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from outcome import Outcome

    from ._lane_admission import Place
    from ._lane_policy import LaneKind
    from ._lane_pool import LaneBoard, LanePool

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_log = logging.getLogger("tenure.lifecycle")


class CallPlan:
    """How one call is to be made. Constructing one checks the times, which are in seconds."""

    __slots__ = ("deadline", "kind", "name", "queue_timeout", "task_timeout")

    def __init__(
        self,
        board: LaneBoard,
        name: str,
        kind: LaneKind,
        queue_timeout: float | None,
        task_timeout: float | None,
        deadline: float,
    ) -> None:
        policy = board.policy
        self.name: str = name
        self.kind: LaneKind = kind
        self.queue_timeout: float = policy.queue_timeout if queue_timeout is None else queue_timeout
        self.task_timeout: float = policy.task_timeout if task_timeout is None else task_timeout
        self.deadline: float = deadline
        if not (self.queue_timeout > 0 and self.task_timeout > 0) or isnan(deadline):
            raise LaneMisused(board.name, "a time-out must be above 0 seconds, and a deadline must be a number")

    def moved(self, now: float) -> CallPlan:
        """The same with as much time left as there was at `now`, on the clock of the program that runs here."""
        other = copy(self)
        other.deadline = trio.current_time() + (self.deadline - now)
        return other

    def until(self, deadline: float) -> CallPlan:
        """The same, ended by `deadline` too."""
        other = copy(self)
        other.deadline = min(self.deadline, deadline)
        return other


def make_call(pool: LanePool, board: LaneBoard, plan: CallPlan, fn: Callable[[*Ts], T], args: tuple[*Ts]) -> Call[T]:
    """The record of a call that is made now. Raises `LongRunningRefused`."""
    if plan.kind == "long_running":
        board.rejected += 1
        raise LongRunningRefused(board.name, plan.name)
    return Call(pool, board, fn, args, plan.name, plan.kind, trio.current_time())


@final
class Call(LaneTicket, Generic[T]):
    """From the offer until the closure has really returned, whoever still waits for it.

    The thread tells Trio's loop of the return in one step, which gives back slot and record and then wakes the caller,
    if there is one still. So what a lane has to do after a time-out needs no task of its own.
    """

    __slots__ = (
        "_context",
        "_work",
        "board",
        "called_at",
        "detail",
        "id",
        "kind",
        "leased",
        "name",
        "over",
        "pool",
        "refused",
        "result",
        "returned",
        "stamp",
        "started",
        "started_at",
        "state",
        "task",
        "thread",
        "token",
    )

    def __init__(
        self,
        pool: LanePool,
        board: LaneBoard,
        fn: Callable[[*Ts], T],
        args: tuple[*Ts],
        name: str,
        kind: LaneKind,
        now: float,
    ) -> None:
        self.lane: int = board.index
        self.place: Place = "outside"
        self.arrival = 0
        self.since: float = 0.0
        self.pool: LanePool = pool
        self.board: LaneBoard = board
        self.id: int = pool.next_id()
        self.name: str = name
        self.kind: LaneKind = kind
        self.called_at: float = now
        self.stamp: float = time.monotonic()
        """The same in real time, for a look at the record when the program and its clock have ended."""
        self.started_at: float = 0.0
        self.state: BlockingState = "queued"
        self.started: bool = False
        """Whether the closure was given to a thread."""
        self.returned: bool = False
        """Set by the thread itself, so that it is true even when there is no program left to tell."""
        self.over: bool = False
        """Whether slot and record have been given back."""
        self.leased: bool = False
        """Whether a drain lease stands behind it, which the stop of its scope does not touch."""
        self.refused: bool = False
        """Whether its scope closed while it waited for a slot."""
        self.task: trio.lowlevel.Task | None = None
        """The task that waits, for a slot or for the closure."""
        self.thread: int = 0
        self.token: trio.lowlevel.TrioToken
        self.result: Outcome[T] | None = None
        self.detail: tuple[str, ...] = ()
        """Where the work is, if it is in no thread."""
        self._context = copy_context()
        self._work: tuple[Callable[..., T], tuple[object, ...]] | None = (fn, args)

    # -- the thread's side

    def work(self) -> T:
        """Run the closure; what it was given is gone when this returns."""
        self.thread = threading.get_ident()
        assert self._work is not None, "a call works once"
        fn, args = self._work
        self._work = None
        try:
            result = self._context.run(fn, *args)
        except BaseException as exc:  # noqa: ASYNC103 (no Cancelled comes up in a thread)
            if self.state != "timed_out_still_running":
                raise
            # Its frames hold what the closure was given, and nobody is there to take it.
            _log.warning(
                "lane %s: %s failed after its caller had stopped waiting", self.board.name, self.name, exc_info=exc
            )
            return None  # type: ignore[return-value]  # noqa: ASYNC104 (to nobody)
        finally:
            del fn, args
            self.returned = True
        if isinstance(result, CoroutineType):
            result.close()
            raise TypeError(f"lane {self.board.name!r} runs blocking functions, and {self.name!r} is an async one")
        return result

    def deliver(self, result: Outcome[T]) -> None:
        """The closure has returned: tell the loop, if there is one still."""
        self.result = result
        try:
            self.token.run_sync_soon(self._returned)
        except trio.RunFinishedError:
            self.result = None  # `returned` is set, and nobody waits for the slot

    # -- Trio's side

    async def in_thread(self) -> T:
        """Run the closure in a thread. The slot is held since before. A checkpoint; cancelling ends only the wait, and
        before it has begun the call too."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.token = trio.lowlevel.current_trio_token()
        self.task = trio.lowlevel.current_task()
        self.started = True
        self.state = "running"
        try:
            trio.lowlevel.start_thread_soon(self.work, self.deliver, self.thread_name)
        except BaseException:
            self.pool.let_go(self)
            raise
        return cast("T", await trio.lowlevel.wait_task_rescheduled(self._abort))

    def _returned(self) -> None:
        # What nobody waits for is gone first, then the slot goes on, then the record goes.
        task, self.task = self.task, None
        result, self.result = self.result, None
        if task is None:
            del result
            self.pool.let_go(self)
        else:
            self.pool.let_go(self)
            trio.lowlevel.reschedule(task, cast("Outcome[object]", result))

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self.task = None
        self.state = "timed_out_still_running"
        return trio.lowlevel.Abort.SUCCEEDED

    def drop(self) -> None:
        """Forget the closure and what it was given: it will not run."""
        self._work = None

    # -- for people

    def warn(self, took: float) -> None:
        """It has returned, and took longer than its lane finds normal."""
        limit = self.board.policy.warn_after
        _log.warning("lane %s: %s took %.3f s, more than %.3g s", self.board.name, self.name, took, limit)

    def elapsed(self, now: float | None) -> float:
        """Seconds since the call, on the clock that gave `now`; in real time without one."""
        return max(0.0, time.monotonic() - self.stamp if now is None else now - self.called_at)

    def thread_lines(self) -> tuple[str, ...]:
        """Where its thread stands, for the stack of a task that waits for it."""
        frames = thread_frames(self.thread) if self.thread and not self.returned else ()
        return () if self.returned else (f"in thread {self.thread_name!r}", *frames)

    @property
    def thread_name(self) -> str:
        """What its thread is called meanwhile."""
        return f"{self.board.name}:{self.name}"

    def record(self, now: float | None, frames: dict[int, FrameType]) -> BlockingTask:
        """What the report says of it; `frames` are those of all threads."""
        stack = self.detail
        if self.thread:
            stack = thread_frames(self.thread, frames)
            if self.returned:
                stack = ()  # the thread may have other work by now
        return BlockingTask(self.name, self.board.name, self.state, self.elapsed(now), stack)
