"""Many idle actors, services or bare tasks, in a process of their own: their memory, and what it takes to end them.

`python -m benchmarks._idle actors|services|tasks N` prints one JSON line: `bytes_each`, the resident memory of one, and
`start` and `stop`, the wall and CPU seconds for all N.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

import trio
import trio.testing

from actors import open_system
from benchmarks._harness import Case, Sample, Watch
from benchmarks._processes import run_once
from benchmarks._raw import Meter
from benchmarks._tenure import Tally
from lifecycle import open_runtime

COUNT = 10_000
NAMES = {"actors": "tenure.stop_idle", "services": "tenure.stop_services", "tasks": "raw.cancel_idle"}
#: Started before the memory is read, so that what the first one brings along is not counted.
_FIRST = 100


def resident() -> int:
    """Bytes of resident memory of this process, after a collection."""
    gc.collect()
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


async def _actors(n: int, start: Watch, stop: Watch) -> float:
    meter = Meter()
    with contextlib.ExitStack() as ending:  # left after the system, so that the watch runs until its report is there
        async with open_system(name="bench") as system:
            refs = [await system.spawn(Tally, meter) for _ in range(_FIRST)]
            await trio.testing.wait_all_tasks_blocked()
            before = resident()
            with start:
                refs += [await system.spawn(Tally, meter) for _ in range(n)]
                await trio.testing.wait_all_tasks_blocked()
            each = (resident() - before) / n
            ending.enter_context(stop)
    return each


async def _services(n: int, start: Watch, stop: Watch) -> float:
    with contextlib.ExitStack() as ending:
        async with open_runtime() as context:
            part = context.component("part")

            async def serve() -> None:
                await part.stopping.wait()

            for _ in range(_FIRST):
                part.group.spawn_service(serve)
            await trio.testing.wait_all_tasks_blocked()
            before = resident()
            with start:
                for _ in range(n):
                    part.group.spawn_service(serve)
                await trio.testing.wait_all_tasks_blocked()
            each = (resident() - before) / n
            ending.enter_context(stop)
    return each


async def _tasks(n: int, start: Watch, stop: Watch) -> float:
    with contextlib.ExitStack() as ending:
        async with trio.open_nursery() as nursery:
            for _ in range(_FIRST):
                nursery.start_soon(trio.sleep_forever)
            await trio.testing.wait_all_tasks_blocked()
            before = resident()
            with start:
                for _ in range(n):
                    nursery.start_soon(trio.sleep_forever)
                await trio.testing.wait_all_tasks_blocked()
            each = (resident() - before) / n
            ending.enter_context(stop)
            nursery.cancel_scope.cancel()
    return each


def cases(count: int = COUNT, kinds: Sequence[str] = ("actors", "tasks")) -> list[Case]:
    """Each kind; each sample is of the stop, from a fresh process, and has the start and the memory as `extra`."""

    def case(name: str, kind: str) -> Case:
        return Case(name, "idle", count, functools.partial(_measured, kind), fixed=True)

    return [case(NAMES[kind], kind) for kind in kinds]


def _measured(kind: str, n: int) -> Sample:
    answer = run_once([sys.executable, "-m", "benchmarks._idle", kind, str(n)], within=120)
    start, stop = answer["start"], answer["stop"]
    extra = {"bytes_each": answer["bytes_each"], "start_cpu": start["cpu"], "start_wall": start["wall"]}
    return Sample(n, stop["wall"], stop["cpu"], extra)


def main(kind: str, n: int) -> None:
    """Measure one kind and print its line."""
    start, stop = Watch(), Watch()
    each = trio.run({"actors": _actors, "services": _services, "tasks": _tasks}[kind], n, start, stop)
    times = {name: {"wall": watch.wall, "cpu": watch.cpu} for name, watch in (("start", start), ("stop", stop))}
    print(json.dumps({"kind": kind, "n": n, "bytes_each": each, **times}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
