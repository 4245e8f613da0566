"""Calls made outside the Trio program that a lane belongs to: carried out there, by a task of the lane's scope."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar, final

import trio

from ._errors import GroupClosed, GroupPoisoned
from ._lane_errors import LaneCallCancelled, LaneClosed, LanesGone
from ._task import WatchedTask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._group import TaskGroup
    from ._outcomes import Outcome
    from ._task import TaskHandle

T = TypeVar("T")


@final
class ForeignCall(Generic[T]):
    """One call. `start` makes it in the owner's loop; with `after_close` also when its scope takes no more tasks."""

    __slots__ = ("_after_close", "_call", "_deliver", "_done", "_error", "_gone", "_lane", "_scope", "_start", "_task")

    def __init__(
        self, lane: str, call: str, scope: TaskGroup, start: Callable[[], Awaitable[T]], *, after_close: bool
    ) -> None:
        self._lane = lane
        self._call = call
        self._scope = scope
        self._start: Callable[[], Awaitable[T]] | None = start
        self._after_close = after_close
        self._deliver: Callable[[], object] = _nothing
        self._done: tuple[T] | None = None
        self._error: Exception | None = None
        self._gone = False
        self._task: WatchedTask[None] | None = None

    # -- the caller's side

    def wait_in_thread(self, owner: trio.lowlevel.TrioToken | None) -> T:
        """Block this thread until the call has ended. An interrupt of the wait cancels the call as far as it can be."""
        done = threading.Event()
        self._deliver = done.set
        self._submit(owner)
        try:
            done.wait()
        except BaseException:
            self._withdraw(owner)
            raise
        return self._result()

    async def wait_in_trio(self, owner: trio.lowlevel.TrioToken | None) -> T:
        """Wait in a Trio program that is not the owner. Cancelling cancels the call as far as it can be."""
        task = trio.lowlevel.current_task()
        here = trio.lowlevel.current_trio_token()
        waiting = True

        def wake() -> None:
            if waiting:
                trio.lowlevel.reschedule(task)

        def deliver() -> None:
            try:
                here.run_sync_soon(wake)
            except trio.RunFinishedError:
                pass

        def abort(_: object) -> trio.lowlevel.Abort:
            nonlocal waiting
            waiting = False
            self._withdraw(owner)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.checkpoint_if_cancelled()
        self._deliver = deliver
        self._submit(owner)
        await trio.lowlevel.wait_task_rescheduled(abort)
        return self._result()

    def _submit(self, owner: trio.lowlevel.TrioToken | None) -> None:
        if owner is None:
            raise LanesGone(self._lane, self._call)
        try:
            owner.run_sync_soon(self._launch)
        except trio.RunFinishedError:
            raise LanesGone(self._lane, self._call) from None

    def _withdraw(self, owner: trio.lowlevel.TrioToken | None) -> None:
        try:
            assert owner is not None, "it was submitted there"
            owner.run_sync_soon(self._cancel)
        except trio.RunFinishedError:
            pass

    def _result(self) -> T:
        if self._done is None:
            assert self._error is not None, "a call that has ended has an error or a result"
            raise self._error
        return self._done[0]

    # -- the owner's side. Trio calls these in its loop, also for what comes in last as it ends.

    def _launch(self) -> None:
        if self._gone:
            self._start = None
            return
        task: WatchedTask[None] = WatchedTask(self._call, self._scope, "blocking", self._settled)
        try:
            if not self._after_close or not self._scope.task_count:
                self._scope.check_open()  # a closed scope in which nothing runs has nobody left to own the call
            self._task = task
            self._scope.adopt(task, task.run, task.scoped, (self._run, ()))
        except (GroupClosed, GroupPoisoned):
            self._settled(task, "cancelled")

    async def _run(self) -> None:
        start, self._start = self._start, None
        assert start is not None, "a call starts once"
        try:
            call = start()
            del start  # it holds what the closure is given
            self._done = (await call,)
        except Exception as exc:
            # It is for the caller, and no failure of the scope's own.
            self._error = exc

    def _settled(self, task: TaskHandle[None], outcome: Outcome) -> Outcome:
        if self._done is None and self._error is None:
            error = LaneCallCancelled if self._start is None else LaneClosed
            self._error = error(self._lane, self._call, self._scope.path)
        self._start = None
        self._deliver()
        return outcome

    def _cancel(self) -> None:
        self._gone = True
        if self._task is not None:
            self._task.cancel()


def _nothing() -> None:
    pass
