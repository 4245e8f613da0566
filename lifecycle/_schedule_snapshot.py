"""What a schedule counts, and the picture of it that it gives."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Literal, final

import attrs

if TYPE_CHECKING:
    from ._schedule_backlog import Backlog
    from ._schedule_run import ScheduledRun

BOUNDS: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0)
"""Seconds: the upper bounds of the histograms' buckets, each included. A last bucket holds what is longer."""

ScheduleState = Literal["idle", "running", "paused", "stopping"]
"""Nothing drives it; it starts runs; it starts none until resumed; it waits for the end of those in hand."""

RunEnd = Literal["completed", "failed", "timed_out", "cancelled", "rejected"]
"""How a run ended. A *rejected* one could not be started."""


@attrs.frozen
class Histogram:
    """Durations in seconds, counted in buckets."""

    bounds: tuple[float, ...]
    """The upper bound of each bucket but the last, each included in its bucket."""
    counts: tuple[int, ...]
    """One more than there are bounds: the last is for what is longer than them all."""
    total: float
    """The sum of the durations."""

    @property
    def count(self) -> int:
        """How many durations there are."""
        return sum(self.counts)


@attrs.frozen
class ScheduleSnapshot:
    """A schedule as it stood at one instant. Durations are in seconds of Trio's clock.

    Every run is counted once: started ones are `active`, `runs` or `failures`; rejected ones are `failures` too. Every
    tick became a run, or is in `skips`, `pending` or `passed_over`.
    """

    name: str
    mode: str
    """`fixed_delay`, `fixed_rate` or `cron`."""
    state: ScheduleState
    active: int
    """Runs in hand."""
    pending: int
    """Runs for missed ticks that wait for a slot."""
    runs: int
    """Runs that completed."""
    failures: int
    """Runs that did not: the sum of the next four."""
    failed: int
    timed_out: int
    cancelled: int
    rejected: int
    skips: int
    """Ticks that were not run because no slot was free, or that still waited for one at a pause or at the end."""
    passed_over: int
    """Ticks that came during a pause."""
    overlaps: int
    """Runs that started while another was active."""
    next_due: float | None
    """Seconds until the next run is due, at least 0; None when that is not known: paused, or a run has to end first."""
    last_start_delay: float | None
    """How long after its time the last run started."""
    last_elapsed: float | None
    """How long the last run that ended took."""
    max_elapsed: float | None
    start_delays: Histogram
    run_times: Histogram
    """Of all runs that were started, however they ended."""

    @property
    def running(self) -> bool:
        """Whether a run is in hand."""
        return self.active > 0


@final
class Durations:
    """A histogram that is being filled."""

    __slots__ = ("counts", "last", "longest", "total")

    def __init__(self) -> None:
        self.counts: list[int] = [0] * (len(BOUNDS) + 1)
        self.total: float = 0.0
        self.last: float | None = None
        self.longest: float | None = None

    def add(self, seconds: float) -> None:
        """Count one duration; a negative one, from a clock that was set, counts as 0."""
        seconds = max(0.0, seconds)
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds
        self.last = seconds
        self.longest = seconds if self.longest is None else max(seconds, self.longest)

    def histogram(self) -> Histogram:
        """What is counted so far."""
        return Histogram(BOUNDS, tuple(self.counts), self.total)


@final
class Accounts:
    """What a schedule counts beside its backlog."""

    __slots__ = ("ends", "passed_over", "run_times", "start_delays")

    def __init__(self) -> None:
        self.ends: dict[RunEnd, int] = {}
        self.passed_over: int = 0
        self.start_delays: Durations = Durations()
        self.run_times: Durations = Durations()

    def ended(self, run: ScheduledRun, now: float) -> None:
        """Count the end of a run, which is now."""
        self.ends[run.end] = self.ends.get(run.end, 0) + 1
        if run.started is not None:
            self.start_delays.add(run.started - run.due)
            self.run_times.add(now - run.started)

    def snapshot(
        self, name: str, mode: str, state: ScheduleState, backlog: Backlog, next_due: float | None
    ) -> ScheduleSnapshot:
        """The picture of now."""
        ends = self.ends
        return ScheduleSnapshot(
            name=name,
            mode=mode,
            state=state,
            active=backlog.active,
            pending=backlog.pending,
            runs=ends.get("completed", 0),
            failures=sum(count for end, count in ends.items() if end != "completed"),
            failed=ends.get("failed", 0),
            timed_out=ends.get("timed_out", 0),
            cancelled=ends.get("cancelled", 0),
            rejected=ends.get("rejected", 0),
            skips=backlog.skips,
            passed_over=self.passed_over,
            overlaps=backlog.overlaps,
            next_due=next_due,
            last_start_delay=self.start_delays.last,
            last_elapsed=self.run_times.last,
            max_elapsed=self.run_times.longest,
            start_delays=self.start_delays.histogram(),
            run_times=self.run_times.histogram(),
        )
