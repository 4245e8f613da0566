"""The two ways to open a runtime: a process's own, and one inside a Trio program that already runs."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVarTuple, final

import trio

from ._conductor import Conductor, RuntimeHandle
from ._config import RuntimeConfig, RuntimePlan
from ._errors import AlreadyInTrio, AlreadyRun
from ._publish import publish
from ._report import ShutdownReport
from ._resources import RuntimeResources

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from ._context import ServiceContext

__all__ = ["Runtime", "RuntimeHandle", "open_runtime"]

Ts = TypeVarTuple("Ts")

_log = logging.getLogger("tenure.lifecycle")


@final
class Runtime:
    """Owns one `trio.run`. Made by `Runtime.plan(config).build()`, runs once."""

    def __init__(self, plan: RuntimePlan, clock: trio.abc.Clock | None = None) -> None:
        self._ran = True  # until it is whole
        self._config = plan.config
        self._resources = RuntimeResources(plan.config)
        self._clock = clock
        self._ran = False

    @staticmethod
    def plan(config: RuntimeConfig | None = None) -> RuntimePlan:
        """Check a configuration. Pure: reads no clock and no machine. Raises `ConfigInvalid` with every mistake."""
        return RuntimePlan(RuntimeConfig() if config is None else config)

    def run(self, main: Callable[[ServiceContext, *Ts], Awaitable[object]], *args: *Ts) -> ShutdownReport:
        """Run `main(context, *args)` with the root context and return the report when the whole tree has ended.

        The tree is told to drain when `main` returns, at the first SIGINT or SIGTERM, at an unhandled failure of a
        task, or on request. `main` itself is cancelled when the tree has ended, or at the work deadline.

        If `main` raises, the tree is cancelled and the exception leaves when it has ended; unhandled failures of
        tasks leave in one flat exception group. Either has the report at its attribute `report`.

        What still runs at the end is reported; then, unless `on_overrun` is "wait", the process ends with
        `overrun_status`. Raises `AlreadyInTrio` inside a Trio program, `AlreadyRun` the second time.
        """
        if trio.lowlevel.in_trio_run():
            raise AlreadyInTrio
        if self._ran:
            raise AlreadyRun(self._config.name)
        self._ran = True
        conductor = Conductor(self._config, self._config.on_overrun or "exit", self._resources)

        async def program() -> ShutdownReport:
            async with conductor.opened() as context:
                await main(context, *args)
            assert conductor.report is not None, "the block ends with the report"
            return conductor.report

        return trio.run(program, clock=self._clock)

    def __del__(self) -> None:
        # Planned and built but never run: easy to overlook, so it says so once.
        if not getattr(self, "_ran", True):
            name = self._config.name
            _log.warning("runtime %s was built and never run", name)
            publish(ShutdownReport(name, reason="dropped", outcome="never run"), self._config.report_sink)


@asynccontextmanager
async def open_runtime(config: RuntimeConfig | None = None) -> AsyncGenerator[ServiceContext, None]:
    """A runtime inside a Trio program that already runs; gives the root context to the block.

    Leaving the block normally drains the tree, by an exception cancels it; either way the block ends when the tree
    has, and `context.runtime.report` is there. A shutdown that something else requested cancels the block when the
    tree has ended, or at the work deadline, and leaves it without an exception. Exceptions are those of `Runtime.run`.

    Signals are the host's: without a configuration none are taken. An overrun waits on unless the configuration says
    "exit". Raises `ConfigInvalid`, and what `RuntimePlan.build` raises.
    """
    plan = Runtime.plan(RuntimeConfig(signals=False) if config is None else config)
    conductor = Conductor(plan.config, plan.config.on_overrun or "wait", RuntimeResources(plan.config))
    async with conductor.opened() as context:
        yield context
