"""Operations: who ends their tasks, how that is counted, and what each wait proves."""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Awaitable, Callable
from math import inf, nan
from typing import Literal

import pytest
import trio
import trio.testing

from lifecycle import (
    ContractViolation,
    GroupClosed,
    ObserverRefused,
    Operation,
    OperationBound,
    OperationClosed,
    OperationEnd,
    OperationOutcomes,
    Outcomes,
    ServiceContext,
    TaskDidNotComplete,
    TaskGroup,
    TaskHandle,
    TaskKind,
    open_runtime,
)

from ._bodies import deaf, forever

Style = Literal["service", "cancellable", "operation", "draining"]
Event = Literal["owner cancel", "operation cancel", "deadline", "shutdown"]


def spawn(
    group: TaskGroup, style: Style, operation: Operation, fn: Callable[[], Awaitable[None]] = forever
) -> TaskHandle[None]:
    if style == "service":
        return group.spawn_service(fn)
    if style == "cancellable":
        return group.spawn_cancellable(fn)
    if style == "operation":
        return group.spawn_operation(operation, fn)
    return group.spawn_draining_operation(operation, fn)


# ---------------------------------------------------------------- who ends what

RUNS = None
"""The task goes on."""

MATRIX: dict[tuple[Style, Event], str | None] = {
    ("service", "owner cancel"): RUNS,
    ("service", "operation cancel"): RUNS,
    ("service", "deadline"): RUNS,
    ("service", "shutdown"): "aborted",
    ("cancellable", "owner cancel"): "cancelled",
    ("cancellable", "operation cancel"): RUNS,
    ("cancellable", "deadline"): RUNS,
    ("cancellable", "shutdown"): "cancelled",
    ("operation", "owner cancel"): "cancelled",
    ("operation", "operation cancel"): "cancelled",
    ("operation", "deadline"): "cancelled",
    ("operation", "shutdown"): "cancelled",
    ("draining", "owner cancel"): RUNS,
    ("draining", "operation cancel"): "cancelled",
    ("draining", "deadline"): "cancelled",
    ("draining", "shutdown"): "aborted",
}

COUNTED: dict[tuple[Style, Event], OperationOutcomes] = {
    ("operation", "owner cancel"): OperationOutcomes(owner_cancelled=1),
    ("operation", "operation cancel"): OperationOutcomes(cancelled=1),
    ("operation", "deadline"): OperationOutcomes(deadline_exceeded=1),
    ("operation", "shutdown"): OperationOutcomes(owner_cancelled=1),
    ("draining", "operation cancel"): OperationOutcomes(cancelled=1),
    ("draining", "deadline"): OperationOutcomes(deadline_exceeded=1),
    ("draining", "shutdown"): OperationOutcomes(aborted=1),
}


@pytest.mark.row("runtime:R41")
@pytest.mark.parametrize(("style", "event"), MATRIX, ids=["-".join(case) for case in MATRIX])
async def test_each_style_of_spawn_is_ended_by_what_it_should_be(
    style: Style, event: Event, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_runtime() as context:
        group = context.component("part").group
        operation = Operation(trio.current_time() + 5 if event == "deadline" else inf)
        task = spawn(group, style, operation)
        await trio.sleep(1)
        assert task.outcome is None
        begun = trio.current_time()
        if event == "owner cancel":
            group.cancel()
        elif event == "operation cancel":
            operation.cancel()
        elif event == "shutdown":
            await group.shutdown(10)
        with trio.move_on_after(20):
            await task.wait()
        assert task.outcome == MATRIX[style, event]
        ended = {task.outcome: 1} if task.outcome is not None else {}
        # Told and then overtaken by the work deadline: only these have timed out.
        assert group.outcomes == Outcomes(**ended, timed_out=ended.get("aborted", 0))
        assert operation.outcomes == COUNTED.get((style, event), OperationOutcomes())
        if event == "deadline" and task.outcome is not None:
            assert trio.current_time() - begun == pytest.approx(4)
        if event == "shutdown" and task.outcome == "aborted":
            assert trio.current_time() - begun == pytest.approx(9)  # the work deadline
        if task.outcome is None:
            task.cancel()


@pytest.mark.row("runtime:R41")
@pytest.mark.row("runtime:R51")
async def test_a_draining_task_outlives_the_stop_of_its_owner_until_it_is_done(
    autojump_clock: trio.testing.MockClock,
) -> None:
    release = trio.Event()
    async with open_runtime() as context:
        group = context.component("part").group
        operation = Operation()
        task = group.spawn_draining_operation(operation, release.wait)
        group.close()
        await trio.sleep(5)
        assert task.outcome is None
        release.set()
        assert await task.wait() == "completed"
    assert operation.outcomes == OperationOutcomes(completed=1)


@pytest.mark.row("runtime:R51")
async def test_the_deadline_of_the_operation_still_ends_a_draining_task(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime() as context:
        group = context.component("part").group
        operation = Operation(trio.current_time() + 3)
        task = group.spawn_draining_operation(operation, forever)
        group.cancel()
        assert await task.wait() == "cancelled"
        assert trio.current_time() == operation.deadline
    assert operation.outcomes == OperationOutcomes(deadline_exceeded=1)


@pytest.mark.row("runtime:R41")
async def test_in_a_group_that_was_told_to_stop_a_draining_task_still_runs_and_others_do_not() -> None:
    ran: list[str] = []

    async def run(name: str) -> None:
        ran.append(name)

    async with open_runtime() as context:
        group = context.component("part").group
        group.cancel()
        operation = Operation()
        task = group.spawn_operation(operation, run, "operation")
        draining = group.spawn_draining_operation(operation, run, "draining")
        assert [await task.wait(), await draining.wait()] == ["cancelled", "completed"]
    assert ran == ["draining"]
    assert operation.outcomes == OperationOutcomes(owner_cancelled=1, completed=1)


async def test_a_cancel_reaches_those_that_run_when_others_have_ended() -> None:
    async with open_runtime() as context:
        group = context.component("part").group
        operation = Operation()
        first = group.spawn_operation(operation, forever)
        second = group.spawn_operation(operation, trio.lowlevel.checkpoint)
        third = group.spawn_operation(operation, forever)
        assert await second.wait() == "completed"
        operation.cancel()
        assert [await first.wait(), await third.wait()] == ["cancelled", "cancelled"]


# ---------------------------------------------------------------- what counts when several things happen at once

HOW: dict[str, OperationOutcomes] = {
    "owner": OperationOutcomes(owner_cancelled=1),
    "cancel": OperationOutcomes(cancelled=1),
    "deadline": OperationOutcomes(deadline_exceeded=1),
    "completion": OperationOutcomes(completed=1),
}
"""What each event alone comes to. The first of those that happened at one instant counts."""

SUBSETS = [set_ for length in range(1, 5) for set_ in itertools.combinations(HOW, length)]


async def at_one_instant(
    events: tuple[str, ...], style: Literal["operation", "draining"], clock: trio.testing.MockClock
) -> OperationOutcomes:
    async with open_runtime() as context:
        group = context.component("part").group
        operation = Operation(trio.current_time() + 1 if "deadline" in events else inf)
        done = trio.Event()
        spawn_one = group.spawn_operation if style == "operation" else group.spawn_draining_operation
        task = spawn_one(operation, done.wait)
        await trio.testing.wait_all_tasks_blocked()
        for event in events:  # all of it before the task has a turn
            if event == "owner":
                group.cancel()
            elif event == "cancel":
                operation.cancel()
            elif event == "deadline":
                clock.jump(1)
            else:
                done.set()
        if events == ("owner",) and style == "draining":
            await trio.testing.wait_all_tasks_blocked()
            assert task.outcome is None
            task.cancel()
        await task.wait()
        assert group.outcomes.total == operation.outcomes.total == 1
        assert (group.outcomes.completed == 1) is (operation.outcomes.completed == 1)
        return operation.outcomes


@pytest.mark.row("runtime:R42")
@pytest.mark.parametrize("events", SUBSETS, ids="-".join)
def test_at_one_instant_the_owner_counts_before_the_operation_before_its_deadline_before_the_task(
    events: tuple[str, ...],
) -> None:
    for order in itertools.permutations(events):
        clock = trio.testing.MockClock()
        assert trio.run(at_one_instant, order, "operation", clock, clock=clock) == HOW[events[0]]


@pytest.mark.parametrize("events", SUBSETS, ids="-".join)
def test_for_a_draining_task_the_stop_of_its_owner_never_counts(events: tuple[str, ...]) -> None:
    others = [event for event in events if event != "owner"]
    expected = HOW[others[0]] if others else OperationOutcomes(aborted=1)
    for order in itertools.permutations(events):
        clock = trio.testing.MockClock()
        assert trio.run(at_one_instant, order, "draining", clock, clock=clock) == expected


@pytest.mark.parametrize("first", ["cancel", "abort"])
async def test_an_abort_of_one_task_counts_if_it_came_first(first: str) -> None:
    async with open_runtime() as context:
        group = context.component("part").group
        operation = Operation()
        task = group.spawn_operation(operation, forever)
        for call in (operation.cancel, task.cancel) if first == "cancel" else (task.cancel, operation.cancel):
            call()
        assert await task.wait() == ("aborted" if first == "abort" else "cancelled")
    assert operation.outcomes == OperationOutcomes(**{"aborted" if first == "abort" else "cancelled": 1})


@pytest.mark.row("runtime:R46")
@pytest.mark.parametrize("style", ["operation", "draining"])
async def test_a_task_that_is_cancelled_with_its_host_has_not_completed(
    style: Literal["operation", "draining"], autojump_clock: trio.testing.MockClock
) -> None:
    operation, tasks = Operation(), list[TaskHandle[None]]()
    with trio.move_on_after(1):
        async with open_runtime() as context:
            tasks.append(spawn(context.component("part").group, style, operation))
            await trio.sleep_forever()
    assert operation.outcomes == OperationOutcomes(owner_cancelled=1)
    assert tasks[0].outcome == "cancelled"
    with pytest.raises(TaskDidNotComplete):
        await tasks[0].join()


# ---------------------------------------------------------------- one owner, one gate


@pytest.mark.row("runtime:R43")
async def test_an_operation_has_one_owner_and_a_wait_with_another_leaves_its_gate_open() -> None:
    async with open_runtime() as context:
        one, two = context.component("one").group, context.component("two").group
        operation = Operation(kind="worker")
        operation_task = one.spawn_operation(operation, forever)
        with pytest.raises(OperationBound) as caught:
            two.spawn_operation(operation, forever)
        assert (caught.value.kind, caught.value.owner, caught.value.group) == ("worker", "/one", "/two")
        with pytest.raises(OperationBound):
            two.spawn_draining_operation(operation, forever)
        waits: list[Callable[[], Awaitable[object]]] = [
            lambda: operation.wait(two, 1),
            lambda: operation.wait_until(two, trio.current_time()),
            lambda: operation.cancel_and_wait(two, 1),
            lambda: operation.cancel_and_wait_until(two, trio.current_time()),
            lambda: operation.close_and_wait(two, trio.current_time(), trio.current_time()),
        ]
        for wait in waits:
            with pytest.raises(OperationBound):
                await wait()
        assert not operation.cancelled
        second = one.spawn_operation(operation, forever)  # admission is open
        assert (operation.active, two.task_count) == (2, 0)
        assert await operation.cancel_and_wait(one, 1)
        assert (operation_task.outcome, second.outcome) == ("cancelled", "cancelled")


async def test_a_submission_that_was_refused_binds_nothing() -> None:
    async with open_runtime() as context:
        closed, other = context.component("closed").group, context.component("other").group
        closed.close()
        operation = Operation()
        with pytest.raises(GroupClosed):
            closed.spawn_operation(operation, forever)
        task = other.spawn_operation(operation, trio.lowlevel.checkpoint)
        await task.wait()


@pytest.mark.row("runtime:R44")
async def test_submissions_that_are_refused_touch_no_counter(autojump_clock: trio.testing.MockClock) -> None:
    seen: list[object] = []
    async with open_runtime() as context:
        group = context.component("part").group
        refused: list[tuple[Operation, str]] = [
            (Operation(), "closed"),
            (Operation(), "cancelled"),
            (Operation(trio.current_time()), "past its deadline"),
        ]
        refused[0][0].close_admission()
        refused[1][0].cancel()
        for operation, why in refused:
            operation.observe(lambda kind, outcome: seen.append((kind, outcome)))
            for start in (group.spawn_operation, group.spawn_draining_operation):
                with pytest.raises(OperationClosed) as caught:
                    start(operation, forever)
                assert caught.value.why == why
            assert operation.outcomes == OperationOutcomes()
            assert operation.active == 0
        closed = context.component("closed").group
        closed.close()
        operation = Operation()
        with pytest.raises(GroupClosed):
            closed.spawn_operation(operation, forever)
        assert operation.outcomes.total == operation.active == 0
        assert (group.task_count, group.outcomes.total, seen) == (0, 0, [])


async def test_a_deadline_that_is_no_number_is_refused() -> None:
    with pytest.raises(ContractViolation):
        Operation(nan)


@pytest.mark.row("runtime:R45")
async def test_another_label_shares_everything_else(autojump_clock: trio.testing.MockClock) -> None:
    seen: list[tuple[TaskKind, str]] = []
    async with open_runtime() as context:
        group = context.component("part").group
        one = Operation(trio.current_time() + 9, "worker")
        one.observe(lambda kind, outcome: seen.append((kind, outcome)))
        two = one.with_kind("blocking")
        assert (one.kind, two.kind, two.deadline) == ("worker", "blocking", one.deadline)
        tasks = [group.spawn_operation(one, forever), group.spawn_operation(two, trio.sleep, 1)]
        assert [task.kind for task in tasks] == ["worker", "blocking"]
        assert one.active == two.active == 2
        await tasks[1].wait()
        assert one.outcomes == two.outcomes == OperationOutcomes(completed=1)
        assert two.tighten(trio.current_time() + 5)
        assert one.deadline == two.deadline
        two.cancel()
        assert one.cancelled
        assert await tasks[0].wait() == "cancelled"
        with pytest.raises(OperationClosed):
            group.spawn_operation(one, forever)
    assert seen == [("blocking", "completed"), ("worker", "cancelled")]


async def test_a_deadline_is_tightened_for_what_runs_too_and_never_moves_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_runtime() as context:
        group = context.component("part").group
        operation = Operation(trio.current_time() + 10)
        task = group.spawn_operation(operation, forever)
        assert not operation.tighten(trio.current_time() + 11)
        assert not operation.tighten(nan)
        assert operation.tighten(trio.current_time() + 2)
        begun = trio.current_time()
        assert await task.wait() == "cancelled"
        assert trio.current_time() - begun == 2
    assert operation.outcomes == OperationOutcomes(deadline_exceeded=1)


# ---------------------------------------------------------------- counted once each


@pytest.mark.row("runtime:R46")
@pytest.mark.parametrize("seed", range(8))
async def test_the_six_counts_add_up_to_what_was_accepted(seed: int, autojump_clock: trio.testing.MockClock) -> None:
    rng = random.Random(seed)
    accepted = 0
    counts: dict[str, int] = {}
    async with open_runtime() as context:
        group = context.component("part").group
        operation = Operation(trio.current_time() + rng.uniform(2, 6))

        def count(_: TaskKind, outcome: str) -> None:
            counts[outcome] = counts.get(outcome, 0) + 1
            assert operation.outcomes.total == sum(counts.values())

        operation.observe(count)
        tasks: list[TaskHandle[None]] = []
        for _ in range(200):
            style = rng.choice([group.spawn_operation, group.spawn_draining_operation])
            try:
                tasks.append(style(operation, trio.sleep, rng.choice([0, rng.uniform(0, 8)])))
                accepted += 1
            except OperationClosed:
                pass
            if rng.random() < 0.1:
                rng.choice(tasks).cancel()
            if rng.random() < 0.2:
                await trio.sleep(rng.uniform(0, 0.1))
            if rng.random() < 0.004:
                operation.cancel()
        if rng.random() < 0.5:
            group.cancel()
        await operation.wait(group, 20)
        assert operation.outcomes.total == accepted == group.outcomes.total
        assert sum(counts.values()) == accepted
    assert accepted > 5


@pytest.mark.row("runtime:R46")
async def test_a_task_that_ends_in_its_first_step_or_raises_is_counted_once() -> None:
    async def fail() -> None:
        raise ValueError("planted")

    async def nothing() -> None:
        pass

    with pytest.raises(ExceptionGroup):
        async with open_runtime() as context:
            group = context.component("part").group
            operation = Operation()
            await group.spawn_operation(operation, nothing).wait()
            await group.spawn_operation(operation, fail).wait()
            assert operation.outcomes == OperationOutcomes(completed=1, panicked=1)
            assert group.state == "poisoned"
            assert group.outcomes.panicked == 1


async def test_an_observer_that_fails_is_logged_and_the_task_has_ended_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def observe(kind: TaskKind, outcome: str) -> None:
        raise RuntimeError("planted")

    async with open_runtime() as context:
        group = context.component("part").group
        operation = Operation()
        operation.observe(observe)
        task = group.spawn_operation(operation, trio.lowlevel.checkpoint)
        assert await operation.wait(group, 60)
        assert await task.wait() == "completed"
        assert (group.state, group.task_count) == ("open", 0)
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "/part/checkpoint" in record.getMessage()


@pytest.mark.row("runtime:R50")
async def test_every_kind_of_wait_returns_after_the_records_have_gone() -> None:
    async with open_runtime() as context:
        group = context.component("part").group
        later = trio.current_time() + 60

        def begin(body: Callable[[], Awaitable[None]]) -> tuple[Operation, list[TaskHandle[None]]]:
            operation = Operation()
            return operation, [group.spawn_operation(operation, body) for _ in range(3)]

        async def after(operation: Operation, tasks: list[TaskHandle[None]], wait: Awaitable[object]) -> object:
            result = await wait
            assert not any(group.contains(task) for task in tasks)
            assert (operation.active, operation.outcomes.total, group.task_count) == (0, 3, 0)
            return result

        one, tasks = begin(trio.lowlevel.checkpoint)
        assert await after(one, tasks, one.wait(group, 60)) is True
        two, tasks = begin(trio.lowlevel.checkpoint)
        assert await after(two, tasks, two.wait_until(group, later)) is True
        three, tasks = begin(forever)
        assert await after(three, tasks, three.cancel_and_wait(group, 60)) is True
        four, tasks = begin(forever)
        assert await after(four, tasks, four.cancel_and_wait_until(group, later)) is True
        five, tasks = begin(forever)
        now = trio.current_time()
        assert await after(five, tasks, five.close_and_wait(group, now, later)) == OperationEnd("abort_confirmed")


@pytest.mark.row("runtime:R50")
async def test_whoever_a_wait_has_released_finds_no_record_of_the_operation() -> None:
    async with open_runtime() as context:
        group = context.component("part").group
        for _ in range(100):
            operation = Operation()
            tasks = [group.spawn_operation(operation, trio.lowlevel.checkpoint) for _ in range(10)]
            now = trio.current_time()
            assert await operation.close_and_wait(group, now + 60, now + 60) == OperationEnd("completed")
            assert not any(group.contains(task) for task in tasks)
            assert (group.task_count, operation.active) == (0, 0)
            assert operation.outcomes == OperationOutcomes(completed=10)
        assert group.outcomes.completed == 1000


# ---------------------------------------------------------------- waits


async def in_group(context: ServiceContext) -> TaskGroup:
    return context.component("part").group


@pytest.mark.row("runtime:R47")
async def test_a_relative_wait_takes_at_most_a_second_more(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime() as context:
        group = await in_group(context)
        operation = Operation()
        stuck = group.spawn_operation(operation, deaf, 30)
        begun = trio.current_time()
        assert not await operation.wait(group, 2)
        assert trio.current_time() - begun == pytest.approx(3)
        assert group.contains(stuck)
        assert not operation.cancelled  # the operation itself goes on
        assert await operation.wait(group, 60)  # a later wait sees the end
        assert operation.outcomes == OperationOutcomes(aborted=1)


@pytest.mark.row("runtime:R47")
async def test_a_wait_is_for_what_is_accepted_meanwhile_too(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime() as context:
        group = await in_group(context)
        operation = Operation()
        group.spawn_operation(operation, trio.sleep, 1)

        async def more() -> None:
            await trio.sleep(0.5)
            group.spawn_operation(operation, trio.sleep, 2)

        group.spawn(more)
        begun = trio.current_time()
        assert await operation.wait(group, 10)
        assert trio.current_time() - begun == pytest.approx(2.5)
        assert operation.outcomes == OperationOutcomes(completed=2)


@pytest.mark.row("runtime:R47")
async def test_a_wait_is_not_over_when_the_end_of_one_task_starts_another(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_runtime() as context:
        group = await in_group(context)
        operation = Operation()

        def observe(kind: TaskKind, outcome: str) -> None:
            if operation.outcomes.total < 3:
                group.spawn_operation(operation, trio.sleep, 1)

        operation.observe(observe)
        group.spawn_operation(operation, trio.sleep, 1)
        assert await operation.wait(group, 60)
        assert operation.outcomes == OperationOutcomes(completed=3)
        assert trio.current_time() == 3


async def test_a_wait_for_nothing_is_true_at_once() -> None:
    async with open_runtime() as context:
        group = await in_group(context)
        assert await Operation().wait(group, 0)
        assert await Operation().wait_until(group, 0)


@pytest.mark.row("runtime:R48")
async def test_an_absolute_wait_returns_at_its_time_and_the_task_is_still_listed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_runtime() as context:
        group = await in_group(context)
        operation = Operation()
        stuck = group.spawn_operation(operation, deaf, 30)
        end = trio.current_time() + 4
        assert not await operation.wait_until(group, end)
        assert trio.current_time() == end
        assert group.contains(stuck)
        assert operation.active == 1
        assert await operation.cancel_and_wait_until(group, end + 60)
        assert stuck.outcome == "aborted"


async def test_cancel_and_wait_closes_cancels_and_waits(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime() as context:
        group = await in_group(context)
        operation = Operation()
        others = group.spawn_service(forever)
        tasks = [group.spawn_operation(operation, forever) for _ in range(3)]
        begun = trio.current_time()
        assert await operation.cancel_and_wait(group, 5)
        assert trio.current_time() == begun
        assert [task.outcome for task in tasks] == ["cancelled"] * 3
        assert operation.outcomes == OperationOutcomes(cancelled=3)
        assert (group.state, others.outcome) == ("open", None)
        others.cancel()


@pytest.mark.row("runtime:R49")
async def test_a_wait_by_policy_tells_apart_its_three_ends(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime() as context:
        group = await in_group(context)
        now = trio.current_time()
        graceful = Operation()
        group.spawn_operation(graceful, trio.sleep, 1)
        assert await graceful.close_and_wait(group, now + 2, now + 3) == OperationEnd("completed")
        assert trio.current_time() == now + 1
        with pytest.raises(OperationClosed):
            group.spawn_operation(graceful, forever)

        now = trio.current_time()
        aborted = Operation()
        group.spawn_operation(aborted, forever)
        assert await aborted.close_and_wait(group, now + 2, now + 3) == OperationEnd("abort_confirmed")
        assert trio.current_time() == now + 2
        assert aborted.outcomes == OperationOutcomes(aborted=1)

        now = trio.current_time()
        stuck = Operation()
        task = group.spawn_operation(stuck, deaf, 30)
        assert await stuck.close_and_wait(group, now + 2, now + 3) == OperationEnd("unconfirmed", 1)
        assert trio.current_time() == now + 3
        assert group.contains(task)
        assert group.report().remaining[0].path == task.path

        now = trio.current_time()
        tightened = Operation()
        group.spawn_operation(tightened, deaf, 0.5)
        assert await tightened.close_and_wait(group, now + 9, now + 1) == OperationEnd("completed")
        group.spawn_operation(late := Operation(), forever)
        assert await late.close_and_wait(group, trio.current_time() + 9, trio.current_time() + 1) != OperationEnd(
            "completed"
        )
        assert trio.current_time() == now + 1.5
        assert await stuck.wait(group, 60)


async def test_a_cancelled_wait_leaves_the_operation_as_it_is(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime() as context:
        group = await in_group(context)
        operation = Operation()
        task = group.spawn_operation(operation, trio.sleep, 5)
        with trio.move_on_after(1) as scope:
            await operation.wait(group, 60)
        assert scope.cancelled_caught
        assert task.outcome is None
        assert await operation.wait(group, 60)
        assert await task.wait() == "completed"


# ---------------------------------------------------------------- the observer


@pytest.mark.row("runtime:R52")
async def test_one_observer_and_before_the_first_submission() -> None:
    async with open_runtime() as context:
        group = await in_group(context)
        seen: list[object] = []
        operation = Operation()
        operation.observe(lambda kind, outcome: seen.append((kind, outcome)))
        with pytest.raises(ObserverRefused) as caught:
            operation.observe(print)
        assert caught.value.taken
        await group.spawn_operation(operation, trio.lowlevel.checkpoint).wait()
        assert seen == [("operation", "completed")]

        used = Operation()
        group.spawn_operation(used, trio.lowlevel.checkpoint)
        with pytest.raises(ObserverRefused) as caught:
            used.observe(print)
        assert not caught.value.taken

        tried = Operation()
        tried.close_admission()
        with pytest.raises(OperationClosed):
            group.spawn_operation(tried, forever)
        with pytest.raises(ObserverRefused):
            tried.with_kind("worker").observe(print)

        closed, refused = context.component("closed").group, Operation()
        closed.close()
        with pytest.raises(GroupClosed):
            closed.spawn_operation(refused, forever)
        with pytest.raises(ObserverRefused):
            refused.observe(print)
