"""Repeatable runs: Trio's scheduler with a seed, and the virtual clock.

Trio shuffles the tasks that are ready with a random generator of its own, and has no public way to seed it. Generator
and the flag beside it are set for the time of one run and put back afterwards. Both are Trio's only ones, so two such
runs at a time, in two threads, work but do not repeat.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from ._errors import Deadlocked
from ._watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence

T = TypeVar("T")


@contextmanager
def seeded_scheduler(seed: int) -> Generator[None]:
    """Within the block, `trio.run` takes tasks that are ready in an order that depends on the seed alone.

    Wrap it around `trio.run`, in one thread at a time. Raises `RuntimeError` where Trio can no longer be seeded. What
    else may differ between two runs is not its business: threads, sockets, the module `random`, the hashes of strings.
    """
    run: Any = sys.modules["trio._core._run"]
    generator: Any = getattr(run, "_r", None)
    flag: Any = getattr(run, "_ALLOW_DETERMINISTIC_SCHEDULING", None)
    if generator is None or flag is None:
        raise RuntimeError(f"Trio {trio.__version__} cannot be made to repeat a run: use an earlier one with this kit")
    state = generator.getstate()
    generator.seed(seed)
    run._ALLOW_DETERMINISTIC_SCHEDULING = True
    try:
        yield
    finally:
        generator.setstate(state)
        run._ALLOW_DETERMINISTIC_SCHEDULING = flag


def run_virtual(
    main: Callable[[], Awaitable[T]],
    *,
    seed: int = 0,
    clock: trio.abc.Clock | None = None,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> T:
    """`trio.run` with a seeded scheduler, on a virtual clock that starts at 0 and jumps to what is due next whenever
    all tasks wait. Returns what `main` returns.

    Raises `Deadlocked` if all tasks wait and nothing is due, which would go on for ever. Threads, processes and sockets
    take no virtual time: use the real clock with them. A `clock` that is given is used instead.
    """
    from trio.testing import MockClock

    watchdog = Watchdog()

    async def guarded() -> T:
        result: list[T] = []
        try:
            with watchdog.scope:
                result.append(await main())
        except BaseException as exc:
            if watchdog.tasks is None:
                raise
            raise Deadlocked(watchdog.tasks) from exc  # noqa: ASYNC104 (the watchdog has cancelled it, and says so)
        if not result:
            raise Deadlocked(watchdog.tasks or ())
        return result[0]

    if clock is None:
        clock = MockClock(autojump_threshold=0)
        instruments = [*instruments, watchdog]
    with seeded_scheduler(seed):
        return trio.run(guarded, clock=clock, instruments=instruments)
