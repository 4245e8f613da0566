"""The tasks of a service lifecycle: its heartbeat and its servers, which go on in a drain until the rest is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, final

import trio

from ._exceptions import leaves
from ._task import TaskHandle

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._context import ServiceContext
    from ._group import TaskGroup
    from ._outcomes import Outcome

COMPONENT = "service-lifecycle"
HEARTBEAT_EVERY = 1.0
"""Seconds between two records of progress."""

ROLL_BACK_WITHIN = 5.0
"""Seconds that a start which failed waits for its tasks at most."""

LEAST_PAUSE, MOST_PAUSE = 0.001, 0.05
"""Seconds between two looks, while draining, at whether the rest is over."""


class ServiceServer(Protocol):
    """Something that answers for a service while it lives, such as a probe server. It is given to
    `ServiceLifecycle.start`, which binds it before any task runs."""

    @property
    def name(self) -> str:
        """The name of its task."""
        ...

    async def bind(self) -> None:
        """Take what may be refused: the port, the files. Raises, and is then given `close`; may be called again."""
        ...

    async def serve(self) -> None:
        """Answer until `close`, then finish the answers in hand and return; at once if `close` came first. Cancelling
        it ends it at once. However it ends, nothing of it is left open."""
        ...

    def close(self) -> None:
        """Stop taking requests and let go of what `bind` took. Sync; may be called at any time and repeatedly."""
        ...


@final
class _ServingTask(TaskHandle[None]):
    """A task that a drain does not wait for: it ends when everything else has."""

    __slots__ = ("_at_end",)

    def __init__(self, name: str, group: TaskGroup, at_end: Callable[[], object]) -> None:
        super().__init__(name, group, "service")
        self._at_end = at_end

    def settled(self, outcome: Outcome) -> Outcome:
        # Also for a task that was cancelled before its first step: a server that never served has a port to give back.
        self._at_end()
        return outcome


@final
class ServiceTasks:
    """The component in which one lifecycle runs its heartbeat and its servers."""

    def __init__(
        self,
        context: ServiceContext,
        servers: tuple[ServiceServer, ...],
        progress: Callable[[], object],
        rest_over: Callable[[], object],
        failed: Callable[[str], object],
    ) -> None:
        """Raises `GroupClosed` or `GroupPoisoned` if `context` takes no component."""
        self.context: ServiceContext = context.try_component(COMPONENT)
        self._above = context.group
        self._servers = servers
        self._progress = progress
        self._rest_over = rest_over
        self._failed = failed
        self._rest_is_over = trio.Event()

    async def start(self, at_end: Callable[[], object]) -> None:
        """Bind every server, then start all tasks in one step. Whatever goes wrong, also a cancellation, leaves
        nothing: no task, no component, no port. `at_end` is called once if it went well, when the heartbeat ends."""
        group = self.context.group
        try:
            await trio.lowlevel.checkpoint()
            for server in self._servers:
                await server.bind()
            group.launch(_ServingTask("heartbeat", group, at_end), self._heartbeat)
            for server in self._servers:
                group.launch(_ServingTask(server.name, group, server.close), self._serve, server)
        except BaseException:
            for server in self._servers:
                server.close()
            group.close("kill")
            with trio.move_on_after(ROLL_BACK_WITHIN, shield=True):
                await group.wait_over()  # what was cancelled before its first step ends in a turn or two
            raise

    # -- the tasks

    async def _heartbeat(self) -> None:
        stopping = self.context.stopping
        while not stopping.is_set():
            self._progress()
            with trio.move_on_after(HEARTBEAT_EVERY):
                await stopping.wait()
        pause = LEAST_PAUSE
        while not self._alone():
            self._progress()
            await trio.sleep(pause)
            pause = min(MOST_PAUSE, 2 * pause)
        self._rest_over()
        self._rest_is_over.set()

    def _alone(self) -> bool:
        """Whether of everything under the component that was given to `start` only such tasks as these still run."""
        for group in self._above.walk():
            if group.task_count and any(not isinstance(record, _ServingTask) for record in group.records()):
                return False
        return True

    async def _serve(self, server: ServiceServer) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.serve)
                await self._rest_is_over.wait()
                server.close()
        except Exception as exc:
            cause, *others = leaves(exc)
            self._failed(f"the server {server.name} failed: {type(cause).__name__}")
            if others:
                raise
            raise cause from None
