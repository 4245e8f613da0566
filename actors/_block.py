"""The block: `open_system`, from the body's first line to the end of the last actor."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal, Self, final

import trio

from lifecycle import RuntimeConfig, open_runtime

from ._system import System

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from lifecycle import ServiceContext

    from ._tracing import Tracer


@final
class _Leaving:
    """Ends the system when the block's body does. Holds back what the body raised because actors had failed."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._held: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, exc: BaseException | None, __: object) -> bool:
        failed = self._system.has_failed_
        if not failed and self._system.refused_(exc):
            self._system.leave_(None)
            return True
        self._system.leave_(exc)
        if failed and isinstance(exc, Exception):
            self._held = exc
            return True
        return False

    def failure(self, stray: BaseException | None) -> BaseException | None:
        """What the block raises, when `stray` is what came out of it."""
        if isinstance(stray, GeneratorExit):
            return stray
        return self._system.failure_([exc for exc in (self._held, stray) if exc is not None])


@final
class _Host:
    """The tasks that serve a system from beside its tree: they outlive a cancellation, until the tree has ended."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._scopes: list[trio.CancelScope] = []

    def start(self, fn: Callable[[], Awaitable[None]], name: str) -> trio.Event:
        """Start a task; the event is set when it has ended."""
        scope = trio.CancelScope(shield=True)
        done = trio.Event()
        self._scopes.append(scope)
        self._nursery.start_soon(self._run, scope, fn, done, name=name)
        return done

    async def _run(self, scope: trio.CancelScope, fn: Callable[[], Awaitable[None]], done: trio.Event) -> None:
        with scope:
            await fn()
        done.set()

    def end(self) -> None:
        for scope in self._scopes:
            scope.cancel()


@asynccontextmanager
async def open_system(
    context: ServiceContext | None = None,
    /,
    *,
    name: str = "system",
    shutdown_within: float = 30.0,
    inline: bool = True,
    slices: Literal["time", "count"] = "time",
    tracer: Tracer | None = None,
    seed: int | None = None,
) -> AsyncGenerator[System, None]:
    """Open a tree of actors for the block.

    Leaving the block normally drains it: every actor finishes its mailbox. Leaving it by an exception kills it. Either
    way the block ends when the last actor has, within `shutdown_within` seconds, and `system.report` tells how.

    A body that spawns when the system has been told to end gets `SystemStopped`, and leaves the block by it as if it
    had come to its end: a signal during set-up is no failure.

    The tree hangs in `context`, or in a runtime of its own, without signal handlers. A failure of a top-level actor
    that has no supervisor cancels the block and leaves it in an exception group, as a task's would leave a nursery; a
    lone `RestartLimitExceeded` leaves as itself.

    `inline=False` switches inline dispatch off; `slices="count"` measures slices without reading a clock, for
    repeatable runs; `seed` makes jitter and random routes repeatable.
    """
    options = (shutdown_within, inline, slices, tracer, seed)
    leaving: _Leaving | None = None
    stray: BaseException | None = None
    async with trio.open_nursery() as nursery:
        host = _Host(nursery)
        try:
            if context is None:
                config = RuntimeConfig(name=name, shutdown_within=shutdown_within, signals=False)
                async with open_runtime(config) as root:
                    system = System(root, *options, owns_runtime=True)
                    leaving = _Leaving(system)
                    host.start(system.timers.run, "timers")
                    with leaving, system.body_scope_:
                        yield system
            else:
                system = System(context.component(name), *options, owns_runtime=False)
                leaving = _Leaving(system)
                host.start(system.timers.run, "timers")
                host.start(system.follow_, "follow")
                driven = host.start(system.drive_, "drive")
                try:
                    with leaving, system.body_scope_:
                        yield system
                finally:
                    with trio.CancelScope(shield=True):
                        await driven.wait()
        except BaseException as exc:  # noqa: ASYNC103 (raised below, outside the nursery, which would wrap it)
            stray = exc
        host.end()
    if leaving is not None:
        stray = leaving.failure(stray)
    if stray is not None:
        before = stray.__context__
        try:
            raise stray
        finally:
            stray.__context__ = before  # not the cancellation of the body, which says nothing
            del stray, before
