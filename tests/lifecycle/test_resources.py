"""What a runtime's components share, and when it is made."""

from __future__ import annotations

import threading
from math import inf

import attrs
import pytest
import trio

from actors.testing import eventually
from lifecycle import (
    ConfigInvalid,
    LanePolicy,
    LaneSettings,
    LaneTaskTimedOut,
    MemoryLimit,
    MemoryPolicy,
    Runtime,
    RuntimeConfig,
    RuntimeResources,
    ServiceContext,
    ShutdownReport,
    open_runtime,
)

QUIET = RuntimeConfig(signals=False)


class Detector:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> MemoryLimit:
        self.calls += 1
        return MemoryLimit(1 << 20, "physical")


async def nothing(context: ServiceContext) -> None:
    pass


# ---------------------------------------------------------------- plan and build


@pytest.mark.row("runtime:R1")
@pytest.mark.parametrize(
    ("parallelism", "capacity"), [(0, 4), (1, 4), (2, 8), (32, 128), (1 << 62, 512)], ids=["0", "1", "2", "32", "huge"]
)
def test_the_lanes_follow_from_the_parallelism(parallelism: int, capacity: int) -> None:
    config = RuntimeConfig.for_parallelism("shop", parallelism)
    assert (config.name, config.mistakes()) == ("shop", ())
    settings = RuntimeResources(attrs.evolve(config, memory_limit=1 << 20)).lane_settings
    assert settings.capacity == capacity
    assert settings == LaneSettings.for_parallelism(parallelism)
    for policy in (settings.storage_io, settings.metadata_io, settings.cpu):
        assert 1 <= policy.max_concurrency <= capacity


@pytest.mark.row("runtime:R2")
@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"lanes": LaneSettings.uniform(LanePolicy(max_concurrency=1), 2)}, "lanes: capacity must be"),
        ({"lanes": LaneSettings(capacity=513)}, "lanes: capacity must be"),
        ({"lanes": LaneSettings(capacity=8, cpu=LanePolicy(max_concurrency=9))}, "lanes: cpu.max_concurrency"),
        ({"lanes": 4}, "lanes must be LaneSettings or None, not int"),
        ({"parallelism": 0}, "parallelism must be at least 1, not 0"),
        ({"parallelism": True}, "parallelism must be a whole number, not bool"),
        ({"name": "  "}, "name must be"),
        ({"memory_limit": 0}, "memory_limit must be at least 1, not 0"),
        ({"memory": MemoryPolicy.fraction(2, 1)}, "memory: a fraction must be"),
        ({"memory": "all"}, "memory must be a MemoryPolicy, not str"),
        ({"detect_memory": 7}, "detect_memory must be a function that returns a MemoryLimit, not int"),
        ({"budget_keys": 0}, "budget_keys must be at least 1"),
        ({"metadata_targets": -1}, "metadata_targets must be at least 1"),
    ],
)
def test_a_configuration_out_of_bounds_is_refused(change: dict[str, object], names: str) -> None:
    config = attrs.evolve(QUIET, **change)
    with pytest.raises(ConfigInvalid) as caught:
        Runtime.plan(config)
    field = next(iter(change))
    assert any(mistake.startswith(names) for mistake in caught.value.mistakes)
    assert all(mistake.startswith(field) for mistake in caught.value.mistakes)


@pytest.mark.row("runtime:R2")
@pytest.mark.parametrize("capacity", [3, 512])
def test_a_configuration_at_the_bounds_is_taken(capacity: int) -> None:
    lanes = LaneSettings.uniform(LanePolicy(max_concurrency=1), capacity)
    assert Runtime.plan(attrs.evolve(QUIET, lanes=lanes)).config.lanes == lanes


@pytest.mark.row("runtime:R3")
def test_a_plan_detects_nothing_and_starts_nothing() -> None:
    detector = Detector()
    threads = threading.active_count()
    with pytest.raises(ConfigInvalid) as caught:
        Runtime.plan(attrs.evolve(QUIET, name="", parallelism=0, detect_memory=detector))
    assert len(caught.value.mistakes) == 2
    plan = Runtime.plan(attrs.evolve(QUIET, detect_memory=detector))
    assert (detector.calls, threading.active_count()) == (0, threads)
    assert not trio.lowlevel.in_trio_run()
    plan.build().run(nothing)
    assert detector.calls == 1


@pytest.mark.row("runtime:R4")
def test_a_build_detects_once_and_with_a_given_limit_never() -> None:
    detector = Detector()
    plan = Runtime.plan(attrs.evolve(QUIET, detect_memory=detector, memory=MemoryPolicy.whole(headroom=24)))
    seen: list[tuple[MemoryLimit, int | None]] = []

    async def look(context: ServiceContext) -> None:
        seen.append((context.resources.memory, context.budget.limits.bytes))

    plan.build().run(look)
    assert detector.calls == 1
    plan.build().run(look)
    assert detector.calls == 2
    Runtime.plan(attrs.evolve(plan.config, memory_limit=1000)).build().run(look)
    assert detector.calls == 2
    detected = (MemoryLimit(1 << 20, "physical"), (1 << 20) - 24)
    assert seen == [detected, detected, (MemoryLimit(1000, "configured"), 976)]


async def test_open_runtime_detects_once_too() -> None:
    detector = Detector()
    async with open_runtime(attrs.evolve(QUIET, detect_memory=detector)) as context:
        assert context.budget.path == "process"
        assert context.component("part").component("leaf").budget.path == "process"
    assert detector.calls == 1


@pytest.mark.row("runtime:R14")
async def test_all_contexts_share_what_there_is() -> None:
    gate = threading.Event()
    async with open_runtime() as context:
        leaf = context.component("part").component("leaf")
        assert leaf.resources is context.resources
        assert leaf.lanes.shared is context.lanes.shared
        assert leaf.lanes is leaf.lanes
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leaf.lanes.cpu.run, gate.wait)
            nursery.start_soon(context.lanes.storage_io.run, gate.wait)
            try:
                await eventually(lambda: leaf.lanes.shared.snapshot().running == 2, within=30)
                assert context.lanes.shared.snapshot().running == 2
            finally:
                gate.set()
        child = leaf.budget.child("mine", count=1)
        with child.reserve():
            assert context.budget.snapshot().current_count == 1
        assert context.resources.targets is leaf.resources.targets


async def test_a_thread_may_be_the_first_to_use_a_lane() -> None:
    async with open_runtime() as context:
        assert await trio.to_thread.run_sync(lambda: context.lanes.cpu.call_from_thread(lambda: 3)) == 3
        assert context.lanes.cpu.snapshot().completed == 1


# ---------------------------------------------------------------- the end, when a thread still runs


def one_slot(timeout: float) -> LaneSettings:
    return LaneSettings.uniform(LanePolicy(max_concurrency=1, task_timeout=timeout), 3)


@pytest.mark.row("runtime:R79")
async def test_a_shutdown_waits_for_closures_that_nobody_waits_for_any_more() -> None:
    gate, began = threading.Event(), threading.Event()
    reports: list[ShutdownReport] = []

    def closure() -> None:
        began.set()
        gate.wait(30)

    config = attrs.evolve(QUIET, lanes=one_slot(0.01), report_sink=reports.append, shutdown_within=60)
    async with open_runtime(config) as context:
        with pytest.raises(LaneTaskTimedOut):
            await context.lanes.storage_io.run(closure)
        context.runtime.request_shutdown()
        try:
            assert began.is_set()
            assert context.lanes.shared.blocking_still_running == 1
            assert reports == []
        finally:
            gate.set()
    (report,) = reports
    assert report.is_healthy(), report.render()
    assert report.blocking_still_running == 0


@pytest.mark.row("runtime:R79")
async def test_a_closure_that_outlives_the_deadline_is_in_the_report_with_its_stack() -> None:
    gate = threading.Event()
    reports: list[ShutdownReport] = []

    def sits_in_the_disk() -> None:
        gate.wait(30)

    config = attrs.evolve(QUIET, lanes=one_slot(0.01), report_sink=reports.append, shutdown_within=0.05)

    async def release() -> None:
        await eventually(lambda: bool(reports), within=30)
        gate.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(release)
        async with open_runtime(config) as context:
            with pytest.raises(LaneTaskTimedOut):
                await context.lanes.storage_io.run(sits_in_the_disk, name="read the index")
    (report,) = reports
    assert not report.is_healthy()
    assert report.outcome == "overrun"
    assert report.totals().is_healthy()  # no task was left, only the closure
    (call,) = report.blocking
    assert (call.name, call.lane, call.state) == ("read the index", "storage_io", "timed_out_still_running")
    assert 0 < call.elapsed < inf
    assert any("sits_in_the_disk" in line for line in call.stack)
    text = report.render()
    assert "blocking calls that have not returned: 1" in text
    assert "read the index in lane storage_io: timed out still running" in text
    assert "sits_in_the_disk" in text
    assert ShutdownReport.from_json(report.to_json()) == report
    after = context.runtime.report
    assert after is not None
    assert any("after the deadline" in note for note in after.annotations)
