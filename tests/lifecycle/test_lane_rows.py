"""Blocking lanes with real threads. Every closure is held by a gate: nothing depends on how fast a thread is."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import cast

import attrs
import pytest
import trio
import trio.testing

from actors.testing import eventually
from lifecycle import (
    DrainLease,
    Lane,
    LaneClosed,
    LaneFull,
    LaneManaged,
    LaneMisused,
    LanePolicy,
    LaneQueueTimedOut,
    LaneSettings,
    LanesGone,
    LaneTaskTimedOut,
    LeaseExhausted,
    LeaseExpired,
    LongRunningRefused,
    RuntimeConfig,
    ServiceContext,
    open_runtime,
)
from lifecycle._lane_admission import LaneAdmission, LaneRule, LaneTicket

LONG = 60.0
ONE = LanePolicy(max_concurrency=1, max_queue=8, queue_timeout=LONG, task_timeout=LONG)


class Gates:
    """Closures that are held until they are let go, and that say in which order they began."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.active = 0
        self.most = 0
        self._lock = threading.Lock()
        self._gates: dict[str, threading.Event] = {}
        self._open = False

    def closure(self, name: str) -> Callable[[], str]:
        gate = self._gates.setdefault(name, threading.Event())

        def run() -> str:
            with self._lock:
                self.began.append(name)
                self.active += 1
                self.most = max(self.most, self.active)
            try:
                if not self._open:
                    gate.wait(LONG)
            finally:
                with self._lock:
                    self.active -= 1
            return name

        return run

    def release(self, *names: str) -> None:
        for name in names:
            self._gates[name].set()

    def release_all(self) -> None:
        self._open = True
        for gate in self._gates.values():
            gate.set()

    async def until(self, *names: str) -> None:
        """Wait until these have begun, in this order after what had begun before them."""
        await eventually(lambda: self.began[-len(names) :] == list(names), within=LONG)


@asynccontextmanager
async def lanes(gates: Gates, settings: LaneSettings) -> AsyncGenerator[tuple[ServiceContext, trio.Nursery], None]:
    """A runtime with these lanes and a nursery for callers; whatever happens, the gates are opened at the end."""
    config = RuntimeConfig(signals=False, lanes=settings, memory_limit=1 << 20, shutdown_within=LONG)
    async with open_runtime(config) as context:
        try:
            async with trio.open_nursery() as nursery:
                yield context, nursery
                gates.release_all()
        finally:
            gates.release_all()


def settings(capacity: int = 3, **policies: LanePolicy) -> LaneSettings:
    return attrs.evolve(LaneSettings.uniform(ONE, capacity), **policies)  # type: ignore[arg-type]


async def queued(lane: Lane, count: int) -> None:
    await eventually(lambda: lane.snapshot().queued == count, within=LONG)


# ---------------------------------------------------------------- threads and their bounds


@pytest.mark.row("runtime:R5")
@pytest.mark.parametrize(("capacity", "threads"), [(6, 8), (32, 36), (128, 144)])
def test_there_are_threads_beyond_the_capacity(capacity: int, threads: int) -> None:
    assert LaneSettings(capacity=capacity).threads == threads


@pytest.mark.row("runtime:R5")
async def test_calls_outside_the_lanes_have_threads_when_every_slot_is_stuck() -> None:
    gates = Gates()
    async with lanes(gates, settings()) as (context, nursery):
        for name in ("storage_io", "metadata_io", "cpu"):
            nursery.start_soon(getattr(context.lanes, name).run, gates.closure(name))
        await eventually(lambda: gates.active == 3, within=LONG)
        shared = context.lanes.shared
        assert shared.snapshot().available == 0
        with trio.fail_after(LONG):
            assert await trio.to_thread.run_sync(lambda: 1, limiter=shared.headroom) == 1
            assert await trio.to_thread.run_sync(lambda: 2) == 2
        assert shared.headroom.total_tokens == shared.settings.spare_threads == 2


@pytest.mark.row("runtime:R74")
async def test_no_more_run_at_once_than_the_lane_has_slots_and_no_more_wait_than_its_queue_has_room() -> None:
    gates = Gates()
    policy = attrs.evolve(ONE, max_queue=2)
    results: list[str] = []
    async with lanes(gates, settings(storage_io=policy)) as (context, nursery):
        lane = context.lanes.storage_io

        async def call(name: str) -> None:
            results.append(await lane.run(gates.closure(name), name=name))

        for place, name in enumerate("abc"):
            nursery.start_soon(call, name)
            await eventually(lambda: len(gates.began) == 1, within=LONG)
            await queued(lane, place)
        with pytest.raises(LaneFull) as caught:
            await lane.run(gates.closure("d"), name="d")
        assert (caught.value.lane, caught.value.call, caught.value.depth) == ("storage_io", "d", 2)
        now = lane.snapshot()
        assert (now.running, now.queued, now.rejected) == (1, 2, 1)
        gates.release_all()
    assert results == gates.began == ["a", "b", "c"]
    assert gates.most == 1


@pytest.mark.row("runtime:R75")
async def test_a_lane_below_its_reservation_gets_the_next_slot_before_the_one_that_borrowed() -> None:
    gates = Gates()
    greedy = attrs.evolve(ONE, max_concurrency=3)
    async with lanes(gates, settings(3, storage_io=greedy)) as (context, nursery):
        storage, cpu = context.lanes.storage_io, context.lanes.cpu
        for name in ("a1", "a2", "a3"):
            nursery.start_soon(storage.run, gates.closure(name))
        await eventually(lambda: gates.active == 3, within=LONG)
        assert storage.snapshot().lane_borrowed == 2
        nursery.start_soon(storage.run, gates.closure("a4"))
        await queued(storage, 1)
        nursery.start_soon(cpu.run, gates.closure("b1"))
        await queued(cpu, 1)
        gates.release("a1")
        await gates.until("b1")  # though a4 came first
        assert storage.snapshot().queued == 1
        gates.release("a2")
        await gates.until("b1", "a4")


@pytest.mark.row("runtime:R76")
async def test_a_newcomer_in_a_hurry_does_not_pass_those_who_wait() -> None:
    gates = Gates()
    async with lanes(gates, settings()) as (context, nursery):
        lane = context.lanes.storage_io
        nursery.start_soon(lane.run, gates.closure("first"))
        await gates.until("first")
        nursery.start_soon(lane.run, gates.closure("older"))
        await queued(lane, 1)
        with pytest.raises(LaneQueueTimedOut) as caught:
            await lane.run(gates.closure("hurry"), queue_timeout=0.01)
        assert not caught.value.by_deadline
        assert gates.began == ["first"]
        gates.release("first")
        await gates.until("older")
        gates.release("older")
        with pytest.raises(LaneQueueTimedOut):
            await lane.run(gates.closure("late"), deadline=trio.current_time() - 1)
    assert gates.began == ["first", "older"]


@pytest.mark.row("runtime:R77")
async def test_one_release_lets_exactly_one_waiter_in() -> None:
    gates = Gates()
    async with lanes(gates, settings()) as (context, nursery):
        lane = context.lanes.storage_io
        for place, name in enumerate(("held", "w1", "w2", "w3")):
            nursery.start_soon(lane.run, gates.closure(name))
            await eventually(lambda: len(gates.began) == 1, within=LONG)
            await queued(lane, place)
        gates.release("held")
        await gates.until("w1")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert (lane.snapshot().queued, lane.snapshot().running, gates.most) == (2, 1, 1)
    assert gates.began == ["held", "w1", "w2", "w3"]


@pytest.mark.row("runtime:R77")
@pytest.mark.row("runtime:R78")
def test_a_freed_slot_goes_to_one_ticket_and_on_if_that_has_gone_before_it_noticed() -> None:
    admission = LaneAdmission(3, [LaneRule(limit=1, depth=8, reserved=1)] * 3)
    tickets = [LaneTicket(0) for _ in range(4)]
    assert [admission.offer(ticket, now) for now, ticket in enumerate(tickets)] == ["holding"] + ["queued"] * 3
    assert admission.leave(tickets[0]) is tickets[1]  # one of three, the first
    assert [ticket.place for ticket in tickets] == ["outside", "holding", "queued", "queued"]
    assert admission.leave(tickets[1]) is tickets[2]  # it was cancelled, and had not had its turn
    assert admission.leave(tickets[3]) is None
    assert admission.running == 1
    assert admission.leave(tickets[2]) is None
    assert admission.running == 0


@pytest.mark.row("runtime:R78")
async def test_a_slot_that_was_given_to_somebody_who_has_gone_goes_on() -> None:
    gates = Gates()
    async with lanes(gates, settings()) as (context, nursery):
        lane = context.lanes.storage_io
        nursery.start_soon(lane.run, gates.closure("held"))
        await gates.until("held")
        scope = trio.CancelScope()

        async def goes() -> None:
            with scope:
                await lane.run(gates.closure("gone"))

        nursery.start_soon(goes)
        await queued(lane, 1)
        nursery.start_soon(lane.run, gates.closure("next"))
        await queued(lane, 2)
        gates.release("held")
        # The slot is handed on in the step that frees it: cancel before the one who got it has had a turn.
        await eventually(lambda: lane.snapshot().queued < 2 or scope.cancel_called, within=LONG)
        scope.cancel()
        gates.release("gone")
        await gates.until("next")
        gates.release_all()
        await eventually(lambda: lane.snapshot().lane_running == 0, within=LONG)
    assert context.lanes.shared.snapshot().running == 0


@pytest.mark.row("runtime:R79")
async def test_a_time_out_of_the_caller_frees_nothing_until_the_closure_has_returned() -> None:
    gates = Gates()
    async with lanes(gates, settings()) as (context, nursery):
        lane = context.lanes.storage_io
        with pytest.raises(LaneTaskTimedOut) as caught:
            await lane.run(gates.closure("stuck"), name="stuck", task_timeout=0.01)
        assert caught.value.still_running
        await gates.until("stuck")
        now = lane.snapshot()
        assert (now.running, now.timed_out_still_running, now.lane_running) == (0, 1, 1)
        assert [(task.name, task.state) for task in now.tasks] == [("stuck", "timed_out_still_running")]
        (record,) = context.lanes.shared.running_closures()
        assert any("gate.wait" in line or "in run" in line or "closure" in line for line in record.stack), record.stack
        assert not attrs.evolve(context.group.report(), blocking=(record,)).is_healthy()
        nursery.start_soon(lane.run, gates.closure("next"))
        await queued(lane, 1)
        assert gates.began == ["stuck"]  # the slot is busy
        gates.release("stuck")
        await gates.until("next")
        gates.release("next")
        await eventually(lambda: lane.snapshot().lane_running == 0, within=LONG)
        assert context.lanes.shared.running_closures() == ()
        assert lane.snapshot().tasks == ()


@pytest.mark.row("runtime:R79")
async def test_a_cancelled_caller_frees_nothing_either() -> None:
    gates = Gates()
    async with lanes(gates, settings()) as (context, nursery):
        lane = context.lanes.storage_io
        with trio.CancelScope() as scope:

            async def cancel() -> None:
                await gates.until("stuck")
                scope.cancel()

            nursery.start_soon(cancel)
            await lane.run(gates.closure("stuck"))
        assert scope.cancelled_caught
        assert lane.snapshot().timed_out_still_running == 1
        gates.release("stuck")
        await eventually(lambda: lane.snapshot().lane_running == 0, within=LONG)


@pytest.mark.row("runtime:R80")
async def test_a_call_that_is_cancelled_while_it_waits_never_runs_and_leaves_no_record() -> None:
    gates = Gates()
    async with lanes(gates, settings()) as (context, nursery):
        lane = context.lanes.storage_io
        nursery.start_soon(lane.run, gates.closure("held"))
        await gates.until("held")
        with trio.CancelScope() as scope:

            async def cancel() -> None:
                await queued(lane, 1)
                scope.cancel()

            nursery.start_soon(cancel)
            await lane.run(gates.closure("never"))
        assert scope.cancelled_caught
        now = lane.snapshot()
        assert (now.queued, [task.state for task in now.tasks]) == (0, ["running"])
        gates.release("held")
    assert gates.began == ["held"]


@pytest.mark.row("runtime:R81")
async def test_a_call_past_its_deadline_never_runs() -> None:
    gates = Gates()
    async with lanes(gates, settings()) as (context, nursery):
        lane = context.lanes.storage_io
        for deadline in (trio.current_time(), -inf):
            with pytest.raises(LaneQueueTimedOut) as caught:
                await lane.run(gates.closure("never"), deadline=deadline)
            assert caught.value.by_deadline
        nursery.start_soon(lane.run, gates.closure("held"))
        await gates.until("held")
        with pytest.raises(LaneQueueTimedOut):  # it comes while the call waits
            await lane.run(gates.closure("never"), deadline=trio.current_time() + 0.01)
        assert lane.snapshot().queued == 0
    assert gates.began == ["held"]


@pytest.mark.row("runtime:R82")
async def test_a_long_running_call_is_refused_and_leaves_no_record() -> None:
    gates = Gates()
    async with lanes(gates, settings()) as (context, _):
        for lane in (context.lanes.storage_io, context.lanes.metadata_io, context.lanes.cpu):
            with pytest.raises(LongRunningRefused):
                await lane.run(gates.closure("loop"), kind="long_running")
            assert (lane.snapshot().tasks, lane.snapshot().rejected) == ((), 1)
    assert gates.began == []


@pytest.mark.row("runtime:R83")
async def test_what_a_closure_raises_is_its_callers_and_the_next_call_works() -> None:
    def fail() -> None:
        raise ValueError("planted")

    async with lanes(Gates(), settings()) as (context, _):
        lane = context.lanes.storage_io
        for _ in range(3):
            with pytest.raises(ValueError, match="planted"):
                await lane.run(fail)
            assert lane.snapshot().lane_running == 0
        assert await lane.run(lambda: 7) == 7
        assert (lane.snapshot().failed, lane.snapshot().completed) == (3, 1)


# ---------------------------------------------------------------- scopes


@pytest.mark.row("runtime:R84")
async def test_a_closed_scope_is_refused_and_its_waiters_are_woken_at_once_and_a_sibling_goes_on() -> None:
    gates = Gates()
    async with lanes(gates, settings()) as (context, nursery):
        one, two = context.component("one"), context.component("two")
        refused: list[LaneClosed] = []

        async def waits() -> None:
            with pytest.raises(LaneClosed) as caught:
                await one.lanes.storage_io.run(gates.closure("never"))
            refused.append(caught.value)

        nursery.start_soon(one.lanes.storage_io.run, gates.closure("held"))
        await gates.until("held")
        nursery.start_soon(waits)
        await queued(one.lanes.storage_io, 1)
        nursery.start_soon(two.lanes.storage_io.run, gates.closure("sibling"))
        await queued(one.lanes.storage_io, 2)
        one.group.close()
        await eventually(lambda: len(refused) == 1, within=5)  # long before its time-out
        assert refused[0].scope == "/one"
        with pytest.raises(LaneClosed):
            await one.lanes.storage_io.run(gates.closure("never"))
        assert gates.active == 1  # what runs goes on
        gates.release("held")
        await gates.until("sibling")
        gates.release("sibling")
        assert await two.lanes.storage_io.run(lambda: 1) == 1
    assert "never" not in gates.began


@pytest.mark.row("runtime:R85")
async def test_a_drain_lease_is_for_so_many_calls_after_the_close() -> None:
    async with lanes(Gates(), settings()) as (context, _):
        part = context.component("part")
        lane = part.lanes.metadata_io
        lease = lane.drain_lease(inf, 2)
        part.group.cancel()
        with pytest.raises(LaneClosed):
            await lane.run(lambda: 0)
        with pytest.raises(LaneClosed):
            lane.drain_lease(inf, 1)
        assert await lease.run(lambda: 1) == 1
        with pytest.raises(LaneQueueTimedOut):
            await lease.run(lambda: 0, deadline=trio.current_time() - 1)
        assert lease.left == 1  # the deadline of one call used nothing
        assert await lease.run(lambda: 2) == 2
        with pytest.raises(LeaseExhausted) as caught:
            await lease.run(lambda: 3)
        assert caught.value.allowance == 2


@pytest.mark.row("runtime:R85")
async def test_a_drain_lease_ends_at_its_deadline_which_only_moves_earlier_and_at_the_shutdown() -> None:
    async with lanes(Gates(), settings()) as (context, _):
        part = context.component("part")
        lane = part.lanes.metadata_io
        with pytest.raises(LeaseExpired):
            lane.drain_lease(trio.current_time(), 1)
        lease: DrainLease = lane.drain_lease(inf, 3)
        now = trio.current_time()
        assert lease.tighten(now + 1000)
        assert not lease.tighten(now + 2000)
        assert lease.deadline == now + 1000
        context.runtime.request_shutdown("asked", within=30)
        assert lease.deadline <= trio.current_time() + 30
        assert await lease.run(lambda: 1) == 1
        lease.tighten(trio.current_time())
        with pytest.raises(LeaseExpired):
            await lease.run(lambda: 2)
        assert lease.left == 2


@pytest.mark.row("runtime:R85")
@pytest.mark.row("runtime:R87")
async def test_a_drain_lease_of_an_isolated_lane_outlives_the_stop_of_its_scope_but_not_the_lanes_own_end() -> None:
    async with lanes(Gates(), settings()) as (context, _):
        part = context.component("part")
        lane = part.lanes.isolated("own", ONE)
        lease = lane.drain_lease(inf, 3)
        part.group.cancel()
        with pytest.raises(LaneClosed):
            await lane.run(lambda: 0)
        assert await lease.run(lambda: 1) == 1
        lane.stop_admission()
        with pytest.raises(LaneClosed):
            await lease.run(lambda: 2)
        assert lease.left == 2


@pytest.mark.row("runtime:R86")
async def test_a_call_from_another_thread_or_program_runs_on_its_owner_and_never_after_that_has_ended() -> None:
    gates = Gates()
    left: list[Lane] = []
    threads: list[int] = []
    async with lanes(gates, settings()) as (context, _):
        lane = context.lanes.storage_io
        left.append(lane)

        def from_thread() -> int:
            return lane.call_from_thread(lambda: threads.append(threading.get_ident()) or 5)

        async def elsewhere() -> int:
            return await lane.run(lambda: threads.append(threading.get_ident()) or 6)

        assert await trio.to_thread.run_sync(from_thread) == 5
        assert await trio.to_thread.run_sync(trio.run, elsewhere) == 6
        assert lane.snapshot().completed == 2  # by the owner's accounts
        with pytest.raises(LaneMisused, match="await run"):
            lane.call_from_thread(lambda: 0)
    ran: list[int] = []

    async def too_late() -> None:
        await left[0].run(lambda: ran.append(1))

    def program() -> None:
        trio.run(too_late)

    owner_gone: list[Exception] = []

    async def owner() -> None:
        async with lanes(Gates(), settings()) as (context, _):
            left.append(context.lanes.storage_io)

    await trio.to_thread.run_sync(trio.run, owner)
    for call in (lambda: left[1].call_from_thread(lambda: ran.append(2)), program):
        try:
            await trio.to_thread.run_sync(cast("Callable[[], None]", call))
        except (LanesGone, LaneClosed) as exc:
            owner_gone.append(exc)
    assert len(owner_gone) == 2
    assert ran == []


@pytest.mark.row("runtime:R87")
async def test_an_isolated_lane_stops_wakes_its_queue_and_waits_for_the_closure_again_and_again() -> None:
    gates = Gates()
    async with lanes(gates, settings()) as (context, nursery):
        lane = context.lanes.isolated("mine", ONE)
        refused: list[str] = []

        async def waits() -> None:
            with pytest.raises(LaneClosed):
                await lane.run(gates.closure("never"))
            refused.append("never")

        nursery.start_soon(lane.run, gates.closure("held"))
        await gates.until("held")
        nursery.start_soon(waits)
        await queued(lane, 1)
        assert context.lanes.shared.snapshot().running == 0  # a capacity of its own
        first = await lane.shutdown(trio.current_time() + 0.01)
        assert (first.completed, first.pending) == (False, 1)
        assert refused == ["never"]
        with pytest.raises(LaneClosed):
            await lane.run(lambda: 0)
        lane.stop_admission()  # again
        gates.release("held")
        second = await lane.shutdown(trio.current_time() + LONG)
        assert (second.completed, second.pending) == (True, 0)
        with pytest.raises(LaneManaged):
            context.lanes.storage_io.stop_admission()
        assert await context.lanes.storage_io.run(lambda: 1) == 1
    assert gates.began == ["held"]
