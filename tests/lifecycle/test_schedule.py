"""Schedules: when runs start, what a slow one costs, what is refused, and the picture that they give."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import nan
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from lifecycle import (
    FixedDelay,
    FixedRate,
    InvalidSchedule,
    Schedule,
    ScheduleInUse,
    ScheduleNotRunning,
    bounded_catch_up,
    leaves,
)

from ._schedules import Job, driven, fails, jump, virtual

# -- fixed delay


@pytest.mark.row("runtime:R59")
@virtual
async def test_a_fixed_delay_counts_from_the_end_of_each_run() -> None:
    job = Job(2)
    async with driven(Schedule("job", job, FixedDelay(3, initial_delay=1.5))):
        await trio.sleep(17)
    assert job.starts == [1.5, 6.5, 11.5, 16.5]


@pytest.mark.row("runtime:R59")
@virtual
async def test_a_fixed_delay_counts_from_the_end_of_a_run_that_failed_or_timed_out() -> None:
    job = Job(4)

    async def fail_late() -> None:
        await job()
        raise ValueError

    async with driven(Schedule("job", fail_late, FixedDelay(3))) as schedule:
        await trio.sleep(15)
    assert job.starts == [0, 7, 14]
    assert schedule.snapshot().failed == 2
    slow = Job(4)
    async with driven(Schedule("job", slow, FixedDelay(3), max_run_time=1)):
        await trio.sleep(9)
    assert slow.starts == [0, 4, 8]


# -- fixed rate


@pytest.mark.row("runtime:R60")
@virtual
async def test_after_a_run_of_several_periods_the_next_start_is_on_the_grid() -> None:
    job = Job(0, first=34)
    async with driven(Schedule("job", job, FixedRate(10, initial_delay=5))) as schedule:
        await trio.sleep(66)
    assert job.starts == [5, 45, 55, 65]
    assert (schedule.snapshot().skips, schedule.snapshot().overlaps) == (3, 0)


@pytest.mark.row("runtime:R60")
@virtual
async def test_after_a_stall_of_the_whole_program_the_next_start_is_on_the_grid() -> None:
    job = Job(0)
    async with driven(Schedule("job", job, FixedRate(10))) as schedule:
        await trio.sleep(10.5)
        jump(34)
        await wait_all_tasks_blocked()
        assert job.starts == [0, 10, 44.5]  # one late start for the ticks at 20, 30 and 40
        await trio.sleep(20)
    assert job.starts == [0, 10, 44.5, 50, 60]
    snapshot = schedule.snapshot()
    assert snapshot.skips == 2
    assert snapshot.start_delays.counts[4] == 1  # more than a second, at most ten


@pytest.mark.row("runtime:R60")
@virtual
async def test_a_grid_does_not_drift_over_many_periods_that_no_float_can_hold() -> None:
    job = Job(0)
    async with driven(Schedule("job", job, FixedRate(0.1))):
        await trio.sleep(1000.05)
    assert len(job.starts) == 10_001
    assert job.starts[-1] == 10_000 * 0.1


@pytest.mark.row("runtime:R61")
@pytest.mark.parametrize(
    ("missed", "extra", "skips"),
    [("skip", 0, 5), ("coalesce_latest", 1, 4), (bounded_catch_up(3), 3, 2), (bounded_catch_up(9), 5, 0)],
)
@virtual
async def test_what_a_run_of_five_ticks_leaves_to_be_made_up_for(missed: Any, extra: int, skips: int) -> None:
    job = Job(0, first=55)
    async with driven(Schedule("job", job, FixedRate(10), missed=missed)) as schedule:
        await trio.sleep(54)
        assert (len(job.starts), schedule.snapshot().skips) == (1, skips)
        assert schedule.snapshot().pending == extra
        await trio.sleep(2)
        assert len(job.starts) == 1 + extra
        assert schedule.snapshot().pending == 0
        await trio.sleep(5)
    assert len(job.starts) == 2 + extra  # the tick at 60
    assert job.most == 1
    assert (schedule.snapshot().skips, schedule.snapshot().overlaps) == (skips, 0)


@pytest.mark.row("runtime:R62")
@pytest.mark.parametrize("slots", [1, 2, 5])
@virtual
async def test_there_are_never_more_active_runs_than_the_bound_and_overlaps_are_counted(slots: int) -> None:
    job = Job(35)
    async with driven(Schedule("job", job, FixedRate(10), max_active=slots)) as schedule:
        await trio.sleep(199)
        snapshot = schedule.snapshot()
    assert job.most == min(slots, 4)  # four fit side by side
    assert snapshot.overlaps == (0 if slots == 1 else len(job.starts) - 1)
    assert len(job.starts) == {1: 5, 2: 10, 5: 20}[slots]
    assert len(job.starts) + snapshot.skips == 20


@pytest.mark.row("runtime:R62")
@virtual
async def test_after_a_stall_as_many_runs_start_as_there_are_free_slots() -> None:
    job = Job(5)
    schedule = Schedule("job", job, FixedRate(10), max_active=3, missed=bounded_catch_up(2))
    async with driven(schedule):
        await trio.sleep(9)
        jump(70)  # ticks at 10 to 70
        await wait_all_tasks_blocked()
        snapshot = schedule.snapshot()
        assert (job.active, snapshot.active, snapshot.pending, snapshot.skips) == (3, 3, 2, 2)
        assert snapshot.overlaps == 2
        await trio.sleep(5.5)
    assert job.most == 3
    assert job.starts == [0, 79, 79, 79, 80 + 4, 80 + 4]


@pytest.mark.row("runtime:R65")
@pytest.mark.parametrize("missed", ["coalesce_latest", bounded_catch_up(1)])
@virtual
async def test_a_waiting_run_starts_when_the_one_before_ends_and_not_at_a_tick(missed: Any) -> None:
    job = Job(0, first=13)
    async with driven(Schedule("job", job, FixedRate(10), missed=missed)) as schedule:
        await trio.sleep(19)
    assert job.starts == [0, 13]
    assert schedule.snapshot().last_start_delay == 3


# -- mismatches


@pytest.mark.row("runtime:R63")
@pytest.mark.parametrize("period", [0, -1, nan, float("inf"), 1e-6, True, "1", None])
@pytest.mark.parametrize("trigger", [FixedDelay, FixedRate])
@virtual
async def test_a_period_that_is_no_period_is_refused(trigger: Any, period: Any) -> None:
    with pytest.raises(InvalidSchedule, match="period") as raised:
        trigger(period)
    assert raised.value.what == trigger.__name__


@pytest.mark.row("runtime:R63")
@pytest.mark.parametrize(
    "options",
    [{"max_active": 2}, {"missed": "coalesce_latest"}, {"missed": bounded_catch_up(2)}],
    ids=str,
)
@virtual
async def test_a_fixed_delay_with_a_policy_for_grids_is_refused(options: Any) -> None:
    with pytest.raises(InvalidSchedule, match="FixedDelay"):
        Schedule("job", Job(), FixedDelay(1), **options)
    Schedule("job", Job(), FixedRate(1), **options)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: FixedRate(1, initial_delay=-1), "initial_delay"),
        (lambda: FixedDelay(1, jitter=nan), "jitter"),
        (lambda: FixedRate(1, jitter=2), "jitter"),
        (lambda: bounded_catch_up(0), "runs"),
        (lambda: bounded_catch_up(10_001), "runs"),
        (lambda: Schedule(" ", fails, FixedRate(1)), "name"),
        (lambda: Schedule("job", None, FixedRate(1)), "job"),  # type: ignore[arg-type]
        (lambda: Schedule("job", fails, 5), "trigger"),  # type: ignore[arg-type]
        (lambda: Schedule("job", fails, FixedRate(1), max_active=0), "max_active"),
        (lambda: Schedule("job", fails, FixedRate(1), max_active=True), "max_active"),
        (lambda: Schedule("job", fails, FixedRate(1), missed="later"), "missed"),  # type: ignore[arg-type]
        (lambda: Schedule("job", fails, FixedRate(1), max_run_time=0), "max_run_time"),
        (lambda: Schedule("job", fails, FixedRate(1), on_failure="ignore"), "on_failure"),  # type: ignore[arg-type]
    ],
)
@virtual
async def test_a_mistake_is_named_with_its_field(make: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidSchedule, match=f"{field} (must|takes)"):
        make()


# -- the picture


@pytest.mark.row("runtime:R73")
@virtual
async def test_the_snapshot_has_histograms_of_run_times_and_start_delays() -> None:
    job = Job(0, first=25)
    async with driven(Schedule("job", job, FixedRate(10), missed="coalesce_latest")) as schedule:
        await trio.sleep(34)
        snapshot = schedule.snapshot()
    assert (snapshot.name, snapshot.mode, snapshot.state, snapshot.running) == ("job", "fixed_rate", "running", False)
    assert snapshot.next_due == 6
    assert snapshot.run_times.bounds == (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600)
    assert snapshot.run_times.counts == (2, 0, 0, 0, 0, 1, 0, 0, 0)  # 25 s; twice nothing
    assert (snapshot.run_times.count, snapshot.run_times.total) == (3, 25)
    assert (snapshot.last_elapsed, snapshot.max_elapsed) == (0, 25)
    assert snapshot.start_delays.counts == (2, 0, 0, 0, 1, 0, 0, 0, 0)  # the one for the tick at 20, at 25
    assert snapshot.last_start_delay == 0


@virtual
async def test_the_bound_of_a_bucket_belongs_to_it() -> None:
    async with driven(Schedule("job", Job(10), FixedDelay(1))) as schedule:
        await trio.sleep(10.5)
        assert schedule.snapshot().run_times.counts == (0, 0, 0, 0, 1, 0, 0, 0, 0)


@virtual
async def test_an_idle_schedule_has_a_snapshot_too() -> None:
    snapshot = Schedule("job", fails, FixedDelay(1)).snapshot()
    assert (snapshot.state, snapshot.mode, snapshot.next_due, snapshot.running) == ("idle", "fixed_delay", None, False)
    assert (snapshot.last_elapsed, snapshot.max_elapsed, snapshot.last_start_delay) == (None, None, None)


@virtual
async def test_the_texts_of_the_errors_say_what_to_do() -> None:
    assert "another" in str(ScheduleInUse("job"))
    assert re.search("run\\(\\)", str(ScheduleNotRunning("job", "idle")))
    assert leaves(InvalidSchedule("FixedRate", "period ...")) != []
