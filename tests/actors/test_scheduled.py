"""`ScheduledTask`: a schedule under a supervisor."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio

from actors import ActorCrashed, Backoff, Child, Ref, StartFailed, System, one_for_one
from actors.scheduled import GetSnapshot, Pause, Reconfigure, Resume, RunNow, ScheduledTask
from actors.testing import FaultPlan, InjectedCrash
from lifecycle import FixedDelay, FixedRate, Schedule, ScheduleControl, ScheduleInUse, bounded_catch_up

from ._systems import Crash, outcome_of
from ._trees import kinds, settled, small_system, virtual


class Job:
    """Takes `seconds`, and notes when it was started and when it ended. Raises at the runs in `fails`."""

    def __init__(self, seconds: float = 0.0, fails: tuple[int, ...] = ()) -> None:
        self.seconds = seconds
        self.fails = fails
        self.starts: list[float] = []
        self.ends: list[float] = []

    async def __call__(self) -> None:
        self.starts.append(trio.current_time())
        try:
            await trio.sleep(self.seconds)
            if len(self.starts) in self.fails:
                raise Crash(len(self.starts))
        finally:
            self.ends.append(trio.current_time())


async def supervised(system: System, body: Any, schedule: Schedule, **options: Any) -> Ref[Any]:
    child = Child(body, schedule, name=schedule.name, restart=options.pop("restart", "transient"))
    supervision = await system.supervise(one_for_one(max_restarts=10, **options), child)
    return supervision.child(schedule.name, ScheduledTask)


@virtual
async def test_a_schedule_runs_while_its_actor_lives() -> None:
    job = Job(3)
    async with small_system() as system:
        ref = await system.spawn(ScheduledTask, Schedule("job", job, FixedRate(10)))
        await trio.sleep(12)
        snapshot = await ref.ask(GetSnapshot())
        assert (snapshot.runs, snapshot.active, snapshot.next_due, snapshot.state) == (1, 1, 8, "running")
    assert (job.starts, job.ends) == ([0, 10], [3, 13])  # the one in hand has finished
    assert system.report.is_healthy()


@virtual
async def test_a_crash_is_restarted_and_the_schedule_goes_on_with_its_grid_and_its_counts() -> None:
    plan = FaultPlan(1, crash=1.0, only=(GetSnapshot,), limit=1)
    job = Job(3)
    schedule = Schedule("job", job, FixedRate(10))
    async with small_system() as system:
        ref = await supervised(system, plan.wrap(ScheduledTask), schedule)
        await trio.sleep(11)
        crash = await outcome_of(ref.ask, GetSnapshot())
        assert isinstance(crash, ActorCrashed)
        assert isinstance(crash.cause, InjectedCrash)
        await settled()
        assert (ref.generation, schedule.state) == (2, "running")
        await trio.sleep(14)
        snapshot = await ref.ask(GetSnapshot())
        assert job.starts == [0, 10, 20]
        assert job.ends == [3, 11, 23]  # the crash cancelled the one in hand
        assert (snapshot.runs, snapshot.cancelled, snapshot.failures, snapshot.skips) == (2, 1, 1, 0)


@virtual
async def test_ticks_that_come_before_the_restart_are_missed_ticks() -> None:
    job = Job(0, fails=(2,))
    schedule = Schedule("job", job, FixedRate(10), missed=bounded_catch_up(5), on_failure="raise")
    async with small_system() as system:
        await supervised(system, ScheduledTask, schedule, backoff=Backoff(25))
        await trio.sleep(52)
    assert job.starts == [0, 10, 35, 35, 40, 50]  # 20 and 30 are made up for
    assert (schedule.snapshot().failed, schedule.snapshot().runs) == (1, 5)


@virtual
async def test_a_pause_outlives_a_restart() -> None:
    plan = FaultPlan(1, crash=1.0, only=(GetSnapshot,), limit=1)
    job = Job()
    async with small_system() as system:
        ref = await supervised(system, plan.wrap(ScheduledTask), Schedule("job", job, FixedRate(10)))
        assert await ref.ask(Pause())
        assert isinstance(await outcome_of(ref.ask, GetSnapshot()), ActorCrashed)
        await trio.sleep(25)
        assert (job.starts, ref.generation) == ([0], 2)
        assert await ref.ask(Resume())
        await trio.sleep(6)
        assert (await ref.ask(GetSnapshot())).passed_over == 2
    assert job.starts == [0, 30]


@virtual
async def test_a_failed_run_is_no_crash_unless_the_schedule_says_so() -> None:
    quiet, loud = Job(0, fails=(1, 2)), Job(0, fails=(1, 2))
    causes: list[BaseException] = []

    class Told(ScheduledTask):
        async def restarting(self, cause: BaseException) -> None:
            causes.append(cause)

    async with small_system() as system:
        counted = await supervised(system, ScheduledTask, Schedule("quiet", quiet, FixedRate(10)))
        crashed = await supervised(system, Told, Schedule("loud", loud, FixedRate(10), on_failure="raise"))
        await trio.sleep(25)
        assert (counted.generation, crashed.generation) == (1, 3)
        assert [type(cause) for cause in causes] == [Crash, Crash]  # itself, in no group
        assert (quiet.starts, loud.starts) == ([0, 10, 20], [0, 10, 20])
    assert kinds(system)["failed"] == 4  # the runs: the report says so


@virtual
async def test_the_messages_do_what_their_methods_do() -> None:
    job = Job(4)
    schedule = Schedule("job", job, FixedRate(10))
    async with small_system() as system:
        ref = await system.spawn(ScheduledTask, schedule)
        await settled()
        assert [await ref.ask(RunNow()) for _ in range(2)] == ["queued", "already_queued"]
        await trio.sleep(9)
        assert await ref.ask(RunNow()) == "started"
        assert [await ref.ask(Pause()), await ref.ask(Pause())] == [True, False]
        assert [await ref.ask(Resume()), await ref.ask(Resume())] == [True, False]
        await ref.ask(Reconfigure(attrs.evolve(schedule.settings, trigger=FixedDelay(5))))
        await trio.sleep(9.5)
        ref.tell(Pause())
        await settled()
        assert schedule.paused
    assert job.starts == [0, 4, 9, 18]
    assert all(message.shield for message in (RunNow, Pause, Resume, Reconfigure, GetSnapshot))


@virtual
async def test_an_actor_is_ready_when_its_schedule_is_driven() -> None:
    async with small_system() as system:
        ref = await system.spawn(ScheduledTask, Schedule("job", Job(), FixedRate(10, initial_delay=5)))
        assert await ref.ask(RunNow()) == "started"


@virtual
async def test_a_job_that_stops_its_schedule_ends_a_transient_actor() -> None:
    async def once() -> ScheduleControl:
        return ScheduleControl.STOP

    async with small_system() as system:
        ref = await supervised(system, ScheduledTask, Schedule("job", once, FixedDelay(1)))
        await trio.sleep(5)
        assert (ref.alive, ref.generation) == (False, 1)
    assert system.report.is_healthy()


@virtual
async def test_told_to_end_it_starts_no_run_and_waits_for_those_in_hand() -> None:
    job = Job(7)
    schedule = Schedule("job", job, FixedRate(5), missed="coalesce_latest")
    async with small_system() as system:
        ref = await system.spawn(ScheduledTask, schedule)
        await trio.sleep(6)
        began = trio.current_time()
        await ref.stop()
        assert trio.current_time() - began == 1
        assert (job.starts, job.ends, schedule.state) == ([0], [7], "idle")


@virtual
async def test_at_the_work_deadline_a_run_in_hand_is_cancelled() -> None:
    job = Job(1000)
    async with small_system() as system:
        await system.spawn(ScheduledTask, Schedule("job", job, FixedRate(5)))
        await trio.sleep(1)
    assert job.ends == [10]  # W is nine seconds after the request
    assert system.report.totals().leaked == 0


@virtual
async def test_a_schedule_that_is_driven_already_gets_no_second_driver() -> None:
    schedule = Schedule("job", Job(), FixedRate(5))
    async with small_system() as system:
        ref = await system.spawn(ScheduledTask, schedule)
        with pytest.raises(StartFailed) as raised:
            await system.spawn(ScheduledTask, schedule)
        assert isinstance(raised.value.cause, ScheduleInUse)
        assert (await ref.ask(GetSnapshot())).state == "running"
