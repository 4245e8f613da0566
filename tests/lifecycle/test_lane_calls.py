"""What becomes of a call: what it holds and for how long, where it is seen, and who hears of its end."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from math import inf, nan

import attrs
import pytest
import trio
import trio.testing

from actors.testing import eventually
from lifecycle import (
    BlockingTask,
    DrainLease,
    Lane,
    LaneCallCancelled,
    LaneClosed,
    LaneMisused,
    LanePolicy,
    LaneQueueTimedOut,
    Lanes,
    LaneSettings,
    LanesGone,
    LaneTaskTimedOut,
    LeaseExhausted,
    LeaseExpired,
    RuntimeConfig,
    ServiceContext,
    ShutdownReport,
    open_runtime,
)

from ._bodies import LONG, Gate

ONE = LanePolicy(max_concurrency=1, max_queue=1, queue_timeout=LONG, task_timeout=LONG)
CONFIG = RuntimeConfig(signals=False, lanes=LaneSettings.uniform(ONE, 3), memory_limit=1 << 20, shutdown_within=LONG)

request: ContextVar[str] = ContextVar("request", default="none")


@asynccontextmanager
async def runtime() -> AsyncGenerator[tuple[ServiceContext, trio.Nursery], None]:
    async with open_runtime(CONFIG) as context, trio.open_nursery() as nursery:
        yield context, nursery


class Value:
    """Something that a closure is given. Says in `order` when it goes, and what else is there still."""


# ---------------------------------------------------------------- after the caller stops waiting


@pytest.mark.row("runtime:R79")
async def test_what_a_late_closure_was_given_goes_before_its_slot_and_its_slot_before_its_record(gate: Gate) -> None:
    seen: list[tuple[int, int]] = []
    async with runtime() as (context, nursery):
        lane = context.lanes.storage_io
        value = Value()
        # Runs in the thread, when the last one who holds the value lets go of it.
        weakref.finalize(value, lambda: seen.append((lane.snapshot().lane_running, len(lane.snapshot().tasks))))
        with pytest.raises(LaneTaskTimedOut):
            await lane.run(gate, value, task_timeout=0.01, name="late")
        del value
        await gate.until_began()
        assert seen == []
        nursery.start_soon(lane.run, Gate.__repr__, gate)
        await eventually(lambda: lane.snapshot().queued == 1, within=LONG)
        gate.go.set()
        await eventually(lambda: lane.snapshot().lane_running == 0, within=LONG)
        assert seen == [(1, 2)]


@pytest.mark.row("runtime:R79")
async def test_what_a_closure_was_given_goes_in_its_thread_and_not_when_its_caller_has_noticed() -> None:
    gone: list[tuple[int, int]] = []

    def value(lane: Lane) -> Value:
        made = Value()
        weakref.finalize(made, lambda: gone.append((threading.get_ident(), lane.snapshot().lane_running)))
        return made

    async with runtime() as (context, _):
        lane = context.lanes.storage_io
        lease = lane.drain_lease(inf, 1)
        for run in (lane.run, lease.run):
            await run(id, value(lane))
            ((thread, running),) = gone
            assert thread != threading.get_ident()
            assert running == 1
            gone.clear()


async def test_a_late_closure_that_fails_is_logged_and_holds_nothing(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(value: Value) -> None:
        gate()
        raise ValueError("planted")

    async with runtime() as (context, _):
        lane = context.lanes.storage_io
        with pytest.raises(LaneTaskTimedOut):
            await lane.run(fail, Value(), task_timeout=0.01)
        gate.go.set()
        await eventually(lambda: lane.snapshot().lane_running == 0, within=LONG)
        messages = [record.getMessage() for record in caplog.records]
        assert messages == ["lane storage_io: fail failed after its caller had stopped waiting"]
        assert lane.snapshot().failed == 0  # nobody was there to be told
        # A record of the log holds the exception, and that its frames: keep none.
        with caplog.at_level(logging.CRITICAL, "tenure.lifecycle"):
            value = Value()
            gone = weakref.ref(value)
            gate.go.clear()
            with pytest.raises(LaneTaskTimedOut):
                await lane.run(fail, value, task_timeout=0.01)
            del value
            gate.go.set()
            await eventually(lambda: lane.snapshot().lane_running == 0, within=LONG)
            assert gone() is None


@pytest.mark.row("runtime:R80")
async def test_what_a_call_that_never_ran_was_given_is_gone(gate: Gate) -> None:
    async with runtime() as (context, nursery):
        lane = context.lanes.storage_io
        nursery.start_soon(lane.run, gate)
        await gate.until_began()
        value = Value()
        gone = weakref.ref(value)
        with pytest.raises(LaneQueueTimedOut):
            await lane.run(id, value, queue_timeout=0.01)
        del value
        assert gone() is None
        gate.go.set()


@pytest.mark.row("runtime:R79")
async def test_the_report_says_where_a_stuck_closure_stands(gate: Gate) -> None:
    async with runtime() as (context, _):
        lanes = context.lanes.shared
        with pytest.raises(LaneTaskTimedOut) as caught:
            await context.lanes.cpu.run(gate, name="stuck", task_timeout=0.01)
        assert caught.value.still_running
        await gate.until_began()
        (call,) = lanes.blocking()
        assert (call.name, call.lane, call.state) == ("stuck", "cpu", "timed_out_still_running")
        assert call.elapsed >= 0.01
        assert "_bodies.py" in call.stack[-1]
        assert "Gate.__call__" in call.stack[-1]
        assert lanes.blocking_still_running == context.lanes.cpu.blocking_still_running == 1
        report = ShutdownReport("part", blocking=lanes.running_closures())
        assert not report.is_healthy()
        assert "Gate.__call__" in report.render()
        with trio.move_on_after(0.01) as waited:
            await lanes.wait_idle()
        assert waited.cancelled_caught
        gate.go.set()
        with trio.fail_after(LONG):
            await lanes.wait_idle()
        assert lanes.running_closures() == lanes.blocking() == ()
        assert ShutdownReport("part", blocking=lanes.running_closures()).is_healthy()


async def test_a_closure_of_pythons_own_threading_is_not_taken_for_machinery() -> None:
    go = threading.Event()
    async with runtime() as (context, _):
        with pytest.raises(LaneTaskTimedOut):
            await context.lanes.cpu.run(go.wait, LONG, task_timeout=0.01)
        await eventually(lambda: "Event.wait" in str(context.lanes.shared.running_closures()[0].stack), within=LONG)
        go.set()


async def test_the_stack_of_a_task_that_waits_for_a_lane_goes_on_in_the_thread(gate: Gate) -> None:
    async with runtime() as (context, _):
        context.group.spawn(context.lanes.storage_io.run, gate, name="caller")
        await gate.until_began()
        (task,) = [task for task in context.group.report().remaining if task.path == "/caller"]
        assert "in thread 'storage_io:Gate'" in task.stack or any("in thread" in line for line in task.stack)
        assert "Gate.__call__" in task.stack[-1]
        gate.go.set()


async def test_a_queued_call_is_in_the_table_and_is_no_running_closure(gate: Gate) -> None:
    async with runtime() as (context, nursery):
        lanes = context.lanes.shared
        nursery.start_soon(context.lanes.storage_io.run, gate)
        await gate.until_began()
        nursery.start_soon(context.lanes.storage_io.run, id, 1)
        await eventually(lambda: len(lanes.blocking()) == 2, within=LONG)
        waiting: BlockingTask = lanes.blocking()[1]
        assert (waiting.name, waiting.state, waiting.stack) == ("id", "queued", ())
        assert [call.state for call in lanes.running_closures()] == ["running"]
        assert lanes.snapshot().lane("storage_io").oldest_queue_wait >= 0
        gate.go.set()


async def test_a_closure_that_outlives_the_program_is_seen_until_it_returns(gate: Gate) -> None:
    left: list[Lanes] = []

    async def program() -> None:
        shared = Lanes(LaneSettings.uniform(ONE, 3))  # not the runtime's own, which it would wait for
        left.append(shared)
        async with open_runtime(CONFIG) as context:
            with pytest.raises(LaneTaskTimedOut):
                await shared.bind(context.group).storage_io.run(gate, task_timeout=0.01, name="stuck")

    await trio.to_thread.run_sync(trio.run, program)
    await gate.until_began()
    shared = left[0]
    (call,) = shared.running_closures()
    assert (call.name, call.state) == ("stuck", "timed_out_still_running")
    assert 0 <= call.elapsed <= LONG  # though the clock that it began on is gone
    assert "Gate.__call__" in call.stack[-1]
    assert shared.snapshot().blocking_still_running == 1
    gate.go.set()
    await eventually(lambda: shared.running_closures() == (), within=LONG)
    assert shared.blocking_still_running == shared.snapshot().blocking_still_running == 0


# ---------------------------------------------------------------- the call itself


async def test_a_closure_sees_the_context_variables_of_its_caller() -> None:
    async with runtime() as (context, _):
        request.set("abc")
        assert await context.lanes.storage_io.run(request.get) == "abc"


async def test_an_async_function_is_refused() -> None:
    async with runtime() as (context, _):
        with pytest.raises(TypeError, match="async"):
            await context.lanes.storage_io.run(trio.sleep, 0)  # type: ignore[unused-coroutine]
        assert context.lanes.storage_io.snapshot().lane_running == 0


async def test_a_slow_closure_is_logged_when_it_has_succeeded_and_a_quick_one_is_not(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("planted")

    lanes = Lanes(LaneSettings.uniform(attrs.evolve(ONE, warn_after=1e-9), 3))
    calm = Lanes(LaneSettings.uniform(ONE, 3))
    async with runtime() as (context, _):
        gate.go.set()
        assert await calm.bind(context.group).cpu.run(gate) == "done"
        with pytest.raises(ValueError, match="planted"):
            await lanes.bind(context.group).cpu.run(fail)
        assert caplog.records == []
        assert await lanes.bind(context.group).cpu.run(gate, name="slow") == "done"
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert "lane cpu: slow took" in record.getMessage()


@pytest.mark.parametrize("times", [(0, 1, inf), (1, -1, inf), (1, 1, nan), (1, nan, inf)])
async def test_times_that_make_no_sense_are_refused(times: tuple[float, float, float]) -> None:
    queue, task, deadline = times
    async with runtime() as (context, _):
        with pytest.raises(LaneMisused):
            await context.lanes.cpu.run(id, 1, queue_timeout=queue, task_timeout=task, deadline=deadline)
        assert context.lanes.cpu.snapshot().tasks == ()


@pytest.mark.row("runtime:R81")
async def test_a_deadline_bounds_both_waits_and_says_that_it_did(gate: Gate) -> None:
    async with runtime() as (context, _):
        lane = context.lanes.storage_io
        with pytest.raises(LaneTaskTimedOut) as running:
            await lane.run(gate, deadline=trio.current_time() + 0.01)
        assert running.value.by_deadline
        with pytest.raises(LaneQueueTimedOut) as waiting:
            await lane.run(gate, deadline=trio.current_time() + 0.01)
        assert waiting.value.by_deadline
        with pytest.raises(LaneQueueTimedOut) as own:
            await lane.run(gate, queue_timeout=0.01, deadline=trio.current_time() + LONG)
        assert not own.value.by_deadline
        now = lane.snapshot()
        assert (now.timed_out_running, now.timed_out_queued, now.rejected) == (1, 2, 0)
        gate.go.set()


async def test_a_cancelled_caller_starts_nothing() -> None:
    ran: list[int] = []
    async with runtime() as (context, _):
        with trio.CancelScope() as scope:
            scope.cancel()
            await context.lanes.storage_io.run(ran.append, 1)
        assert scope.cancelled_caught
        assert context.lanes.storage_io.snapshot().lane_running == 0
        assert await context.lanes.storage_io.run(len, "ab") == 2
    assert ran == []


@pytest.mark.row("runtime:R78")
@pytest.mark.row("runtime:R84")
@pytest.mark.parametrize("how", ["grant then time", "grant then deadline", "grant then stop", "grant then cancel"])
async def test_what_comes_between_the_grant_and_the_turn_of_the_one_who_got_it(
    gate: Gate, how: str, mock_clock: trio.testing.MockClock
) -> None:
    """The slot comes and, before the waiter has had its turn, its time ends, its scope stops or it is cancelled."""
    mock_clock.rate = 1  # a clock that runs, and can be moved
    ran: list[str] = []
    ends: list[str] = []
    async with runtime() as (context, nursery):
        shared = context.lanes.shared
        part = context.component("part")
        lane = part.lanes.storage_io
        scope = trio.CancelScope()

        async def waiter() -> None:
            try:
                with scope:
                    deadline = trio.current_time() + LONG if how == "grant then deadline" else inf
                    await lane.run(ran.append, "waiter", queue_timeout=LONG, deadline=deadline)
                    ends.append("ran")
                if scope.cancelled_caught:
                    ends.append("cancelled")
            except LaneClosed:
                ends.append("closed")
            except LaneQueueTimedOut as exc:
                assert exc.by_deadline
                ends.append("too late")

        nursery.start_soon(partial(context.lanes.storage_io.run, gate, task_timeout=inf))
        await gate.until_began()
        nursery.start_soon(waiter)
        await eventually(lambda: lane.snapshot().queued == 1, within=LONG)
        pool = lane._pool
        holder, waiting = tuple(pool.calls)
        # As when the thread has returned, in one step with what follows.
        pool.let_go(holder)
        assert waiting.place == "holding"
        if how == "grant then stop":
            part.group.cancel()
        elif how == "grant then cancel":
            scope.cancel()
        else:
            mock_clock.jump(2 * LONG)
        await eventually(lambda: len(ends) == 1, within=LONG)
        gate.go.set()
        await eventually(lambda: shared.snapshot().running == 0, within=LONG)
        assert await context.lanes.storage_io.run(len, "ab") == 2
    expected = {
        "grant then time": "ran",
        "grant then deadline": "too late",
        "grant then stop": "closed",
        "grant then cancel": "cancelled",
    }
    assert ends == [expected[how]]
    assert ran == (["waiter"] if how == "grant then time" else [])


# ---------------------------------------------------------------- drain leases


@pytest.mark.row("runtime:R85")
async def test_a_lease_waits_for_room_that_the_close_of_its_scope_makes(gate: Gate) -> None:
    async with runtime() as (context, nursery):
        part = context.component("part")
        lane = part.lanes.storage_io
        lease = lane.drain_lease(inf, 1)
        ran: list[str] = []
        refused: list[str] = []

        async def normal() -> None:
            try:
                await lane.run(ran.append, "normal")
            except LaneClosed:
                refused.append("normal")

        async def final() -> None:
            await lease.run(ran.append, "final")

        nursery.start_soon(context.lanes.storage_io.run, gate)
        await gate.until_began()
        nursery.start_soon(normal)  # the queue, which has room for one, is full
        await eventually(lambda: lane.snapshot().queued == 1, within=LONG)
        nursery.start_soon(final)
        await eventually(lambda: lane.snapshot().queued == 2, within=LONG)
        part.group.cancel()
        await eventually(lambda: refused == ["normal"], within=LONG)
        assert lane.snapshot().queued == 1
        gate.go.set()
        await eventually(lambda: ran == ["final"], within=LONG)


@pytest.mark.row("runtime:R85")
async def test_the_allowance_is_shared_by_those_who_use_it_at_once_and_comes_back_if_nothing_ran(gate: Gate) -> None:
    async with runtime() as (context, nursery):
        lane = context.lanes.storage_io
        lease: DrainLease = lane.drain_lease(inf, 2)
        nursery.start_soon(lane.run, gate)
        await gate.until_began()
        scope = trio.CancelScope()

        async def gives_up() -> None:
            with scope:
                await lease.run(id, 0)

        nursery.start_soon(gives_up)
        nursery.start_soon(lease.run, id, 1)
        await eventually(lambda: lease.left == 0, within=LONG)
        with pytest.raises(LeaseExhausted):
            await lease.run(id, 2)
        scope.cancel()
        await eventually(lambda: lease.left == 1, within=LONG)
        with pytest.raises(LaneQueueTimedOut):
            await lease.run(id, 3, queue_timeout=0.01)
        with pytest.raises(LaneQueueTimedOut):
            await lease.run(id, 3, deadline=trio.current_time() + 0.01)
        assert lease.left == 1
        gate.go.set()
        await lease.run(id, 4)
        assert lease.left == 0


@pytest.mark.row("runtime:R85")
async def test_a_call_on_a_lease_ends_at_the_shutdowns_end_and_not_at_a_later_deadline_of_its_own(gate: Gate) -> None:
    async with runtime() as (context, nursery):
        part = context.component("part")
        lease = part.lanes.storage_io.drain_lease(inf, 3)
        ends: list[Exception] = []

        async def final() -> None:
            with trio.CancelScope(shield=True):
                for _ in range(2):  # one that runs, and one that waits for its slot
                    try:
                        await lease.run(gate, deadline=trio.current_time() + 10 * LONG)
                    except (LaneTaskTimedOut, LaneQueueTimedOut, LeaseExpired) as exc:
                        ends.append(exc)

        nursery.start_soon(final)
        await gate.until_began()
        part.group.freeze(0.0, "test")  # its end is now
        await eventually(lambda: len(ends) == 2, within=LONG)
        assert isinstance(ends[0], LaneTaskTimedOut)
        assert ends[0].by_deadline
        assert isinstance(ends[1], LeaseExpired)
        assert lease.left == 2  # what ran is used, what did not is not
        gate.go.set()


async def test_calls_that_waited_leave_nothing_with_their_scope(gate: Gate) -> None:
    async with runtime() as (context, nursery):
        part = context.component("part")
        nursery.start_soon(context.lanes.storage_io.run, gate)
        await gate.until_began()
        for _ in range(3):
            with pytest.raises(LaneQueueTimedOut):
                await part.lanes.storage_io.run(id, 1, queue_timeout=0.001)
        assert not part.group._at_stop
        gate.go.set()


async def test_a_lease_is_for_at_least_one_call() -> None:
    async with runtime() as (context, _):
        for allowance, deadline in ((0, inf), (1, nan)):
            with pytest.raises(LaneMisused):
                context.lanes.cpu.drain_lease(deadline, allowance)


# ---------------------------------------------------------------- callers from elsewhere


def in_thread(call: Callable[[], object]) -> list[object]:
    """Run `call` in a thread of no Trio program; the list holds its end when it has come."""
    ends: list[object] = []

    def run() -> None:
        try:
            ends.append(call())
        except Exception as exc:
            ends.append(exc)

    threading.Thread(target=run, daemon=True).start()
    return ends


@pytest.mark.row("runtime:R86")
async def test_a_thread_gets_what_the_closure_raises_and_its_scope_is_not_poisoned() -> None:
    def fail() -> None:
        raise ValueError("planted")

    async with runtime() as (context, _):
        lane = context.lanes.cpu
        ends = in_thread(lambda: lane.call_from_thread(fail))
        await eventually(lambda: len(ends) == 1, within=LONG)
        assert repr(ends[0]) == "ValueError('planted')"
        assert context.group.state == "open"
        assert context.lanes.cpu.snapshot().failed == 1


@pytest.mark.row("runtime:R86")
async def test_a_thread_whose_scope_closes_or_is_cancelled_is_told(gate: Gate) -> None:
    async with runtime() as (context, _):
        part = context.component("part")
        lane = part.lanes.storage_io
        running = in_thread(lambda: lane.call_from_thread(gate))
        await gate.until_began()
        waiting = in_thread(lambda: lane.call_from_thread(id, 1))
        await eventually(lambda: lane.snapshot().queued == 1, within=LONG)
        part.group.close()
        await eventually(lambda: len(waiting) == 1, within=LONG)
        assert isinstance(waiting[0], LaneClosed)
        assert running == []
        part.group.close("kill")
        await eventually(lambda: len(running) == 1, within=LONG)
        assert isinstance(running[0], LaneCallCancelled)  # its outcome is unknown
        assert lane.snapshot().timed_out_still_running == 1
        late = in_thread(lambda: lane.call_from_thread(id, 1))
        await eventually(lambda: len(late) == 1, within=LONG)
        assert isinstance(late[0], LaneClosed)
        gate.go.set()


@pytest.mark.row("runtime:R86")
async def test_the_time_that_a_thread_gives_bounds_its_call(gate: Gate) -> None:
    async with runtime() as (context, _):
        lane = context.lanes.cpu
        ends = in_thread(lambda: lane.call_from_thread(gate, within=0.01))
        await eventually(lambda: len(ends) == 1, within=LONG)
        assert isinstance(ends[0], LaneTaskTimedOut)
        assert ends[0].by_deadline
        gate.go.set()


@pytest.mark.row("runtime:R86")
async def test_another_programs_cancel_ends_its_wait_and_a_call_that_waits_never_runs(gate: Gate) -> None:
    ran: list[int] = []
    async with runtime() as (context, nursery):
        lane = context.lanes.storage_io
        nursery.start_soon(lane.run, gate)
        await gate.until_began()

        async def elsewhere() -> str:
            with trio.move_on_after(LONG) as scope:
                async with trio.open_nursery() as inner:

                    async def cancel_when_queued() -> None:
                        await eventually(lambda: lane.snapshot().queued == 1, within=LONG)
                        scope.cancel()

                    inner.start_soon(cancel_when_queued)
                    await lane.run(ran.append, 1)
            return "cancelled" if scope.cancelled_caught else "ran"

        assert await trio.to_thread.run_sync(trio.run, elsewhere) == "cancelled"
        await eventually(lambda: lane.snapshot().queued == 0, within=LONG)
        gate.go.set()
    assert ran == []


@pytest.mark.row("runtime:R86")
async def test_a_lease_may_be_used_from_another_program_while_its_scope_still_has_work(gate: Gate) -> None:
    async with runtime() as (context, _):
        part = context.component("part")
        lease = part.lanes.metadata_io.drain_lease(inf, 2)
        part.group.spawn(context.lanes.storage_io.run, gate)
        await gate.until_began()
        part.group.close()

        async def elsewhere() -> int:
            return await lease.run(len, "abc")

        assert await trio.to_thread.run_sync(trio.run, elsewhere) == 3
        gate.go.set()
        await eventually(lambda: part.group.over, within=LONG)
        with pytest.raises(LaneClosed):
            await trio.to_thread.run_sync(trio.run, elsewhere)
        assert lease.left == 1


@pytest.mark.row("runtime:R86")
async def test_lanes_that_no_program_has_used_have_no_owner() -> None:
    async with runtime() as (context, _):
        lane = Lanes(LaneSettings()).bind(context.group).cpu
        ends = in_thread(lambda: lane.call_from_thread(id, 1))
        await eventually(lambda: len(ends) == 1, within=LONG)
        assert isinstance(ends[0], LanesGone)


# ---------------------------------------------------------------- isolated lanes


@pytest.mark.row("runtime:R87")
async def test_an_isolated_lane_stops_with_its_scope_for_all_its_handles_and_is_in_the_report(gate: Gate) -> None:
    async with runtime() as (context, _):
        owner, user = context.component("owner"), context.component("user")
        lane = owner.lanes.isolated("own", ONE)
        other = lane.bind(user.group)
        with pytest.raises(LaneTaskTimedOut):
            await other.run(gate, name="stuck", task_timeout=0.01)
        shared = context.lanes.shared
        assert [call.name for call in shared.running_closures()] == ["stuck"]
        assert [shot.lane for shot in shared.snapshot().isolated] == ["own"]
        assert shared.snapshot().isolated[0].lane_reserved == ONE.max_concurrency
        user.group.close()
        with pytest.raises(LaneClosed):
            await other.run(id, 1)
        with pytest.raises(LaneQueueTimedOut):  # its owner's goes on, though its one slot is taken
            await lane.run(id, 1, queue_timeout=0.01)
        owner.group.close()
        with pytest.raises(LaneClosed):
            await lane.run(id, 1)
        gate.go.set()
        with trio.fail_after(LONG):
            await shared.wait_idle()
        assert shared.running_closures() == ()
        assert shared.snapshot().isolated == ()


@pytest.mark.row("runtime:R87")
async def test_a_closure_that_fails_leaves_nothing_in_an_isolated_lane() -> None:
    def fail() -> None:
        raise ValueError("planted")

    async with runtime() as (context, _):
        lane = context.lanes.isolated("own", ONE)
        for _ in range(2):
            with pytest.raises(ValueError, match="planted"):
                await lane.run(fail)
        end = await lane.shutdown(trio.current_time() + LONG)
        assert (end.completed, end.pending, end.snapshot.tasks) == (True, 0, ())
