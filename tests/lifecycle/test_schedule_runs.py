"""Schedules: how a run ends, once, and how a schedule does."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any

import pytest
import trio

import lifecycle._schedule
from lifecycle import (
    FixedDelay,
    FixedRate,
    Schedule,
    ScheduleControl,
    ScheduleInUse,
    bounded_catch_up,
)

from ._schedules import Job, component, driven, fails, virtual

# -- how a run ends


def constructs_badly() -> Awaitable[None]:
    raise ValueError("planted")


def not_awaitable() -> Any:
    return 7


async def sleeps() -> None:
    await trio.sleep_forever()


async def fails_while_cancelled() -> None:
    try:
        await trio.sleep_forever()
    finally:
        raise ValueError("planted")


@pytest.mark.row("runtime:R66")
@pytest.mark.parametrize("in_group", [True, False])
@pytest.mark.parametrize(
    ("job", "limit", "end"),
    [
        (constructs_badly, None, "failed"),
        (not_awaitable, None, "failed"),
        (fails, None, "failed"),
        (sleeps, 3, "timed_out"),
        (fails_while_cancelled, 3, "failed"),
    ],
)
@virtual
async def test_a_run_that_fails_is_settled_once_and_the_schedule_goes_on(
    job: Any, limit: float | None, end: str, in_group: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with component() as context:
        schedule = Schedule("job", job, FixedRate(10), max_run_time=limit)
        group = context.group if in_group else None
        context.group.spawn(schedule.run, group)
        await trio.sleep(5)
        snapshot = schedule.snapshot()
        assert (snapshot.active, snapshot.runs, snapshot.failures) == (0, 0, 1)
        assert getattr(snapshot, end) == 1
        assert context.group.outcomes.failed == (1 if in_group else 0)
        await trio.sleep(10)
        assert schedule.snapshot().failures == 2
        assert schedule.snapshot().run_times.count == 2
        schedule.stop()
    logged = [record for record in caplog.records if "schedule job" in record.getMessage()]
    assert len(logged) == (2 if end == "failed" else 0)
    assert all(record.exc_info is not None and record.levelno == logging.ERROR for record in logged)


@pytest.mark.row("runtime:R66")
@pytest.mark.parametrize("in_group", [True, False])
@virtual
async def test_a_run_that_is_cancelled_is_settled_once(in_group: bool) -> None:
    async with component() as context:
        schedule = Schedule("job", sleeps, FixedRate(10))
        context.group.spawn(schedule.run, context.group if in_group else None)
        await trio.sleep(5)
        assert schedule.active == 1
        context.group.close("kill")
        await context.group.wait_over()
        snapshot = schedule.snapshot()
        assert (snapshot.active, snapshot.runs, snapshot.failures, snapshot.cancelled) == (0, 0, 1, 1)


@pytest.mark.row("runtime:R66")
@virtual
async def test_a_run_that_fails_while_it_is_cancelled_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    async with driven(Schedule("job", fails_while_cancelled, FixedRate(10))) as schedule:
        await trio.sleep(5)
    assert (schedule.snapshot().failures, schedule.snapshot().failed, schedule.active) == (1, 1, 0)
    assert "planted" in caplog.text


@pytest.mark.row("runtime:R66")
@virtual
async def test_a_run_that_fails_beside_its_cancellation_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleeps)
            nursery.start_soon(fails_while_cancelled)

    async with driven(Schedule("job", both, FixedRate(10))) as schedule:
        await trio.sleep(5)
    assert (schedule.snapshot().failed, schedule.snapshot().cancelled, schedule.active) == (1, 0, 0)
    assert "planted" in caplog.text


@pytest.mark.row("runtime:R66")
@virtual
async def test_a_run_that_never_got_its_first_step_is_settled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    start = lifecycle._schedule._start_in

    def start_and_kill(group: Any, run: Any) -> None:
        start(group, run)
        group.close("kill")

    monkeypatch.setattr(lifecycle._schedule, "_start_in", start_and_kill)
    async with component() as context:
        job = Job()
        schedule = Schedule("job", job, FixedRate(10))
        context.group.spawn(schedule.run, context.group)
        await context.group.wait_over()
        snapshot = schedule.snapshot()
        assert job.starts == []
        assert (snapshot.active, snapshot.failures, snapshot.cancelled) == (0, 1, 1)
        assert snapshot.run_times.count == 0  # it had not started


@pytest.mark.row("runtime:R66")
@virtual
async def test_a_run_that_the_group_refuses_is_settled_once(caplog: pytest.LogCaptureFixture) -> None:
    async with component() as context:
        job = Job()
        schedule = Schedule("job", job, FixedRate(10, initial_delay=5), missed="coalesce_latest")
        context.group.spawn(schedule.run, context.group)
        await trio.sleep(1)
        context.group.spawn(fails)
        await trio.sleep(7)
        assert context.group.state == "poisoned"
        snapshot = schedule.snapshot()
        assert job.starts == []
        assert (snapshot.active, snapshot.failures, snapshot.rejected) == (0, 1, 1)
        assert snapshot.run_times.count == 0
    assert "rejected" in caplog.text


@pytest.mark.row("runtime:R66")
@virtual
async def test_what_waits_is_not_offered_to_a_group_that_has_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with component() as context:
        schedule = Schedule("job", Job(45), FixedRate(10), missed=bounded_catch_up(9))
        context.group.spawn(schedule.run, context.group)
        await trio.sleep(41)
        context.group.spawn(fails)
        await trio.sleep(5)
        snapshot = schedule.snapshot()
        assert (snapshot.active, snapshot.runs, snapshot.rejected) == (0, 1, 1)
        assert (snapshot.pending, snapshot.skips) == (0, 3)
    assert caplog.text.count("was rejected") == 1


@pytest.mark.row("runtime:R67")
@pytest.mark.parametrize("in_group", [True, False])
@virtual
async def test_a_run_that_exceeds_its_time_gives_its_slot_back_once_and_a_controlled_job_goes_on(
    in_group: bool,
) -> None:
    starts: list[float] = []

    async def controlled() -> ScheduleControl:
        starts.append(trio.current_time())
        if len(starts) == 1:
            await trio.sleep_forever()
        return ScheduleControl.STOP

    async with component() as context:
        schedule = Schedule("job", controlled, FixedDelay(4), max_run_time=3)
        driver = context.group.spawn(schedule.run, context.group if in_group else None)
        began = trio.current_time()
        await trio.sleep(3.5)
        assert (schedule.active, schedule.snapshot().timed_out) == (0, 1)
        await driver.wait()
    assert starts == [began, began + 7]
    snapshot = schedule.snapshot()
    assert (snapshot.runs, snapshot.failures, snapshot.active) == (1, 1, 0)
    assert snapshot.max_elapsed == 3


@virtual
async def test_a_run_that_ends_in_its_last_instant_has_not_timed_out() -> None:
    async def stubborn() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(5)

    async with driven(Schedule("job", stubborn, FixedDelay(1), max_run_time=3)) as schedule:
        await trio.sleep(5.5)
    assert (schedule.snapshot().runs, schedule.snapshot().failures) == (1, 0)


@pytest.mark.parametrize("in_group", [True, False])
@virtual
async def test_by_on_failure_raise_the_failure_itself_leaves_the_schedule(
    in_group: bool, caplog: pytest.LogCaptureFixture
) -> None:
    error = ValueError("planted")

    async def fail_second() -> None:
        if trio.current_time() > began:
            raise error
        await trio.sleep_forever()

    async with component() as context:
        began = trio.current_time()
        schedule = Schedule("job", fail_second, FixedRate(10), max_active=2, on_failure="raise")
        with pytest.raises(ValueError) as raised:
            await schedule.run(context.group if in_group else None)
        assert raised.value is error
        assert schedule.state == "idle"
        assert trio.current_time() == began + 10
        assert schedule.active == (1 if in_group else 0)  # of the group, which decides about it
        assert "run of schedule" not in caplog.text
        context.group.close("kill")


# -- the end


@pytest.mark.row("runtime:R68")
@pytest.mark.parametrize("trigger", [FixedDelay(2), FixedRate(2)])
@virtual
async def test_a_job_that_returns_stop_ends_its_schedule(trigger: Any) -> None:
    runs: list[int] = []

    async def twice() -> ScheduleControl:
        runs.append(1)
        return ScheduleControl.STOP if len(runs) == 2 else ScheduleControl.CONTINUE

    async with component() as context:
        schedule = Schedule("job", twice, trigger)
        driver = context.group.spawn(schedule.run, context.group)
        await trio.sleep(10)
        assert driver.outcome == "completed"
        assert context.group.task_count == 0
        assert (len(runs), schedule.state, schedule.snapshot().runs) == (2, "idle", 2)


@virtual
async def test_at_the_stop_of_the_group_no_run_starts_and_those_in_hand_finish() -> None:
    job = Job(15)
    async with component() as context:
        schedule = Schedule("job", job, FixedRate(10), missed="coalesce_latest")
        context.group.spawn(schedule.run, context.group)
        await trio.sleep(12)
        assert schedule.snapshot().pending == 1
        report = await context.group.shutdown(30)
        assert report.is_healthy()
    assert (job.starts, job.ends) == ([0], [15])
    snapshot = schedule.snapshot()
    assert (snapshot.runs, snapshot.skips, snapshot.pending, snapshot.state) == (1, 1, 0, "idle")


@virtual
async def test_a_run_in_hand_is_cancelled_at_the_work_deadline() -> None:
    job = Job(100)
    async with component() as context:
        schedule = Schedule("job", job, FixedRate(10))
        context.group.spawn(schedule.run, context.group)
        await trio.sleep(5)
        report = await context.group.shutdown(10)
        assert report.totals().timed_out == 2  # the run, and the driver that waited for it
    assert job.ends == [14]
    assert schedule.snapshot().cancelled == 1


@virtual
async def test_the_report_names_a_run_that_does_not_end() -> None:
    release = trio.Event()

    async def deaf() -> None:
        with trio.CancelScope(shield=True):
            await release.wait()

    async with component() as context:
        schedule = Schedule("compaction", deaf, FixedRate(10))
        context.group.spawn(schedule.run, context.group)
        await trio.sleep(5)
        report = await context.group.shutdown(10)
        (remaining,) = report.remaining
        assert remaining.path.endswith("/scheduled-run:compaction")
        assert any("deaf" in line for line in remaining.stack)
        assert schedule.active == 1  # its slot is held by what still runs
        release.set()
        await context.group.wait_over()
        assert schedule.active == 0


@virtual
async def test_whoever_is_cancelled_and_due_at_the_same_instant_starts_nothing() -> None:
    job = Job()
    with trio.move_on_after(10):
        await Schedule("job", job, FixedRate(10)).run()
    assert job.starts == [0]


@virtual
async def test_whoever_is_woken_and_cancelled_at_the_same_instant_starts_nothing() -> None:
    job = Job()
    async with driven(Schedule("job", job, FixedRate(10))) as schedule:
        await trio.sleep(5)
        schedule.run_now()
    assert job.starts == [0]


@virtual
async def test_nothing_waits_any_more_when_the_driver_has_been_cancelled() -> None:
    job = Job(35)
    async with driven(Schedule("job", job, FixedRate(10), missed=bounded_catch_up(9))) as schedule:
        await trio.sleep(25)
        schedule.run_now()
        assert schedule.snapshot().pending == 2
    assert (schedule.snapshot().pending, schedule.snapshot().skips) == (0, 2)
    schedule.pause()
    async with driven(schedule):
        await trio.sleep(1)
    assert job.starts == [0]


@virtual
async def test_a_schedule_is_driven_once_at_a_time_and_can_be_driven_again() -> None:
    job = Job()
    schedule = Schedule("job", job, FixedRate(10))
    async with driven(schedule):
        await trio.sleep(25)
        with pytest.raises(ScheduleInUse, match="job"):
            await schedule.run()
        assert schedule.state == "running"
    await trio.sleep(31)  # past the ticks at 30, 40 and 50
    async with driven(schedule):
        await trio.sleep(5)
    assert job.starts == [0, 10, 20, 56, 60]
    assert schedule.snapshot().skips == 2
