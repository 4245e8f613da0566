"""The narrow capability: to start tasks in a group and to hear of its stop, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, TypeVarTuple, final

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._group import TaskGroup
    from ._operation import Operation
    from ._outcomes import Outcome
    from ._task import TaskHandle

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@final
class StopToken:
    """Set when its group is told to stop, or by its own `cancel`, which reaches only the holders of this token."""

    __slots__ = ("_event", "_forget")

    def __init__(self, group: TaskGroup, /) -> None:
        self._event = trio.Event()
        self._forget = group.at_stop(self._event.set)

    def __del__(self) -> None:
        self._forget()

    def is_set(self) -> bool:
        """Whether to stop."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until it is set. A checkpoint; cancelling ends only the wait."""
        await self._event.wait()

    def cancel(self) -> None:
        """Set it for good. The group, its tasks and other tokens go on."""
        self._forget()
        self._event.set()


@final
class SpawnedTask(Generic[T]):
    """A task that was started through a `TaskSpawner`. Like `TaskHandle`, without the way to the group."""

    __slots__ = ("_task",)

    def __init__(self, task: TaskHandle[T], /) -> None:
        self._task = task

    def __repr__(self) -> str:
        return f"<SpawnedTask {self.path} {self.outcome or 'running'}>"

    @property
    def name(self) -> str:
        """The task's name."""
        return self._task.name

    @property
    def path(self) -> str:
        """Where the task is in the tree, for people."""
        return self._task.path

    @property
    def outcome(self) -> Outcome | None:
        """How the task ended; None while it runs."""
        return self._task.outcome

    def cancel(self) -> None:
        """Cancel this task alone; see `TaskHandle.cancel`."""
        self._task.cancel()

    async def wait(self) -> Outcome:
        """Wait for the task's end; see `TaskHandle.wait`."""
        return await self._task.wait()

    async def join(self) -> T:
        """Wait for what the task returns; see `TaskHandle.join`."""
        return await self._task.join()


@final
class TaskSpawner:
    """Starts tasks in one component's group. Made by `ServiceContext.spawner`.

    Whoever holds it can neither close the group nor cancel what others started in it, and reaches no runtime by it.
    Every method raises `GroupClosed` or `GroupPoisoned` when the gate is closed.
    """

    __slots__ = ("_group",)

    def __init__(self, group: TaskGroup, /) -> None:
        self._group = group

    def __repr__(self) -> str:
        return f"<TaskSpawner {self.path}>"

    @property
    def path(self) -> str:
        """The path of the component that owns what is started here."""
        return self._group.path

    def token(self) -> StopToken:
        """A new token that is set when the component is told to stop. To be called in the runtime's own thread."""
        return StopToken(self._group)

    def spawn(self, fn: Callable[[*Ts], Awaitable[T]], /, *args: *Ts, name: str | None = None) -> SpawnedTask[T]:
        """See `TaskGroup.spawn`."""
        return SpawnedTask(self._group.spawn(fn, *args, name=name))

    def spawn_service(
        self, fn: Callable[[*Ts], Awaitable[T]], /, *args: *Ts, name: str | None = None
    ) -> SpawnedTask[T]:
        """See `TaskGroup.spawn_service`."""
        return SpawnedTask(self._group.spawn_service(fn, *args, name=name))

    def spawn_cancellable(
        self, fn: Callable[[*Ts], Awaitable[T]], /, *args: *Ts, name: str | None = None
    ) -> SpawnedTask[T]:
        """See `TaskGroup.spawn_cancellable`."""
        return SpawnedTask(self._group.spawn_cancellable(fn, *args, name=name))

    def spawn_operation(
        self, operation: Operation, fn: Callable[[*Ts], Awaitable[T]], /, *args: *Ts, name: str | None = None
    ) -> SpawnedTask[T]:
        """See `TaskGroup.spawn_operation`."""
        return SpawnedTask(self._group.spawn_operation(operation, fn, *args, name=name))
