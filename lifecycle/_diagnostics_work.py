"""The sections on schedules and metadata writers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from ._diagnostics_sections import MetadataSection, SchedulesSection
from ._schedule_snapshot import BOUNDS, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._diagnostics import DiagnosticsOptions
    from ._diagnostics_sections import Scope
    from ._diagnostics_sources import MetadataSource, SchedulesSource
    from ._group import TaskGroup

NO_PATH = Path()


def schedules_section(
    sources: tuple[SchedulesSource, ...], group: TaskGroup, options: DiagnosticsOptions
) -> SchedulesSection:
    """The schedules of all `sources`, as seen from `group`."""
    found = [snapshot for source in sources for snapshot in source.snapshot()]
    shown = found[: options.max_schedules]
    if not options.names:
        shown = [attrs.evolve(each, name=f"schedule-{number}") for number, each in enumerate(shown, 1)]
    return SchedulesSection(
        scope=_scope(sources, group),
        schedules=len(found),
        running=sum(each.state == "running" for each in found),
        paused=sum(each.state == "paused" for each in found),
        active=sum(each.active for each in found),
        pending=sum(each.pending for each in found),
        runs=sum(each.runs for each in found),
        failed=sum(each.failed for each in found),
        timed_out=sum(each.timed_out for each in found),
        cancelled=sum(each.cancelled for each in found),
        rejected=sum(each.rejected for each in found),
        skips=sum(each.skips for each in found),
        passed_over=sum(each.passed_over for each in found),
        overlaps=sum(each.overlaps for each in found),
        start_delays=_merged(each.start_delays for each in found),
        run_times=_merged(each.run_times for each in found),
        entries=tuple(shown),
        truncated=len(shown) < len(found),
    )


def _scope(sources: tuple[SchedulesSource, ...], group: TaskGroup) -> Scope:
    """The smallest scope that holds all these registries; an observer does not say where its registry is."""
    groups: list[TaskGroup | None] = [getattr(source, "group", None) for source in sources]
    if all(each is group for each in groups):
        return "local"
    return "subtree" if all(each is not None and _is_below(each, group) for each in groups) else "process"


def _is_below(group: TaskGroup, above: TaskGroup) -> bool:
    each: TaskGroup | None = group
    while each is not None and each is not above:
        each = each.parent
    return each is above


def _merged(histograms: Iterable[Histogram]) -> Histogram:
    counts = [0] * (len(BOUNDS) + 1)
    total = 0.0
    for histogram in histograms:
        counts = [one + other for one, other in zip(counts, histogram.counts, strict=True)]
        total += histogram.total
    return Histogram(BOUNDS, tuple(counts), total)


def metadata_section(sources: tuple[MetadataSource, ...], options: DiagnosticsOptions) -> MetadataSection:
    """All `sources`, and their resources one by one as far as the options allow."""
    found = [source.snapshot() for source in sources]
    resources = [resource for each in found for resource in each.resources]
    shown = resources[: options.max_resources]
    if not options.names:
        shown = [
            attrs.evolve(each, resource=f"resource-{number}", target=NO_PATH) for number, each in enumerate(shown, 1)
        ]
    return MetadataSection(
        scope="process",
        writers=len(found),
        accepting=sum(each.accepting for each in found),
        pending_operations=sum(each.pending_operations for each in found),
        pending_bytes=sum(each.pending_bytes for each in found),
        waiters=sum(each.waiters for each in found),
        submitted=sum(each.submitted for each in found),
        coalesced=sum(each.coalesced for each in found),
        written=sum(each.written for each in found),
        failed=sum(each.failed for each in found),
        resources=len(resources),
        fenced=sum(each.fenced is not None for each in resources),
        entries=tuple(shown),
        truncated=len(shown) < len(resources),
    )
