"""A task of a group: what the group knows of it, and the handle that its spawner gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, TypeVar, TypeVarTuple, final

import trio

from ._errors import TaskDidNotComplete
from ._exceptions import split_cancelled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._group import TaskGroup
    from ._outcomes import Outcome

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

StopMode = Literal["stop", "drain", "kill"]
"""Finish what is in hand, finish all that is accepted, or be cancelled now."""

TaskKind = Literal[
    "service", "worker", "operation", "scheduled_driver", "scheduled_run", "blocking", "actor", "shutdown", "other"
]
"""What a task is for. A label for diagnostics and metrics; it changes nothing in how the task is treated."""

TASK_KINDS: tuple[TaskKind, ...] = (
    "service", "worker", "operation", "scheduled_driver", "scheduled_run", "blocking", "actor", "shutdown", "other",
)  # fmt: skip


class TaskRecord:
    """What a group knows of one task in it. Subclassed by whatever runs there."""

    __slots__ = ("group", "name", "task")

    kind: TaskKind = "other"
    started_at: float | None = None
    """When the task was accepted, on Trio's clock; None where nobody looked."""

    def __init__(self, name: str, group: TaskGroup) -> None:
        self.name: str = name
        self.group: TaskGroup = group
        self.task: trio.lowlevel.Task | None = None

    @property
    def path(self) -> str:
        """Where the task is in the tree, for people."""
        return f"{self.group.path.rstrip('/')}/{self.name}"

    @property
    def place(self) -> str:
        """The path for the report, from the root of the runtime. Other than `path` where that begins elsewhere."""
        return self.path

    def request_stop(self, mode: StopMode) -> TaskGroup | None:
        """Tell the task to end. Sync, never raises; returns a group that is to be told too, if there is one."""
        raise NotImplementedError

    def describe(self) -> str:
        """What the task is doing, in a few words, for the report. Empty if there is nothing to say."""
        return ""


class GroupTask(TaskRecord):
    """A task that was spawned into a `TaskGroup` without a handle: counted and ended with its group, never singly."""

    __slots__ = ("exception", "kind", "outcome", "started_at")

    task: trio.lowlevel.Task | None
    kind: TaskKind
    started_at: float | None

    def __init__(self, name: str, group: TaskGroup, kind: TaskKind) -> None:
        self.name = name
        self.group = group
        self.task = None
        self.kind = kind
        self.started_at = trio.current_time()
        self.outcome: Outcome | None = None
        """How the task ended; None while it runs."""
        self.exception: Exception | None = None
        """What left the task, if an exception did."""

    def request_stop(self, mode: StopMode) -> TaskGroup | None:
        return None  # its group cancels it with all others of its kind

    async def run(self, fn: Callable[[*Ts], Awaitable[object]], args: tuple[*Ts]) -> None:
        """The body of the task: run `fn`, settle exactly once, whatever happens."""
        self.task = trio.lowlevel.current_task()
        group = self.group
        outcome: Outcome = "cancelled"
        timed_out = False
        try:
            if group.killed:
                outcome, timed_out = self.classify(returned=False)
            else:
                await fn(*args)
                outcome, timed_out = self.classify(returned=True)
        except Exception as exc:
            outcome = self._panicked(exc)
        except BaseException as exc:
            cancelled, rest = split_cancelled(exc)
            if cancelled is not None and isinstance(rest, Exception):
                outcome = self._panicked(rest)
                raise cancelled from None  # noqa: ASYNC104 (the rest is kept as the task's exception)
            outcome, timed_out = self.classify(returned=False)
            raise
        finally:
            # Everything that a waiter may look at is in place before it is woken: counts, record, outcome.
            self.outcome = outcome = self.settled(outcome)
            group.settle(self, outcome, timed_out=timed_out)
            self.woken()

    def classify(self, returned: bool) -> tuple[Outcome, bool]:
        """The outcome of a task that raised nothing, and whether it was the shutdown deadline that overtook it."""
        if returned:
            return ("cancelled" if self.group.stop_requested else "completed"), False
        if self.group.deadline.is_past_work(trio.current_time()):
            return "aborted", True
        return "cancelled", False

    def settled(self, outcome: Outcome) -> Outcome:
        """Called once when the task's frame is gone, before its end is counted. May change what it counts as."""
        return outcome

    def woken(self) -> None:
        """Called once when the end is counted and the record gone: the time to wake whoever waits."""

    def _panicked(self, exc: Exception) -> Outcome:
        self.exception = exc
        self.group.poison(self, exc)
        return "panicked"


class TaskHandle(GroupTask, Generic[T]):
    """A task that was spawned into a `TaskGroup`: it can be cancelled singly, waited for, and has a result."""

    __slots__ = ("_aborted", "_ended", "_returned", "_scope", "_value")

    def __init__(self, name: str, group: TaskGroup, kind: TaskKind) -> None:
        super().__init__(name, group, kind)
        self._aborted = False
        self._scope = trio.CancelScope()
        self._ended: trio.Event | None = None
        self._returned = False
        self._value: T | None = None

    def __repr__(self) -> str:
        return f"<TaskHandle {self.path} {self.outcome or 'running'}>"

    @property
    def ended(self) -> bool:
        """Whether the task's frame is gone and its end is counted."""
        return self.outcome is not None

    def cancel(self) -> None:
        """Cancel this task alone. It ends at its next checkpoint, unless it is shielded there; before its first
        step it never runs. It counts as aborted, also if it returns all the same."""
        if self.outcome is None and not self._scope.cancel_called:
            self._aborted = True
        self._scope.cancel()

    async def wait(self) -> Outcome:
        """Wait until the task's frame is gone and return how it ended. A checkpoint; cancelling ends only the wait."""
        if self.outcome is None:
            if self._ended is None:
                self._ended = trio.Event()
            await self._ended.wait()
        else:
            await trio.lowlevel.checkpoint()
        assert self.outcome is not None
        return self.outcome

    async def join(self) -> T:
        """Wait for the end and return what the task returned, also when it did so after a request to stop.

        Raises what the task raised, which has poisoned its group all the same, and `TaskDidNotComplete` when it was
        cancelled. A checkpoint; cancelling ends only the wait.
        """
        outcome = await self.wait()
        if self.exception is not None:
            raise self.exception
        if not self._returned:
            raise TaskDidNotComplete(self.path, outcome)
        return self._value  # type: ignore[return-value]

    def request_stop(self, mode: StopMode) -> TaskGroup | None:
        if mode == "kill":
            self._scope.cancel()
        return None

    async def scoped(self, fn: Callable[[*Ts], Awaitable[T]], args: tuple[*Ts]) -> None:
        """What `run` runs for a task with a handle: `fn` under the scope that ends it alone."""
        with self._scope:
            if not self._scope.cancel_called:
                self._value = await fn(*args)
                self._returned = True

    def classify(self, returned: bool) -> tuple[Outcome, bool]:
        if self._aborted:
            return "aborted", False
        if self._returned:
            asked = self._scope.cancel_called or self.group.stop_requested
            return ("cancelled" if asked else "completed"), False
        return super().classify(returned=False)

    def woken(self) -> None:
        if self._ended is not None:
            self._ended.set()


@final
class CancellableTask(TaskHandle[T]):
    """A task that is cancelled as soon as its group is told to stop."""

    __slots__ = ()

    def __init__(self, name: str, group: TaskGroup, kind: TaskKind) -> None:
        super().__init__(name, group, kind)
        if group.stop_requested:
            self._scope.cancel()  # told already, with the gate left open

    def request_stop(self, mode: StopMode) -> TaskGroup | None:
        self._scope.cancel()
        return None


@final
class WatchedTask(TaskHandle[T]):
    """A task whose end somebody has to hear of before it counts."""

    __slots__ = ("_settle",)

    def __init__(
        self, name: str, group: TaskGroup, kind: TaskKind, settle: Callable[[TaskHandle[T], Outcome], Outcome]
    ) -> None:
        super().__init__(name, group, kind)
        self._settle = settle

    def settled(self, outcome: Outcome) -> Outcome:
        return self._settle(self, outcome)
