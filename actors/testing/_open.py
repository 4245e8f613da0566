"""A system for one test."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from actors import open_system

from ._errors import UncleanSystem
from ._leaks import end_leaked_tasks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from actors import System

SHUTDOWN_WITHIN = 5.0
"""Seconds that a system of the kit has to end."""


@asynccontextmanager
async def open_test_system(
    *,
    name: str = "system",
    seed: int = 0,
    inline: bool = True,
    shutdown_within: float = SHUTDOWN_WITHIN,
    unread_failures: bool = False,
    unhealthy: bool = False,
) -> AsyncGenerator[System]:
    """`open_system` for tests: slices by count, seeded, and checked at its end.

    When the block has ended without an exception, `UncleanSystem` is raised if the shutdown report is unhealthy
    (something failed, ran into the deadline or was still running at it), unless `unhealthy` is True; and if a
    supervised actor has failed for good without anybody being told, unless `unread_failures` is True. To be told is to
    watch the actor or to wait for its end at that time. Other failures leave the block as they do from `open_system`.

    A task that still runs at the deadline loses its shields, so that a test that leaks one fails and does not hang.

    The clock is that of the test; for the virtual one see the fixture `actor_system`, `simulated` and `run_virtual`.
    """
    caught: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            async with open_system(
                name=name, shutdown_within=shutdown_within, inline=inline, slices="count", seed=seed
            ) as system:
                nursery.start_soon(end_leaked_tasks, system)  # noqa: ASYNC111 (it ends what keeps the system from closing)
                yield system
            unread = () if unread_failures else tuple(system.unseen_failures)
            report = None if unhealthy or system.report is None or system.report.is_healthy() else system.report
            if unread or report is not None:
                raise UncleanSystem(report, unread)
        except BaseException as exc:  # noqa: ASYNC103 (raised below, outside the nursery, which would wrap it)
            caught = exc
        nursery.cancel_scope.cancel()
    if caught is not None:
        try:
            raise caught
        finally:
            del caught  # the frame and the exception would keep each other alive
