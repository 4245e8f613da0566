"""Task groups: the gate, exact accounting, and how a subtree ends."""

from __future__ import annotations

import gc
import random
import tracemalloc
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from lifecycle import (
    GroupClosed,
    GroupPoisoned,
    Operation,
    Outcomes,
    RuntimeConfig,
    ServiceContext,
    ShutdownDeadline,
    ShutdownReport,
    TaskGroup,
    TaskHandle,
    open_runtime,
)

DEGRADE = RuntimeConfig(signals=False, on_poison="degrade")


async def until_stopping(group: TaskGroup) -> None:
    await group.stopping.wait()


async def deaf(seconds: float) -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)


async def fail(message: str = "planted") -> None:
    raise ValueError(message)


@asynccontextmanager
async def runtime(config: RuntimeConfig | None = None) -> AsyncGenerator[ServiceContext, None]:
    """A runtime whose planted task failures are looked at by the test, not raised."""
    try:
        async with open_runtime(config) as context:
            yield context
    except* ValueError:
        pass


def report_of(context: ServiceContext) -> ShutdownReport:
    report = context.runtime.report
    assert report is not None
    return report


def everywhere(simulated: Callable[[], Awaitable[None]]) -> None:
    """One example of a property: a fresh virtual clock and a fresh Trio program."""
    trio.run(simulated, clock=trio.testing.MockClock(autojump_threshold=0))


# -- outcomes


@pytest.mark.row("runtime:R19")
async def test_a_return_before_the_request_to_stop_is_completed_and_after_it_is_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with runtime() as context:
        early = context.group.spawn_service(trio.sleep, 1)
        late = context.group.spawn_service(until_stopping, context.group)
        await trio.sleep(2)
        assert early.outcome == "completed"
        assert late.outcome is None
    assert late.outcome == "cancelled"
    assert report_of(context).totals() == Outcomes(completed=1, cancelled=1)
    assert context.group.outcomes == Outcomes(completed=1, cancelled=1)


async def test_a_cancellable_task_is_cancelled_by_the_request_to_stop_and_not_aborted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with runtime() as context:
        for _ in range(3):
            context.group.spawn_cancellable(trio.sleep_forever)
    assert report_of(context).totals() == Outcomes(cancelled=3)
    assert report_of(context).is_healthy()
    assert trio.current_time() < 1


@pytest.mark.row("runtime:R18")
async def test_a_task_cancelled_before_its_first_step_never_runs_and_counts_as_aborted() -> None:
    ran: list[str] = []

    class Held:
        pass

    async def body(_: Held) -> None:
        ran.append("ran")

    async with runtime() as context:
        for spawn in (context.group.spawn, context.group.spawn_service, context.group.spawn_cancellable):
            held = Held()
            freed = weakref.ref(held)
            handle = spawn(body, held)
            del held
            handle.cancel()
            assert freed() is not None
            assert await handle.wait() == "aborted"
            assert freed() is None  # what it was given has gone with it
            assert context.group.task_count == 0
    assert ran == []
    assert report_of(context).totals() == Outcomes(aborted=3)
    assert report_of(context).is_healthy()


@pytest.mark.row("runtime:R28")
async def test_aborting_twice_counts_once() -> None:
    async with runtime() as context:
        handle = context.group.spawn_service(trio.sleep_forever)
        await trio.testing.wait_all_tasks_blocked()
        handle.cancel()
        handle.cancel()
        assert await handle.wait() == "aborted"
        handle.cancel()
    assert report_of(context).totals() == Outcomes(aborted=1)


@pytest.mark.row("runtime:R25")
async def test_a_cleanup_that_raises_after_an_abort_is_a_panic_and_not_an_abort() -> None:
    async def body() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("planted")

    async with runtime(DEGRADE) as context:
        handle = context.group.spawn_service(body)
        await trio.testing.wait_all_tasks_blocked()
        handle.cancel()
        assert await handle.wait() == "panicked"
        assert isinstance(handle.exception, ValueError)
    assert report_of(context).totals() == Outcomes(panicked=1)


async def test_an_ended_task_is_no_longer_in_the_group_when_its_waiter_wakes() -> None:
    async with runtime() as context:
        release = trio.Event()
        handle = context.group.spawn_service(release.wait)
        assert context.group.task_count == 1
        release.set()
        assert await handle.wait() == "completed"
        assert context.group.task_count == 0
        assert await handle.wait() == "completed"


async def test_a_real_error_beside_a_cancellation_from_outside_is_a_panic(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def body() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("planted")

    with trio.move_on_after(1):
        async with runtime() as context:
            context.group.spawn_service(body)
            await trio.sleep_forever()
    assert report_of(context).totals() == Outcomes(panicked=1)


async def test_a_task_that_swallows_its_cancellation_and_runs_past_the_end_is_leaked_with_its_stack(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with runtime(RuntimeConfig(signals=False, shutdown_within=10)) as context:
        context.component("part").group.spawn_service(deaf, 100, name="deaf")
    report = report_of(context)
    assert report.totals() == Outcomes(leaked=1, timed_out=1)
    assert not report.is_healthy()
    (task,) = report.still_running()
    assert task.path == "/part/deaf"
    assert any("test_group.py" in line and line.endswith("in deaf") for line in task.stack)


@pytest.mark.row("runtime:R36")
async def test_only_what_the_deadline_overtook_counts_as_timed_out(autojump_clock: trio.testing.MockClock) -> None:
    async with runtime(RuntimeConfig(signals=False, shutdown_within=10)) as context:
        early = context.group.spawn_service(trio.sleep_forever)
        context.group.spawn_service(trio.sleep_forever)
        context.group.spawn_service(deaf, 100)
        await trio.sleep(1)
        early.cancel()
        await early.wait()
    totals = report_of(context).totals()
    assert totals.timed_out == 2
    assert (totals.aborted, totals.leaked) == (2, 1)


# -- the gate


@pytest.mark.row("runtime:R17")
async def test_every_spawn_that_races_a_shutdown_is_either_settled_or_rejected() -> None:
    accepted = rejected = 0
    under_way = trio.Event()
    operation = Operation()

    async def producer(group: TaskGroup, seed: int) -> None:
        nonlocal accepted, rejected
        rng = random.Random(seed)
        for _ in range(1250):
            try:
                sleep = rng.choice((0, 0, 0.001))
                style = rng.randrange(6)
                if style == 0:
                    group.start_soon(trio.sleep, sleep)
                elif style == 1:
                    group.spawn_operation(operation, trio.sleep, sleep)
                elif style == 2:
                    group.spawn_draining_operation(operation, trio.sleep, sleep)
                else:
                    spawn = rng.choice((group.spawn, group.spawn_service, group.spawn_cancellable))
                    spawn(trio.sleep, sleep)
                accepted += 1
                if accepted == 3000:
                    under_way.set()
            except GroupClosed:
                rejected += 1
            if rng.random() < 0.2:
                await trio.lowlevel.checkpoint()

    async with open_runtime() as context:
        part = context.component("part")
        async with trio.open_nursery() as nursery:
            for seed in range(8):
                nursery.start_soon(producer, part.group, seed)
            await under_way.wait()
            report = await part.group.shutdown(5)
        assert part.group.state == "completed"
        assert part.group.task_count == 0
        assert context.group.component_count == 0
        assert operation.active == 0
    assert accepted + rejected == 10_000
    assert rejected > 0
    assert report.totals().total == accepted
    assert report.is_healthy()


steps = st.lists(
    st.tuples(
        st.sampled_from(["service", "cancellable", "fail", "deaf", "child", "cancel", "wait", "shutdown"]),
        st.integers(min_value=0, max_value=7),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(steps, st.integers(min_value=0, max_value=12))
def test_under_random_spawns_failures_cancels_and_stops_each_accepted_task_is_counted_once(
    program: list[tuple[str, int]], within: int
) -> None:
    async def simulated() -> None:
        accepted = rejected = 0
        config = attrs.evolve(DEGRADE, shutdown_within=within)
        async with runtime(config) as context, trio.open_nursery() as nursery:
            contexts = [context]
            handles: list[TaskHandle[None]] = []
            for action, number in program:
                where = contexts[number % len(contexts)]
                if action == "child":
                    contexts.append(where.component("child"))
                elif action == "wait":
                    await trio.sleep(number)
                elif action == "cancel":
                    if handles:
                        handles[number % len(handles)].cancel()
                elif action == "shutdown":
                    if where is not context:
                        nursery.start_soon(where.group.shutdown, float(number))
                else:
                    try:
                        group = where.group
                        if action == "service":
                            handles.append(group.spawn_service(until_stopping, group))
                        elif action == "cancellable":
                            handles.append(group.spawn_cancellable(trio.sleep, number))
                        elif action == "fail":
                            handles.append(group.spawn_service(fail))
                        else:
                            handles.append(group.spawn_service(deaf, number))
                        accepted += 1
                    except (GroupClosed, GroupPoisoned):
                        rejected += 1
        report = report_of(context)
        assert report.totals().total == accepted
        assert context.group.outcomes.total == accepted
        assert context.group.outcomes.leaked == 0
        assert accepted + rejected == sum(1 for action, _ in program if action in KINDS)
        assert context.group.over
        assert not list(context.group.walk())[1:]
        assert all(handle.outcome is not None for handle in handles)

    everywhere(simulated)


KINDS = ("service", "cancellable", "fail", "deaf")


async def test_the_gate_is_closed_when_the_request_returns() -> None:
    async with open_runtime() as context:
        part = context.component("part")
        context.runtime.request_shutdown()
        for group in (context.group, part.group):
            with pytest.raises(GroupClosed) as caught:
                group.spawn_service(trio.sleep, 0)
            assert caught.value.group == group.path


# -- failure


@pytest.mark.row("runtime:R20")
async def test_a_failure_poisons_an_open_group_which_can_still_be_shut_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with runtime(DEGRADE) as context:
        part = context.component("part")
        handle = part.group.spawn_service(fail)
        assert await handle.wait() == "panicked"
        assert part.group.state == "poisoned"
        group, operation = part.group, Operation()
        for spawn in (group.start_soon, group.spawn, group.spawn_service, group.spawn_cancellable):
            with pytest.raises(GroupPoisoned) as caught:
                spawn(trio.sleep, 0)
            assert caught.value.cause is handle.exception
            assert not isinstance(caught.value, GroupClosed)
        for submit in (group.spawn_operation, group.spawn_draining_operation):
            with pytest.raises(GroupPoisoned):
                submit(operation, trio.sleep, 0)
        report = await part.group.shutdown(1)
        assert part.group.over
        assert repr(part.group) == "<TaskGroup /part completed, 0 tasks>"
        assert report.totals() == Outcomes(panicked=1)
    (record,) = [record for record in caplog.records if record.exc_info]
    assert "/part/fail" in record.getMessage()


@pytest.mark.row("runtime:R21")
async def test_a_failure_while_closing_does_not_poison(autojump_clock: trio.testing.MockClock) -> None:
    states: list[str] = []

    async def fails_when_told(group: TaskGroup) -> None:
        await group.stopping.wait()
        states.append(group.state)
        raise ValueError("planted")

    async with runtime() as context:
        part = context.component("part")
        handle = part.group.spawn_service(fails_when_told, part.group)
        other = part.group.spawn_service(deaf, 1)
        shut = await part.group.shutdown(5)
        assert other.outcome == "cancelled"
        assert handle.outcome == "panicked"
    assert states == ["closed"]
    assert part.group.state == "completed"
    assert shut.totals() == Outcomes(panicked=1, cancelled=1)


# -- the end of a subtree


@pytest.mark.row("runtime:R31")
async def test_a_second_shutdown_returns_the_same_report(autojump_clock: trio.testing.MockClock) -> None:
    async with runtime() as context:
        part = context.component("part")
        part.group.spawn_service(deaf, 20)
        first = await part.group.shutdown(2)
        assert first.totals().leaked == 1
        await trio.sleep(30)
        second = await part.group.shutdown(0)
        assert second.to_json() == first.to_json()
        assert part.group.shutdown_now() is first


@pytest.mark.row("runtime:R32")
async def test_a_shutdown_whose_wait_was_cancelled_can_be_resumed(autojump_clock: trio.testing.MockClock) -> None:
    async with runtime() as context:
        part = context.component("part")
        part.group.spawn_service(deaf, 3)
        with trio.move_on_after(1) as scope:
            await part.group.shutdown(10)
        assert scope.cancelled_caught
        with pytest.raises(GroupClosed):
            part.group.spawn_service(trio.sleep, 0)
        report = await part.group.shutdown(10)
        assert report.is_healthy()
        assert report.totals() == Outcomes(cancelled=1)
        assert trio.current_time() == pytest.approx(3)


@pytest.mark.row("runtime:R33")
async def test_a_task_of_one_child_may_wait_for_the_end_of_its_sibling(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def waits_for(own: TaskGroup, other: TaskGroup) -> None:
        await own.stopping.wait()
        report = await other.shutdown(5)
        assert report.is_healthy()

    async with runtime() as context:
        one, two = context.component("one"), context.component("two")
        one.group.spawn_service(waits_for, one.group, two.group)
        two.group.spawn_service(until_stopping, two.group)
        await trio.testing.wait_all_tasks_blocked()
    assert report_of(context).totals() == Outcomes(cancelled=2)
    assert trio.current_time() < 1


@pytest.mark.row("runtime:R34")
async def test_stuck_children_share_one_deadline(autojump_clock: trio.testing.MockClock) -> None:
    async with runtime(RuntimeConfig(signals=False, shutdown_within=0.05)) as context:
        for number in range(20):
            context.component(f"part{number}").group.spawn_service(trio.sleep_forever)
        await trio.testing.wait_all_tasks_blocked()
    assert trio.current_time() < 0.15
    assert report_of(context).totals() == Outcomes(aborted=20, timed_out=20)


@pytest.mark.row("runtime:R30")
async def test_a_request_at_the_root_moves_the_deadline_of_every_part_earlier_and_wakes_who_waits(
    autojump_clock: trio.testing.MockClock,
) -> None:
    times: list[float] = []

    async def shuts(group: TaskGroup) -> None:
        with trio.CancelScope(shield=True):
            await group.shutdown(1000)
        times.append(trio.current_time())

    async with runtime() as context, trio.open_nursery() as nursery:
        part = context.component("part")
        leaf = part.component("leaf")
        leaf.group.spawn_service(deaf, 50)
        nursery.start_soon(shuts, part.group)
        await trio.sleep(1)
        assert leaf.deadline.end == 1000
        context.runtime.request_shutdown(within=10)
        assert leaf.deadline.end == part.deadline.end == 11
        context.runtime.request_shutdown(within=500)
        assert leaf.deadline.end == 11
        context.runtime.request_shutdown(within=5)
        assert leaf.deadline.end == 6
        with trio.CancelScope(shield=True):
            await trio.sleep(100)
    assert times == [6.0]


async def test_a_part_shut_down_with_more_time_than_its_parent_has_ends_with_the_parent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with runtime() as context:
        part = context.component("part")
        part.group.spawn_service(deaf, 50)
        context.runtime.request_shutdown(within=10)
        with trio.CancelScope(shield=True):
            report = await part.group.shutdown(1000)
            assert trio.current_time() == 10
            assert report.totals().leaked == 1
            await trio.sleep(100)


async def test_a_part_whose_shutdown_nobody_waits_for_still_follows_the_deadline_of_the_runtime(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def cleans(context: ServiceContext) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with context.cleanup(within=500):
                await trio.sleep_forever()  # noqa: ASYNC102 (the scope is one that ends)

    async with runtime() as context:
        part = context.component("part")
        part.group.spawn_service(cleans, part)
        with trio.move_on_after(1):
            await part.group.shutdown(1000)
        context.runtime.request_shutdown(within=10)
        assert part.deadline.end == 11
    assert trio.current_time() == 11
    assert report_of(context).totals() == Outcomes(aborted=1, timed_out=1)


async def test_a_parent_that_is_shut_down_takes_a_child_along_that_had_more_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ended: list[float] = []

    async def shuts(group: TaskGroup) -> None:
        report = await group.shutdown(1000)
        assert report.totals() == Outcomes(leaked=1, timed_out=1)
        ended.append(trio.current_time())

    async with runtime() as context, trio.open_nursery() as nursery:
        part = context.component("part")
        leaf = part.component("middle").component("leaf")
        leaf.group.spawn_service(deaf, 50)
        nursery.start_soon(shuts, leaf.group)
        await trio.sleep(1)
        report = await part.group.shutdown(5)
        assert trio.current_time() == 6
        assert report.totals().leaked == 1
        await trio.sleep(100)
    assert ended == [6.0]


async def test_a_part_that_is_given_no_time_ends_with_everything_accounted_for() -> None:
    async with runtime() as context:
        part = context.component("part")
        for number in range(20):
            part.component(str(number)).group.spawn_service(trio.sleep_forever)
        await trio.testing.wait_all_tasks_blocked()
        report = await part.group.shutdown(0)
        assert part.group.over
        assert report.totals() == Outcomes(aborted=20, timed_out=20)


async def test_a_part_below_the_levels_that_nest_really_ends_alone(autojump_clock: trio.testing.MockClock) -> None:
    async with runtime() as context:
        parts = [context]
        for _ in range(300):
            parts.append(parts[-1].component("n"))
            parts[-1].group.spawn_service(until_stopping, parts[-1].group)
        await trio.testing.wait_all_tasks_blocked()
        report = await parts[200].group.shutdown(5)
        assert report.totals() == Outcomes(cancelled=101)
        assert parts[199].group.state == "open"
        assert parts[199].group.task_count == 1
    assert report_of(context).totals() == Outcomes(cancelled=300)


@pytest.mark.row("runtime:R40")
async def test_a_leaf_task_is_found_by_the_shutdown_of_the_root_when_nobody_holds_its_context(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ended: list[str] = []

    async def leaf() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("leaf")

    async with runtime() as context:
        context.component("a").component("b").component("c").group.spawn_cancellable(leaf)
        gc.collect()
        await trio.testing.wait_all_tasks_blocked()
    assert ended == ["leaf"]
    assert report_of(context).totals() == Outcomes(cancelled=1)


async def test_a_tree_4096_deep_with_a_task_at_each_level_ends_in_one_shutdown(
    autojump_clock: trio.testing.MockClock,
) -> None:
    depth = 4096
    async with runtime() as context:
        part = context
        for _ in range(depth):
            part = part.component("n")
            part.group.spawn_service(until_stopping, part.group)
        assert part.path.count("/") == depth
        await trio.testing.wait_all_tasks_blocked()
    report = report_of(context)
    assert report.is_healthy()
    assert report.totals() == Outcomes(cancelled=depth)
    assert ShutdownReport.from_json(report.to_json()) == report


async def test_a_tree_4096_deep_that_does_not_stop_is_cancelled_at_the_work_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    depth = 4096
    async with runtime(RuntimeConfig(signals=False, shutdown_within=10)) as context:
        part = context
        for _ in range(depth):
            part = part.component("n")
            part.group.spawn_service(trio.sleep_forever)
        await trio.testing.wait_all_tasks_blocked()
    assert trio.current_time() == pytest.approx(9)
    assert report_of(context).totals() == Outcomes(aborted=depth, timed_out=depth)


@pytest.mark.row("runtime:R38")
async def test_100_000_short_children_leave_no_history() -> None:
    async def churn(context: ServiceContext, waves: int) -> None:
        for _ in range(waves):
            # One in ten has a task, which has it make a nursery too.
            for number in range(1000):
                part = context.component("part")
                if number % 10 == 0:
                    part.group.spawn_service(trio.lowlevel.checkpoint)
                part.group.close()
            await trio.testing.wait_all_tasks_blocked()

    async with open_runtime() as context:
        await churn(context, 10)
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            await churn(context, 10)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        # A record of each child would be megabytes.
        assert grown < 100_000
        await churn(context, 80)
        assert context.group.component_count == 0
        assert context.group.task_count == 0
    report = report_of(context)
    assert report.totals().total == 10_000
    assert len(list(report.walk())) == 1


@pytest.mark.row("runtime:R38")
async def test_parts_that_were_shut_down_one_by_one_leave_nothing_that_follows_the_deadline() -> None:
    def deadlines() -> int:
        gc.collect()
        return sum(isinstance(thing, ShutdownDeadline) for thing in gc.get_objects())

    async with open_runtime() as context:
        before = deadlines()
        for _ in range(100):
            part = context.component("part")
            part.group.spawn_cancellable(trio.sleep_forever)
            await part.group.shutdown(1)
        del part
        assert deadlines() == before


async def test_the_totals_hold_what_a_report_has_no_lines_for(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime() as context:
        part = context.component("part")
        for number in range(600):
            child = part.component(f"child-{number}")
            child.group.spawn_cancellable(trio.sleep_forever)
            child.component("below").group.spawn_service(trio.sleep_forever if number % 2 else child.stopping.wait)
        report = await part.group.shutdown(10)
        expected = Outcomes(cancelled=900, aborted=300, timed_out=300)
        assert report.totals() == expected
        assert part.group.outcomes == expected
        assert context.group.outcomes == expected
        assert report.children_omitted > 0
        assert len(report.children) < 600
