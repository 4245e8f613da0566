"""Interleaved measuring: rounds, shuffled families of cases, and ratios taken inside a round.

A rate by itself says little on a machine that others use too. So every figure is a ratio of two cases that
ran in the same round, a moment apart, and the median of that ratio over the rounds. The garbage collector
runs with its default thresholds; it is emptied before each case, so that no case pays for the one before.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

import attrs
import trio

By = Literal["cpu", "wall"]
_NOTHING: Final[Mapping[str, float]] = MappingProxyType({})


class CaseFailed(Exception):
    """A case that may be missing (a peer, the BEAM) could not run; the message says why, the others go on."""


@attrs.frozen
class Sample:
    """One run of a case: `n` operations in `wall` and `cpu` seconds.

    `cpu` counts every thread of the measuring process, and is None where it would leave out other processes.
    `extra` holds what else the case measured.
    """

    n: int
    wall: float
    cpu: float | None
    extra: Mapping[str, float] = _NOTHING

    def rate(self, by: By) -> float | None:
        """Operations per second of CPU or wall time, None where that time is unknown or below the clock's step."""
        seconds = self.cpu if by == "cpu" else self.wall
        return self.n / seconds if seconds else None


class Watch:
    """Times the region inside its `with` block, by the wall and by the CPU of this process."""

    def __init__(self) -> None:
        self.wall = 0.0
        self.cpu = 0.0
        self.extra: dict[str, float] = {}

    def __enter__(self) -> Watch:
        self.wall, self.cpu = -time.perf_counter(), -time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu += time.process_time()
        self.wall += time.perf_counter()


@attrs.frozen
class Case:
    """Something to time: `run(n)` does about `n` operations and says how many, and how long they took.

    Cases of one `family` are run next to each other in every round. One that is `optional` may raise
    `CaseFailed`: it is then left out of all rounds, with its reason. A `fixed` one keeps its n whatever the scale, and
    has no warm-up: it runs in a fresh process each time.
    """

    name: str
    family: str
    n: int
    run: Callable[[int], Sample]
    optional: bool = False
    fixed: bool = False

    def scaled(self, scale: float) -> int:
        """Its n at a scale; at least 1."""
        return self.n if self.fixed else max(1, int(self.n * scale))


def trio_case(name: str, family: str, n: int, body: Callable[[Watch, int], Awaitable[int | None]]) -> Case:
    """A case in a `trio.run` of its own. The body enters the watch around what counts, and may return another n."""

    def run(wanted: int) -> Sample:
        watch = Watch()

        async def main() -> int | None:
            return await body(watch, wanted)

        done = trio.run(main)
        return Sample(wanted if done is None else done, watch.wall, watch.cpu, watch.extra)

    return Case(name, family, n, run)


class Results:
    """The samples of every case, aligned by round."""

    def __init__(self) -> None:
        self.samples: dict[str, list[Sample]] = {}
        self.failed: dict[str, str] = {}

    def rate(self, case: str, by: By) -> float | None:
        """The median rate of a case, None when it did not run or has no such time."""
        rates = [sample.rate(by) for sample in self.samples.get(case, ())]
        known = [rate for rate in rates if rate is not None]
        return statistics.median(known) if known else None

    def extra(self, case: str, key: str) -> float | None:
        """The median of what a case measured beside its time, None when there is no such figure."""
        found = [sample.extra[key] for sample in self.samples.get(case, ()) if key in sample.extra]
        return statistics.median(found) if found else None

    def ratio(self, ours: str, theirs: str, by: By = "cpu") -> float | None:
        """How many times the rate of `theirs` the case `ours` reaches: the median of the rounds' ratios."""
        ratios = self.ratios(ours, theirs, by)
        return statistics.median(ratios) if ratios else None

    def cost(self, ours: str, theirs: str, by: By = "cpu") -> float | None:
        """How many times the time of `theirs` the case `ours` takes for as many operations; less is better."""
        ratios = self.ratios(theirs, ours, by)
        return statistics.median(ratios) if ratios else None

    def ratios(self, ours: str, theirs: str, by: By = "cpu") -> list[float]:
        """One ratio of rates a round, empty when one of the two is missing."""
        pairs = zip(self.samples.get(ours, ()), self.samples.get(theirs, ()), strict=False)
        rates = ((mine.rate(by), other.rate(by)) for mine, other in pairs)
        return [mine / other for mine, other in rates if mine is not None and other is not None]


def interleave(
    cases: Sequence[Case],
    rounds: int,
    *,
    scale: float = 1.0,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> Results:
    """Run every case once a round, shuffled by `seed` inside its family, after a short warm-up that is not counted.

    `scale` multiplies the n of every case that is not fixed. An error of a case that is not optional ends the run.
    """
    results = Results()
    order = random.Random(seed)
    progress("warm-up")
    for case in cases:
        if not case.fixed:
            _try(case, case.scaled(scale / 10), results)
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        for family in _families(cases):
            order.shuffle(family)
            for case in family:
                sample = _try(case, case.scaled(scale), results)
                if sample is not None:
                    results.samples.setdefault(case.name, []).append(sample)
    for name in results.failed:
        results.samples.pop(name, None)
    return results


def _try(case: Case, n: int, results: Results) -> Sample | None:
    if case.name in results.failed:
        return None
    gc.collect()
    try:
        return case.run(n)
    except CaseFailed as failure:
        if not case.optional:
            raise
        results.failed[case.name] = str(failure)
        return None


def _families(cases: Iterable[Case]) -> list[list[Case]]:
    families: dict[str, list[Case]] = {}
    for case in cases:
        families.setdefault(case.family, []).append(case)
    return list(families.values())
