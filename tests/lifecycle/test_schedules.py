"""The registry of schedules: names, roll-back, what is forgotten when, operations, observers."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from lifecycle import (
    FixedDelay,
    FixedRate,
    GroupClosed,
    GroupPoisoned,
    InvalidSchedule,
    Operation,
    OperationClosed,
    Schedule,
    ScheduleControl,
    ScheduleInUse,
    Schedules,
    SchedulesActive,
    TaskGroup,
    TooManySchedules,
)

from ._schedules import Job, component, fails, virtual


@asynccontextmanager
async def registry(**options: int) -> AsyncGenerator[Schedules, None]:
    """A registry of a component of its own."""
    async with component() as context:
        yield Schedules(context.group, **options)


def names(schedules: Schedules) -> list[str]:
    return [snapshot.name for snapshot in schedules.snapshot()]


def kinds(group: TaskGroup) -> list[str]:
    return sorted(f"{record.kind} {record.name}" for record in group._members)


@virtual
async def test_a_schedule_and_its_runs_are_tasks_of_the_group() -> None:
    async with registry() as schedules:
        job = Job(5)
        assert schedules.add(Schedule("scan", job, FixedRate(10))) == "scheduled"
        await trio.sleep(1)
        assert kinds(schedules.group) == ["scheduled_driver scheduled-driver:scan", "scheduled_run scheduled-run:scan"]
        assert schedules.group.state == "open"
        await trio.sleep(5)
        assert kinds(schedules.group) == ["scheduled_driver scheduled-driver:scan"]
        assert schedules.group.outcomes.completed == 1
    assert job.starts == [0]


@pytest.mark.row("runtime:R63")
@virtual
async def test_what_cannot_work_is_refused_and_nothing_is_registered() -> None:
    async with registry() as schedules:
        with pytest.raises(InvalidSchedule):
            schedules.add(Schedule("job", fails, FixedRate(0)))
        with pytest.raises(InvalidSchedule):
            schedules.add(Schedule("job", fails, FixedDelay(0)))
        with pytest.raises(InvalidSchedule):
            schedules.add(Schedule("job", fails, FixedDelay(1), max_active=2))
        with pytest.raises(InvalidSchedule):
            schedules.add(Schedule("job", fails, FixedDelay(1), missed="coalesce_latest"))
        assert (schedules.snapshot(), len(schedules), schedules.group.task_count) == ((), 0, 0)


@pytest.mark.row("runtime:R64")
@virtual
async def test_a_name_that_is_taken_stays_with_its_schedule() -> None:
    async with registry() as schedules:
        job, other = Job(1), Job(1)
        schedule = Schedule("job", job, FixedRate(10))
        schedules.add(schedule)
        await trio.sleep(12)
        before = schedules.snapshot()
        assert schedules.add(Schedule("job", other, FixedRate(1))) == "already_present"
        assert schedules.add(schedule) == "already_present"
        assert schedules.snapshot() == before
        assert schedules.find("job") is schedule
        assert schedules.group.task_count == 1
        await trio.sleep(20)
        assert (job.starts, other.starts) == ([0, 10, 20, 30], [])
        schedule.stop()
        await trio.sleep(5)
        assert schedules.add(Schedule("job", other, FixedRate(1))) == "already_present"  # also when it has ended
        assert schedules.snapshot()[0].runs == 4


@pytest.mark.row("runtime:R69")
@virtual
async def test_on_a_closed_group_nothing_is_registered() -> None:
    async with registry() as schedules:
        schedules.group.close()
        with pytest.raises(GroupClosed):
            schedules.add(Schedule("job", fails, FixedRate(1)))
        assert (schedules.snapshot(), schedules.find("job")) == ((), None)
    async with registry() as schedules:
        schedules.group.spawn(fails)
        await trio.sleep(1)
        with pytest.raises(GroupPoisoned):
            schedules.add(Schedule("job", fails, FixedRate(1)))
        assert len(schedules) == 0
    async with registry() as schedules:
        operation = Operation()
        operation.cancel()
        schedule = Schedule("job", Job(), FixedRate(1))
        with pytest.raises(OperationClosed):
            schedules.add(schedule, operation=operation)
        assert len(schedules) == 0
        assert schedules.add(schedule) == "scheduled"  # it can still be used


@pytest.mark.row("runtime:R68")
@virtual
async def test_after_a_stop_by_the_job_the_driver_is_gone_and_the_counts_are_kept() -> None:
    async def once() -> ScheduleControl:
        return ScheduleControl.STOP

    async with registry() as schedules:
        schedules.add(Schedule("job", once, FixedDelay(1)))
        await trio.sleep(5)
        assert schedules.group.task_count == 0
        (snapshot,) = schedules.snapshot()
        assert (snapshot.runs, snapshot.state) == (1, "idle")


@pytest.mark.row("runtime:R70")
@virtual
async def test_completed_schedules_are_cleared_once_no_driver_and_no_run_lives() -> None:
    async with registry() as schedules:
        one, two = Schedule("one", Job(), FixedRate(10)), Schedule("two", Job(30), FixedRate(10))
        schedules.add(one)
        schedules.add(two)
        await trio.sleep(5)
        one.stop()
        await trio.sleep(1)
        with pytest.raises(SchedulesActive, match="'two'") as raised:
            schedules.clear_completed()
        assert (raised.value.active, raised.value.count) == (("two",), 1)
        assert names(schedules) == ["one", "two"]
        two.stop()
        await trio.sleep(1)
        with pytest.raises(SchedulesActive):  # its run is in hand
            schedules.clear_completed()
        await trio.sleep(30)
        assert schedules.clear_completed() == 2
        assert (schedules.snapshot(), schedules.clear_completed()) == ((), 0)
        assert schedules.add(Schedule("one", Job(), FixedRate(1))) == "scheduled"


@pytest.mark.row("runtime:R70")
@virtual
async def test_a_run_that_outlives_its_driver_is_no_end(caplog: pytest.LogCaptureFixture) -> None:
    async def first_sleeps() -> None:
        if trio.current_time() > began:
            raise ValueError("planted")
        await trio.sleep(30)

    async with registry() as schedules:
        began = trio.current_time()
        schedules.add(Schedule("job", first_sleeps, FixedRate(10), max_active=2, on_failure="raise"))
        await trio.sleep(15)
        assert kinds(schedules.group) == ["scheduled_run scheduled-run:job"]
        with pytest.raises(SchedulesActive):
            schedules.clear_completed()
        await trio.sleep(20)
        assert schedules.clear_completed() == 1


@pytest.mark.row("runtime:R70")
@virtual
async def test_an_error_names_no_more_schedules_than_a_line_holds() -> None:
    async with registry() as schedules:
        for number in range(8):
            schedules.add(Schedule(f"job {number}", Job(), FixedRate(1)))
        with pytest.raises(SchedulesActive, match=r"^8 schedule.*'job 4', \.\.\.") as raised:
            schedules.clear_completed()
        assert len(raised.value.active) == 5


@pytest.mark.row("runtime:R71")
@pytest.mark.parametrize("how", ["cancel", "deadline"])
@virtual
async def test_an_operation_ends_its_schedule_with_driver_and_run_and_the_group_goes_on(how: str) -> None:
    async with registry() as schedules:
        job = Job(50)
        operation = Operation(trio.current_time() + 15 if how == "deadline" else float("inf"))
        schedules.add(Schedule("job", job, FixedRate(10)), operation=operation)
        schedules.add(Schedule("other", Job(), FixedRate(10)))
        await trio.sleep(15)
        assert operation.active >= 1
        if how == "cancel":
            operation.cancel()
        await trio.sleep(1)
        assert (job.starts, job.ends, operation.active) == ([0], [15], 0)
        snapshot = schedules.snapshot()[0]
        assert (snapshot.active, snapshot.runs, snapshot.failures, snapshot.cancelled) == (0, 0, 1, 1)
        assert kinds(schedules.group) == ["scheduled_driver scheduled-driver:other"]
        assert schedules.group.state == "open"
        await trio.sleep(10)
        assert schedules.snapshot()[1].runs == 3
        assert len(job.starts) == 1


@virtual
async def test_the_stop_of_the_group_cancels_a_schedule_of_an_operation() -> None:
    async with registry() as schedules:
        job = Job(50)
        operation = Operation()
        schedules.add(Schedule("job", job, FixedRate(10)), operation=operation)
        await trio.sleep(5)
        report = await schedules.group.shutdown(20)
        assert report.is_healthy()
        assert (job.ends, operation.outcomes.owner_cancelled) == ([5], 1)


@pytest.mark.row("runtime:R72")
@virtual
async def test_an_observer_sees_its_names_only_and_does_not_keep_the_registry() -> None:
    async with registry() as schedules:
        group = schedules.group
        for name in ("a", "b", "c"):
            schedules.add(Schedule(name, Job(), FixedRate(10)))
        given = ["c", "missing", "a", "c"]
        observer = schedules.observer(given)
        given.append("b")
        assert observer.names == ("c", "missing", "a")
        assert [snapshot.name for snapshot in observer.snapshot()] == ["c", "a"]
        schedules.add(Schedule("missing", Job(), FixedRate(10)))
        assert [snapshot.name for snapshot in observer.snapshot()] == ["c", "missing", "a"]
        await trio.sleep(15)
        assert observer.snapshot()[0].runs == 2
        await schedules.remove("a")
        assert [snapshot.name for snapshot in observer.snapshot()] == ["c", "missing"]
        del schedules
        gc.collect()
        assert observer.snapshot() == ()
        assert group.task_count == 3  # dropping it stops nothing
        group.close()


@virtual
async def test_a_removed_schedule_finishes_what_is_in_hand_and_frees_its_name() -> None:
    async with registry() as schedules:
        job = Job(8)
        schedules.add(Schedule("job", job, FixedRate(10)))
        await trio.sleep(12)
        with trio.move_on_after(1) as wait:
            await schedules.remove("job")
        assert wait.cancelled_caught
        assert names(schedules) == ["job"]
        assert await schedules.remove("job")
        assert (job.ends, trio.current_time() - job.began) == ([8, 18], 18)
        assert names(schedules) == []
        assert not await schedules.remove("job")
        assert schedules.add(Schedule("job", job, FixedRate(10))) == "scheduled"


@virtual
async def test_whoever_waited_for_the_old_one_does_not_forget_the_new_one() -> None:
    async with registry() as schedules:
        schedules.add(Schedule("job", Job(5), FixedRate(10)))
        await trio.sleep(1)

        async def replace() -> None:
            await schedules.remove("job")
            schedules.add(Schedule("job", Job(), FixedRate(10)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(replace)
            nursery.start_soon(replace)
            nursery.start_soon(schedules.remove, "job")
        assert names(schedules) == ["job"]


@virtual
async def test_a_schedule_that_is_removed_at_once_never_runs() -> None:
    async with registry() as schedules:
        job = Job()
        schedules.add(Schedule("job", job, FixedRate(10)))
        assert await schedules.remove("job")
        assert (job.starts, schedules.group.task_count) == ([], 0)


@virtual
async def test_a_registry_is_bounded_and_an_object_is_driven_once() -> None:
    async with registry(capacity=2) as schedules:
        schedule = Schedule("one", Job(), FixedRate(10))
        schedules.add(schedule)
        schedules.add(Schedule("two", Job(), FixedRate(10)))
        with pytest.raises(TooManySchedules, match="2 schedules"):
            schedules.add(Schedule("three", Job(), FixedRate(10)))
        assert len(schedules) == 2
        await trio.sleep(1)
        with pytest.raises(ScheduleInUse):
            Schedules(schedules.group).add(schedule)
        with pytest.raises(InvalidSchedule):
            Schedules(schedules.group, capacity=0)
        schedules.group.close()


@virtual
async def test_a_failure_that_is_let_out_poisons_the_group_and_a_counted_one_does_not() -> None:
    async with registry() as schedules:
        schedules.add(Schedule("counted", fails, FixedRate(10)))
        await trio.sleep(15)
        assert schedules.group.state == "open"
        assert schedules.group.outcomes.failed == 2
        schedules.add(Schedule("raised", fails, FixedRate(10), on_failure="raise"))
        await trio.sleep(1)
        assert schedules.group.state == "poisoned"
        assert isinstance(schedules.group.cause, ValueError)
