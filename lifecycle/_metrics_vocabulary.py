"""Every metric there is, with every value that its labels can have. Nothing that happens at run time adds to this."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Literal

import attrs

from ._diagnostics_shared import SHUTDOWN_REASONS
from ._lane_policy import LANES
from ._memory import MEMORY_SOURCES
from ._outcomes import OUTCOME_NAMES
from ._service_state import SERVICE_STATES
from ._task import TASK_KINDS

MetricKind = Literal["gauge", "counter", "histogram"]


@attrs.frozen
class Metric:
    """One metric. `labels` has for each label the values that it can have."""

    name: str
    kind: MetricKind
    text: str
    labels: Mapping[str, tuple[str, ...]] = attrs.Factory(dict[str, tuple[str, ...]])

    @property
    def series(self) -> int:
        """How many series it can have, at most."""
        return prod(len(values) for values in self.labels.values())


COMPONENT_STATES = ("open", "poisoned", "closing", "closed", "completed")
LANE_RESULTS = ("completed", "failed", "rejected", "timed_out_queued", "timed_out_running")
BUDGET_EVENTS = (
    "admitted", "released", "rejected", "throttled", "dropped", "coalesced", "closed_slow_consumer", "leaked",
)  # fmt: skip
SCHEDULE_STATES = ("running", "paused", "other")
RUN_RESULTS = ("completed", "failed", "timed_out", "cancelled", "rejected")
WRITE_RESULTS = ("submitted", "coalesced", "written", "failed")

_KIND = {"kind": TASK_KINDS}
_LANE = {"lane": LANES}
_LOAD = {"lane": (*LANES, "isolated")}
_UNIT = {"unit": ("permits", "bytes")}

_ALL = (
    Metric("tenure_runtime_tasks", "gauge", "Tasks that have not ended.", _KIND),
    Metric("tenure_runtime_long_running_tasks", "gauge", "Tasks that have run for long.", _KIND),
    Metric("tenure_runtime_task_groups", "gauge", "Task groups that are not over."),
    Metric("tenure_runtime_tasks_ended", "counter", "Tasks that have ended.", {"outcome": OUTCOME_NAMES}),
    Metric("tenure_runtime_component_state", "gauge", "1 for the present state.", {"state": COMPONENT_STATES}),
    Metric("tenure_runtime_ready", "gauge", "1 unless a task has failed or a shutdown was requested."),
    Metric("tenure_runtime_shutdown", "gauge", "1 for the reason of the shutdown.", {"reason": SHUTDOWN_REASONS}),
    Metric("tenure_memory_limit_bytes", "gauge", "Memory that the process may use.", {"source": MEMORY_SOURCES}),
    Metric("tenure_blocking_capacity", "gauge", "Slots of the shared lanes."),
    Metric("tenure_blocking_queued", "gauge", "Blocking calls that wait for a slot.", _LOAD),
    Metric("tenure_blocking_running", "gauge", "Blocking calls whose closure has not returned.", _LOAD),
    Metric("tenure_blocking_timed_out_still_running", "gauge", "Those that nobody waits for any more.", _LOAD),
    Metric("tenure_blocking_calls", "counter", "Blocking calls that are over.", {**_LANE, "result": LANE_RESULTS}),
    Metric("tenure_blocking_queue_seconds", "histogram", "How long calls waited for their slot.", _LANE),
    Metric("tenure_blocking_run_seconds", "histogram", "How long closures took.", _LANE),
    Metric("tenure_blocking_dedicated_threads", "gauge", "Dedicated threads that have not ended."),
    Metric("tenure_budget_held", "gauge", "What is held of the budget of the process.", _UNIT),
    Metric("tenure_budget_limit", "gauge", "What the budget of the process admits; absent without limit.", _UNIT),
    Metric("tenure_budget_waiting", "gauge", "Those that wait for a share."),
    Metric("tenure_budget_nodes", "gauge", "Budgets and keys in the tree."),
    Metric("tenure_budget_events", "counter", "What became of permits and queued items.", {"event": BUDGET_EVENTS}),
    Metric("tenure_schedules", "gauge", "Schedules.", {"state": SCHEDULE_STATES}),
    Metric("tenure_schedule_runs_active", "gauge", "Runs in hand."),
    Metric("tenure_schedule_runs_pending", "gauge", "Runs for missed ticks that wait for a slot."),
    Metric("tenure_schedule_runs", "counter", "Runs that are over.", {"result": RUN_RESULTS}),
    Metric("tenure_schedule_ticks_missed", "counter", "Ticks without a run.", {"why": ("skipped", "passed_over")}),
    Metric("tenure_schedule_overlaps", "counter", "Runs that began while another was active."),
    Metric("tenure_schedule_start_delay_seconds", "histogram", "How late runs began."),
    Metric("tenure_schedule_run_seconds", "histogram", "How long runs took."),
    Metric("tenure_metadata_pending_operations", "gauge", "Writes that are queued or in flight."),
    Metric("tenure_metadata_pending_bytes", "gauge", "Bytes that they hold."),
    Metric("tenure_metadata_waiters", "gauge", "Tasks that wait for durability."),
    Metric("tenure_metadata_fenced", "gauge", "Resources of which it is unknown what their file holds."),
    Metric("tenure_metadata_writes", "counter", "What became of contents.", {"result": WRITE_RESULTS}),
    Metric("tenure_metadata_targets", "gauge", "Known resources, and room.", {"state": ("live", "idle", "remaining")}),
    Metric("tenure_service_state", "gauge", "1 for the present state.", {"state": SERVICE_STATES}),
    Metric("tenure_service_ready", "gauge", "1 if work may be sent here."),
    Metric("tenure_service_live", "gauge", "1 if the process is worth keeping."),
    Metric("tenure_service_degraded", "gauge", "Dependencies that do not serve."),
    Metric("tenure_service_transitions", "counter", "How often a state was entered.", {"state": SERVICE_STATES}),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}

MOST_SERIES = sum(metric.series for metric in _ALL)
"""How many series there can be, whatever the process does; a histogram counts as one."""
