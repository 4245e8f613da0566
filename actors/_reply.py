"""The reply slot: one answer, set once, that wakes the one task that waits for it."""

from __future__ import annotations

from math import inf
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

from ._errors import AlreadyReplied, WrongThread

if TYPE_CHECKING:
    import trio

    from ._cell import Cell
    from ._tracing import TracedAsk

R = TypeVar("R")


@final
class Ask:
    """A request on its way. Neither a channel nor an event: the asker is rescheduled when the answer is there."""

    __slots__ = (
        "abandoned", "cell", "deferred", "done", "error", "message", "parked", "sender", "task", "trace", "value",
    )  # fmt: skip

    trace: TracedAsk  # there only under a tracer

    def __init__(self, message: object, sender: Cell | None, cell: Cell) -> None:
        self.message: object = message
        self.sender: Cell | None = sender
        self.cell: Cell = cell
        self.task: trio.lowlevel.Task | None = None
        self.value: Any = None
        self.error: BaseException | None = None
        self.done: bool = False
        self.abandoned: bool = False
        self.deferred: bool = False
        self.parked: bool = False

    def settle(self, value: object) -> None:
        """Answer. Raises `AlreadyReplied` the second time; an answer that nobody waits for any more is dropped."""
        if self.done:
            raise AlreadyReplied(self.cell.path, self.message)
        task = self.task
        if task is not None:
            reschedule(task)  # first: outside Trio it raises, and then nothing has been done
            self.task = None
        self.done = True
        self.value = value

    def fail(self, error: BaseException) -> None:
        """Answer with an exception, unless there is an answer already."""
        if not self.done:
            task = self.task
            if task is not None:
                reschedule(task)
                self.task = None
            self.done = True
            self.error = error

    def deadline(self) -> float:
        """When the asker gives up, on Trio's clock; `inf` if never. Looked up only when somebody wants to know."""
        task = self.task
        if task is None:
            return inf
        # Trio has no public way to a task's effective deadline but for the task itself.
        return task._cancel_status.effective_deadline()  # pyright: ignore[reportPrivateUsage]

    def _abort(self, _: object) -> Abort:
        self.task = None
        self.abandoned = True
        self.cell.asker_gone(self)
        return Abort.SUCCEEDED

    async def wait(self) -> Any:
        """Wait for the answer and return or raise it. Cancelling the wait abandons the request."""
        if not self.done:
            self.task = current_task()
            await wait_task_rescheduled(self._abort)
        error = self.error
        if error is not None:
            self.error = None
            try:
                raise error
            finally:
                del error  # the frame and the error would keep each other alive
        return self.value


@final
class Later(Generic[R]):
    """A reply that will be set later, once, from anywhere in the actor.

    While it is open the request is no longer in hand: the actor goes on with its next message. One that is let go
    without an answer, or is still open when its actor ends, answers `NoReply`.
    """

    __slots__ = ("_ask",)

    def __init__(self, ask: Ask, /) -> None:
        self._ask = ask

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for the answer any more (or, for a request that was told, ever did)."""
        return self._ask.abandoned

    @property
    def done(self) -> bool:
        """Whether the answer has been set."""
        return self._ask.done

    def set(self, value: R, /) -> None:
        """Answer. Sync; raises `AlreadyReplied` the second time. Does nothing if the asker has gone."""
        self._check_thread()
        self._ask.settle(value)
        self._ask.cell.forget_later(self._ask)

    def fail(self, error: BaseException, /) -> None:
        """Let the ask raise `error`. Sync; raises `AlreadyReplied` if there is an answer already."""
        self._check_thread()
        if self._ask.done:
            raise AlreadyReplied(self._ask.cell.path, self._ask.message)
        self._ask.fail(error)
        self._ask.cell.forget_later(self._ask)

    def _check_thread(self) -> None:
        cell = self._ask.cell
        if cell.box.slice.thread != get_ident():
            raise WrongThread(cell.path)

    def __del__(self) -> None:
        ask = self._ask
        if not ask.done:
            # The collector runs in any thread; the asker may be woken only in its own.
            ask.cell.system.call_soon(ask.cell.let_go, ask)
