"""Single tasks of a group: handles, results, aborts; a stop that closes no gate; tasks without a handle."""

from __future__ import annotations

import copy
import gc
from contextvars import ContextVar

import pytest
import trio
import trio.testing

from lifecycle import (
    GroupClosed,
    GroupPoisoned,
    Operation,
    Outcomes,
    RuntimeConfig,
    RuntimeHandle,
    ServiceContext,
    ShutdownReport,
    SpawnedTask,
    StopToken,
    TaskDidNotComplete,
    TaskGroup,
    TaskHandle,
    TaskSpawner,
    open_runtime,
)

from ._bodies import deaf, forever

DEGRADE = RuntimeConfig(signals=False, on_poison="degrade", shutdown_within=10)


async def fail() -> None:
    raise ValueError("planted")


async def answer(value: int) -> int:
    await trio.lowlevel.checkpoint()
    return value


def alive(kind: type) -> int:
    gc.collect()
    return sum(isinstance(thing, kind) for thing in gc.get_objects())


# ---------------------------------------------------------------- contexts


@pytest.mark.row("runtime:R6")
async def test_a_context_is_made_and_copied_by_nobody_else() -> None:
    async with open_runtime() as context:
        with pytest.raises(TypeError):
            ServiceContext()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="made by the runtime"):
            ServiceContext("root", context.runtime)  # type: ignore[arg-type]
        for copies in (copy.copy, copy.deepcopy):
            with pytest.raises(TypeError):
                copies(context)
        assert isinstance(context.runtime, RuntimeHandle)


@pytest.mark.row("runtime:R11")
async def test_another_name_for_a_context_shares_its_stop_and_a_child_has_its_own() -> None:
    async with open_runtime() as context:
        original = context.component("part")
        clone = original
        sibling, child = context.component("sibling"), context.component("child")
        below = child.component("below")
        clone.group.cancel()
        assert original.stopping.is_set()
        child.group.cancel()
        assert child.stopping.is_set()
        assert below.stopping.is_set()  # flows down
        assert child.component("later").stopping.is_set()
        assert not sibling.stopping.is_set()
        assert not context.stopping.is_set()
        task = sibling.group.spawn_cancellable(trio.lowlevel.checkpoint)
        assert await task.wait() == "completed"


@pytest.mark.row("runtime:R13")
async def test_a_spawner_cannot_end_what_others_started_and_shows_no_way_to_the_runtime() -> None:
    async with open_runtime() as context:
        part = context.component("part")
        other = part.group.spawn_cancellable(forever)
        spawner = part.spawner
        token, second = spawner.token(), spawner.token()
        token.cancel()
        assert token.is_set()
        await token.wait()
        assert not second.is_set()
        assert not part.stopping.is_set()
        assert part.group.state == "open"
        mine = spawner.spawn_service(answer, 3)
        assert await mine.join() == 3
        assert (mine.name, mine.path, mine.outcome) == ("answer", "/part/answer", "completed")
        operation = Operation()
        own = [
            spawner.spawn(forever, name="own"),
            spawner.spawn_cancellable(forever),
            spawner.spawn_operation(operation, forever),
        ]
        assert [record.path for record in part.group.records()][1:] == [task.path for task in own]
        own[0].cancel()
        operation.cancel()
        assert [await own[0].wait(), await own[2].wait()] == ["aborted", "cancelled"]
        assert (own[1].outcome, other.outcome) == (None, None)
        shown = {name for kind in (TaskSpawner, SpawnedTask, StopToken) for name in dir(kind) if name[0] != "_"}
        assert shown == {
            "cancel",
            "is_set",
            "join",
            "name",
            "outcome",
            "path",
            "spawn",
            "spawn_cancellable",
            "spawn_operation",
            "spawn_service",
            "token",
            "wait",
        }
        values = [getattr(thing, name) for thing in (spawner, mine, token) for name in dir(thing) if name[0] != "_"]
        assert not any(isinstance(value, (TaskGroup, ServiceContext, RuntimeHandle)) for value in values)
        part.group.cancel()
        assert second.is_set()
        assert spawner.token().is_set()
        assert await other.wait() == "cancelled"
        part.group.close()
        for start in (spawner.spawn, spawner.spawn_service, spawner.spawn_cancellable):
            with pytest.raises(GroupClosed):
                start(forever)
        with pytest.raises(GroupClosed):
            spawner.spawn_operation(Operation(), forever)


async def test_a_token_that_nobody_holds_is_forgotten() -> None:
    async with open_runtime() as context:
        group = context.component("part").group
        called: list[int] = []
        take_back = group.at_stop(lambda: called.append(1))
        group.at_stop(lambda: called.append(2))
        take_back()
        spawner = context.component("other").spawner
        before = alive(trio.Event)
        kept = [spawner.token() for _ in range(10)]
        for _ in range(1000):
            spawner.token()
        assert alive(trio.Event) <= before + 10
        assert not any(token.is_set() for token in kept)
        group.cancel()
        assert called == [2]
        group.at_stop(lambda: called.append(3))  # told already: at once
        group.close()
        assert called == [2, 3]


# ---------------------------------------------------------------- handles


@pytest.mark.row("runtime:R22")
async def test_a_handle_gives_the_result_or_raises_what_the_task_raised_which_is_counted_once() -> None:
    with pytest.raises(ExceptionGroup) as left:
        async with open_runtime(DEGRADE) as context:
            group = context.component("part").group
            assert await group.spawn(answer, 7).join() == 7
            task = group.spawn(fail)
            for _ in range(2):
                with pytest.raises(ValueError, match="planted"):
                    await task.join()
            assert await task.wait() == "panicked"
            assert group.outcomes == Outcomes(completed=1, panicked=1)
    assert [str(error) for error in left.value.exceptions] == ["planted"]


async def test_a_cancelled_task_has_no_result_and_one_that_returned_after_the_stop_has() -> None:
    async with open_runtime() as context:
        group = context.component("part").group

        async def last_words() -> str:
            await group.stopping.wait()
            return "bye"

        task, service = group.spawn(forever), group.spawn_service(last_words)
        task.cancel()
        with pytest.raises(TaskDidNotComplete) as caught:
            await task.join()
        assert (caught.value.task, caught.value.outcome) == ("/part/forever", "aborted")
        group.cancel()
        assert await service.join() == "bye"
        assert service.outcome == "cancelled"


@pytest.mark.row("runtime:R23")
async def test_whoever_a_task_has_released_sees_what_it_held_freed_and_no_record_of_it() -> None:
    limiter = trio.CapacityLimiter(1)
    seen: list[tuple[bool, bool, int, Outcomes]] = []
    async with open_runtime() as context:
        group = context.component("part").group

        async def holds() -> None:
            async with limiter:
                await trio.sleep_forever()

        async def wait_for(task: TaskHandle[None]) -> None:
            await task.wait()
            seen.append((group.contains(task), task.ended, limiter.borrowed_tokens, group.outcomes))

        task = group.spawn(holds)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(wait_for, task)
            await trio.testing.wait_all_tasks_blocked()
            assert limiter.borrowed_tokens == 1
            assert group.abort(task)
    assert seen == [(False, True, 0, Outcomes(aborted=1))] * 3


@pytest.mark.row("runtime:R24")
async def test_the_record_of_a_task_is_kept_while_it_cleans_up(autojump_clock: trio.testing.MockClock) -> None:
    async def cleans_up() -> None:
        try:
            await trio.sleep_forever()
        finally:
            await deaf(3)  # noqa: ASYNC102 (it is shielded, that is the point)

    async with open_runtime() as context:
        group = context.component("part").group
        task = group.spawn(cleans_up)
        await trio.testing.wait_all_tasks_blocked()
        assert group.abort(task)
        await trio.testing.wait_all_tasks_blocked()
        assert group.contains(task)
        for within in (0, -1):
            assert not await group.wait_task(task, within)
            assert not await group.abort_and_wait(task, within)
        now = group.shutdown_now()
        assert now.totals() == Outcomes(leaked=1, timed_out=1)
        assert [left.path for left in now.remaining] == ["/part/cleans_up"]
        assert await group.wait_task(task, 60)
        assert not group.contains(task)
        assert task.outcome == "aborted"
        assert (await group.shutdown(1)).totals() == Outcomes(aborted=1)  # better than the one before


@pytest.mark.row("runtime:R26")
async def test_a_task_of_another_group_is_a_stranger(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime() as context:
        one, two = context.component("same").group, context.component("same").group
        task = two.spawn(forever)
        begun = trio.current_time()
        assert not one.contains(task)
        assert not one.abort(task)
        assert not await one.wait_task(task, 60)
        assert not await one.abort_and_wait(task, 60)
        assert trio.current_time() == begun
        assert two.contains(task)
        assert task.outcome is None
        task.cancel()
        await task.wait()
        assert not await one.wait_task(task, 60)  # a stranger also when it has ended


@pytest.mark.row("runtime:R27")
async def test_a_task_that_has_ended_needs_no_wait_and_cannot_be_aborted() -> None:
    async with open_runtime() as context:
        group = context.component("part").group
        task = group.spawn(answer, 1)
        await task.wait()
        assert await group.wait_task(task, 0)
        assert not await group.abort_and_wait(task, 60)
        assert not group.abort(task)
        assert group.outcomes == Outcomes(completed=1)


async def test_abort_and_wait_waits_for_the_frame_to_go() -> None:
    async with open_runtime() as context:
        group = context.component("part").group
        task = group.spawn(forever)
        assert await group.abort_and_wait(task, 60)
        assert task.outcome == "aborted"


# ---------------------------------------------------------------- cancel and close


@pytest.mark.row("runtime:R29")
async def test_a_cancel_leaves_the_gate_open_and_a_shutdown_does_not() -> None:
    async with open_runtime() as context:
        group = context.component("part").group
        first = group.spawn_cancellable(forever)
        group.cancel()
        assert group.state == "open"
        assert await first.wait() == "cancelled"
        service = group.spawn_service(answer, 1)
        assert await service.join() == 1
        assert service.outcome == "cancelled"  # it returned after the request to stop
        late = group.spawn_cancellable(answer, 1)
        assert await late.wait() == "cancelled"
        with pytest.raises(TaskDidNotComplete):  # it never ran
            await late.join()
        await group.shutdown(1)
        with pytest.raises(GroupClosed):
            group.spawn_service(forever)


@pytest.mark.row("runtime:R35")
async def test_whoever_is_woken_by_the_stop_finds_the_group_closed() -> None:
    async with open_runtime() as context:
        part = context.component("part")
        below = part.component("below")
        seen: list[str] = []
        states: list[str] = [part.group.state]

        def watch() -> None:
            # Every gate of the subtree is closed before anybody hears of it.
            states.extend([part.group.state, below.group.state])

        part.group.at_stop(watch)

        async def service(context: ServiceContext) -> None:
            await context.stopping.wait()
            seen.append(context.group.state)

        async def cancelled(context: ServiceContext) -> None:
            try:
                await trio.sleep_forever()
            finally:
                seen.append(context.group.state)

        part.group.spawn_service(service, part)
        below.group.spawn_service(service, below)
        below.group.spawn_cancellable(cancelled, below)
        await trio.testing.wait_all_tasks_blocked()
        part.group.close()
        states.append(part.group.state)
        await part.group.wait_over()
        states.append(part.group.state)
    assert seen == ["closed"] * 3
    assert states == ["open", "closing", "closing", "closed", "completed"]


@pytest.mark.row("runtime:R37")
@pytest.mark.parametrize("count", ["failed", "panicked", "timed_out", "leaked"])
def test_one_bad_count_anywhere_below_makes_a_report_unhealthy(count: str) -> None:
    aborted = ShutdownReport("leaf", outcomes=Outcomes(completed=3, cancelled=2, aborted=1))
    assert ShutdownReport("root", children=(ShutdownReport("part", children=(aborted,)),)).is_healthy()
    bad = ShutdownReport("leaf", outcomes=Outcomes(**{count: 1}))
    root = ShutdownReport("root", children=(ShutdownReport("part", children=(aborted, bad)),))
    assert not root.is_healthy()


@pytest.mark.row("runtime:R37")
def test_a_blocking_call_anywhere_below_makes_a_report_unhealthy() -> None:
    from lifecycle import BlockingTask

    call = BlockingTask("read", "storage_io", "running", 1.5)
    leaf = ShutdownReport("leaf", blocking=(call,))
    root = ShutdownReport("root", children=(ShutdownReport("part", children=(leaf,)),))
    assert not root.is_healthy()
    assert root.blocking_still_running == 1
    many = ShutdownReport("many", blocking=(call,) * 100)
    assert (len(many.blocking), many.blocking_omitted, many.blocking_still_running) == (64, 36, 100)


@pytest.mark.row("runtime:R39")
async def test_a_tree_4096_levels_deep_is_cancelled_reported_and_shut_down(
    autojump_clock: trio.testing.MockClock,
) -> None:
    before = alive(TaskGroup)
    async with open_runtime(RuntimeConfig(signals=False, shutdown_within=60)) as context:
        top = deep = context.component("top")
        tasks = [top.group.spawn_service(deep.stopping.wait)]
        for _ in range(4096):
            deep = deep.component("level")
        tasks.append(deep.group.spawn_cancellable(forever))
        tasks.append(deep.group.spawn_service(deep.stopping.wait))
        deep.group.start_soon(deep.stopping.wait)
        await trio.testing.wait_all_tasks_blocked()
        now = top.group.report()
        assert now.totals().leaked == 4
        assert sum(1 for _ in now.walk()) == 4097
        assert ShutdownReport.from_json(now.to_json()) == now
        top.group.cancel()
        assert [await task.wait() for task in tasks] == ["cancelled"] * 3
        report = await top.group.shutdown(30)
        assert report.is_healthy()
        assert report.totals().total == 4
        later = context.component("later")
        for _ in range(4096):
            later = later.component("level")
        snapshot = context.diagnostics()
        assert snapshot.to_json()
    assert later.group.state == "completed"
    del context, top, deep, later, tasks, report, snapshot  # the chain goes link by link, without a recursion
    assert alive(TaskGroup) <= before


# ---------------------------------------------------------------- tasks without a handle


async def test_tasks_without_a_handle_are_counted_and_gated_like_others() -> None:
    ran: list[int] = []

    async def run(number: int) -> None:
        await trio.lowlevel.checkpoint()
        ran.append(number)

    async with open_runtime() as context:
        group = context.component("part").group
        for number in range(100):
            group.start_soon(run, number, name=f"run-{number}")
        assert group.task_count == 100
        record = next(group.records())
        assert (record.path, record.kind) == ("/part/run-0", "worker")
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(ran) == list(range(100))
        assert group.outcomes == Outcomes(completed=100)
        group.close()
        with pytest.raises(GroupClosed):
            group.start_soon(run, 1)
        await group.wait_over()


async def test_a_failure_of_a_task_without_a_handle_poisons_and_others_go_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.raises(ExceptionGroup) as left:
        async with open_runtime(DEGRADE) as context:
            group = context.component("part").group
            group.start_soon(forever)
            group.start_soon(fail)  # both before there is a nursery
            group.start_soon(trio.sleep, 3, name="sleeps")
            await trio.testing.wait_all_tasks_blocked()
            assert group.state == "poisoned"
            assert [record.name for record in group.records()] == ["forever", "sleeps"]
            with pytest.raises(GroupPoisoned):
                group.start_soon(forever)
            await trio.sleep(4)
            assert group.outcomes == Outcomes(completed=1, panicked=1)
    assert [str(error) for error in left.value.exceptions] == ["planted"]
    assert context.group.outcomes == Outcomes(completed=1, panicked=1, aborted=1, timed_out=1)


async def test_tasks_without_a_handle_end_at_the_work_deadline_and_deaf_ones_are_in_the_report(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_runtime() as context:
        group = context.component("part").group
        group.start_soon(forever)
        group.start_soon(deaf, 30, name="deaf")
        await trio.testing.wait_all_tasks_blocked()
        group.cancel()  # no handle, no cancel of theirs: they are not told
        await trio.sleep(5)
        assert group.task_count == 2
        report = await group.shutdown(10)
        assert report.totals() == Outcomes(aborted=1, leaked=1, timed_out=2)
        (left,) = report.still_running()
        assert left.path == "/part/deaf"
        assert any("in deaf" in line for line in left.stack)


async def test_a_kill_before_the_first_step_runs_nothing() -> None:
    ran: list[int] = []

    async def run() -> None:
        ran.append(1)

    async with open_runtime() as context:
        group = context.component("part").group
        group.start_soon(run)
        group.close("kill")
        await group.wait_over()
        assert ran == []
        assert group.outcomes == Outcomes(cancelled=1)


async def test_a_return_after_the_request_to_stop_counts_as_cancelled() -> None:
    async with open_runtime() as context:
        group = context.component("part").group
        group.start_soon(group.stopping.wait)
        await trio.testing.wait_all_tasks_blocked()
        group.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert group.outcomes == Outcomes(cancelled=1)


async def test_a_task_without_a_handle_has_the_context_of_its_spawner() -> None:
    place: ContextVar[str] = ContextVar("place", default="nowhere")
    seen: list[str] = []

    async def look() -> None:
        seen.append(place.get())

    async with open_runtime() as context:
        group = context.component("part").group
        for where in ("first", "second", "third"):
            place.set(where)
            group.start_soon(look)  # the first two before there is a nursery
            if where == "second":
                await trio.testing.wait_all_tasks_blocked()
    assert sorted(seen) == ["first", "second", "third"]


async def test_a_cancellation_of_the_host_ends_them_and_later_ones_are_still_followed() -> None:
    runs: list[int] = []

    async def run() -> None:
        runs.append(1)
        await trio.sleep_forever()

    with trio.CancelScope() as host:
        async with open_runtime() as context:
            group = context.component("part").group
            group.start_soon(run)
            await trio.testing.wait_all_tasks_blocked()
            host.cancel()
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.testing.wait_all_tasks_blocked()
                    assert (group.state, group.task_count) == ("open", 0)
                    group.start_soon(run)  # its nursery has ended with the host
                    await trio.testing.wait_all_tasks_blocked()
                    assert group.task_count == 0
    report = context.runtime.report
    assert report is not None
    assert report.totals() == Outcomes(cancelled=2)
    assert len(runs) == 2


async def test_an_error_beside_the_cancellation_of_the_host_is_a_panic(autojump_clock: trio.testing.MockClock) -> None:
    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("planted")

    with pytest.RaisesGroup(pytest.RaisesGroup(ValueError)), trio.move_on_after(1):
        async with open_runtime() as context:
            context.component("part").group.start_soon(run)
            await trio.sleep_forever()
    assert context.group.outcomes == Outcomes(panicked=1)


async def test_a_clean_up_that_fails_after_the_deadline_is_a_panic(autojump_clock: trio.testing.MockClock) -> None:
    async def run() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("planted")

    with pytest.RaisesGroup(ValueError):
        async with open_runtime() as context:
            group = context.component("part").group
            group.start_soon(run)
            group.start_soon(forever)
            await trio.testing.wait_all_tasks_blocked()
            report = await group.shutdown(10)
            assert report.totals() == Outcomes(panicked=1, aborted=1, timed_out=1)
            assert group.state == "completed"  # it was closed before: no poison


async def test_an_exit_from_a_task_without_a_handle_leaves_and_everything_is_accounted_for() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        async with open_runtime() as context:
            part = context.component("part")
            part.group.start_soon(forever)
            part.group.start_soon(leave)
            await trio.sleep_forever()
    assert context.group.outcomes.total == 2
    assert (part.group.state, part.group.task_count) == ("completed", 0)


@pytest.mark.parametrize("levels", [99, 100, 101, 150])
async def test_tasks_without_a_handle_are_the_same_where_nurseries_no_longer_nest(
    levels: int, autojump_clock: trio.testing.MockClock
) -> None:
    place: ContextVar[str] = ContextVar("place", default="nowhere")
    seen: list[str] = []

    async def look() -> None:
        seen.append(place.get())

    with pytest.RaisesGroup(ValueError):
        async with open_runtime(DEGRADE) as context:
            deep = context
            for _ in range(levels):
                deep = deep.component("level")
            group = deep.group
            assert group.level == levels
            for where in ("first", "second"):
                place.set(where)
                group.start_soon(look)
            await trio.testing.wait_all_tasks_blocked()
            place.set("third")
            group.start_soon(look)
            group.start_soon(forever)
            group.start_soon(deaf, 60, name="deaf")
            group.start_soon(group.stopping.wait)
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(seen) == ["first", "second", "third"]
            group.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert group.outcomes == Outcomes(completed=3, cancelled=1)
            group.start_soon(fail)
            await trio.testing.wait_all_tasks_blocked()
            assert group.state == "poisoned"
            report = await group.shutdown(10)
            assert report.totals() == Outcomes(completed=3, cancelled=1, panicked=1, aborted=1, leaked=1, timed_out=2)
            assert [left.path.rsplit("/", 1)[-1] for left in report.still_running()] == ["deaf"]
            await trio.sleep(60)


async def test_a_kill_reaches_tasks_whose_nursery_is_not_open_yet_at_every_level() -> None:
    ran: list[int] = []

    async def run() -> None:
        ran.append(1)

    async with open_runtime() as context:
        deep, parts = context, list[ServiceContext]()
        for _ in range(105):
            deep = deep.component("level")
            deep.group.start_soon(run)
            parts.append(deep)
        parts[0].group.close("kill")
        await parts[0].group.wait_over()
        assert ran == []
        assert context.group.outcomes == Outcomes(cancelled=105)


async def test_tasks_with_and_without_a_handle_share_a_group() -> None:
    async with open_runtime() as context:
        group = context.component("part").group
        handle = group.spawn(forever)
        group.start_soon(forever, kind="scheduled_run")
        assert [(record.name, record.kind) for record in group.records()] == [
            ("forever", "worker"),
            ("forever", "scheduled_run"),
        ]
        soon = list(group.records())[1]
        assert group.contains(soon)
        assert soon.started_at is not None
        await trio.testing.wait_all_tasks_blocked()
        handle.cancel()
        assert await handle.wait() == "aborted"
        assert group.contains(soon)
        group.close("kill")
        await group.wait_over()
        assert not group.contains(soon)
        assert group.outcomes == Outcomes(aborted=1, cancelled=1)
