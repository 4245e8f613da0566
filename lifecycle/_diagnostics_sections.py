"""What a diagnostics snapshot is made of. Every section says what it covers; one that was not measured is None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from ._budget_snapshot import BudgetSnapshot
from ._lane_snapshot import LaneSnapshot
from ._memory import MemorySource
from ._metadata_types import MetadataResource, MetadataTargetsStats
from ._outcomes import Outcomes
from ._schedule_snapshot import Histogram, ScheduleSnapshot
from ._service_state import ServiceState
from ._task import TaskKind

Scope = Literal["local", "subtree", "process"]
"""This component alone; this component and all below it; all of the process that the runtime knows of."""

ComponentState = Literal["open", "poisoned", "closing", "closed", "completed"]
"""The gate of a component: open; closed by a failure; being closed; closed and told to stop; nothing runs any more."""

ShutdownReason = Literal[
    "finished", "failed", "cancelled", "signal", "internal", "requested", "pre_stop", "stopped", "shutdown", "other"
]
"""Why a shutdown was requested. A reason of the program's own is *other*, since it might name something."""


@attrs.frozen
class ComponentSection:
    """The component that the snapshot was asked of."""

    scope: Scope
    state: ComponentState
    stop_requested: bool
    components: int
    """Child components that are not over."""
    depth: int
    """Levels below the root."""
    path: str | None
    """None in a snapshot without names."""


@attrs.frozen
class KindCounts:
    """The tasks of one kind."""

    active: int
    long_running: int
    """Of these, those that have run for at least `DiagnosticsOptions.long_running` seconds."""
    max_elapsed: float | None
    """Seconds that the oldest has run; None if of none it is known when it began."""


@attrs.frozen
class TasksSection:
    """All tasks that have not ended; nothing bounds these counts."""

    scope: Scope
    total: int
    local: int
    """Of these, those of the component itself. From the same walk as the total, so never more than that."""
    groups: int
    """Task groups, the component's own included."""
    kinds: Mapping[TaskKind, KindCounts]
    """By kind, each kind there is."""
    ended: Outcomes
    """How the tasks ended that have, those of components that are over included."""

    @property
    def long_running(self) -> int:
        """Tasks that have run for at least `DiagnosticsOptions.long_running` seconds."""
        return sum(counts.long_running for counts in self.kinds.values())


@attrs.frozen
class TaskDetail:
    """One task that has not ended."""

    kind: TaskKind
    scope: Scope
    """`local` for a task of the component itself, else `subtree`."""
    elapsed: float | None
    """Seconds since it was accepted; None where that is not known."""
    path: str | None
    """None in a snapshot without names."""


@attrs.frozen
class DetailsSection:
    """Single tasks, the longest running ones of those that were looked at."""

    scope: Scope
    entries: tuple[TaskDetail, ...]
    details_scanned: int
    """Tasks looked at."""
    group_entries_scanned: int
    """Child groups looked at. Together at most `DiagnosticsOptions.scan_budget`."""
    truncated: bool
    """Whether there may be more tasks than `entries`."""


@attrs.frozen
class LanesSection:
    """The lanes for blocking calls, which all components share."""

    scope: Scope
    capacity: int
    """Calls that may run at a time in the shared lanes together."""
    running: int
    """Slots of the shared lanes that are held."""
    headroom: int
    dedicated_threads: int
    queued: int
    """Calls that wait for a slot; this and the next also count isolated lanes."""
    timed_out_still_running: int
    """Calls that run and that nobody waits for any more."""
    entries: tuple[LaneSnapshot, ...]
    """The shared lanes. Which is which is said by its `lane`, and not by its place."""
    isolated: tuple[LaneSnapshot, ...]
    truncated: bool
    """Whether there are more isolated lanes, or more calls in them or in the shared ones, than are shown."""


@attrs.frozen
class BudgetsSection:
    """The budget tree of the process."""

    scope: Scope
    total: BudgetSnapshot
    """The root, whose counts hold all below it."""
    budgets: int
    """Budgets and keys in the tree, the root included."""
    entries: tuple[BudgetSnapshot, ...]
    """The first of them. Without names each path has numbers in place of names."""
    truncated: bool


@attrs.frozen
class SchedulesSection:
    """The schedules of the registries that the snapshot was given."""

    scope: Scope
    """The smallest that holds all these registries."""
    schedules: int
    running: int
    """Schedules that start runs."""
    paused: int
    active: int
    """Runs in hand."""
    pending: int
    """Runs for missed ticks that wait for a slot."""
    runs: int
    """Runs that completed."""
    failed: int
    timed_out: int
    cancelled: int
    rejected: int
    skips: int
    passed_over: int
    overlaps: int
    start_delays: Histogram
    run_times: Histogram
    entries: tuple[ScheduleSnapshot, ...]
    truncated: bool


@attrs.frozen
class MetadataSection:
    """The metadata writers that the snapshot was given."""

    scope: Scope
    writers: int
    accepting: int
    pending_operations: int
    pending_bytes: int
    waiters: int
    submitted: int
    coalesced: int
    written: int
    failed: int
    resources: int
    fenced: int
    """Resources of which it is unknown what their file holds."""
    entries: tuple[MetadataResource, ...]
    truncated: bool


@attrs.frozen
class TargetsSection:
    """The registry of metadata targets."""

    scope: Scope
    stats: MetadataTargetsStats


@attrs.frozen
class MemorySection:
    """The memory limit of the process."""

    scope: Scope
    limit: int
    """Bytes."""
    source: MemorySource


@attrs.frozen
class ShutdownSection:
    """The shutdown that holds for the component."""

    scope: Scope
    """`subtree` for one of this component or of one above it, `process` for that of the runtime."""
    requested: bool
    reason: ShutdownReason | None
    remaining: float | None
    """Seconds until the end of everything; 0 from then on, None if nothing was requested."""
    runtime_ready: bool
    """Whether no shutdown of the runtime was requested and no task has failed."""


@attrs.frozen
class ServiceSection:
    """The lifecycle of the service."""

    scope: Scope
    state: ServiceState
    ready: bool
    live: bool
    degraded: int
    """Dependencies that do not serve."""
    entered: Mapping[ServiceState, int]
    """How often each state has been entered, those never entered as 0."""
