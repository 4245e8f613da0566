"""What each section of a diagnostics snapshot counts, shows and leaves out."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from actors.testing import eventually
from lifecycle import (
    BudgetExhausted,
    DiagnosticsOptions,
    DiagnosticsSources,
    FixedRate,
    LanePolicy,
    MemoryLimit,
    MetadataResource,
    MetadataSnapshot,
    MetadataWriter,
    RuntimeConfig,
    Schedule,
    Schedules,
    ServiceContext,
    ServiceLifecycle,
    diagnose,
    open_runtime,
)

from ._bodies import forever

NAMED = DiagnosticsOptions(names=True)


async def nothing() -> None:
    pass


# ---------------------------------------------------------------- tasks


@pytest.mark.row("runtime:R130")
async def test_a_label_that_is_no_kind_is_shown_as_other() -> None:
    async with open_runtime() as context:
        context.group.spawn(forever, kind="s3cr3t")  # type: ignore[arg-type]
        found = context.diagnostics(DiagnosticsOptions(scan_budget=10, max_details=10))
        assert [entry.kind for entry in found.details.entries] == ["other"]
        assert found.tasks.kinds["other"].active == 1
        assert "s3cr3t" not in found.to_json()
        context.group.close("kill")


async def test_how_tasks_ended_is_counted_over_the_whole_subtree() -> None:
    async with open_runtime() as context:
        part = context.component("part")
        below = part.component("below")
        for group in (part.group, below.group, below.group):
            await group.spawn(nothing).wait()
        await below.group.abort_and_wait(below.group.spawn(forever), within=5)
        assert part.diagnostics().tasks.ended.nonzero() == {"completed": 3, "aborted": 1}
        await below.group.shutdown(within=5)
        assert part.diagnostics().tasks.ended.nonzero() == {"completed": 3, "aborted": 1}
        assert context.component("other").diagnostics().tasks.ended.total == 0


async def test_the_component_itself() -> None:
    async with open_runtime() as context:
        part = context.component("part")
        part.component("one")
        part.component("two").component("three")
        section = part.diagnostics(NAMED).component
        assert (section.state, section.stop_requested, section.components, section.depth) == ("open", False, 2, 1)
        assert section.path == "/part"
        assert part.diagnostics().component.path is None
        part.group.cancel()
        assert part.diagnostics().component.stop_requested
        part.group.close()
        assert part.diagnostics().component.state == "completed"


@pytest.mark.row("runtime:R132")
async def test_a_budget_that_just_suffices_leaves_nothing_out_and_one_less_does() -> None:
    async with open_runtime() as context:
        part = context.component("part")
        for child in (part, part.component("one"), part.component("two")):
            child.group.spawn_cancellable(forever)

        def look(scan: int, most: int) -> tuple[int, int, int, bool]:
            details = part.diagnostics(DiagnosticsOptions(scan_budget=scan, max_details=most)).details
            return details.details_scanned, details.group_entries_scanned, len(details.entries), details.truncated

        assert look(5, 3) == (3, 2, 3, False)
        assert look(5, 2) == (3, 2, 2, True)
        assert look(5, 0) == (3, 2, 0, True)
        assert look(4, 3) == (2, 2, 2, True)
        assert look(3, 3) == (2, 1, 2, True)
        assert look(2, 3) == (1, 1, 1, True)
        assert look(1, 3) == (1, 0, 1, True)
        assert look(0, 3) == (0, 0, 0, True)
        scopes = [e.scope for e in part.diagnostics(DiagnosticsOptions(scan_budget=9, max_details=9)).details.entries]
        assert sorted(scopes) == ["local", "subtree", "subtree"]
    async with open_runtime() as context:
        empty = context.diagnostics().details
        assert (empty.entries, empty.truncated) == ((), True)  # nobody has looked


@pytest.mark.row("runtime:R132")
@pytest.mark.row("runtime:R134")
@given(
    parents=st.lists(st.integers(0, 9), max_size=9),
    tasks=st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=30),
    seen=st.integers(0, 9),
    scan=st.integers(0, 50),
    most=st.integers(0, 50),
)
def test_counts_agree_and_bounds_hold_in_any_tree(
    parents: list[int], tasks: list[tuple[int, bool]], seen: int, scan: int, most: int
) -> None:
    async def program() -> None:
        async with open_runtime(RuntimeConfig(signals=False, memory_limit=1 << 20, parallelism=1)) as context:
            parts = [context]
            parts += [parts[parent % len(parts)].component("part") for parent in parents if parts]
            handles = [(parts[place % len(parts)].group.spawn(forever), cancelled) for place, cancelled in tasks]
            await trio.testing.wait_all_tasks_blocked()
            for handle, cancelled in handles:
                if cancelled:
                    handle.cancel()
            for _ in range(3):  # in the middle of their ends, and after them
                check(parts[seen % len(parts)], scan, most)
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
            check(parts[seen % len(parts)], scan, most)
            assert context.diagnostics().tasks.total == sum(not cancelled for _, cancelled in tasks)
            context.group.close("kill")

    def check(part: ServiceContext, scan: int, most: int) -> None:
        found = part.diagnostics(DiagnosticsOptions(scan_budget=scan, max_details=most))
        groups = list(part.group.walk())
        assert found.tasks.local == part.group.task_count <= found.tasks.total
        assert found.tasks.total == sum(group.task_count for group in groups)
        assert found.tasks.total == sum(counts.active for counts in found.tasks.kinds.values())
        assert found.tasks.groups == len(groups)
        details = found.details
        assert details.details_scanned + details.group_entries_scanned <= scan
        assert len(details.entries) == min(most, details.details_scanned)
        whole = details.details_scanned == found.tasks.total and details.group_entries_scanned == len(groups) - 1
        assert details.truncated == (scan == 0 or not whole or len(details.entries) < found.tasks.total)

    trio.run(program, clock=trio.testing.MockClock(autojump_threshold=0))


# ---------------------------------------------------------------- shared by the process


@pytest.mark.row("runtime:R131")
async def test_memory_and_its_source() -> None:
    async with open_runtime(RuntimeConfig(signals=False, memory_limit=1 << 20)) as context:
        memory = context.diagnostics().memory
        assert memory is not None
        assert (memory.scope, memory.limit, memory.source) == ("process", 1 << 20, "configured")
        other = diagnose(context, sources=DiagnosticsSources(memory=MemoryLimit(5, "cgroup_v1"))).memory
        assert other is not None
        assert (other.limit, other.source) == (5, "cgroup_v1")


@pytest.mark.row("runtime:R130")
async def test_budgets_are_shown_as_a_tree_of_numbers_and_counted_whole() -> None:
    async with open_runtime(RuntimeConfig(signals=False, memory_limit=1000)) as context:
        shop = context.budget.child("shop", count=2)
        till = shop.child("till")
        context.budget.child("cellar")
        with till.reserve(300), till.reserve(200), pytest.raises(BudgetExhausted):
            till.reserve(1)
        with till.reserve(400):
            named = context.diagnostics(NAMED).budgets
            hidden = context.diagnostics().budgets
            two = context.diagnostics(DiagnosticsOptions(max_budgets=2)).budgets
        assert named is not None
        assert hidden is not None
        assert two is not None
        assert [entry.path for entry in named.entries] == [
            "process",
            "process/shop",
            "process/shop/till",
            "process/cellar",
        ]
        assert [entry.path for entry in hidden.entries] == ["0", "0/1", "0/1/2", "0/3"]
        assert [entry.current_bytes for entry in hidden.entries] == [400, 400, 400, 0]
        assert (hidden.total.path, hidden.total.current_bytes, hidden.total.admitted_count) == ("0", 400, 3)
        assert (hidden.entries[1].rejected_count, hidden.entries[2].rejected_count) == (1, 1)
        assert (hidden.budgets, hidden.truncated) == (4, False)
        assert (two.budgets, len(two.entries), two.truncated) == (4, 2, True)


async def test_single_calls_and_isolated_lanes_are_bounded_and_totals_are_not() -> None:
    gate = threading.Event()
    async with open_runtime(RuntimeConfig(signals=False, parallelism=4)) as context:
        lanes = [context.lanes.isolated(f"s3cr3t-{number}", LanePolicy(max_concurrency=2)) for number in range(3)]
        async with trio.open_nursery() as nursery:
            try:
                for number, lane in enumerate((context.lanes.cpu, *lanes)):
                    nursery.start_soon(lambda lane=lane, number=number: lane.run(gate.wait, name=f"s3cr3t-{number}"))
                    await eventually(lambda most=number: context.lanes.shared.blocking_still_running > most, within=30)
                nursery.start_soon(lanes[0].run, gate.wait)
                nursery.start_soon(lanes[0].run, gate.wait)
                await eventually(lambda: len(context.lanes.shared.blocking()) == 6, within=30)

                def look(**options: int) -> Any:
                    section = context.diagnostics(DiagnosticsOptions(**options)).lanes
                    assert section is not None
                    assert "s3cr3t" not in repr(section)
                    assert (section.running, section.queued, section.timed_out_still_running) == (1, 1, 0)
                    calls = [call for lane in (*section.entries, *section.isolated) for call in lane.tasks]
                    return [lane.lane for lane in section.isolated], calls, section.truncated

                names, calls, truncated = look()
                assert (names, len(calls), truncated) == (["isolated-1", "isolated-2", "isolated-3"], 6, False)
                names, calls, truncated = look(max_isolated=1)
                assert (names, len(calls), truncated) == (["isolated-1"], 4, True)
                oldest = max(calls, key=lambda call: call.elapsed)
                names, calls, truncated = look(max_blocking=1)
                assert (len(names), [call.id for call in calls], truncated) == (3, [oldest.id], True)
                assert look(max_blocking=0)[1] == []
                named = context.diagnostics(NAMED).lanes
                assert named is not None
                assert [lane.lane for lane in named.isolated] == ["s3cr3t-0", "s3cr3t-1", "s3cr3t-2"]
                assert named.isolated[2].tasks[0].name == "s3cr3t-3"
            finally:
                gate.set()


async def test_a_service_and_how_often_it_was_in_each_state() -> None:
    async with open_runtime() as context:
        service = ServiceLifecycle()

        def look() -> Any:
            return diagnose(context, sources=DiagnosticsSources(service=service)).service

        assert (look().state, look().ready, look().live, look().degraded) == ("starting", False, True, 0)
        assert set(look().entered.values()) == {0}
        service.mark_ready()
        service.begin_maintenance()
        service.end_maintenance()
        service.degrade("disk")
        assert (look().state, look().ready, look().degraded) == ("ready", False, 1)
        assert look().entered == {
            "starting": 0, "ready": 2, "maintenance": 1, "draining": 0, "stopped": 0, "failed": 0,
        }  # fmt: skip
        service.mark_failed("planted")
        assert (look().state, look().live) == ("failed", False)


@pytest.mark.row("runtime:R131")
@pytest.mark.parametrize("reason", ["requested", "internal", "pre_stop", "signal"])
async def test_the_shutdown_of_the_runtime_is_that_of_its_components(
    autojump_clock: trio.testing.MockClock, reason: str
) -> None:
    async with open_runtime(RuntimeConfig(signals=False, shutdown_within=20)) as context:
        part = context.component("part")
        before = part.diagnostics().shutdown
        assert (before.scope, before.requested, before.reason, before.remaining) == ("process", False, None, None)
        assert before.runtime_ready
        part.group.spawn(trio.sleep, 5)
        with trio.CancelScope(shield=True):
            context.runtime.request_shutdown(reason)
            await trio.sleep(5)
            during = part.diagnostics().shutdown
        assert (during.scope, during.requested, during.reason) == ("process", True, reason)
        assert during.remaining == pytest.approx(15)
        assert not during.runtime_ready


# ---------------------------------------------------------------- schedules and metadata


@pytest.mark.row("runtime:R131")
async def test_schedules_have_the_smallest_scope_that_holds_their_registries() -> None:
    async with open_runtime() as context:
        part = context.component("part")
        below, beside = part.schedules("below"), context.schedules("beside")
        own = Schedules(part.group)

        def scope(*sources: Any) -> str:
            section = diagnose(part, sources=DiagnosticsSources(schedules=sources)).schedules
            assert section is not None
            return section.scope

        assert scope() == scope(own) == "local"
        assert scope(below) == scope(own, below) == "subtree"
        assert scope(beside) == scope(own, beside) == "process"
        assert scope(own, own.observer(["x"])) == "process"  # an observer does not say where its registry is


async def test_schedules_are_added_up_and_shown_as_far_as_the_bound_allows(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def fail() -> None:
        raise ValueError("planted")

    async def slow() -> None:
        await trio.sleep(2.5)

    async with open_runtime() as context:
        one, two = context.schedules("one"), context.schedules("two")
        one.add(Schedule("s3cr3t-fails", fail, FixedRate(1)))
        one.add(Schedule("s3cr3t-slow", slow, FixedRate(1)))
        two.add(paused := Schedule("s3cr3t-paused", nothing, FixedRate(1)))
        await trio.sleep(0.5)
        paused.pause()
        await trio.sleep(3)
        paused.resume()
        paused.pause()
        await trio.sleep(3)
        sources = DiagnosticsSources(schedules=(one, two))
        section = diagnose(context, DiagnosticsOptions(max_schedules=2), sources).schedules
        assert section is not None
        every = [*one.snapshot(), *two.snapshot()]
        assert (section.schedules, section.running, section.paused) == (3, 2, 1)
        for name in ("active", "pending", "runs", "failed", "timed_out", "cancelled", "rejected", "skips"):
            assert getattr(section, name) == sum(getattr(each, name) for each in every)
        assert section.passed_over == sum(each.passed_over for each in every) > 0
        assert section.failed > 0
        assert section.skips > 0
        assert section.run_times.count == sum(each.run_times.count for each in every)
        assert section.run_times.total == pytest.approx(sum(each.run_times.total for each in every))
        assert [entry.name for entry in section.entries] == ["schedule-1", "schedule-2"]
        assert section.entries[1] == attrs.evolve(every[1], name="schedule-2")
        assert section.truncated
        named = diagnose(context, NAMED, sources).schedules
        assert named is not None
        assert [entry.name for entry in named.entries] == ["s3cr3t-fails", "s3cr3t-slow", "s3cr3t-paused"]
        assert not named.truncated
        context.group.close("kill")


async def test_metadata_writers_are_added_up_and_their_resources_bounded(tmp_path: Path) -> None:
    async with open_runtime() as context:
        writers = (MetadataWriter.of(context, "one"), MetadataWriter.of(context, "two"))
        for number, writer in enumerate((*writers, writers[0])):
            writer.submit_next(f"s3cr3t-{number}", tmp_path / f"s3cr3t-{number}", b"12345")
        writers[1].stop_admission()
        sources = DiagnosticsSources(metadata=writers, targets=context.resources.targets)

        def look(options: DiagnosticsOptions) -> Any:
            snapshot = diagnose(context, options, sources)
            assert snapshot.targets is not None
            assert (snapshot.targets.scope, snapshot.targets.stats.retained) == ("process", 3)
            return snapshot.metadata, json.loads(snapshot.to_json())["metadata"]["entries"]

        section, entries = look(DiagnosticsOptions(max_resources=2))
        assert (section.writers, section.accepting, section.resources, section.fenced) == (2, 1, 3, 0)
        assert (section.pending_operations, section.pending_bytes, section.submitted, section.written) == (3, 15, 3, 0)
        assert [entry["resource"] for entry in entries] == ["resource-1", "resource-2"]
        assert ["target" in entry for entry in entries] == [False, False]
        assert "s3cr3t" not in repr(section)
        assert section.truncated
        section, entries = look(NAMED)
        assert [entry["resource"] for entry in entries] == ["s3cr3t-0", "s3cr3t-2", "s3cr3t-1"]
        assert entries[0]["target"] == str(tmp_path / "s3cr3t-0")
        assert not section.truncated
        for writer in writers:
            writer.start(context.group)
            assert not (await writer.shutdown()).timed_out
        assert look(NAMED)[0].written == 3


async def test_a_fence_is_counted() -> None:
    async with open_runtime() as context:
        writer = MetadataWriter.of(context, "one")
        found = writer.snapshot()

        class Fenced:
            def snapshot(self) -> MetadataSnapshot:
                resource = MetadataResource("a", Path("a"), 1, None, None, 0, 2)
                return attrs.evolve(found, resources=(resource, attrs.evolve(resource, resource="b", fenced=None)))

        section = diagnose(context, sources=DiagnosticsSources(metadata=(Fenced(), Fenced()))).metadata
        assert section is not None
        assert (section.resources, section.fenced) == (4, 2)
