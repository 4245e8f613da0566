"""Clauses of the rows R74 to R135 that the tests beside the subjects leave open."""

from __future__ import annotations

import random
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.testing import eventually
from lifecycle import (
    Budget,
    BudgetClosed,
    BudgetedQueue,
    BudgetExhausted,
    BudgetRefusal,
    DiagnosticsOptions,
    DiagnosticsSampler,
    DiagnosticsSources,
    FixedRate,
    Lane,
    LaneClosed,
    LaneManaged,
    LanePolicy,
    LaneSettings,
    LanesGone,
    LongRunningRefused,
    MetadataClosed,
    MetadataWriter,
    Operation,
    QueueClosed,
    Rate,
    Rejected,
    Reserve,
    RuntimeConfig,
    RuntimeMetrics,
    Schedule,
    ServiceContext,
    ServiceLifecycle,
    TargetConflict,
    ThreadStop,
    TransitionRefused,
    Unobserved,
    Wait,
    WaitExpired,
    diagnose,
    drop_stale,
    open_runtime,
)
from lifecycle._metrics_vocabulary import METRICS

from ._bodies import LONG, Gate
from ._budgets import Clock, held, state
from ._metadata import Store, accepted, target, write

ONE = LanePolicy(max_concurrency=1, max_queue=8, queue_timeout=LONG, task_timeout=LONG)
CONFIG = RuntimeConfig(signals=False, lanes=LaneSettings.uniform(ONE, 3), memory_limit=1 << 20, shutdown_within=LONG)
SECRET = "s3cr3t"


@asynccontextmanager
async def runtime(*gates: Gate) -> AsyncGenerator[tuple[ServiceContext, trio.Nursery], None]:
    """A runtime and a nursery for callers; the gates are opened at the end, whatever happens."""
    async with open_runtime(CONFIG) as context, trio.open_nursery() as nursery:
        try:
            yield context, nursery
        finally:
            for gate in gates:
                gate.go.set()


async def queued(lane: Lane, count: int) -> None:
    await eventually(lambda: lane.snapshot().queued == count, within=LONG)


# ---------------------------------------------------------------- lanes


@pytest.mark.row("runtime:R78")
@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_a_slot_that_nobody_noticed_goes_on_to_the_next_who_waits(gate: Gate, how: str) -> None:
    ran: list[str] = []
    async with runtime(gate) as (context, nursery):
        lane, part = context.lanes.storage_io, context.component("part")
        scope = trio.CancelScope()

        async def gone() -> None:
            with scope:
                try:
                    await part.lanes.storage_io.run(ran.append, "gone")
                except LaneClosed:
                    ran.append("refused")

        nursery.start_soon(lane.run, gate)
        await gate.until_began()
        nursery.start_soon(gone)
        await queued(lane, 1)
        nursery.start_soon(lane.run, ran.append, "next")
        await queued(lane, 2)
        holder, first, _ = tuple(lane._pool.calls)
        lane._pool.let_go(holder)  # as when the thread has returned, in one step with what follows
        assert first.place == "holding"
        if how == "cancel":
            scope.cancel()
        else:
            part.group.cancel()
        await eventually(lambda: "next" in ran, within=LONG)
        gate.go.set()
        await eventually(lambda: lane.snapshot().lane_running == 0, within=LONG)
        assert ran == (["next"] if how == "cancel" else ["refused", "next"])
        assert context.lanes.shared.snapshot().running == 0


@pytest.mark.row("runtime:R82")
async def test_a_long_running_call_is_refused_by_every_way_in() -> None:
    ran: list[int] = []
    async with runtime() as (context, _):
        lane, isolated = context.lanes.cpu, context.lanes.isolated("own", ONE)
        lease = lane.drain_lease(inf, 1)
        for run in (isolated.run, lease.run):
            with pytest.raises(LongRunningRefused):
                await run(ran.append, 1, kind="long_running")
        assert lease.left == 1
        with pytest.raises(LongRunningRefused):
            await trio.to_thread.run_sync(lambda: lane.call_from_thread(ran.append, 1, kind="long_running"))
        assert (lane.snapshot().rejected, isolated.snapshot().rejected) == (2, 1)
        assert context.lanes.shared.blocking() == ()
    assert ran == []


@pytest.mark.row("runtime:R83")
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_what_is_no_exception_is_the_callers_too_and_the_next_call_works(kind: type[BaseException]) -> None:
    def fail() -> None:
        raise kind("planted")

    async with runtime() as (context, _):
        lane = context.lanes.storage_io
        with pytest.raises(kind, match="planted"):
            await lane.run(fail)
        now = lane.snapshot()
        assert (now.lane_running, now.tasks) == (0, ())
        assert await lane.run(len, "ab") == 2


@pytest.mark.row("runtime:R84")
async def test_the_close_of_a_parent_wakes_those_that_wait_below_it(gate: Gate) -> None:
    ran: list[str] = []
    refused: list[LaneClosed] = []
    async with runtime(gate) as (context, nursery):
        parent = context.component("parent")
        below = parent.component("below")

        async def waits() -> None:
            with pytest.raises(LaneClosed) as caught:
                await below.lanes.storage_io.run(ran.append, "never")
            refused.append(caught.value)

        nursery.start_soon(context.lanes.storage_io.run, gate)
        await gate.until_began()
        nursery.start_soon(waits)
        await queued(context.lanes.storage_io, 1)
        parent.group.close()
        await eventually(lambda: len(refused) == 1, within=5)
        assert refused[0].scope == "/parent/below"
        gate.go.set()
        assert await context.lanes.storage_io.run(len, "ab") == 2
    assert ran == []


@pytest.mark.row("runtime:R86")
async def test_calls_from_a_thread_and_from_another_program_take_the_slots_of_the_owner(gate: Gate) -> None:
    order: list[str] = []
    async with runtime(gate) as (context, nursery):
        lane = context.lanes.storage_io

        async def elsewhere() -> str:
            return await lane.run(gate, name="foreign")

        nursery.start_soon(trio.to_thread.run_sync, trio.run, elsewhere)
        await gate.until_began()
        now = lane.snapshot()
        assert [(task.name, task.state) for task in now.tasks] == [("foreign", "running")]
        assert (now.lane_running, context.group.task_count) == (1, 1)  # a task of the scope that the lane is bound to
        nursery.start_soon(trio.to_thread.run_sync, lambda: lane.call_from_thread(order.append, "thread"))
        await queued(lane, 1)
        nursery.start_soon(lane.run, order.append, "own")
        await queued(lane, 2)
        assert order == []
        gate.go.set()
        await eventually(lambda: len(order) == 2, within=LONG)
    assert order == ["thread", "own"]


@pytest.mark.row("runtime:R86")
async def test_when_the_owners_program_has_ended_neither_a_program_nor_a_thread_runs_anything() -> None:
    left: list[Any] = []
    ran: list[int] = []

    async def owner() -> None:
        async with open_runtime(CONFIG) as context:
            lane = context.lanes.storage_io
            left.extend([lane, lane.drain_lease(inf, 1), context.lanes.isolated("own", ONE)])

    await trio.to_thread.run_sync(trio.run, owner)
    lane, lease, isolated = left
    for each in (lane, lease, isolated):
        with pytest.raises(LanesGone):  # from this program
            await each.run(ran.append, 1)
    for each in (lane, isolated):
        with pytest.raises(LanesGone):
            await trio.to_thread.run_sync(lambda each=each: each.call_from_thread(ran.append, 1))
    assert lane.snapshot().tasks == ()
    assert (lease.left, ran) == (1, [])


@pytest.mark.row("runtime:R86")
async def test_a_call_that_waits_when_its_owner_goes_never_runs(gate: Gate) -> None:
    ran: list[int] = []
    ends: list[Exception] = []
    lanes: list[Lane] = []
    leave = threading.Event()

    async def owner() -> None:
        async with open_runtime(CONFIG) as context:
            lanes.append(context.lanes.storage_io)
            context.group.spawn(context.lanes.storage_io.run, gate)
            await trio.to_thread.run_sync(leave.wait, LONG)

    def foreign() -> None:
        try:
            lanes[0].call_from_thread(ran.append, 1)
        except LaneClosed as exc:
            ends.append(exc)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, trio.run, owner)
        await gate.until_began()
        nursery.start_soon(trio.to_thread.run_sync, foreign)
        await queued(lanes[0], 1)
        leave.set()
        await eventually(lambda: len(ends) == 1, within=LONG)  # though the slot is taken still
        gate.go.set()
    with pytest.raises(LanesGone):
        await lanes[0].run(ran.append, 2)
    assert ran == []


@pytest.mark.row("runtime:R87")
async def test_the_shutdown_of_an_isolated_lane_waits_for_the_real_closure_and_may_be_repeated(gate: Gate) -> None:
    ends: list[bool] = []
    async with runtime(gate) as (context, nursery):
        lane = context.lanes.isolated("own", ONE)
        scope = trio.CancelScope()

        async def call() -> None:
            with scope:
                await lane.run(gate)

        async def shut() -> None:
            ends.append((await lane.shutdown(inf)).completed)

        nursery.start_soon(call)
        await gate.until_began()
        scope.cancel()  # its caller has gone, the closure has not
        for _ in range(2):
            nursery.start_soon(shut)
        await wait_all_tasks_blocked(0.05)
        assert (ends, lane.snapshot().timed_out_still_running) == ([], 1)
        gate.go.set()
        await eventually(lambda: len(ends) == 2, within=LONG)
        assert ends == [True, True]
        again = await lane.shutdown(-inf)
        assert (again.completed, again.pending, again.snapshot.lane_running) == (True, 0, 0)
    assert gate.runs == 1


@pytest.mark.row("runtime:R87")
async def test_no_lane_of_the_runtime_can_be_closed_by_a_handle() -> None:
    async with runtime() as (context, _):
        for lane in (context.lanes.storage_io, context.lanes.metadata_io, context.lanes.cpu):
            for _ in range(2):
                with pytest.raises(LaneManaged):
                    lane.stop_admission()
            assert not hasattr(lane, "shutdown")
            assert await lane.run(len, "ab") == 2


# ---------------------------------------------------------------- budgets


@pytest.mark.row("runtime:R90")
@pytest.mark.parametrize("why", ["count", "bytes", "data count", "data bytes", "rate", "data rate", "closed"])
def test_a_refusal_at_a_leaf_takes_no_token_whatever_it_was_for(why: str) -> None:
    limits: dict[str, dict[str, Any]] = {
        "count": {"count": 1},
        "bytes": {"bytes": 5},
        "data count": {"count": 2, "control_reserve": Reserve(count=1)},
        "data bytes": {"bytes": 9, "control_reserve": Reserve(bytes=4)},
        "rate": {"rate": Rate(1, 1)},
        "data rate": {"rate": Rate(1, 2), "control_reserve": Reserve(rate=Rate(1, 1))},
        "closed": {},
    }
    root = Budget.root("root", count=9, rate=Rate(1, 4), clock=Clock())
    middle = root.child("middle", rate=Rate(1, 3))
    key = middle.key("leaf", **limits[why])
    leaf = key.budget
    with leaf.reserve(5):
        if why == "closed":
            key.close()
        before = state(root, middle, leaf)
        for _ in range(10):
            with pytest.raises(BudgetRefusal) as caught:
                leaf.reserve(1)
            if why == "closed":
                assert isinstance(caught.value, BudgetClosed)
            else:
                assert isinstance(caught.value, BudgetExhausted)
                assert (caught.value.exhausted, caught.value.dimension) == (leaf.path, why.split()[-1])
            assert state(root, middle, leaf) == before
        shots = [budget.snapshot() for budget in (root, middle, leaf)]
        assert [(shot.rejected_count, shot.throttled_count) for shot in shots[:2]] == [(0, 0)] * 2
        assert shots[2].rejected_count == 10
    # One token of each is used, by the permit that was granted.
    assert middle.try_reserve(count=3) is None
    middle.reserve(count=2).release()
    root.reserve().release()
    assert root.try_reserve() is None


@pytest.mark.row("runtime:R93")
async def test_no_instant_of_a_rebind_or_a_promotion_is_one_in_which_another_could_get_in() -> None:
    root = Budget.root("root", count=2, bytes=20, control_reserve=Reserve(count=1))
    both = root.child("both", bytes=10)
    one, other = both.child("one"), both.child("other", bytes=10)
    small = both.child("small", bytes=5)
    got: list[str] = []

    async def acquire(budget: Budget, control: bool) -> None:
        with await budget.acquire(1, control=control):
            got.append(budget.name)

    with one.reserve(10) as permit:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(acquire, both, False)
            nursery.start_soon(acquire, other, True)
            await wait_all_tasks_blocked()
            above = state(root, both)
            for goal in (other, one, both, one, other):
                permit.rebind(goal)
                await wait_all_tasks_blocked()
                assert (state(root, both), got) == (above, [])
            with pytest.raises(BudgetExhausted):
                permit.rebind(small)
            await wait_all_tasks_blocked()
            assert (permit.held, permit.path, held(small), got) == (True, other.path, (0, 0), [])
            assert state(root, both) == above
            permit.promote()
            await wait_all_tasks_blocked()
            assert (held(root), held(both), got) == ((1, 10), (1, 10), [])
            permit.release()
            await wait_all_tasks_blocked()
            assert sorted(got) == ["both", "other"]
    assert held(root) == (0, 0)


class Item:
    """Something that is equal to nothing but itself, unlike a string."""


@pytest.mark.row("runtime:R100")
@pytest.mark.parametrize("why", ["never fits", "rate", "expired", "closed", "key closed", "key closes", "closes"])
async def test_whatever_ends_a_push_that_waits_the_very_item_comes_back(autojump_clock: MockClock, why: str) -> None:
    root = Budget.root("root", count=3)
    key = root.key("tenant")
    limits: dict[str, Any] = {"rate": Rate(0.001, 1)} if why == "rate" else {"count": 1}
    policy: Any = Wait(rate=False) if why == "rate" else "wait"
    nbytes = iter([1, 99 if why == "never fits" else 1])
    queue: BudgetedQueue[Item] = BudgetedQueue(
        key.budget.child("queue", bytes=9, **limits), policy=policy, size=lambda _: next(nbytes)
    )
    assert await queue.push(Item())
    if why == "closed":
        queue.close()
    if why == "key closed":
        key.close()
    item = Item()
    errors: list[BudgetRefusal] = []

    async def push() -> None:
        with pytest.raises(BudgetRefusal) as caught:
            await queue.push(item, deadline=5.0 if why == "expired" else inf)
        errors.append(caught.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(push)
        await wait_all_tasks_blocked()
        waits = why in ("expired", "key closes", "closes")
        assert bool(errors) is not waits
        assert queue.snapshot().waiters == waits
        if why == "key closes":
            key.close()
        elif why == "closes":
            queue.close()
    (error,) = errors
    assert error.item is item
    assert trio.current_time() == (5 if why == "expired" else 0)
    expected = {"expired": WaitExpired, "closed": QueueClosed, "closes": QueueClosed}
    expected |= {"key closed": BudgetClosed, "key closes": BudgetClosed}
    assert isinstance(error, expected.get(why, BudgetExhausted))
    assert len(queue) == 1


@pytest.mark.row("runtime:R99")
@pytest.mark.parametrize("policy", ["reject", "wait"])
async def test_a_full_queue_keeps_what_is_older_than_the_age_of_its_budget(
    autojump_clock: MockClock, policy: Any
) -> None:
    budget = Budget.root("root", count=2, max_age=5)
    queue: BudgetedQueue[Item] = BudgetedQueue(budget, policy=policy)
    old = [Item(), Item()]
    for item in old:
        assert queue.try_push(item)
    await trio.sleep(100)
    late = Item()
    refused = queue.try_push(late)
    assert isinstance(refused, Rejected)
    assert refused.item is late
    assert [queue.try_recv(), queue.try_recv(), queue.try_recv()] == [*old, None]
    stale: BudgetedQueue[Item] = BudgetedQueue(budget, policy=drop_stale())  # and the same load where age counts
    for item in old:
        assert stale.try_push(item)
    await trio.sleep(100)
    assert stale.try_push(late)
    assert (stale.try_recv(), stale.try_recv()) == (late, None)


# ---------------------------------------------------------------- metadata


def brief() -> RuntimeConfig:
    """A runtime whose metadata lane waits a moment only for its closures."""
    lanes = attrs.evolve(LaneSettings.uniform(ONE, 4), metadata_io=LanePolicy(2, 8, LONG, task_timeout=0.05))
    return attrs.evolve(CONFIG, lanes=lanes)


@pytest.mark.row("runtime:R116")
async def test_a_closure_that_the_lane_of_a_runtime_has_given_up_holds_all_of_its_write() -> None:
    store = Store()
    store.hold("a")
    async with open_runtime(brief()) as context:
        part = context.component("part")
        one = MetadataWriter.of(part, "one", store=store)
        other = MetadataWriter.of(part, "other", store=store)
        try:
            one.start(part.group)
            other.start(part.group)
            receipt = accepted(one.submit(write("a", 1, b"12345")))
            await store.until_begun("a", 1)
            lane = context.lanes.metadata_io
            await eventually(lambda: lane.snapshot().timed_out_still_running == 1, within=LONG)
            assert await receipt.observe(trio.current_time() + 0.01) == Unobserved(1)
            newer = accepted(one.submit(write("a", 2, b"67")))
            await wait_all_tasks_blocked(0.05)
            snapshot = one.snapshot()
            assert (snapshot.pending_operations, snapshot.pending_bytes) == (2, 7)
            assert (context.budget.snapshot().current_count, context.budget.snapshot().current_bytes) == (2, 7)
            assert isinstance(other.submit(write("a", 3)), TargetConflict)
            assert (receipt.outcome, newer.outcome, store.begun) == (None, None, [("a", 1)])
        finally:
            store.let_go()
        assert (await receipt.durable(), await newer.durable()) == (1, 2)
        assert context.budget.snapshot().current_bytes == 0
    assert store.most_of_one == 1


@pytest.mark.row("runtime:R114")
async def test_a_conflict_is_seen_by_every_writer_of_a_runtime_and_by_none_of_another() -> None:
    store = Store()
    async with open_runtime(CONFIG) as context, open_runtime(CONFIG) as stranger:
        one = MetadataWriter.of(context.component("one"), "one", store=store)
        other = MetadataWriter.of(context.component("other"), "other", store=store)
        foreign = MetadataWriter.of(stranger, "foreign", store=store)
        accepted(one.submit(write("a", 1)))
        for request in (write("a", 2), write("b", 1, at=target("a"))):
            answer = other.submit(request)
            assert isinstance(answer, TargetConflict)
            assert answer.request is request
        accepted(foreign.submit(write("a", 2)))
        one.give_up()
        foreign.give_up()


@pytest.mark.row("runtime:R117")
@pytest.mark.parametrize("how", ["cancel", "close", "shutdown"])
async def test_however_its_group_is_told_to_stop_a_writer_drains(how: str) -> None:
    store = Store()
    store.hold("a")
    async with open_runtime(CONFIG) as context:
        part = context.component("part")
        one = MetadataWriter.of(part, "one", store=store)
        one.start(part.group)
        receipts = [accepted(one.submit(write("a", 1)))]
        await store.until_begun("a", 1)
        receipts += [accepted(one.submit(write(name, 2))) for name in "abc"]
        async with trio.open_nursery() as nursery:
            if how == "shutdown":
                nursery.start_soon(part.group.shutdown, LONG)
                await wait_all_tasks_blocked()
            else:
                getattr(part.group, how)()
            try:
                with pytest.raises(MetadataClosed):
                    one.submit(write("d", 1))
            finally:
                store.let_go()
            assert [await receipt.durable() for receipt in receipts] == [1, 2, 2, 2]
    assert sorted(store.done) == [("a", 1), ("a", 2), ("b", 2), ("c", 2)]


# ---------------------------------------------------------------- services


@pytest.mark.row("runtime:R122")
@pytest.mark.parametrize("state_", ["starting", "ready", "maintenance", "draining", "stopped", "failed"])
async def test_a_service_starts_in_the_states_before_its_drain_only(autojump_clock: MockClock, state_: str) -> None:
    calls: dict[str, list[str]] = {
        "starting": [],
        "ready": ["mark_ready"],
        "maintenance": ["mark_ready", "begin_maintenance"],
        "draining": ["request_shutdown"],
        "stopped": ["mark_stopped"],
        "failed": ["mark_failed"],
    }
    async with open_runtime(CONFIG) as context:
        service = ServiceLifecycle()
        for call in calls[state_]:
            getattr(service, call)()
        entered = dict(service.entered)
        if state_ in ("draining", "stopped", "failed"):
            with pytest.raises(TransitionRefused) as refused:
                await service.start(context)
            assert (refused.value.call, refused.value.state) == ("start", state_)
            assert context.group.component_count == context.group.task_count == 0
        else:
            await service.start(context)
        # What is no transition changes no state, in none of them.
        service.degrade("store")
        service.restore("store")
        service.record_progress()
        assert (service.state, dict(service.entered)) == (state_, entered)


# ---------------------------------------------------------------- diagnostics


ENDS = ("_total", "_bucket", "_count", "_sum")


def labels(metrics: RuntimeMetrics) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """Every series that is exported; each label value is from the set of its label."""
    found: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for family in text_string_to_metric_families(metrics.render()[1].decode()):
        for sample in family.samples:
            name = next(
                name for name in (sample.name, *(sample.name.removesuffix(end) for end in ENDS)) if name in METRICS
            )
            own = {label: value for label, value in sample.labels.items() if label != "le"}
            assert set(own) == set(METRICS[name].labels)
            assert all(value in METRICS[name].labels[label] for label, value in own.items())
            found.add((sample.name, tuple(sorted(sample.labels.items()))))
    return found


@pytest.mark.row("runtime:R130")
async def test_no_name_of_what_else_there_is_gets_into_a_page_that_anybody_may_read(tmp_path: Path, gate: Gate) -> None:
    def thread(stop: ThreadStop) -> None:
        stop.wait(LONG)

    async with open_runtime(attrs.evolve(CONFIG, name=f"{SECRET}-runtime")) as context:
        part = context.component(f"{SECRET}-part")
        part.group.spawn_operation(Operation(), trio.sleep_forever, name=f"{SECRET}-operation")
        part.lanes.start_thread(thread, name=f"{SECRET}-thread")
        processes = part.lanes.processes(f"{SECRET}-processes", ONE)
        key = context.budget.key(f"{SECRET}-key")
        queue: BudgetedQueue[str] = BudgetedQueue(key.budget.child(f"{SECRET}-queue"))
        queue.try_push(f"{SECRET}-item")
        schedules = part.schedules(f"{SECRET}-schedules")
        schedules.add(Schedule(f"{SECRET}-schedule", trio.lowlevel.checkpoint, FixedRate(60)))
        store = Store()
        writer = MetadataWriter.of(part, f"{SECRET}-writer", store=store)  # which does not run: the write is pending
        writer.submit_next(f"{SECRET}-resource", tmp_path / f"{SECRET}-file", SECRET.encode())
        service = ServiceLifecycle()
        service.degrade(f"{SECRET}-dependency")
        service.mark_failed(f"{SECRET}-failure")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: part.lanes.cpu.run(gate, name=f"{SECRET}-running"))
            await gate.until_began()
            nursery.start_soon(lambda: part.lanes.cpu.run(len, "", name=f"{SECRET}-queued"))
            await queued(part.lanes.cpu, 1)
            sources = DiagnosticsSources.of(context, schedules=(schedules,), metadata=(writer,), service=service)
            options = DiagnosticsOptions(scan_budget=1000, max_details=1000)
            pages = [
                DiagnosticsSampler(each, chosen, sources).page()[2].decode()
                for each in (context, part)
                for chosen in (options, DiagnosticsOptions())
            ]
            pages.append(DiagnosticsSampler(context).page()[2].decode())
            metrics = RuntimeMetrics(lambda: diagnose(context, options, sources))
            pages += [repr(diagnose(part, options, sources)), metrics.render()[1].decode()]
            shown = diagnose(context, attrs.evolve(options, names=True), sources).to_json()
            gate.go.set()
        for page in pages:
            assert SECRET not in page
            assert str(tmp_path) not in page
        for what in ("part", "operation", "thread", "processes", "key", "queue", "schedule", "resource", "running"):
            assert f"{SECRET}-{what}" in shown  # they were there to be hidden
        assert processes.pids == ()
        key.close()
        queue.clear()
        writer.give_up()


@pytest.mark.row("runtime:R131")
async def test_metadata_and_all_else_that_is_shared_say_so_from_wherever_they_are_seen() -> None:
    async with open_runtime(CONFIG) as context:
        part = context.component("part")
        writer = MetadataWriter.of(part, "writer", store=Store())
        for place in (context, part):
            for writers in ((), (writer,)):
                sources = DiagnosticsSources.of(place, schedules=(), metadata=writers, service=ServiceLifecycle())
                found = diagnose(place, sources=sources)
                for section in (found.memory, found.lanes, found.budgets, found.metadata, found.targets, found.service):
                    assert section is not None
                    assert section.scope == "process"
                assert (found.tasks.scope, found.details.scope, found.component.scope) == (
                    "subtree",
                    "subtree",
                    "local",
                )
                assert found.metadata is not None
                assert found.metadata.writers == len(writers)  # none at all is there, and is not absent


@pytest.mark.row("runtime:R132")
async def test_with_no_budget_nothing_is_looked_at_in_whatever_tree() -> None:
    async with open_runtime(CONFIG) as context:
        part = context.component("part")
        for scan, most in ((0, 0), (0, 5)):
            details = part.diagnostics(DiagnosticsOptions(scan_budget=scan, max_details=most)).details
            assert (details.group_entries_scanned, details.details_scanned, details.truncated) == (0, 0, True)
        for _ in range(4096):
            part.component("child")
        details = part.diagnostics(DiagnosticsOptions(scan_budget=0, max_details=0)).details
        assert (details.group_entries_scanned, details.details_scanned, details.truncated) == (0, 0, True)
        details = part.diagnostics(DiagnosticsOptions(scan_budget=4096, max_details=0)).details
        assert (details.group_entries_scanned, details.truncated) == (4096, False)


@pytest.mark.row("runtime:R135")
async def test_names_of_all_else_that_has_one_add_no_series_either() -> None:
    async with open_runtime(CONFIG) as context:
        store, service = Store(), ServiceLifecycle()
        writer = MetadataWriter.of(context, "writer", store=store)
        sources = DiagnosticsSources.of(context, schedules=(), metadata=(writer,), service=service)
        metrics = RuntimeMetrics(lambda: diagnose(context, DiagnosticsOptions(names=True), sources))
        before = labels(metrics)
        rng = random.Random(1)
        for number in range(500):
            name = f"name-{rng.randrange(1 << 60)}-{number}"
            writer.submit_next(name, Path("/nowhere", name), b"")
            context.budget.key(name)
            context.lanes.isolated(name, ONE)
            context.group.spawn(trio.lowlevel.checkpoint, kind=name, name=name)  # type: ignore[arg-type]
            await context.lanes.cpu.run(len, "", name=name)
            service.degrade(name)
            service.restore(name)
            if number == 250:
                assert labels(metrics) == before
        assert labels(metrics) == before
        service.mark_failed("name-of-a-failure")
        context.runtime.request_shutdown("name-of-a-reason")
        added = labels(metrics) - before
        assert added == {("tenure_runtime_shutdown", (("reason", "other"),))}
        writer.give_up()
