"""Diagnostics: sections that say what they cover, no names unless asked for, bounded details, closed labels."""

from __future__ import annotations

import json
import random
import threading
from math import inf, nan
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from actors import Inbox, open_system
from actors.testing import eventually
from lifecycle import (
    DiagnosticsInvalid,
    DiagnosticsOptions,
    DiagnosticsSampler,
    DiagnosticsSources,
    FixedRate,
    LanesSnapshot,
    MetadataWriter,
    Operation,
    RuntimeMetrics,
    Schedule,
    ServiceContext,
    ServiceLifecycle,
    diagnose,
    open_runtime,
)
from lifecycle._metrics_vocabulary import METRICS, MOST_SERIES
from lifecycle._task import TASK_KINDS

from ._bodies import forever

SECRET = "s3cr3t"
NAMED = DiagnosticsOptions(names=True, scan_budget=100, max_details=100)
DETAILED = attrs.evolve(NAMED, names=False)


# ---------------------------------------------------------------- names


@pytest.mark.row("runtime:R130")
async def test_no_planted_name_is_in_any_export(tmp_path: Path) -> None:
    gate = threading.Event()
    async with open_runtime() as context:
        part = context.component(f"{SECRET}-scope")
        part.group.spawn_service(part.stopping.wait, name=f"{SECRET}-task")
        part.group.start_soon(part.stopping.wait, name=f"{SECRET}-soon")
        context.budget.child(f"{SECRET}-budget", bytes=10).child(f"{SECRET}-leaf").reserve(1)
        schedules = part.schedules(f"{SECRET}-schedules")
        schedules.add(Schedule(f"{SECRET}-schedule", trio.lowlevel.checkpoint, FixedRate(60)))
        writer = MetadataWriter.of(part, f"{SECRET}-writer")
        writer.start(part.group)
        receipt = writer.submit_next(f"{SECRET}-resource", tmp_path / f"{SECRET}-file", b"content")
        service = ServiceLifecycle()
        service.degrade(f"{SECRET}-dependency")
        isolated = part.lanes.isolated(f"{SECRET}-lane", context.lanes.storage_io.policy)
        async with trio.open_nursery() as nursery:
            try:
                nursery.start_soon(lambda: part.lanes.cpu.run(gate.wait, name=f"{SECRET}-call"))
                nursery.start_soon(lambda: isolated.run(gate.wait, name=f"{SECRET}-call"))
                await eventually(lambda: context.lanes.shared.blocking_still_running == 2, within=30)
                assert await receipt.durable()  # type: ignore[union-attr]
                sources = DiagnosticsSources.of(context, schedules=(schedules,), metadata=(writer,), service=service)
                hidden = diagnose(context, DETAILED, sources)
                shown = diagnose(context, NAMED, sources)
                metrics = RuntimeMetrics(lambda: diagnose(context, NAMED, sources))
                exports = [hidden.to_json(), metrics.render()[1].decode(), repr(hidden.details)]
            finally:
                gate.set()
    assert hidden.redacted
    assert not shown.redacted
    for export in exports:
        assert SECRET not in export
        assert str(tmp_path) not in export
    for what in ("scope", "task", "soon", "budget", "schedule", "resource", "file", "lane", "call"):
        assert f"{SECRET}-{what}" in shown.to_json()  # they were there to be hidden


# ---------------------------------------------------------------- scopes and sections


@pytest.mark.row("runtime:R131")
async def test_every_section_says_what_it_covers_and_one_that_was_not_measured_is_absent(tmp_path: Path) -> None:
    async with open_runtime() as context:
        part = context.component("part")
        bare = diagnose(part, sources=DiagnosticsSources())
        sections = {field.name: getattr(bare, field.name) for field in attrs.fields(type(bare))}
        measured = {name for name, value in sections.items() if hasattr(value, "scope")}
        assert measured == {"component", "tasks", "details", "shutdown"}
        absent = {name for name, value in sections.items() if value is None}
        assert absent == {"memory", "lanes", "budgets", "schedules", "metadata", "targets", "service"}
        assert {json.loads(bare.to_json())[name] for name in absent} == {None}

        zero = diagnose(part, sources=DiagnosticsSources(schedules=(), metadata=()))
        assert zero.schedules is not None
        assert zero.metadata is not None
        assert (zero.schedules.schedules, zero.schedules.runs, zero.metadata.writers) == (0, 0, 0)

        service = ServiceLifecycle()
        registry = part.schedules("jobs")
        sources = DiagnosticsSources.of(part, schedules=(registry,), metadata=(), service=service)
        full = part.diagnostics(sources=sources)
        scopes = {field.name: getattr(full, field.name).scope for field in attrs.fields(type(full))[2:]}
        assert scopes == {
            "component": "local",
            "tasks": "subtree",
            "details": "subtree",
            "shutdown": "process",
            "memory": "process",
            "lanes": "process",
            "budgets": "process",
            "schedules": "subtree",
            "metadata": "process",
            "targets": "process",
            "service": "process",
        }
        found = json.loads(full.to_json())
        assert all(found[name]["scope"] in ("local", "subtree", "process") for name in scopes)


@pytest.mark.row("runtime:R131")
async def test_a_shutdown_is_shown_with_a_reason_from_a_closed_set_and_the_time_left(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_runtime() as context:
        part = context.component("part")
        stuck = part.group.spawn_service(forever)
        assert not part.diagnostics().shutdown.requested
        async with trio.open_nursery() as nursery:
            nursery.start_soon(part.group.shutdown, 10)
            await trio.sleep(4)
            local = part.diagnostics().shutdown
            assert (local.scope, local.requested, local.remaining) == ("subtree", True, pytest.approx(6))
            assert not context.diagnostics().shutdown.requested
            stuck.cancel()
        context.runtime.request_shutdown(f"{SECRET} reason")
        assert context.diagnostics().shutdown.reason == "other"


# ---------------------------------------------------------------- bounds


@pytest.mark.row("runtime:R132")
async def test_details_are_bounded_by_the_budget_and_totals_are_not() -> None:
    async with open_runtime() as context:
        part = context.component("part")
        for _ in range(4096):
            part.group.spawn_cancellable(forever)
        shown = part.diagnostics(DiagnosticsOptions(scan_budget=7, max_details=3))
        assert (shown.details.details_scanned, len(shown.details.entries), shown.details.truncated) == (7, 3, True)
        assert (shown.tasks.total, shown.tasks.local, shown.tasks.kinds["service"].active) == (4096, 4096, 4096)
        nothing = part.diagnostics(DiagnosticsOptions(scan_budget=0, max_details=0))
        assert (nothing.details.details_scanned, nothing.details.entries, nothing.details.truncated) == (0, (), True)
        assert nothing.tasks.total == 4096
        some = part.diagnostics(DiagnosticsOptions(scan_budget=10_000, max_details=10_000))
        assert (len(some.details.entries), some.details.truncated) == (4096, False)
        part.group.close("kill")
        await part.group.wait_over()
        after = part.diagnostics(DiagnosticsOptions(scan_budget=7, max_details=3))
        assert (after.tasks.total, after.details.details_scanned) == (0, 0)


@pytest.mark.row("runtime:R132")
async def test_empty_groups_are_charged_to_the_budget_too() -> None:
    async with open_runtime() as context:
        part = context.component("part")
        children = [part.component("child") for _ in range(4096)]
        details = part.diagnostics(DiagnosticsOptions(scan_budget=4, max_details=4)).details
        assert (details.group_entries_scanned, details.details_scanned, details.truncated) == (4, 0, True)
        assert part.diagnostics().tasks.groups == len(children) + 1


async def test_a_deep_tree_is_counted_without_recursion() -> None:
    async with open_runtime() as context:
        deep = top = context.component("top")
        for _ in range(4096):
            deep = deep.component("level")
        deep.group.spawn_cancellable(forever)
        await trio.testing.wait_all_tasks_blocked()
        found = top.diagnostics(DiagnosticsOptions(scan_budget=5000, max_details=1))
        assert (found.tasks.total, found.tasks.local, found.tasks.groups) == (1, 0, 4097)
        assert found.details.entries[0].scope == "subtree"
        assert not found.details.truncated


async def test_the_longest_running_are_shown_and_counted(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime() as context:
        part = context.component("part")
        for _ in range(3):
            part.group.spawn_cancellable(forever)
            await trio.sleep(10)
        part.group.spawn_operation(Operation(), forever)
        found = part.diagnostics(DiagnosticsOptions(long_running=20, scan_budget=100, max_details=2, names=True))
        assert [entry.elapsed for entry in found.details.entries] == [30, 20]
        assert [entry.path for entry in found.details.entries] == ["/part/forever"] * 2
        assert found.tasks.long_running == 2
        assert found.tasks.kinds["service"].max_elapsed == 30
        assert found.tasks.kinds["operation"].active == 1
        assert found.tasks.kinds["worker"].max_elapsed is None


async def test_actors_are_tasks_of_their_own_kind() -> None:
    async def idle(inbox: Inbox[str]) -> None:
        async for _ in inbox:
            pass

    async with open_runtime() as context, open_system(context.component("app")) as system:
        for _ in range(3):
            await system.spawn(idle)
        assert context.diagnostics().tasks.kinds["actor"].active == 3


@pytest.mark.parametrize(
    "options",
    [
        {"scan_budget": -1},
        {"max_details": True},
        {"long_running": nan},
        {"long_running": inf},
        {"names": 1},
        {"max_resources": 1.5},
    ],
)
def test_options_out_of_bounds_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(DiagnosticsInvalid) as caught:
        DiagnosticsOptions(**options)  # type: ignore[arg-type]
    assert next(iter(options)) in caught.value.mistakes[0]


# ---------------------------------------------------------------- labels


@pytest.mark.row("runtime:R133")
async def test_lanes_are_told_apart_by_what_they_are_and_not_by_their_place() -> None:
    gate = threading.Event()

    class Reversed:
        def __init__(self, context: ServiceContext) -> None:
            self.lanes = context.lanes.shared

        def snapshot(self) -> LanesSnapshot:
            found = self.lanes.snapshot()
            return attrs.evolve(found, lanes=tuple(reversed(found.lanes)))

    async with open_runtime() as context, trio.open_nursery() as nursery:
        try:
            nursery.start_soon(context.lanes.cpu.run, gate.wait)
            await eventually(lambda: context.lanes.shared.blocking_still_running == 1, within=30)
            sources = DiagnosticsSources(lanes=Reversed(context))
            found = diagnose(context, sources=sources)
            assert found.lanes is not None
            assert [lane.lane for lane in found.lanes.entries] == ["cpu", "metadata_io", "storage_io"]
            running = {lane.lane: lane.running for lane in found.lanes.entries}
            assert running == {"cpu": 1, "metadata_io": 0, "storage_io": 0}
            text = RuntimeMetrics(lambda: diagnose(context, sources=sources)).render()[1].decode()
        finally:
            gate.set()
    assert 'tenure_blocking_running{lane="cpu"} 1.0' in text
    assert 'tenure_blocking_running{lane="storage_io"} 0.0' in text


@pytest.mark.row("runtime:R134")
@pytest.mark.parametrize("seed", range(5))
async def test_a_snapshot_agrees_with_itself_while_tasks_come_and_go(seed: int) -> None:
    rng = random.Random(seed)
    async with open_runtime() as context:
        parts = [context]
        for _ in range(10):
            parts.append(rng.choice(parts).component("part"))

        async def churn() -> None:
            for _ in range(50):
                for _ in range(rng.randrange(5)):
                    rng.choice(parts).group.start_soon(trio.lowlevel.checkpoint)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(churn)
            seen = 0
            for _ in range(50):
                part = rng.choice(parts)
                tasks = part.diagnostics(attrs.evolve(DETAILED, scan_budget=10_000)).tasks
                assert tasks.local <= tasks.total
                assert tasks.total == sum(counts.active for counts in tasks.kinds.values())
                assert tasks.local == part.group.task_count
                seen = max(seen, tasks.total)
                await trio.lowlevel.checkpoint()
        assert seen > 0


@pytest.mark.row("runtime:R135")
async def test_label_values_come_from_closed_sets_and_10_000_names_add_no_series() -> None:
    def series(text: str) -> set[str]:
        return {line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")}

    async with open_runtime() as context:
        schedules = context.schedules("jobs", capacity=20_000)
        sources = DiagnosticsSources.of(context, schedules=(schedules,), metadata=(), service=ServiceLifecycle())
        metrics = RuntimeMetrics(lambda: diagnose(context, NAMED, sources))
        before = series(metrics.render()[1].decode())
        rng = random.Random(1)
        for number in range(10_000):
            name = f"name-{rng.randrange(1 << 60)}-{number}"
            context.component(name).group.start_soon(trio.lowlevel.checkpoint, name=name)
            if number % 10 == 0:
                context.budget.child(name)
                schedules.add(Schedule(name, trio.lowlevel.checkpoint, FixedRate(3600)))
        content_type, text = metrics.render()
        assert content_type.startswith("text/plain")
        after = series(text.decode())
        assert after == before
        context.group.close()
        for name in after:
            _, _, labels = name.partition("{")
            assert "name-" not in labels
    assert len({line for line in after if "_bucket" not in line}) <= 3 * MOST_SERIES
    assert set(METRICS["tenure_runtime_tasks"].labels["kind"]) == set(TASK_KINDS)


async def test_counters_never_go_down_though_what_they_add_up_is_retired() -> None:
    async with open_runtime() as context:
        one = context.schedules("one")
        found = [one]
        metrics = RuntimeMetrics(lambda: diagnose(context, sources=DiagnosticsSources(schedules=tuple(found))))

        async def job() -> None:
            pass

        def runs() -> float:
            text = metrics.render()[1].decode()
            return next(
                float(line.split()[1])
                for line in text.splitlines()
                if line.startswith('tenure_schedule_runs_total{result="completed"}')
            )

        schedule = Schedule("job", job, FixedRate(3600))
        one.add(schedule)
        await eventually(lambda: runs() == 1.0, within=30)
        found.clear()
        assert runs() == 1.0


async def test_a_metric_of_an_absent_section_has_no_samples() -> None:
    async with open_runtime() as context:
        text = RuntimeMetrics(lambda: diagnose(context, sources=DiagnosticsSources())).render()[1].decode()
    assert "\ntenure_runtime_ready 1.0" in text
    assert not any(line.startswith("tenure_schedule") for line in text.splitlines())


async def test_metrics_are_read_from_another_thread_and_are_empty_when_the_runtime_is_over() -> None:
    async with open_runtime() as context:
        metrics = RuntimeMetrics(DiagnosticsSampler(context).sample)
        _, text = await trio.to_thread.run_sync(metrics.render)
        assert b"tenure_runtime_ready 1.0" in text
        status, content_type, body = metrics.page()
        assert (status, content_type.split(";")[0]) == (200, "text/plain")
        assert b"tenure_memory_limit_bytes" in body

    def elsewhere() -> RuntimeMetrics:
        async def program() -> RuntimeMetrics:
            async with open_runtime() as context:
                return RuntimeMetrics(DiagnosticsSampler(context).sample)

        return trio.run(program)

    gone = await trio.to_thread.run_sync(elsewhere)
    assert list(await trio.to_thread.run_sync(gone.collect)) == []


async def test_a_sampler_looks_at_most_once_in_its_time(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime() as context:
        sampler = DiagnosticsSampler(context, max_age=5)
        first = sampler.sample()
        await trio.sleep(4)
        assert sampler.sample() is first
        await trio.sleep(1)
        assert sampler.sample() is not first
        status, content_type, body = sampler.page()
        assert (status, content_type, json.loads(body)["format"]) == (200, "application/json", 1)
        with pytest.raises(DiagnosticsInvalid):
            DiagnosticsSampler(context, max_age=nan)
