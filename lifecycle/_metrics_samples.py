"""A diagnostics snapshot as the samples of metrics: plain numbers under labels from closed sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ._lane_policy import LANES
from ._metrics_vocabulary import BUDGET_EVENTS, COMPONENT_STATES, LANE_RESULTS, RUN_RESULTS, WRITE_RESULTS
from ._outcomes import OUTCOME_NAMES
from ._schedule_snapshot import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._diagnostics import DiagnosticsSnapshot
    from ._diagnostics_sections import (
        BudgetsSection,
        LanesSection,
        MetadataSection,
        SchedulesSection,
        ServiceSection,
        TasksSection,
    )
    from ._lane_snapshot import LaneSnapshot

Value: TypeAlias = "float | Histogram"
Sample: TypeAlias = "tuple[str, tuple[str, ...], Value]"
"""The name of the metric, the values of its labels in order, and the number."""


def samples(snapshot: DiagnosticsSnapshot) -> Iterator[Sample]:
    """The samples of all sections that are there; of an absent one there are none, which is not zero."""
    yield from _tasks(snapshot.tasks)
    for state in COMPONENT_STATES:
        yield "tenure_runtime_component_state", (state,), state == snapshot.component.state
    yield "tenure_runtime_ready", (), snapshot.shutdown.runtime_ready
    if snapshot.shutdown.reason is not None:
        yield "tenure_runtime_shutdown", (snapshot.shutdown.reason,), 1
    if snapshot.memory is not None:
        yield "tenure_memory_limit_bytes", (snapshot.memory.source,), snapshot.memory.limit
    if snapshot.lanes is not None:
        yield from _lanes(snapshot.lanes)
    if snapshot.budgets is not None:
        yield from _budgets(snapshot.budgets)
    if snapshot.schedules is not None:
        yield from _schedules(snapshot.schedules)
    if snapshot.metadata is not None:
        yield from _metadata(snapshot.metadata)
    if snapshot.targets is not None:
        for state in ("live", "idle", "remaining"):
            yield "tenure_metadata_targets", (state,), getattr(snapshot.targets.stats, state)
    if snapshot.service is not None:
        yield from _service(snapshot.service)


def _tasks(tasks: TasksSection) -> Iterator[Sample]:
    for kind, counts in tasks.kinds.items():
        yield "tenure_runtime_tasks", (kind,), counts.active
        yield "tenure_runtime_long_running_tasks", (kind,), counts.long_running
    yield "tenure_runtime_task_groups", (), tasks.groups
    for outcome in OUTCOME_NAMES:
        yield "tenure_runtime_tasks_ended", (outcome,), getattr(tasks.ended, outcome)


def _lanes(lanes: LanesSection) -> Iterator[Sample]:
    yield "tenure_blocking_capacity", (), lanes.capacity
    yield "tenure_blocking_dedicated_threads", (), lanes.dedicated_threads
    shared = [lane for lane in lanes.entries if lane.lane in LANES]
    for lane in shared:
        label = (lane.lane,)
        yield from _load(label, [lane])
        for result in LANE_RESULTS:
            yield "tenure_blocking_calls", (*label, result), getattr(lane, result)
        yield "tenure_blocking_queue_seconds", label, lane.queue_waits
        yield "tenure_blocking_run_seconds", label, lane.run_times
    # Other lanes come and go: what they hold is shown together, what they have counted is not.
    yield from _load(("isolated",), [lane for lane in (*lanes.entries, *lanes.isolated) if lane not in shared])


def _load(label: tuple[str, ...], lanes: list[LaneSnapshot]) -> Iterator[Sample]:
    yield "tenure_blocking_queued", label, sum(lane.queued for lane in lanes)
    yield "tenure_blocking_running", label, sum(lane.blocking_still_running for lane in lanes)
    late = sum(lane.timed_out_still_running for lane in lanes)
    yield "tenure_blocking_timed_out_still_running", label, late


def _budgets(budgets: BudgetsSection) -> Iterator[Sample]:
    total = budgets.total
    yield "tenure_budget_held", ("permits",), total.current_count
    yield "tenure_budget_held", ("bytes",), total.current_bytes
    for unit, limit in (("permits", total.limits.count), ("bytes", total.limits.bytes)):
        if limit is not None:
            yield "tenure_budget_limit", (unit,), limit
    yield "tenure_budget_waiting", (), total.waiting
    yield "tenure_budget_nodes", (), budgets.budgets
    for event in BUDGET_EVENTS:
        yield "tenure_budget_events", (event,), getattr(total, f"{event}_count")


def _schedules(schedules: SchedulesSection) -> Iterator[Sample]:
    others = schedules.schedules - schedules.running - schedules.paused
    for state, count in (("running", schedules.running), ("paused", schedules.paused), ("other", others)):
        yield "tenure_schedules", (state,), count
    yield "tenure_schedule_runs_active", (), schedules.active
    yield "tenure_schedule_runs_pending", (), schedules.pending
    for result in RUN_RESULTS:
        yield "tenure_schedule_runs", (result,), getattr(schedules, "runs" if result == "completed" else result)
    yield "tenure_schedule_ticks_missed", ("skipped",), schedules.skips
    yield "tenure_schedule_ticks_missed", ("passed_over",), schedules.passed_over
    yield "tenure_schedule_overlaps", (), schedules.overlaps
    yield "tenure_schedule_start_delay_seconds", (), schedules.start_delays
    yield "tenure_schedule_run_seconds", (), schedules.run_times


def _metadata(metadata: MetadataSection) -> Iterator[Sample]:
    yield "tenure_metadata_pending_operations", (), metadata.pending_operations
    yield "tenure_metadata_pending_bytes", (), metadata.pending_bytes
    yield "tenure_metadata_waiters", (), metadata.waiters
    yield "tenure_metadata_fenced", (), metadata.fenced
    for result in WRITE_RESULTS:
        yield "tenure_metadata_writes", (result,), getattr(metadata, result)


def _service(service: ServiceSection) -> Iterator[Sample]:
    for state, entered in service.entered.items():
        yield "tenure_service_state", (state,), state == service.state
        yield "tenure_service_transitions", (state,), entered
    yield "tenure_service_ready", (), service.ready
    yield "tenure_service_live", (), service.live
    yield "tenure_service_degraded", (), service.degraded
