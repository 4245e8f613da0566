"""What the tests of schedules need: jobs that note when they run, a wall clock to set, a driver to wrap around."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import trio
import trio.testing

from lifecycle import RuntimeConfig, Schedule, ServiceContext, open_runtime


class Wall:
    """A wall clock that goes with Trio's and can be set."""

    def __init__(self, start: datetime) -> None:
        self.zone = start.tzinfo
        self.start = start.astimezone(UTC)  # arithmetic in a zone would leave its changes out
        self.began = trio.current_time()
        self.steps = timedelta()

    def __call__(self) -> datetime:
        return self.start + timedelta(seconds=trio.current_time() - self.began) + self.steps

    def step(self, **by: float) -> None:
        self.steps += timedelta(**by)


class Job:
    """A job that takes `seconds` (the first one `first`) and notes when it was started and when it ended."""

    def __init__(self, seconds: float = 0.0, *, first: float | None = None, wall: Wall | None = None) -> None:
        self.seconds = seconds
        self.first = first
        self.wall = wall
        self.began = trio.current_time()
        self.starts: list[float] = []
        self.ends: list[float] = []
        self.times: list[str] = []
        self.active = 0
        self.most = 0

    async def __call__(self) -> object:
        takes = self.seconds if self.first is None or self.starts else self.first
        self.starts.append(trio.current_time() - self.began)
        if self.wall is not None:
            self.times.append(f"{self.wall().astimezone(self.wall.zone):%d %H:%M:%S}")
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            await trio.sleep(takes)
        finally:
            self.active -= 1
            self.ends.append(trio.current_time() - self.began)
        return None


async def fails() -> None:
    raise ValueError("planted")


@asynccontextmanager
async def driven(schedule: Schedule) -> AsyncGenerator[Schedule, None]:
    """The schedule runs within the block, and is cancelled at its end."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(schedule.run)
        yield schedule
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def component() -> AsyncGenerator[ServiceContext, None]:
    """A component of a runtime; planted failures are looked at by the test."""
    try:
        async with open_runtime(RuntimeConfig(signals=False, on_poison="degrade")) as context:
            yield context.component("schedules")
    except* ValueError:
        pass


def everywhere(simulated: Callable[[], Awaitable[None]]) -> None:
    """One example of a property: a fresh virtual clock and a fresh Trio program."""
    trio.run(simulated, clock=trio.testing.MockClock(autojump_threshold=0))


def virtual(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test on a virtual clock from 0, which jumps to whatever is next."""

    @functools.wraps(test)
    def run(**fixtures: object) -> None:
        everywhere(functools.partial(test, **fixtures))

    return run


def jump(seconds: float) -> None:
    """Stall the whole program for so long."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    clock.jump(seconds)


def utc(*fields: int) -> datetime:
    return datetime(*fields, tzinfo=UTC)  # type: ignore[misc, arg-type]
