"""Metrics for Prometheus: valid, closed in their labels, counters that only grow."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lifecycle import (
    DiagnosticsSampler,
    DiagnosticsSnapshot,
    DiagnosticsSources,
    FixedRate,
    Histogram,
    MetricsUnavailable,
    OperationalError,
    RuntimeConfig,
    RuntimeMetrics,
    Schedule,
    ServiceContext,
    ServiceLifecycle,
    diagnose,
    open_runtime,
)
from lifecycle._metrics_vocabulary import METRICS, MOST_SERIES

if TYPE_CHECKING:
    from collections.abc import Callable

Series = tuple[str, tuple[tuple[str, str], ...]]


def parsed(metrics: RuntimeMetrics) -> dict[Series, float]:
    """Every sample, as Prometheus reads the page; each series there once."""
    found: dict[Series, float] = {}
    for family in text_string_to_metric_families(metrics.render()[1].decode()):
        for sample in family.samples:
            series = (sample.name, tuple(sorted(sample.labels.items())))
            assert series not in found
            found[series] = sample.value
    return found


def full(context: ServiceContext) -> DiagnosticsSources:
    """Sources for every section."""
    schedules = context.schedules("schedules")
    return DiagnosticsSources.of(context, schedules=(schedules,), metadata=(), service=ServiceLifecycle())


@pytest.mark.row("runtime:R135")
async def test_every_label_value_is_from_the_set_of_its_label_and_every_series_there_once() -> None:
    async with open_runtime() as context:
        sources = full(context)
        found = parsed(RuntimeMetrics(lambda: diagnose(context, sources=sources)))
        context.runtime.request_shutdown("a reason of the program's own")
        ending = parsed(RuntimeMetrics(lambda: diagnose(context, sources=sources)))
    plain: set[Series] = set()
    for name, labels in {*found, *ending}:
        base = next(base for base in (name, *(name.removesuffix(end) for end in ENDS)) if base in METRICS)
        own = {label: value for label, value in labels if label != "le"}
        assert set(own) == set(METRICS[base].labels)
        assert all(value in METRICS[base].labels[label] for label, value in own.items())
        plain.add((base, tuple(own.items())))
    assert {base for base, _ in plain} == METRICS.keys()
    assert len(plain) <= MOST_SERIES < 250
    assert ending["tenure_runtime_shutdown", (("reason", "other"),)] == 1
    assert not any(name == "tenure_runtime_shutdown" for name, _ in found)


ENDS = ("_total", "_bucket", "_count", "_sum")


async def test_the_numbers_are_those_of_the_snapshot() -> None:
    async with open_runtime(RuntimeConfig(signals=False, memory_limit=5000, parallelism=2)) as context:
        part = context.component("part")
        part.group.spawn_cancellable(trio.sleep_forever)
        await part.group.spawn(trio.lowlevel.checkpoint).wait()
        with context.budget.reserve(70):
            found = parsed(RuntimeMetrics(lambda: diagnose(context)))
    assert found["tenure_runtime_tasks", (("kind", "service"),)] == 1
    assert found["tenure_runtime_tasks", (("kind", "worker"),)] == 0
    assert found["tenure_runtime_tasks_ended_total", (("outcome", "completed"),)] == 1
    assert found["tenure_runtime_task_groups", ()] == 2
    assert found["tenure_runtime_component_state", (("state", "open"),)] == 1
    assert found["tenure_runtime_component_state", (("state", "closed"),)] == 0
    assert found["tenure_memory_limit_bytes", (("source", "configured"),)] == 5000
    assert found["tenure_budget_held", (("unit", "bytes"),)] == 70
    assert found["tenure_budget_limit", (("unit", "bytes"),)] == 5000
    assert ("tenure_budget_limit", (("unit", "permits"),)) not in found  # without a limit there is no number
    assert found["tenure_budget_events_total", (("event", "admitted"),)] == 1
    assert found["tenure_blocking_capacity", ()] == 8


async def test_lanes_that_come_and_go_are_shown_together_and_only_with_what_they_hold() -> None:
    async with open_runtime() as context:
        for name in ("one", "two"):
            context.lanes.isolated(name, context.lanes.storage_io.policy)
        whole = diagnose(context)
        assert whole.lanes is not None
        busy = [attrs.evolve(lane, queued=2, blocking_still_running=3) for lane in whole.lanes.isolated]
        stranger = attrs.evolve(busy[0], lane="other", queued=10)
        lanes = attrs.evolve(whole.lanes, entries=(*whole.lanes.entries, stranger), isolated=tuple(busy))
        found = parsed(RuntimeMetrics(lambda: attrs.evolve(whole, lanes=lanes)))
    assert found["tenure_blocking_queued", (("lane", "isolated"),)] == 14
    assert found["tenure_blocking_running", (("lane", "isolated"),)] == 9
    assert {dict(labels)["lane"] for name, labels in found if name == "tenure_blocking_calls_total"} == {
        "storage_io",
        "metadata_io",
        "cpu",
    }


async def test_a_histogram_has_all_that_is_below_each_bound(autojump_clock: trio.testing.MockClock) -> None:
    async def job() -> None:
        await trio.sleep(next(times))

    times = iter([0.005, 0.05, 0.05, 5.0, 5000.0, 0.5])
    async with open_runtime() as context:
        registry = context.schedules("jobs")
        registry.add(Schedule("job", job, FixedRate(10_000)))
        await trio.sleep(55_000)
        metrics = RuntimeMetrics(lambda: diagnose(context, sources=DiagnosticsSources(schedules=(registry,))))
        found = parsed(metrics)
        context.group.close("kill")
    name = "tenure_schedule_run_seconds"
    buckets = {labels[0][1]: value for (series, labels), value in found.items() if series == f"{name}_bucket"}
    assert list(buckets.values()) == [0, 1, 3, 4, 5, 5, 5, 5, 6]
    assert list(buckets)[:2] == ["0.001", "0.01"]
    assert list(buckets)[-1] == "+Inf"
    assert found[f"{name}_count", ()] == 6
    assert found[f"{name}_sum", ()] == pytest.approx(5005.605)


@given(steps=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=20))
def test_counters_and_histograms_never_go_down_and_keep_what_is_added(steps: list[tuple[int, int]]) -> None:
    async def program() -> None:
        async with open_runtime(RuntimeConfig(signals=False, memory_limit=1 << 20, parallelism=1)) as context:
            base = diagnose(context, sources=full(context))
            shown: list[DiagnosticsSnapshot] = []
            metrics = RuntimeMetrics(lambda: shown[-1])
            last: dict[Series, float] = {}
            before = (0, 0)
            grown = [0, 0]
            for runs, delays in steps:
                assert base.schedules is not None
                counts = (delays, *[0] * (len(base.schedules.run_times.bounds)))
                histogram = Histogram(base.schedules.run_times.bounds, counts, float(delays))
                schedules = attrs.evolve(base.schedules, runs=runs, start_delays=histogram)
                shown.append(attrs.evolve(base, schedules=schedules))
                found = parsed(metrics)
                only_grow = {series for series in found if series[0].endswith(ENDS)}
                assert all(found[series] >= last.get(series, 0) for series in only_grow)
                grown = [sum_ + max(0, now - was) for sum_, now, was in zip(grown, (runs, delays), before, strict=True)]
                before = (runs, delays)
                assert found["tenure_schedule_runs_total", (("result", "completed"),)] == grown[0]
                assert found["tenure_schedule_start_delay_seconds_count", ()] == grown[1]
                assert found["tenure_schedule_start_delay_seconds_sum", ()] == grown[1]
                last = found

    trio.run(program)


async def test_a_registry_of_the_program_takes_them_and_registering_takes_no_snapshot() -> None:
    async with open_runtime() as context:
        asked: list[None] = []

        def source() -> DiagnosticsSnapshot:
            asked.append(None)
            return diagnose(context)

        metrics = RuntimeMetrics(source)
        registry = CollectorRegistry(auto_describe=True)
        registry.register(metrics)
        assert asked == []
        with pytest.raises(ValueError, match="Duplicated"):
            registry.register(RuntimeMetrics(source))
        assert b"tenure_runtime_ready 1.0" in generate_latest(registry)
        assert len(asked) == 1


async def test_what_the_source_raises_is_raised_in_any_thread() -> None:
    async with open_runtime():

        def broken() -> DiagnosticsSnapshot:
            raise LookupError("planted")

        metrics = RuntimeMetrics(broken)
        for render in (metrics.render, lambda: trio.from_thread.run_sync(metrics.render)):
            with pytest.raises(LookupError):
                await trio.to_thread.run_sync(render)


async def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_runtime() as context:
        source: Callable[[], DiagnosticsSnapshot] = DiagnosticsSampler(context).sample
        monkeypatch.setitem(sys.modules, "prometheus_client", None)
        with pytest.raises(MetricsUnavailable, match=r"pip install 'tenure\[metrics\]'") as caught:
            RuntimeMetrics(source)
    assert isinstance(caught.value, OperationalError)
