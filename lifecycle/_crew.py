"""The nursery of a group's tasks without handles, which are cancelled together or not at all."""

from __future__ import annotations

from contextvars import Context, copy_context
from typing import TYPE_CHECKING, final

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@final
class Crew:
    """Made at a group's first task of that kind. One cancel scope for all of them is what makes them cheap."""

    __slots__ = ("_nursery", "_waiting", "done", "over")

    def __init__(self) -> None:
        self.done: trio.Event = trio.Event()
        self.over: bool = False
        self._nursery: trio.Nursery | None = None
        self._waiting: list[tuple[Callable[..., Awaitable[object]], tuple[object, ...], str, Context]] = []

    async def keep(self) -> None:
        """The companion task: holds the nursery open until `done`."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for fn, args, name, context in self._waiting:
                context.run(nursery.start_soon, fn, *args, name=name)
            self._waiting.clear()
            try:
                await self.done.wait()
            finally:
                # Also when the host cancels everything. From here on the nursery closes with its last task: who comes
                # later needs another crew.
                self._nursery = None
                self.over = True

    def start(self, fn: Callable[..., Awaitable[object]], args: tuple[object, ...], name: str) -> None:
        """Start a task, or keep it until the nursery is there."""
        if self._nursery is not None:
            self._nursery.start_soon(fn, *args, name=name)
        else:
            self._waiting.append((fn, args, name, copy_context()))

    def kill(self) -> None:
        """Cancel all that run. Those that wait for the nursery see for themselves that their group is killed."""
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()
