"""Operations: who ends their tasks, how that is counted, and what each wait proves."""

from __future__ import annotations

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
    ServiceContext,
    TaskGroup,
    TaskHandle,
    TaskKind,
    open_runtime,
)

Style = Literal["service", "cancellable", "operation", "draining"]
Event = Literal["owner cancel", "operation cancel", "deadline", "shutdown"]


async def forever() -> None:
    await trio.sleep_forever()


async def deaf(seconds: float) -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)


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
@pytest.mark.parametrize(("style", "event"), MATRIX, ids="-".join)
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


# ---------------------------------------------------------------- what counts when several things happen at once

TIES: list[tuple[tuple[str, ...], OperationOutcomes]] = [
    (("completion", "deadline", "cancel", "owner"), OperationOutcomes(owner_cancelled=1)),
    (("owner", "cancel", "deadline", "completion"), OperationOutcomes(owner_cancelled=1)),
    (("cancel", "owner"), OperationOutcomes(owner_cancelled=1)),
    (("completion", "owner"), OperationOutcomes(owner_cancelled=1)),
    (("completion", "deadline", "cancel"), OperationOutcomes(cancelled=1)),
    (("deadline", "cancel"), OperationOutcomes(cancelled=1)),
    (("completion", "cancel"), OperationOutcomes(cancelled=1)),
    (("completion", "deadline"), OperationOutcomes(deadline_exceeded=1)),
    (("completion",), OperationOutcomes(completed=1)),
]


@pytest.mark.row("runtime:R42")
@pytest.mark.parametrize(("events", "counted"), TIES, ids=["-".join(events) for events, _ in TIES])
async def test_at_one_instant_the_owner_counts_before_the_operation_before_its_deadline_before_the_task(
    events: tuple[str, ...], counted: OperationOutcomes
) -> None:
    trio_clock = trio.testing.MockClock()

    async def main() -> None:
        async with open_runtime() as context:
            group = context.component("part").group
            operation = Operation(trio.current_time() + 1 if "deadline" in events else inf)
            done = trio.Event()
            task = group.spawn_operation(operation, done.wait)
            await trio.testing.wait_all_tasks_blocked()
            for event in events:  # all of it before the task has a turn
                if event == "owner":
                    group.cancel()
                elif event == "cancel":
                    operation.cancel()
                elif event == "deadline":
                    trio_clock.jump(1)
                else:
                    done.set()
            await task.wait()
            assert operation.outcomes == counted

    await trio.to_thread.run_sync(lambda: trio.run(main, clock=trio_clock))


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
