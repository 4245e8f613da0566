"""The lifecycle of a service: its states, the frozen request, readiness and liveness, an atomic start, the observer."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise, product
from math import inf

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from lifecycle import (
    ConfigInvalid,
    ContractViolation,
    DependenciesExhausted,
    GroupClosed,
    OperationalError,
    RuntimeConfig,
    ServiceContext,
    ServiceLifecycle,
    ServiceObserverRefused,
    ServiceSettings,
    ServiceStarted,
    ServiceState,
    ServiceTransition,
    ShutdownRequest,
    TransitionRefused,
    open_runtime,
)

QUIET = RuntimeConfig(signals=False, shutdown_within=10)


class Planted(Exception):
    """What the tests make a server fail with."""


class Server:
    """A server without a port, which keeps a diary."""

    def __init__(self, name: str = "server", bind: Callable[[], object] = lambda: None, binding: float = 0) -> None:
        self.name = name
        self.diary: list[str] = []
        self.fails = trio.Event()
        self._bind = bind
        self._binding = binding
        self._closed = trio.Event()

    async def bind(self) -> None:
        self._closed = trio.Event()
        self.diary.append("bind")
        await trio.sleep(self._binding)
        self._bind()

    async def serve(self) -> None:
        self.diary.append("serve")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._fail)
            await self._closed.wait()
            nursery.cancel_scope.cancel()
        self.diary.append("served")

    async def _fail(self) -> None:
        await self.fails.wait()
        raise Planted

    def close(self) -> None:
        self.diary.append("close")
        self._closed.set()


@asynccontextmanager
async def runtime(config: RuntimeConfig = QUIET) -> AsyncGenerator[ServiceContext, None]:
    try:
        async with open_runtime(config) as context:
            yield context
    except* Planted:
        pass


async def until_stopping(context: ServiceContext) -> None:
    await context.stopping.wait()


def tasks_under(context: ServiceContext) -> list[str]:
    return sorted(record.path for group in context.group.walk() for record in group.records())


def in_state(state: ServiceState) -> ServiceLifecycle:
    """A service that has come to `state` by the shortest way."""
    service = ServiceLifecycle(clock=lambda: 0.0)
    if state in ("ready", "maintenance"):
        service.mark_ready()
    if state == "maintenance":
        service.begin_maintenance()
    if state == "draining":
        service.request_shutdown("planted")
    if state == "stopped":
        service.mark_stopped()
    if state == "failed":
        service.mark_failed("planted")
    assert service.state == state
    return service


# -- the table

CALLS = ["mark_ready", "begin_maintenance", "end_maintenance", "request_shutdown", "mark_stopped", "mark_failed"]
REFUSED = None
TABLE: dict[str, list[str | None]] = {
    # from               starting    ready          maintenance    draining    stopped    failed
    "mark_ready":        ["ready",    "ready",       "maintenance", REFUSED,    REFUSED,   REFUSED],
    "begin_maintenance": [REFUSED,    "maintenance", "maintenance", REFUSED,    REFUSED,   REFUSED],
    "end_maintenance":   [REFUSED,    "ready",       "ready",       REFUSED,    REFUSED,   REFUSED],
    "request_shutdown":  ["draining", "draining",    "draining",    "draining", "stopped", "failed"],
    "mark_stopped":      ["stopped",  "stopped",     "stopped",     "stopped",  "stopped", "failed"],
    "mark_failed":       ["failed",   "failed",      "failed",      "failed",   "stopped", "failed"],
}  # fmt: skip
STATES: tuple[ServiceState, ...] = ("starting", "ready", "maintenance", "draining", "stopped", "failed")
PAIRS = list(product(CALLS, enumerate(STATES)))


@pytest.mark.row("runtime:R122")
@pytest.mark.parametrize(("call", "place"), PAIRS, ids=lambda value: value if isinstance(value, str) else value[1])
def test_every_call_in_every_state_goes_where_the_table_says(call: str, place: tuple[int, ServiceState]) -> None:
    column, state = place
    service = in_state(state)
    entered = dict(service.entered)
    expected = TABLE[call][column]
    if expected is REFUSED:
        with pytest.raises(TransitionRefused) as refused:
            getattr(service, call)()
        assert (refused.value.state, refused.value.call) == (state, call)
        assert isinstance(refused.value, OperationalError)
        assert service.state == state
        assert service.entered == entered
        return
    result = getattr(service, call)()
    assert service.state == expected
    if call != "request_shutdown":
        assert result is (state != expected)
    if state == expected:
        assert service.entered == entered  # nothing was entered again
    else:
        assert service.entered == {**entered, expected: entered.get(expected, 0) + 1}


@pytest.mark.row("runtime:R122")
def test_a_service_is_never_ready_after_a_drain_and_a_failure_stays() -> None:
    service = in_state("draining")
    with pytest.raises(TransitionRefused, match="draining and does not come back"):
        service.mark_ready()
    assert service.mark_failed("disk")
    assert not service.mark_stopped()
    assert not service.mark_failed("again")
    assert (service.state, service.failure) == ("failed", "disk")
    with pytest.raises(TransitionRefused, match="starting, call mark_ready"):
        in_state("starting").begin_maintenance()


@pytest.mark.row("runtime:R122")
@given(st.lists(st.sampled_from(CALLS), max_size=30))
def test_whatever_is_called_the_observer_sees_one_unbroken_way_to_one_end(calls: list[str]) -> None:
    service = ServiceLifecycle(clock=lambda: 0.0)
    seen: list[ServiceTransition] = []
    service.observe(seen.append)
    for call in calls:
        try:
            getattr(service, call)()
        except TransitionRefused:
            pass
    way = [("starting", "starting"), *((step.previous, step.next) for step in seen)]
    assert all(before[1] == after[0] for before, after in pairwise(way))
    assert all(step.previous != step.next for step in seen)
    assert way[-1][1] == service.state
    assert [step.next for step in seen[:-1] if step.next in ("stopped", "failed")] == []


# -- the frozen request


@pytest.mark.row("runtime:R123")
async def test_the_first_request_is_frozen_with_its_reason_and_its_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with runtime() as context:
        service = ServiceLifecycle()
        await service.start(context)
        service.mark_ready()
        assert service.shutdown_request is None
        await trio.sleep(2)
        first = service.request_shutdown("pre_stop", within=5)
        assert first == ShutdownRequest("pre_stop", at=2.0, end=7.0)
        assert first.remaining(3.0) == 4.0
        assert first.remaining(8.0) == 0.0
        await trio.sleep(1)
        assert service.request_shutdown("internal", within=1) is first
        assert service.request_shutdown("internal", within=100) is first
        assert service.shutdown_request is first
        assert await service.wait_for_shutdown() is first
        assert first == ShutdownRequest("pre_stop", at=2.0, end=7.0)
        deadline = context.runtime.deadline
        assert (deadline.reason, deadline.end) == ("pre_stop", 7.0)


@pytest.mark.row("runtime:R123")
@pytest.mark.parametrize("how", ["runtime", "component", "settings"])
async def test_a_request_made_elsewhere_is_the_request_of_the_service(
    autojump_clock: trio.testing.MockClock, how: str
) -> None:
    async with runtime() as context:
        settings = ServiceSettings(shutdown_within=3) if how == "settings" else None
        place = context.component("shop")
        service = ServiceLifecycle(settings)
        await service.start(place)
        service.mark_ready()
        if how == "runtime":
            context.runtime.request_shutdown("signal", 4)
            expected = ("signal", 4.0)
        elif how == "settings":
            service.request_shutdown("pre_stop")
            expected = ("pre_stop", 3.0)
        else:
            place.group.close()
            expected = ("stopped", inf)
        request = service.shutdown_request
        assert request is not None
        assert (request.reason, request.end) == expected
        assert service.state == "draining"
        assert service.request_shutdown("late", 1) is request
        assert (context.runtime.deadline.reason is None) == (how == "component")


@pytest.mark.row("runtime:R123")
async def test_a_service_in_a_group_that_is_told_later_drains_with_the_runtime(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with runtime() as context:
        owner = context.group.spawn_service(until_stopping, context)
        owned = context.group.child("actor", owner)  # its owner stops it, in its own order
        service = ServiceLifecycle()
        await service.start(ServiceContext(owned, context.runtime))
        context.runtime.request_shutdown("signal")
        assert owned.state == "open"
        assert service.state == "draining"
        assert service.shutdown_request == ShutdownRequest("signal", at=0.0, end=10.0)
        owned.close()


@pytest.mark.row("runtime:R123")
async def test_a_request_in_such_a_group_is_frozen_also_when_the_deadline_does_not_move(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with runtime() as context:
        owner = context.group.spawn_service(until_stopping, context)
        owned = context.group.child("actor", owner)
        service = ServiceLifecycle()
        await service.start(ServiceContext(owned, context.runtime))
        context.runtime.deadline.tighten(1.0, 2.0)
        assert service.request_shutdown("internal") == ShutdownRequest("internal", at=0.0, end=2.0)
        owned.close()


async def test_a_service_that_has_ended_is_forgotten_by_the_runtime(autojump_clock: trio.testing.MockClock) -> None:
    async with runtime() as context:
        followers = len(context.runtime.deadline._subscribers)
        for _ in range(3):
            place = context.component("shop")
            await ServiceLifecycle().start(place)
            place.group.close()
            await place.group.wait_over()
        assert len(context.runtime.deadline._subscribers) == followers
        assert context.group.component_count == 0


@pytest.mark.row("runtime:R123")
async def test_a_deadline_that_was_tightened_before_bounds_the_request(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with runtime() as context:
        service = ServiceLifecycle()
        await service.start(context)
        context.runtime.deadline.tighten(1.0, 2.0)
        assert service.shutdown_request is None
        assert service.request_shutdown("internal") == ShutdownRequest("internal", at=0.0, end=2.0)


@pytest.mark.row("runtime:R123")
def test_a_request_before_the_start_and_one_after_the_end_are_frozen_too() -> None:
    early = ServiceLifecycle(clock=lambda: 5.0)
    assert early.request_shutdown("a") == ShutdownRequest("a", at=5.0, end=inf)
    early = ServiceLifecycle(ServiceSettings(shutdown_within=20), clock=lambda: 5.0)
    assert early.request_shutdown("a") == ShutdownRequest("a", at=5.0, end=25.0)
    failed = in_state("failed")
    first = failed.request_shutdown("internal")
    assert failed.request_shutdown("b") is first
    assert failed.state == "failed"


async def test_who_waits_for_the_shutdown_is_woken_by_it_and_never_waits_afterwards(
    autojump_clock: trio.testing.MockClock,
) -> None:
    service = ServiceLifecycle()
    found: list[ShutdownRequest] = []

    async def wait() -> None:
        found.append(await service.wait_for_shutdown())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.sleep(1)
        assert found == []
        request = service.request_shutdown()
    assert found == [request, request]
    with trio.testing.assert_checkpoints():
        assert await service.wait_for_shutdown() is request
    with trio.testing.assert_checkpoints():
        assert await service.wait_for_shutdown_signal() is request


# -- readiness


@pytest.mark.row("runtime:R124")
async def test_maintenance_is_reversible_until_a_shutdown_is_requested(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with runtime() as context:
        service = ServiceLifecycle()
        await service.start(context)
        service.mark_ready()
        for _ in range(2):
            assert service.begin_maintenance()
            assert (service.state, service.is_ready, service.is_live) == ("maintenance", False, True)
            assert service.end_maintenance()
            assert (service.state, service.is_ready, service.is_live) == ("ready", True, True)
        service.begin_maintenance()
        service.request_shutdown("pre_stop")
        with pytest.raises(TransitionRefused) as refused:
            service.end_maintenance()
        assert refused.value.state == "draining"
        assert service.state == "draining"


async def test_readiness_needs_every_dependency(autojump_clock: trio.testing.MockClock) -> None:
    service = ServiceLifecycle()
    assert service.degrade("store")
    service.mark_ready()
    assert (service.state, service.is_ready, service.is_live) == ("ready", False, True)
    assert not service.degrade("store")
    assert service.degrade("peer")
    assert service.degraded == ("store", "peer")
    assert service.restore("store")
    assert not service.restore("store")
    assert not service.is_ready
    assert service.restore("peer")
    assert service.is_ready
    for number in range(64):
        service.degrade(f"store {number}")
    with pytest.raises(DependenciesExhausted) as refused:
        service.degrade("one more")
    assert refused.value.limit == 64
    assert not service.degrade("store 3")


async def test_a_poisoned_runtime_is_not_ready(autojump_clock: trio.testing.MockClock) -> None:
    async def fail() -> None:
        raise Planted

    async with runtime(RuntimeConfig(signals=False, on_poison="degrade")) as context:
        service = ServiceLifecycle()
        await service.start(context)
        service.mark_ready()
        assert service.is_ready
        await context.component("store").group.spawn(fail).wait()
        assert (service.state, service.is_ready, service.is_live) == ("ready", False, True)


# -- liveness


@pytest.mark.row("runtime:R125")
async def test_progress_that_is_stale_ends_liveness_and_new_progress_restores_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    service = ServiceLifecycle(ServiceSettings(stale_after=5))
    service.mark_ready()
    await trio.sleep(5)
    assert service.is_live
    await trio.sleep(0.001)
    assert not service.is_live
    assert service.is_ready  # another answer to another question
    service.record_progress()
    assert service.is_live
    await trio.sleep(4)
    service.begin_maintenance()  # a transition is progress
    await trio.sleep(4)
    assert service.is_live


@pytest.mark.row("runtime:R125")
async def test_the_heartbeat_keeps_a_service_live_also_while_it_drains(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with runtime(RuntimeConfig(signals=False, shutdown_within=100)) as context:
        service = ServiceLifecycle(ServiceSettings(stale_after=2))
        await service.start(context)
        context.group.spawn_service(trio.sleep, 30)
        await trio.sleep(10)
        assert service.is_live
        service.request_shutdown("pre_stop")
        for _ in range(9):
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
            assert (service.state, service.is_live, service.is_ready) == ("draining", True, False)


@pytest.mark.row("runtime:R125")
async def test_a_loop_that_did_not_turn_makes_a_service_not_live(mock_clock: trio.testing.MockClock) -> None:
    async with runtime() as context:
        service = ServiceLifecycle()
        await service.start(context)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(30.5)  # in blocking code: the heartbeat gets no turn
        assert not service.is_live
        await trio.testing.wait_all_tasks_blocked()
        assert service.is_live


@pytest.mark.row("runtime:R125")
@pytest.mark.parametrize("end", ["stopped", "failed"])
def test_a_service_at_its_end_is_not_live(end: ServiceState) -> None:
    service = in_state(end)
    assert not service.is_live
    service.record_progress()
    assert not service.is_live


# -- the start


@pytest.mark.row("runtime:R126")
async def test_a_start_runs_a_heartbeat_and_one_task_for_each_server(autojump_clock: trio.testing.MockClock) -> None:
    async with runtime() as context:
        alone, served = ServiceLifecycle(), ServiceLifecycle()
        await alone.start(context.component("alone"))
        await served.start(context.component("served"), Server("probe-server"))
        assert tasks_under(context) == [
            "/alone/service-lifecycle/heartbeat",
            "/served/service-lifecycle/heartbeat",
            "/served/service-lifecycle/probe-server",
        ]


@pytest.mark.row("runtime:R126")
async def test_a_second_start_is_refused_also_while_the_first_is_under_way(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with runtime() as context, trio.open_nursery() as nursery:
        service = ServiceLifecycle()
        nursery.start_soon(service.start, context, Server(binding=2))
        await trio.sleep(1)
        for _ in range(2):
            with pytest.raises(ServiceStarted) as refused:
                await service.start(context)
            assert isinstance(refused.value, ContractViolation)
            assert refused.value.component == "/service-lifecycle"
            await trio.sleep(2)
        assert len(tasks_under(context)) == 2


def refuse() -> None:
    raise Planted


@pytest.mark.row("runtime:R126")
async def test_a_server_that_cannot_bind_leaves_nothing_and_the_start_can_be_repeated(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with runtime() as context:
        service = ServiceLifecycle()
        good, bad = Server("good"), Server("bad", bind=refuse)
        for _ in range(3):
            with pytest.raises(Planted):
                await service.start(context, good, bad)
            assert tasks_under(context) == []
            assert context.group.component_count == 0
            assert service.state == "starting"
        assert good.diary == ["bind", "close"] * 3
        await service.start(context, good)
        assert len(tasks_under(context)) == 2
        await trio.testing.wait_all_tasks_blocked()  # the server has begun
    assert good.diary[-5:] == ["bind", "serve", "close", "served", "close"]
    assert service.state == "stopped"
    assert bad.diary == ["bind", "close"] * 3


@pytest.mark.row("runtime:R126")
async def test_a_cancelled_start_leaves_nothing_and_can_be_repeated(autojump_clock: trio.testing.MockClock) -> None:
    async with runtime() as context:
        service = ServiceLifecycle()
        good, slow = Server("good"), Server("slow", binding=10)
        with trio.move_on_after(1) as scope:
            await service.start(context, good, slow)
        assert scope.cancelled_caught
        assert tasks_under(context) == []
        assert context.group.component_count == 0
        assert service.state == "starting"
        assert good.diary == ["bind", "close"]
        assert slow.diary == ["bind", "close"]
        await service.start(context, good, slow)
        assert len(tasks_under(context)) == 3


@pytest.mark.row("runtime:R126")
async def test_a_spawn_that_is_refused_after_the_bind_leaves_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with runtime() as context:
        service = ServiceLifecycle()
        place = context.component("shop")
        server = Server(bind=place.group.close)
        with pytest.raises(GroupClosed):
            await service.start(place, server)
        assert tasks_under(context) == []
        assert context.group.component_count == 0
        assert server.diary == ["bind", "close"]
        with pytest.raises(GroupClosed):
            await service.start(place, server)
        assert service.state == "starting"
        await service.start(context, Server())


async def test_a_service_whose_shutdown_was_requested_does_not_start(autojump_clock: trio.testing.MockClock) -> None:
    async with runtime() as context:
        for state in ("draining", "stopped", "failed"):
            service = ServiceLifecycle()
            getattr(service, {"draining": "request_shutdown"}.get(state, f"mark_{state}"))()
            with pytest.raises(TransitionRefused) as refused:
                await service.start(context)
            assert (refused.value.call, refused.value.state) == ("start", state)


# -- the drain


async def test_servers_answer_until_everything_else_has_ended_and_the_service_has_then_stopped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server, service = Server(), ServiceLifecycle()
    seen: list[object] = []
    async with runtime() as context:
        other = ServiceLifecycle()
        await service.start(context, server)
        await other.start(context)  # two of them do not wait for one another

        async def last() -> None:
            await trio.sleep(4)
            seen.append((service.state, list(server.diary)))

        context.component("deep").component("deeper").group.spawn_service(last)
        service.observe(lambda step: seen.append((step.next, trio.current_time())))
        await trio.sleep(1)
        service.request_shutdown("pre_stop")
    assert seen[:2] == [("draining", 1.0), ("draining", ["bind", "serve"])]
    (stopped, at) = seen[2]  # type: ignore[misc]
    assert stopped == "stopped"
    assert 4 <= at <= 4.06
    assert server.diary == ["bind", "serve", "close", "served", "close"]
    assert (service.state, other.state) == ("stopped", "stopped")
    report = context.runtime.report
    assert report is not None
    assert report.is_healthy()
    assert trio.current_time() <= 4.12


async def test_a_service_that_is_cut_short_at_the_work_deadline_has_not_stopped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server, service = Server(), ServiceLifecycle()
    async with runtime() as context:
        await service.start(context, server)
        context.group.spawn_service(trio.sleep_forever)
    assert service.state == "draining"
    assert server.diary == ["bind", "serve", "close"]


async def test_a_shutdown_before_the_first_step_of_a_server_gives_its_port_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server, service = Server(), ServiceLifecycle()
    async with runtime() as context:
        await service.start(context, server)
        context.group.shutdown_now()
    assert server.diary == ["bind", "close"]


async def test_a_server_that_fails_fails_the_service_and_shuts_the_runtime_down(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server, service = Server("probe"), ServiceLifecycle()
    with pytest.raises(ExceptionGroup) as raised:
        async with open_runtime(QUIET) as context:
            await service.start(context, server)
            service.mark_ready()
            server.fails.set()
            await trio.sleep_forever()
    assert [type(exc) for exc in raised.value.exceptions] == [Planted]
    assert (service.state, service.failure) == ("failed", "the server probe failed: Planted")
    assert service.shutdown_request is not None
    assert service.shutdown_request.reason == "internal"
    assert server.diary[-1] == "close"


# -- the observer


@pytest.mark.row("runtime:R129")
def test_an_observer_is_attached_once_and_only_while_the_service_starts() -> None:
    service = in_state("starting")
    service.observe(lambda _: None)
    with pytest.raises(ServiceObserverRefused) as refused:
        service.observe(lambda _: None)
    assert (refused.value.state, refused.value.taken) == ("starting", True)
    for state in STATES[1:]:
        with pytest.raises(ServiceObserverRefused) as refused:
            in_state(state).observe(lambda _: None)
        assert (refused.value.state, refused.value.taken) == (state, False)


@pytest.mark.row("runtime:R129")
async def test_the_observer_is_called_when_the_change_is_complete_and_may_call_back(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[str, str, str, str]] = []
    async with runtime() as context:
        service = ServiceLifecycle()

        def observer(step: ServiceTransition) -> None:
            seen.append((step.previous, step.next, service.state, context.group.state))
            if step.next == "ready":
                service.request_shutdown("by the observer")  # told after this call has returned
                assert len(seen) == 1
            raise Planted

        service.observe(observer)
        await service.start(context)
        with caplog.at_level(logging.ERROR, "tenure.lifecycle"):
            assert service.mark_ready()
        assert service.state == "draining"
    assert seen == [
        ("starting", "ready", "ready", "open"),
        ("ready", "draining", "draining", "closed"),  # the gates were closed before it was told
        ("draining", "stopped", "stopped", "closed"),
    ]
    assert caplog.text.count("the observer of the service failed") == 3


@pytest.mark.row("runtime:R129")
async def test_the_observer_of_a_request_is_told_when_every_gate_is_closed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[tuple[str, str]] = []
    async with runtime() as context:
        service = ServiceLifecycle()
        service.observe(lambda step: seen.append((step.next, context.group.state)))
        await service.start(context)
        service.request_shutdown("pre_stop")
        assert seen == [("draining", "closed")]


@pytest.mark.row("runtime:R129")
@pytest.mark.parametrize("round_", range(4))
async def test_of_64_tasks_that_race_to_an_end_one_gets_there(round_: int) -> None:
    service = ServiceLifecycle()
    seen: list[ServiceTransition] = []
    service.observe(seen.append)
    won: list[str] = []

    async def race(number: int) -> None:
        await trio.lowlevel.checkpoint()
        call = service.mark_stopped if number % 2 else service.mark_failed
        if call():
            won.append(call.__name__)

    async with trio.open_nursery() as nursery:
        for number in range(64):
            nursery.start_soon(race, number)
    assert len(won) == 1
    assert service.state == won[0].removeprefix("mark_")
    assert [(step.previous, step.next) for step in seen] == [("starting", service.state)]


@pytest.mark.row("runtime:R129")
async def test_of_64_threads_that_race_through_trio_each_step_follows_the_one_before() -> None:
    service = ServiceLifecycle()
    seen: list[ServiceTransition] = []
    service.observe(seen.append)
    service.mark_ready()
    calls = [service.begin_maintenance, service.end_maintenance, service.mark_ready, service.request_shutdown]
    calls = [*calls[:3] * 20, calls[3], service.mark_stopped, service.mark_failed, service.mark_stopped]
    assert len(calls) == 64

    def thread(call: Callable[[], object]) -> None:
        try:
            trio.from_thread.run_sync(call)
        except TransitionRefused:
            pass

    limiter = trio.CapacityLimiter(64)
    async with trio.open_nursery() as nursery:
        for call in calls:
            nursery.start_soon(lambda call=call: trio.to_thread.run_sync(thread, call, limiter=limiter))
    assert seen[0].previous == "starting"
    assert all(before.next == after.previous for before, after in pairwise(seen))
    assert seen[-1].next == service.state
    assert service.state in ("stopped", "failed")
    assert sum(step.next in ("stopped", "failed") for step in seen) == 1


# -- the settings


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stale_after", 1.9),
        ("stale_after", 301),
        ("stale_after", float("nan")),
        ("stale_after", "30"),
        ("stale_after", True),
        ("shutdown_within", 0),
        ("shutdown_within", inf),
    ],
)
def test_settings_out_of_range_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ConfigInvalid, match=field):
        ServiceSettings(**{field: value})


def test_the_environment_gives_settings_and_all_of_its_mistakes_at_once() -> None:
    assert ServiceSettings.from_environment({}) == ServiceSettings()
    assert ServiceSettings.from_environment({"TENURE_LIVENESS_STALE_SECONDS": " "}) == ServiceSettings()
    given_ = {"TENURE_LIVENESS_STALE_SECONDS": "2", "TENURE_SHUTDOWN_TIMEOUT_SECONDS": "300"}
    assert ServiceSettings.from_environment(given_) == ServiceSettings(stale_after=2, shutdown_within=300)
    wrong = {"TENURE_LIVENESS_STALE_SECONDS": "hunter2", "TENURE_SHUTDOWN_TIMEOUT_SECONDS": "0"}
    with pytest.raises(ConfigInvalid) as refused:
        ServiceSettings.from_environment(wrong)
    assert len(refused.value.mistakes) == 2
    assert "TENURE_SHUTDOWN_TIMEOUT_SECONDS" in str(refused.value)
    assert "hunter2" not in str(refused.value)
