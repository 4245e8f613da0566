"""Critical tasks: what counts as a failure, which one is kept, who handles it, what it does to the service."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from lifecycle import (
    ContractViolation,
    CriticalFailure,
    CriticalFailures,
    GroupPoisoned,
    MonitorMisplaced,
    RecoveryPolicy,
    RuntimeConfig,
    ServiceContext,
    ServiceLifecycle,
    SubscribersExhausted,
    open_runtime,
    spawn_critical,
    spawn_critical_service,
    spawn_monitor,
)

DEGRADE = RuntimeConfig(signals=False, on_poison="degrade")


class Planted(Exception):
    """What the tests lose their tasks by."""


@asynccontextmanager
async def runtime() -> AsyncGenerator[ServiceContext, None]:
    """A runtime that goes on after a failure; the planted ones are looked at by the test and not raised."""
    try:
        async with open_runtime(DEGRADE) as context:
            yield context
    except* Planted:
        pass


async def fail() -> None:
    raise Planted


async def nothing() -> None:
    pass


async def until_stopping(context: ServiceContext) -> None:
    await context.stopping.wait()


# -- what counts


@pytest.mark.row("runtime:R53")
async def test_an_early_return_of_a_critical_service_is_recorded_and_counts_as_failed(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    failures = CriticalFailures()
    async with runtime() as context:
        store = context.component("store")
        with caplog.at_level(logging.ERROR, "tenure.lifecycle"):
            task = spawn_critical_service(store.group, failures, trio.sleep, 3, name="writer")
            assert await task.wait() == "failed"
        assert failures.pending == CriticalFailure(
            task="/store/writer", kind="exited_unexpectedly", exception=None, at=trio.current_time(), sequence=1
        )
        assert "critical task /store/writer: exited_unexpectedly" in caplog.text
        assert store.group.outcomes.failed == 1
        assert store.group.outcomes.completed == 0
        assert store.group.state == "open"
    report = context.runtime.report
    assert report is not None
    assert not report.is_healthy()


@pytest.mark.row("runtime:R53")
@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_a_return_after_the_owner_was_told_to_stop_is_no_failure(
    autojump_clock: trio.testing.MockClock, how: str
) -> None:
    failures = CriticalFailures()
    async with runtime() as context:
        store = context.component("store")
        task = spawn_critical_service(store.group, failures, until_stopping, store)
        await trio.sleep(1)
        store.group.close() if how == "close" else store.group.cancel()
        assert await task.wait() == "cancelled"
        assert failures.occurrences == 0
        assert failures.pending is None
        store.group.close()
    assert failures.sequence == 0


@pytest.mark.row("runtime:R53")
async def test_an_abort_of_a_critical_service_is_no_failure_before_or_after_its_first_step(
    autojump_clock: trio.testing.MockClock,
) -> None:
    failures = CriticalFailures()
    async with runtime() as context:
        never_ran = spawn_critical_service(context.group, failures, fail)
        never_ran.cancel()
        ran = spawn_critical_service(context.group, failures, trio.sleep_forever)
        await trio.sleep(1)
        ran.cancel()
        assert await never_ran.wait() == "aborted"
        assert await ran.wait() == "aborted"
    assert failures.sequence == 0


@pytest.mark.row("runtime:R54")
async def test_a_critical_worker_may_return_but_must_not_raise(autojump_clock: trio.testing.MockClock) -> None:
    failures = CriticalFailures()
    async with runtime() as context:
        good = spawn_critical(context.group, failures, nothing, kind="scheduled_run")
        assert good.kind == "scheduled_run"
        assert await good.wait() == "completed"
        assert failures.occurrences == 0
        bad = spawn_critical(context.group, failures, fail)
        assert await bad.wait() == "panicked"
        assert failures.pending is not None
        assert (failures.pending.task, failures.pending.kind) == ("/fail", "panicked")
        assert failures.pending.exception is bad.exception
        assert isinstance(bad.exception, Planted)


@pytest.mark.row("runtime:R54")
async def test_a_failure_in_the_cleanup_of_a_cancelled_task_is_a_failure(
    autojump_clock: trio.testing.MockClock,
) -> None:
    failures = CriticalFailures()

    async def fails_late() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise Planted

    async with runtime() as context:
        task = spawn_critical(context.group, failures, fails_late)
        await trio.sleep(1)
        task.cancel()
        await task.wait()
        assert failures.occurrences == 1


async def test_a_failure_is_recorded_before_a_waiter_of_its_task_is_woken(
    autojump_clock: trio.testing.MockClock,
) -> None:
    failures = CriticalFailures()
    seen: list[int] = []
    async with runtime() as context:
        panics = spawn_critical_service(context.component("a").group, failures, fail)
        leaves = spawn_critical_service(context.component("b").group, failures, nothing)

        async def look(task: object) -> None:
            await task.wait()  # type: ignore[attr-defined]
            seen.append(failures.sequence)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look, panics)
            nursery.start_soon(look, leaves)
    assert min(seen) >= 1
    assert max(seen) == 2


# -- which one is kept


@pytest.mark.row("runtime:R55")
async def test_the_first_failure_is_kept_and_later_ones_are_counted(autojump_clock: trio.testing.MockClock) -> None:
    failures = CriticalFailures()
    assert failures.take() is None
    notices = failures.subscribe(1)
    failures.record("/a")
    await trio.sleep(2)
    failures.record("/b", "exited_unexpectedly")
    pending = failures.pending
    assert pending is not None
    assert (pending.task, pending.kind, pending.at, pending.sequence) == ("/a", "unrecoverable", 0.0, 1)
    assert (pending.occurrences, failures.occurrences, failures.sequence) == (2, 2, 2)
    # The channel was full at the second: that notice is lost, and nothing else.
    assert notices.receive_nowait().task == "/a"
    with pytest.raises(trio.WouldBlock):
        notices.receive_nowait()
    assert failures.take() is pending
    assert failures.take() is None
    failures.record("/c")
    assert notices.receive_nowait().task == "/c"
    assert failures.pending is not None
    assert (failures.pending.task, failures.pending.occurrences, failures.pending.sequence) == ("/c", 1, 3)
    notices.close()


async def test_notices_need_room_and_a_closed_channel_is_forgotten() -> None:
    failures = CriticalFailures()
    with pytest.raises(ContractViolation):
        failures.subscribe(0)
    channels = [failures.subscribe(1) for _ in range(64)]
    with pytest.raises(SubscribersExhausted) as refused:
        failures.subscribe(1)
    assert refused.value.limit == 64
    channels[0].close()
    last = failures.subscribe(2)
    channels[1].close()
    failures.record("/a")
    assert last.receive_nowait().task == "/a"
    for channel in (*channels, last):
        channel.close()
    failures.record("/b")


async def test_waiting_takes_nothing_and_returns_at_once_when_a_failure_is_pending(
    autojump_clock: trio.testing.MockClock,
) -> None:
    failures = CriticalFailures()
    async with trio.open_nursery() as nursery:
        found: list[CriticalFailure] = []

        async def wait() -> None:
            found.append(await failures.wait())

        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.sleep(1)
        assert found == []
        failures.record("/a")
    assert [failure.task for failure in found] == ["/a", "/a"]
    with trio.testing.assert_checkpoints():
        assert await failures.wait() is failures.pending


# -- who handles it


@pytest.mark.row("runtime:R56")
async def test_a_monitor_works_although_the_group_that_it_watches_is_poisoned(
    autojump_clock: trio.testing.MockClock,
) -> None:
    failures = CriticalFailures()
    handled: list[str] = []
    async with runtime() as context:
        store = context.component("store")
        watch = context.component("watch")
        spawn_monitor(watch.group, failures, lambda failure: handled.append(failure.task))
        spawn_critical_service(store.group, failures, fail)
        await trio.sleep(1)
        assert handled == ["/store/fail"]
        assert store.group.state == "poisoned"
        with pytest.raises(GroupPoisoned):
            spawn_critical_service(store.group, failures, nothing)
        failures.record("/by hand")
        await trio.sleep(1)
        assert handled == ["/store/fail", "/by hand"]
        assert failures.pending is None


@pytest.mark.row("runtime:R56")
async def test_a_monitor_and_a_critical_task_never_share_a_group(autojump_clock: trio.testing.MockClock) -> None:
    failures = CriticalFailures()
    async with runtime() as context:
        group = context.component("store").group
        task = spawn_critical(group, failures, trio.sleep, 1)
        with pytest.raises(MonitorMisplaced) as refused:
            spawn_monitor(group, failures, print)
        assert refused.value.group == "/store"
        await task.wait()
        monitor = spawn_monitor(group, failures, print)
        with pytest.raises(MonitorMisplaced):
            spawn_critical_service(group, failures, nothing)
        spawn_critical(group, CriticalFailures(), nothing)  # another set is another matter
        await trio.lowlevel.checkpoint()
        monitor.cancel()
        await monitor.wait()
        spawn_critical(group, failures, nothing)


async def test_an_idle_monitor_ends_when_its_group_stops_and_leaves_what_is_pending(
    autojump_clock: trio.testing.MockClock,
) -> None:
    failures = CriticalFailures()
    handled: list[CriticalFailure] = []
    async with runtime() as context:
        watch = context.component("watch")
        monitor = spawn_monitor(watch.group, failures, handled.append)
        await trio.sleep(1)
        failures.record("/a")  # the monitor is awake, and told to stop before it gets its turn
        watch.group.close()
        assert await monitor.wait() == "cancelled"
        assert handled == []
        assert failures.pending is not None
        late = context.component("late")
        late.group.cancel()
        assert await spawn_monitor(late.group, failures, handled.append).wait() == "cancelled"
        assert handled == []


async def test_what_the_callback_of_a_monitor_raises_poisons_the_group_of_the_monitor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    failures = CriticalFailures()

    def callback(_: CriticalFailure) -> None:
        raise Planted

    async with runtime() as context:
        watch = context.component("watch")
        monitor = spawn_monitor(watch.group, failures, callback)
        failures.record("/a")
        assert await monitor.wait() == "panicked"
        assert watch.group.state == "poisoned"


@pytest.mark.row("runtime:R58")
async def test_two_monitors_handle_each_of_32_failures_once(autojump_clock: trio.testing.MockClock) -> None:
    failures = CriticalFailures()
    handled: list[tuple[str, int]] = []
    async with runtime() as context:
        for name in ("left", "right"):
            spawn_monitor(
                context.component(name).group,
                failures,
                lambda failure, name=name: handled.append((name, failure.sequence)),
            )
        for number in range(1, 33):
            failures.record(f"/task {number}")
            await trio.testing.wait_all_tasks_blocked()
            assert len(handled) == number
        assert failures.pending is None
    assert sorted(sequence for _, sequence in handled) == list(range(1, 33))


@pytest.mark.row("runtime:R58")
async def test_of_failures_in_one_turn_the_first_is_handled_with_the_number_of_all(
    autojump_clock: trio.testing.MockClock,
) -> None:
    failures = CriticalFailures()
    handled: list[tuple[int, int]] = []
    async with runtime() as context:
        for _ in range(2):
            group = context.component("watch").group
            spawn_monitor(group, failures, lambda failure: handled.append((failure.sequence, failure.occurrences)))
        await trio.sleep(1)
        for number in range(32):
            failures.record(f"/task {number}")
        await trio.sleep(1)
    assert handled == [(1, 32)]


# -- what it does to the service


@pytest.mark.row("runtime:R57")
@pytest.mark.parametrize(
    ("policy", "state", "live", "reason"),
    [
        ("revoke_readiness", "ready", True, None),
        ("fail", "failed", False, None),
        ("fail_and_shutdown", "failed", False, "internal"),
    ],
)
async def test_the_policy_decides_what_a_failure_does_to_the_service(
    autojump_clock: trio.testing.MockClock, policy: RecoveryPolicy, state: str, live: bool, reason: str | None
) -> None:
    failures = CriticalFailures()
    async with runtime() as context:
        service = ServiceLifecycle()
        await service.start(context)
        service.mark_ready()
        assert service.is_ready
        spawn_monitor(context.component("watch").group, failures, service.recovery(policy))
        spawn_critical_service(context.component("store").group, failures, nothing, name="writer")
        await trio.testing.wait_all_tasks_blocked()
        assert failures.pending is None
        assert service.degraded == ("critical",)
        assert not service.is_ready
        assert service.is_live is live
        assert service.state == state
        assert service.failure == (None if live else "critical task /store/writer: exited_unexpectedly")
        request = service.shutdown_request
        assert (request.reason if request is not None else None) == reason
        assert context.runtime.deadline.reason == reason
        assert context.group.state == ("open" if reason is None else "closed")
        if live:
            service.restore("critical")
            assert service.is_ready
    report = context.runtime.report
    assert report is not None
    assert report.reason == (reason or "finished")


@pytest.mark.row("runtime:R57")
async def test_a_policy_is_carried_out_whatever_else_is_degraded(autojump_clock: trio.testing.MockClock) -> None:
    service = ServiceLifecycle()
    for number in range(64):
        service.degrade(f"store {number}")
    failure = CriticalFailure("/a", "unrecoverable", None, 0.0, 1)
    service.recovery("revoke_readiness")(failure)
    service.recovery("revoke_readiness")(failure)
    assert len(service.degraded) == 65
