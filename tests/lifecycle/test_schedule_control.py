"""Schedules: what can be asked of a running one: a run now, a pause, other settings."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from lifecycle import (
    FixedDelay,
    FixedRate,
    InvalidSchedule,
    Schedule,
    ScheduleNotRunning,
    ScheduleSettings,
    bounded_catch_up,
)

from ._schedules import Job, driven, virtual

# -- run now


@pytest.mark.row("runtime:R73")
@virtual
async def test_a_run_that_is_asked_for_starts_at_once_and_the_grid_stays() -> None:
    job = Job(1)
    async with driven(Schedule("job", job, FixedRate(10))) as schedule:
        await trio.sleep(13)
        assert schedule.run_now() == "started"
        await trio.sleep(12)
    assert job.starts == [0, 10, 13, 20]


@pytest.mark.row("runtime:R73")
@virtual
async def test_one_run_that_is_asked_for_waits_for_a_slot() -> None:
    job = Job(4)
    async with driven(Schedule("job", job, FixedRate(10))) as schedule:
        await trio.sleep(1)
        assert [schedule.run_now() for _ in range(3)] == ["queued", "already_queued", "already_queued"]
        await trio.sleep(9.5)
    assert job.starts == [0, 4, 10]


@pytest.mark.row("runtime:R73")
@virtual
async def test_a_fixed_delay_counts_from_the_run_that_was_asked_for() -> None:
    job = Job(1)
    async with driven(Schedule("job", job, FixedDelay(10))) as schedule:
        await trio.sleep(5)
        schedule.run_now()
        await trio.sleep(13)
    assert job.starts == [0, 5, 16]


@pytest.mark.row("runtime:R73")
@virtual
async def test_no_run_can_be_asked_of_a_schedule_that_nothing_drives() -> None:
    schedule = Schedule("job", Job(10), FixedRate(10))
    with pytest.raises(ScheduleNotRunning, match="idle"):
        schedule.run_now()
    async with driven(schedule):
        await trio.sleep(1)
        schedule.stop()
        with pytest.raises(ScheduleNotRunning, match="stopping"):
            schedule.run_now()


# -- pause


@pytest.mark.row("runtime:R73")
@virtual
async def test_a_pause_passes_ticks_over_and_the_grid_stays() -> None:
    job = Job(1)
    async with driven(Schedule("job", job, FixedRate(10), missed=bounded_catch_up(9))) as schedule:
        await trio.sleep(10.5)
        assert schedule.pause()
        assert not schedule.pause()
        await trio.sleep(35)
        assert (schedule.state, job.starts, job.ends) == ("paused", [0, 10], [1, 11])  # the run in hand went on
        assert schedule.snapshot().next_due is None
        assert schedule.run_now() == "started"
        await trio.sleep(2)
        assert schedule.resume()
        assert not schedule.resume()
        await wait_all_tasks_blocked()
        assert schedule.snapshot().next_due == 2.5
        await trio.sleep(3)
    assert job.starts == [0, 10, 45.5, 50]
    snapshot = schedule.snapshot()
    assert (snapshot.passed_over, snapshot.skips) == (3, 0)


@pytest.mark.row("runtime:R73")
@virtual
async def test_a_pause_skips_what_waits_and_a_fixed_delay_is_due_at_once_after_it() -> None:
    job = Job(25)
    async with driven(Schedule("job", job, FixedRate(10), missed=bounded_catch_up(9))) as schedule:
        await trio.sleep(21)
        schedule.pause()
        assert (schedule.snapshot().pending, schedule.snapshot().skips) == (0, 2)
    delayed = Job(1)
    async with driven(Schedule("job", delayed, FixedDelay(10))) as schedule:
        await trio.sleep(5)
        schedule.pause()
        await trio.sleep(25)
        schedule.resume()
        await trio.sleep(1.5)
    assert delayed.starts == [0, 30]
    assert schedule.snapshot().passed_over == 0


# -- live change


@pytest.mark.row("runtime:R73")
@virtual
async def test_a_new_rate_goes_on_from_the_last_tick() -> None:
    job = Job()
    async with driven(Schedule("job", job, FixedRate(10))) as schedule:
        await trio.sleep(12)
        schedule.reconfigure(attrs.evolve(schedule.settings, trigger=FixedRate(4)))
        await trio.sleep(11)  # 14, 18, 22
        schedule.reconfigure(attrs.evolve(schedule.settings, trigger=FixedRate(20, initial_delay=99)))
        await trio.sleep(40)  # 42, 62
    assert job.starts == [0, 10, 14, 18, 22, 42, 62]


@pytest.mark.row("runtime:R73")
@virtual
async def test_a_new_rate_whose_first_tick_is_past_is_due_once_and_now() -> None:
    job = Job()
    async with driven(Schedule("job", job, FixedRate(100), missed=bounded_catch_up(50))) as schedule:
        await trio.sleep(50)
        schedule.reconfigure(attrs.evolve(schedule.settings, trigger=FixedRate(7)))
        await trio.sleep(15)
    assert job.starts == [0, 50, 57, 64]
    assert schedule.snapshot().skips == 0


@pytest.mark.row("runtime:R73")
@virtual
async def test_a_change_of_the_kind_of_trigger() -> None:
    job = Job(1)
    async with driven(Schedule("job", job, FixedRate(10))) as schedule:
        await trio.sleep(12)
        schedule.reconfigure(ScheduleSettings(FixedDelay(5)))
        await trio.sleep(11)  # 16 and 22
        schedule.reconfigure(ScheduleSettings(FixedRate(3)))
        await trio.sleep(3.5)  # 25
    assert job.starts == [0, 10, 16, 22, 25]


@pytest.mark.row("runtime:R73")
@virtual
async def test_slots_policy_and_time_limit_change_while_runs_are_in_hand() -> None:
    job = Job(98)
    async with driven(Schedule("job", job, FixedRate(10), missed=bounded_catch_up(5))) as schedule:
        await trio.sleep(45)
        assert (schedule.active, schedule.snapshot().pending) == (1, 4)
        schedule.reconfigure(attrs.evolve(schedule.settings, max_active=3, max_run_time=7))
        await wait_all_tasks_blocked()
        assert (schedule.active, schedule.snapshot().pending) == (3, 2)
        schedule.reconfigure(attrs.evolve(schedule.settings, max_active=1, missed="skip"))
        assert schedule.snapshot().pending == 0
        await trio.sleep(8)
        assert (schedule.active, schedule.snapshot().timed_out) == (1, 2)  # the first keeps its limit: none
        await trio.sleep(60)
    assert schedule.snapshot().overlaps == 2
    assert schedule.snapshot().skips == 7  # two that waited, and those at 50 to 90
    assert job.starts == [0, 45, 45, 100, 110]


@pytest.mark.row("runtime:R73")
@virtual
async def test_a_change_that_cannot_work_changes_nothing() -> None:
    job = Job()
    async with driven(Schedule("job", job, FixedRate(10), max_active=2)) as schedule:
        await trio.sleep(5)
        before = schedule.settings
        with pytest.raises(InvalidSchedule):
            schedule.reconfigure(attrs.evolve(before, trigger=FixedDelay(1)))
        assert schedule.settings is before
        await trio.sleep(6)
    assert job.starts == [0, 10]
