"""Clauses of the rows R1 to R73 that the tests beside the subjects leave open."""

from __future__ import annotations

import gc
import logging
import random
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.testing import eventually
from lifecycle import (
    AlreadyInTrio,
    ConfigInvalid,
    ContractViolation,
    FixedRate,
    GroupClosed,
    GroupPoisoned,
    LanePolicy,
    LaneSettings,
    MemoryLimit,
    MemoryVariableInvalid,
    Operation,
    OperationalError,
    OperationBound,
    OperationEnd,
    OperationOutcomes,
    Outcomes,
    Runtime,
    RuntimeConfig,
    Schedule,
    Schedules,
    ServiceContext,
    ShutdownReport,
    TaskGroup,
    TaskHandle,
    open_runtime,
)

from ._bodies import deaf, forever

QUIET = RuntimeConfig(signals=False)
DEGRADE = RuntimeConfig(signals=False, on_poison="degrade")


class Planted(Exception):
    """What the tests lose their tasks by."""


@asynccontextmanager
async def part_of_a_runtime() -> AsyncGenerator[ServiceContext, None]:
    """A component of a runtime that goes on after a failure; the planted ones are looked at by the test."""
    try:
        async with open_runtime(DEGRADE) as context:
            yield context.component("part")
    except* Planted:
        pass


async def fail() -> None:
    raise Planted


async def nothing(context: ServiceContext) -> None:
    pass


# ---------------------------------------------------------------- boot


@pytest.mark.row("runtime:R3")
def test_a_plan_enters_no_trio_program_and_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(trio, "run", lambda *_, **__: begun.append("trio"))
    monkeypatch.setattr(threading.Thread, "start", lambda _: begun.append("thread"))
    monkeypatch.setattr("trio.to_thread.run_sync", lambda *_, **__: begun.append("trio thread"))

    def detect() -> MemoryLimit:
        begun.append("detector")
        return MemoryLimit(1 << 20, "physical")

    with pytest.raises(ConfigInvalid):
        Runtime.plan(attrs.evolve(QUIET, shutdown_within=-1, detect_memory=detect))
    plan = Runtime.plan(attrs.evolve(QUIET, detect_memory=detect))
    assert begun == []
    plan.build()
    assert begun == ["detector"]


@pytest.mark.row("runtime:R4")
def test_the_build_itself_detects_and_the_run_not_once_more() -> None:
    calls: list[int] = []

    def detect() -> MemoryLimit:
        calls.append(1)
        return MemoryLimit(1 << 20, "physical")

    plan = Runtime.plan(attrs.evolve(QUIET, detect_memory=detect))
    runtime = plan.build()
    assert len(calls) == 1
    runtime.run(nothing)
    assert len(calls) == 1
    Runtime.plan(attrs.evolve(plan.config, memory_limit=1 << 20)).build()
    assert len(calls) == 1


def reports_logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The outcomes of the shutdown reports in the log."""
    return [record.outcome for record in caplog.records if hasattr(record, "outcome")]


@pytest.mark.row("runtime:R8")
@pytest.mark.parametrize(("how", "outcome"), [("never run", "never run"), ("raises", "failed"), ("ends", "completed")])
def test_however_a_runtime_is_left_there_is_one_report_in_the_log_and_its_groups_are_closed(
    how: str, outcome: str, caplog: pytest.LogCaptureFixture
) -> None:
    groups: list[TaskGroup] = []

    async def main(context: ServiceContext) -> None:
        groups.extend((context.group, context.component("part").group))
        if how == "raises":
            raise Planted

    with caplog.at_level(logging.INFO, "tenure.lifecycle"):
        runtime = Runtime.plan(QUIET).build()
        if how == "raises":
            with pytest.raises(Planted):
                runtime.run(main)
        elif how == "ends":
            runtime.run(main)
        del runtime
        gc.collect()
    assert reports_logged(caplog) == [outcome]
    assert len(groups) == (0 if how == "never run" else 2)
    for group in groups:
        for spawn in (group.start_soon, group.spawn, group.spawn_service, group.spawn_cancellable):
            with pytest.raises(GroupClosed):
                spawn(forever)


@pytest.mark.row("runtime:R10")
@pytest.mark.parametrize("field", [field.name for field in attrs.fields(RuntimeConfig)])
def test_no_field_of_a_configuration_shows_its_value_in_the_error(field: str) -> None:
    wrong: Any = {"name": ["hunter2"]}.get(field, "hunter2")
    with pytest.raises(ConfigInvalid) as caught:
        Runtime.plan(attrs.evolve(QUIET, **{field: wrong}))
    assert field in str(caught.value)
    for text in (str(caught.value), repr(caught.value), str(caught.value.__cause__), str(caught.value.__context__)):
        assert "hunter2" not in text


@pytest.mark.row("runtime:R10")
def test_the_text_of_an_operational_error_does_not_show_what_the_environment_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TENURE_PROCESS_MEMORY_LIMIT_BYTES", "hunter2")
    with pytest.raises(MemoryVariableInvalid) as caught:
        Runtime.plan(QUIET).build()
    assert isinstance(caught.value, OperationalError)
    assert not isinstance(caught.value, ContractViolation)
    assert "hunter2" not in str(caught.value) + repr(caught.value)
    assert not issubclass(ContractViolation, OperationalError)
    assert not issubclass(OperationalError, ContractViolation)


@pytest.mark.row("runtime:R7")
async def test_a_runtime_refused_inside_a_trio_program_leaves_one_report_and_can_be_run_outside() -> None:
    reports: list[ShutdownReport] = []
    runtime = Runtime.plan(attrs.evolve(QUIET, report_sink=reports.append)).build()
    with pytest.raises(AlreadyInTrio):
        runtime.run(nothing)
    assert reports == []
    report = await trio.to_thread.run_sync(runtime.run, nothing)  # a thread without a Trio program
    assert reports == [report]
    refused = Runtime.plan(attrs.evolve(QUIET, report_sink=reports.append)).build()
    with pytest.raises(AlreadyInTrio):
        refused.run(nothing)
    del runtime, refused
    gc.collect()
    assert [(report.reason, report.outcome) for report in reports[1:]] == [("dropped", "never run")]


# ---------------------------------------------------------------- the tree of components


@pytest.mark.row("runtime:R11")
async def test_the_tasks_of_parent_and_sibling_run_on_when_a_child_is_cancelled() -> None:
    async with open_runtime() as context:
        parent = context.component("parent")
        child, sibling = parent.component("child"), parent.component("sibling")
        tasks = [part.group.spawn_cancellable(forever) for part in (parent, child, sibling)]
        await wait_all_tasks_blocked()
        child.group.cancel()
        assert await tasks[1].wait() == "cancelled"
        await wait_all_tasks_blocked()
        assert [task.outcome for task in tasks] == [None, "cancelled", None]
        parent.group.cancel()
        assert [await task.wait() for task in tasks] == ["cancelled"] * 3
        assert not context.stopping.is_set()


@pytest.mark.row("runtime:R14")
async def test_components_share_the_slots_of_one_lane() -> None:
    policy = LanePolicy(max_concurrency=1, max_queue=4, queue_timeout=60, task_timeout=60)
    config = attrs.evolve(QUIET, lanes=LaneSettings.uniform(policy, 3), memory_limit=1 << 20, shutdown_within=60)
    gate, began, order = threading.Event(), threading.Event(), list[str]()

    def hold() -> None:
        began.set()
        gate.wait(60)
        order.append("leaf")

    async with open_runtime(config) as context:
        leaf = context.component("part").component("leaf")
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(leaf.lanes.cpu.run, hold)
                await eventually(began.is_set, within=60)
                nursery.start_soon(context.lanes.cpu.run, order.append, "root")
                await eventually(lambda: context.lanes.cpu.snapshot().queued == 1, within=60)
                for part in (context, leaf):
                    now = part.lanes.cpu.snapshot()
                    assert (now.global_running, now.lane_running, now.queued) == (1, 1, 1)
                gate.set()
        finally:
            gate.set()
    assert order == ["leaf", "root"]


# ---------------------------------------------------------------- task groups


@pytest.mark.row("runtime:R21")
async def test_a_group_that_closes_stays_closed_when_a_task_of_it_fails(autojump_clock: MockClock) -> None:
    async with part_of_a_runtime() as part:
        group = part.group

        async def fails_when_told() -> None:
            await group.stopping.wait()
            raise Planted

        task, stays = group.spawn_service(fails_when_told), group.spawn_service(deaf, 3)
        await wait_all_tasks_blocked()
        group.close()
        assert await task.wait() == "panicked"
        assert stays.outcome is None
        assert (group.state, group.cause) == ("closed", None)
        with pytest.raises(GroupClosed):  # and not GroupPoisoned
            group.spawn(forever)
        report = await group.shutdown(5)
    assert report.totals() == Outcomes(panicked=1, cancelled=1)


@pytest.mark.row("runtime:R23")
@pytest.mark.parametrize("end", ["completed", "aborted", "panicked"])
@pytest.mark.parametrize("style", ["plain", "cancellable", "operation"])
async def test_wait_task_returns_after_permits_are_freed_and_the_record_is_gone(end: str, style: str) -> None:
    async with part_of_a_runtime() as part:
        group, budget, done = part.group, part.budget.child("mine", count=1), trio.Event()

        async def holds() -> None:
            with budget.reserve():
                await done.wait()
                if end == "panicked":
                    raise Planted

        operation = Operation()
        task: TaskHandle[None]
        if style == "operation":
            task = group.spawn_operation(operation, holds)
        else:
            task = (group.spawn if style == "plain" else group.spawn_cancellable)(holds)
        seen: list[object] = []

        async def look() -> None:
            assert await group.wait_task(task, 60)
            seen.append((budget.snapshot().current_count, group.contains(task), group.task_count, operation.active))
            seen.append((task.outcome, group.outcomes.total))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            nursery.start_soon(look)
            await wait_all_tasks_blocked()
            assert budget.snapshot().current_count == 1
            if end == "aborted":
                task.cancel()
            else:
                done.set()
        assert seen == [(0, False, 0, 0), (end, 1)] * 2


@pytest.mark.row("runtime:R29")
async def test_the_call_of_a_shutdown_closes_the_gate_while_it_still_waits(autojump_clock: MockClock) -> None:
    async with part_of_a_runtime() as part:
        group, below = part.group, part.component("below").group
        group.spawn(deaf, 3)
        await wait_all_tasks_blocked()
        group.cancel()
        group.spawn(trio.lowlevel.checkpoint)
        below.spawn(trio.lowlevel.checkpoint)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.shutdown, 10)
            await wait_all_tasks_blocked()
            assert not group.over
            for closed in (group, below):
                with pytest.raises(GroupClosed):
                    closed.spawn(forever)


@pytest.mark.row("runtime:R29")
async def test_a_shutdown_that_is_cancelled_before_it_can_wait_has_closed_the_gate(autojump_clock: MockClock) -> None:
    async with part_of_a_runtime() as part:
        part.group.spawn(deaf, 3)
        await wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            scope.cancel()
            await part.group.shutdown(10)
        assert scope.cancelled_caught
        assert part.group.state == "closed"
        with pytest.raises(GroupClosed):
            part.group.spawn(forever)


@pytest.mark.row("runtime:R30")
async def test_a_shutdown_of_a_part_in_the_middle_wakes_who_waits_below_and_a_later_one_lengthens_nothing(
    autojump_clock: MockClock,
) -> None:
    async with part_of_a_runtime() as part:
        leaf = part.component("middle").component("leaf")
        sibling = part.component("sibling")
        leaf.group.spawn(deaf, 50)
        began = trio.current_time()
        ended: list[float] = []

        async def shuts(group: TaskGroup, within: float) -> None:
            await group.shutdown(within)
            ended.append(trio.current_time() - began)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(shuts, leaf.group, 1000)
            await trio.sleep(1)
            nursery.start_soon(shuts, part.group, 4)
            await wait_all_tasks_blocked()
            assert leaf.deadline.end == sibling.deadline.end == began + 5
            nursery.start_soon(shuts, part.group, 500)
            nursery.start_soon(shuts, leaf.group, 500)
            await wait_all_tasks_blocked()
            assert leaf.deadline.end == began + 5
        assert ended == [5, 5, 5, 5]
        await trio.sleep(60)


@pytest.mark.row("runtime:R32")
async def test_a_resumed_shutdown_completes_the_group_and_its_report(autojump_clock: MockClock) -> None:
    async with part_of_a_runtime() as part:
        part.component("below").group.spawn(deaf, 3)
        part.group.spawn_service(part.stopping.wait)
        for _ in range(2):
            with trio.move_on_after(1) as scope:
                await part.group.shutdown(10)
            assert scope.cancelled_caught
            assert part.group.state == "closed"
        report = await part.group.shutdown(10)
        assert report.is_healthy()
        assert report.totals() == Outcomes(cancelled=2)
        assert report.remaining == ()
        assert (part.group.state, part.group.over, part.group.component_count) == ("completed", True, 0)
        assert await part.group.shutdown(0) is report


@pytest.mark.row("runtime:R34")
async def test_children_that_cannot_be_cancelled_share_one_deadline(autojump_clock: MockClock) -> None:
    async with part_of_a_runtime() as part:
        for number in range(20):
            part.component(f"child {number}").group.spawn(deaf, 10)
        await wait_all_tasks_blocked()
        began = trio.current_time()
        report = await part.group.shutdown(0.05)
        assert trio.current_time() - began == pytest.approx(0.05)
        assert report.totals() == Outcomes(leaked=20, timed_out=20)
        await trio.sleep(20)


# ---------------------------------------------------------------- operations


@pytest.mark.row("runtime:R41")
@pytest.mark.parametrize("event", ["owner cancel", "operation cancel", "deadline", "shutdown"])
@pytest.mark.parametrize("style", ["spawn", "start_soon"])
async def test_a_plain_task_is_ended_by_a_shutdown_only(style: str, event: str, autojump_clock: MockClock) -> None:
    async with part_of_a_runtime() as part:
        group, operation = part.group, Operation(trio.current_time() + 5)
        (group.spawn if style == "spawn" else group.start_soon)(forever)
        bound = group.spawn_draining_operation(operation, forever)
        await wait_all_tasks_blocked()
        began = trio.current_time()
        if event == "owner cancel":
            group.cancel()
        elif event == "operation cancel":
            operation.cancel()
        elif event == "shutdown":
            report = await group.shutdown(10)
            assert trio.current_time() - began == 5 + 4  # the work deadline
            assert report.totals() == Outcomes(aborted=1, cancelled=1, timed_out=1)
            return
        await bound.wait()
        await trio.sleep(20)
        assert [record.name for record in group.records()] == ["forever"]
        assert group.outcomes == Outcomes(cancelled=1)


@pytest.mark.row("runtime:R44")
async def test_submissions_refused_by_a_poisoned_or_another_group_touch_no_counter(autojump_clock: MockClock) -> None:
    seen: list[object] = []
    async with part_of_a_runtime() as part:
        other = part.component("other").group
        operation, late = Operation(), Operation()
        for each in (operation, late):
            each.observe(lambda kind, outcome: seen.append((kind, outcome)))
        task = part.group.spawn_operation(operation, trio.sleep, 1)
        for start in (other.spawn_operation, other.spawn_draining_operation):
            with pytest.raises(OperationBound):
                start(operation, forever)
        assert (operation.active, operation.outcomes, other.task_count) == (1, OperationOutcomes(), 0)
        await part.group.spawn(fail).wait()
        for start in (part.group.spawn_operation, part.group.spawn_draining_operation):
            for each in (operation, late):
                with pytest.raises(GroupPoisoned):
                    start(each, forever)
        assert (operation.active, late.active) == (1, 0)
        await task.wait()
        assert operation.outcomes == OperationOutcomes(completed=1)
        assert late.outcomes == OperationOutcomes()
        assert other.outcomes == Outcomes()
    assert seen == [("operation", "completed")]


@pytest.mark.row("runtime:R46")
@pytest.mark.parametrize("seed", range(8))
async def test_what_has_ended_and_what_runs_is_what_was_accepted_at_every_instant(
    seed: int, autojump_clock: MockClock
) -> None:
    rng = random.Random(seed)
    async with part_of_a_runtime() as part:
        groups = [part.component(str(number)).group for number in range(4)]
        operations = [Operation(trio.current_time() + (5 if number == 0 else 1000)) for number in range(4)]
        accepted = [0] * 4
        tasks: list[TaskHandle[Any]] = []

        def check() -> None:
            for operation, number in zip(operations, accepted, strict=True):
                assert operation.outcomes.total + operation.active == number

        for operation in operations:
            operation.observe(lambda kind, outcome: check())
        for _ in range(100):
            number = rng.randrange(4)
            start = rng.choice([groups[number].spawn_operation, groups[number].spawn_draining_operation])
            tasks.append(start(operations[number], trio.sleep, rng.choice([0, 1, 60])))
            accepted[number] += 1
            check()
            if rng.random() < 0.1:
                rng.choice(tasks).cancel()
                check()
            await trio.sleep(rng.choice([0, 0, 0.01]))
            check()
        groups[1].spawn_operation(operations[1], fail)
        groups[3].spawn_operation(operations[3], forever)
        accepted[1] += 1
        accepted[3] += 1
        await wait_all_tasks_blocked()
        check()
        operations[2].cancel()
        groups[3].cancel()
        check()
        for operation, group in zip(operations, groups, strict=True):
            assert await operation.wait(group, 100)
            check()
        assert [operation.outcomes.total for operation in operations] == accepted
        counts = [attrs.asdict(operation.outcomes) for operation in operations]
    for how in counts[0]:  # each of the six has come
        assert sum(count[how] for count in counts) > 0, how


@pytest.mark.row("runtime:R49")
async def test_an_earlier_confirmation_bounds_the_grace_and_says_what_is_left(autojump_clock: MockClock) -> None:
    async with part_of_a_runtime() as part:
        operation = Operation()
        tasks = [part.group.spawn_operation(operation, deaf, 30) for _ in range(2)]
        now = trio.current_time()
        assert await operation.close_and_wait(part.group, now + 9, now + 1) == OperationEnd("unconfirmed", 2)
        assert trio.current_time() == now + 1
        assert all(part.group.contains(task) for task in tasks)
        assert await operation.wait(part.group, 60)
        assert operation.outcomes == OperationOutcomes(aborted=2)


# ---------------------------------------------------------------- schedules


@pytest.mark.row("runtime:R69")
async def test_a_name_that_was_rolled_back_is_in_no_observer_and_frees_its_place(autojump_clock: MockClock) -> None:
    async with part_of_a_runtime() as part:
        schedules = Schedules(part.group, capacity=1)
        observer = schedules.observer(["job"])
        operation = Operation()
        operation.close_admission()
        schedule = Schedule("job", trio.lowlevel.checkpoint, FixedRate(1))
        for _ in range(3):
            with pytest.raises(Exception, match="closed"):
                schedules.add(schedule, operation=operation)
            assert (len(schedules), observer.snapshot(), part.group.task_count) == (0, (), 0)
            assert schedule.state == "idle"
        assert schedules.add(schedule) == "scheduled"
        part.group.close()
        await part.group.wait_over()
        late = Schedules(part.group)
        with pytest.raises(GroupClosed):
            late.add(Schedule("job", trio.lowlevel.checkpoint, FixedRate(1)))
        assert (late.snapshot(), late.clear_completed()) == ((), 0)
