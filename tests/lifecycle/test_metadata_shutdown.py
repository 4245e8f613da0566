"""The metadata writer: closures that nobody waits for any more, runs that are cancelled, the end."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from actors.testing import eventually
from lifecycle import (
    Budget,
    Durable,
    FailedBeforeCommit,
    LaneClosed,
    LoadedMetadata,
    MetadataAlreadyRunning,
    MetadataClosed,
    MetadataTargets,
    MetadataWriteFailed,
    MetadataWriter,
    RuntimeConfig,
    Settled,
    TargetConflict,
    Unobserved,
    open_runtime,
)

from ._metadata import (
    Store,
    accepted,
    disk_full,
    running,
    target,
    write,
    writer,
)

# -- late closures


async def impatient(fn: Callable[..., Any], *args: Any) -> Any:
    """A lane that waits a moment only, and leaves the thread alone."""
    with trio.fail_after(0.05):
        return await trio.to_thread.run_sync(fn, *args, abandon_on_cancel=True)


@pytest.mark.row("runtime:R116")
async def test_a_late_closure_holds_its_bytes_its_budget_and_its_target_until_it_has_really_ended() -> None:
    store = Store()
    store.hold("a")
    budget = Budget.root("process", count=10, bytes=100)
    targets = MetadataTargets()
    one = writer(store, targets, name="one", budget=budget, run_blocking=impatient, max_concurrent_writes=2)
    other = writer(store, targets, name="other")
    async with running(one, other):
        receipt = accepted(one.submit(write("a", 1, b"12345")))
        await store.until_begun("a", 1)
        assert await receipt.observe(trio.current_time() + 0.3) == Unobserved(1)
        assert Unobserved(1).requires_reconciliation
        # The lane has given up by now; the thread goes on.
        newer = accepted(one.submit(write("a", 2, b"67")))
        await accepted(one.submit(write("b", 1, b""))).durable()
        snapshot = one.snapshot()
        assert (snapshot.pending_operations, snapshot.pending_bytes) == (2, 7)
        assert (snapshot.resources[0].in_flight, snapshot.resources[0].queued) == (1, 2)
        assert (budget.snapshot().current_count, budget.snapshot().current_bytes) == (2, 7)
        one.stop_admission()
        assert isinstance(other.submit(write("a", 3)), TargetConflict)
        assert store.begun == [("a", 1), ("b", 1)]
        assert receipt.outcome is None
        store.let_go()
        assert await receipt.durable() == 1
        assert await newer.durable() == 2
        await one.shutdown()
        assert (budget.snapshot().current_count, budget.snapshot().current_bytes) == (0, 0)
        assert await accepted(other.submit(write("a", 3))).durable() == 3
    assert store.most_of_one == 1
    assert store.begun == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]


@pytest.mark.row("runtime:R116")
async def test_a_closure_that_fails_late_is_settled_as_it_ended() -> None:
    store = Store()
    store.hold("a")
    store.failures[("a", 1)] = disk_full
    one = writer(store, run_blocking=impatient)
    async with running(one):
        receipt = accepted(one.submit(write("a", 1)))
        assert await receipt.observe(trio.current_time() + 0.3) == Unobserved(1)
        # With one write at a time, the late one is that one.
        other = accepted(one.submit(write("b", 1)))
        await wait_all_tasks_blocked()
        assert store.begun == [("a", 1)]
        store.let_go()
        assert await receipt.observe() == Settled(1, FailedBeforeCommit(1, "write_temporary"))
        assert await other.durable() == 1


async def test_a_run_that_is_cancelled_and_run_again_loses_nothing() -> None:
    store = Store()
    store.hold("a")
    one = writer(store)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        receipts = [accepted(one.submit(write(name, 1))) for name in "abc"]
        await store.until_begun("a", 1)
        receipts.append(accepted(one.submit(write("a", 2))))
        nursery.cancel_scope.cancel()
    assert [receipt.outcome for receipt in receipts] == [None] * 4
    assert one.accepting
    assert (one.snapshot().pending_operations, one.snapshot().resources[0].in_flight) == (4, 1)
    async with running(one):
        await wait_all_tasks_blocked()
        assert store.begun == [("a", 1)]
        store.let_go()
        assert [await receipt.durable() for receipt in receipts] == [1, 1, 1, 2]
    assert sorted(store.begun) == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]


async def test_a_write_that_had_not_begun_when_run_was_cancelled_is_queued_again() -> None:
    store = Store()
    before = trio.Event()

    async def slow_lane(fn: Callable[..., Any], *args: Any) -> Any:
        await before.wait()
        return await trio.to_thread.run_sync(fn, *args)

    one = writer(store, run_blocking=slow_lane)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        first = accepted(one.submit(write("a", 1)))
        other = accepted(one.submit(write("b", 1)))
        await wait_all_tasks_blocked()
        assert one.snapshot().resources[0].in_flight == 1
        nursery.cancel_scope.cancel()
    assert (one.snapshot().resources[0].in_flight, one.snapshot().resources[0].queued) == (None, 1)
    before.set()
    async with running(one):
        assert await first.durable() == 1
        assert await other.durable() == 1
    assert store.begun == [("a", 1), ("b", 1)]


async def test_a_write_that_had_not_begun_is_coalesced_into_a_newer_one() -> None:
    store = Store()
    before = trio.Event()

    async def slow_lane(fn: Callable[..., Any], *args: Any) -> Any:
        await before.wait()
        return await trio.to_thread.run_sync(fn, *args)

    budget = Budget.root("process", count=2, bytes=100)
    one = writer(store, run_blocking=slow_lane, budget=budget)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        first = accepted(one.submit(write("a", 1)))
        await wait_all_tasks_blocked()
        second = accepted(one.submit(write("a", 2)))
        nursery.cancel_scope.cancel()
    assert one.snapshot().pending_operations == 1
    assert budget.snapshot().current_count == 1
    before.set()
    async with running(one):
        assert await first.durable() == 2
        assert await second.durable() == 2
    assert store.begun == [("a", 2)]


async def test_a_thread_that_begins_after_its_write_was_given_up_writes_nothing() -> None:
    store = Store()
    kept: list[Callable[[], Any]] = []

    async def gives_up(fn: Callable[..., Any], *args: Any) -> Any:
        await trio.lowlevel.checkpoint()
        kept.append(lambda: fn(*args))
        raise trio.TooSlowError

    one = writer(store, run_blocking=gives_up)
    async with running(one):
        outcome = (await accepted(one.submit(write("a", 1))).observe()).outcome
        assert outcome == FailedBeforeCommit(1, "never begun")
        kept[0]()
        assert store.begun == []


async def test_only_one_run_at_a_time() -> None:
    one = writer(Store())
    async with running(one):
        await wait_all_tasks_blocked()
        with pytest.raises(MetadataAlreadyRunning):
            await one.run()


# -- the end


@pytest.mark.row("runtime:R117")
async def test_a_group_that_is_cancelled_stops_admission_and_drains_what_was_accepted() -> None:
    store = Store()
    store.hold("a")
    one = writer(store)
    async with open_runtime(RuntimeConfig(signals=False)) as context:
        child = context.component("metadata")
        handle = one.start(child.group)
        receipts = [accepted(one.submit(write(name, 1))) for name in "ab"]
        await store.until_begun("a", 1)
        receipts.append(accepted(one.submit(write("a", 2))))
        child.group.cancel()
        with pytest.raises(MetadataClosed):
            one.submit(write("a", 3))
        with pytest.raises(MetadataClosed):
            one.submit(write("c", 1))
        assert not handle.ended
        store.let_go()
        assert [await receipt.durable() for receipt in receipts] == [1, 1, 2]
        await handle.wait()
    assert store.begun == [("a", 1), ("b", 1), ("a", 2)]
    assert context.runtime.report is not None
    assert context.runtime.report.is_healthy()


async def test_what_has_not_begun_at_the_deadline_of_a_shutdown_fails_and_what_runs_is_settled_later() -> None:
    store = Store()
    store.hold("a")
    one = writer(store)
    async with open_runtime(RuntimeConfig(signals=False)) as context:
        child = context.component("metadata")
        one.start(child.group)
        first = accepted(one.submit(write("a", 1)))
        await store.until_begun("a", 1)
        second, other = accepted(one.submit(write("a", 2))), accepted(one.submit(write("b", 1)))
        await child.group.shutdown(0.2)
        assert first.outcome is None
        assert second.outcome == FailedBeforeCommit(2, "never begun")
        assert other.outcome == FailedBeforeCommit(1, "never begun")
        assert one.snapshot().pending_operations == 1
        assert isinstance(writer(store, one.targets).submit(write("a", 3)), TargetConflict)
        store.let_go()
        assert await first.durable() == 1
        assert one.snapshot().pending_operations == 0
        assert one.retire("a") == "retired"


@pytest.mark.row("runtime:R118")
async def test_a_shutdown_that_runs_out_of_time_says_what_is_unfinished_and_a_second_one_is_clean() -> None:
    store = Store()
    store.hold("a")
    one = writer(store)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        accepted(one.submit(write("done", 1)))
        await accepted(one.submit(write("done", 1))).durable()
        accepted(one.submit(write("a", 9, b"nine")))
        await store.until_begun("a", 9)
        accepted(one.submit(write("a", 10, b"ten")))
        report = await one.shutdown(trio.current_time() + 0.05)
        assert (report.timed_out, report.pending_operations, report.pending_bytes) == (True, 2, 7)
        (view,) = report.unfinished
        assert (view.resource, view.target, view.in_flight, view.queued) == ("a", target("a"), 9, 10)
        with pytest.raises(MetadataClosed):
            one.submit(write("a", 11))
        store.let_go()
        report = await one.shutdown()
        assert (report.timed_out, report.pending_operations, report.pending_bytes) == (False, 0, 0)
        assert report.unfinished == ()
        assert await one.shutdown(trio.current_time() - 1) == report
    assert store.content("a") == LoadedMetadata(10, b"ten")


async def test_a_writer_of_a_runtime_uses_its_lane_its_budget_and_its_registry_and_drains_after_the_stop() -> None:
    store = Store()
    store.hold("a")
    async with open_runtime(RuntimeConfig(signals=False)) as context:
        child = context.component("metadata")
        one = MetadataWriter.of(child, "metadata", store=store)
        assert one.targets is context.resources.targets
        handle = one.start(child.group)
        receipts = [accepted(one.submit(write(name, 1, b"12345"))) for name in "ab"]
        await store.until_begun("a", 1)
        receipts.append(accepted(one.submit(write("a", 2, b"67"))))
        assert context.budget.snapshot().current_bytes == 12
        (task,) = context.resources.lanes.running_closures()
        assert task.lane == "metadata_io"
        child.group.close()
        store.let_go()
        assert [await receipt.durable() for receipt in receipts] == [1, 1, 2]
        await handle.wait()
        assert context.budget.snapshot().current_bytes == 0
        with pytest.raises(LaneClosed):
            MetadataWriter.of(child, "late")
    assert store.begun == [("a", 1), ("b", 1), ("a", 2)]
    assert context.runtime.report is not None
    assert context.runtime.report.is_healthy()


async def test_a_write_that_waits_for_its_slot_when_the_stop_comes_is_written_all_the_same() -> None:
    store = Store()
    gate = Event()
    async with open_runtime(RuntimeConfig(signals=False, parallelism=2)) as context:
        child = context.component("metadata")
        lane = context.lanes.metadata_io
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(lane.run, gate.wait, 20)
            await eventually(lambda: context.resources.lanes.blocking_still_running == 4)
            one = MetadataWriter.of(child, "metadata", store=store)
            one.start(child.group)
            receipt = accepted(one.submit(write("a", 1)))
            await wait_all_tasks_blocked()
            child.group.close()
            await wait_all_tasks_blocked()
            assert (store.begun, receipt.outcome) == ([], None)
            gate.set()
            assert await receipt.durable() == 1


async def test_giving_up_fails_what_has_not_begun_and_ends_the_run() -> None:
    store = Store()
    store.hold("a")
    one = writer(store)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        first = accepted(one.submit(write("a", 1)))
        await store.until_begun("a", 1)
        second, other = accepted(one.submit(write("a", 2))), accepted(one.submit(write("b", 1)))
        older = accepted(one.submit(write("a", 1)))
        assert one.give_up() == 2
        assert one.give_up() == 0
        with pytest.raises(MetadataWriteFailed):
            await second.durable()
        assert other.outcome == FailedBeforeCommit(1, "never begun")
        assert (first.outcome, older.outcome) == (None, None)
        store.let_go()
    assert (first.outcome, older.outcome) == (Durable(1), Durable(1))
    assert store.begun == [("a", 1)]
    assert one.snapshot().pending_bytes == 0
