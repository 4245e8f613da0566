"""What diagnostics look at beside the tree of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from ._budget import Budget
from ._lane_snapshot import LanesSnapshot
from ._memory import MemoryLimit
from ._metadata_targets import MetadataTargets
from ._metadata_types import MetadataSnapshot
from ._schedule_snapshot import ScheduleSnapshot
from ._service import ServiceLifecycle

if TYPE_CHECKING:
    from ._context import ServiceContext


class LanesSource(Protocol):
    """The lanes of a runtime."""

    def snapshot(self) -> LanesSnapshot:
        """The lanes as they stand. Sync."""
        ...


class SchedulesSource(Protocol):
    """A registry of schedules, or an observer of one."""

    def snapshot(self) -> tuple[ScheduleSnapshot, ...]:
        """The schedules as they stand. Sync."""
        ...


class MetadataSource(Protocol):
    """A metadata writer."""

    def snapshot(self) -> MetadataSnapshot:
        """What it holds now. Sync."""
        ...


@attrs.frozen(kw_only=True)
class DiagnosticsSources:
    """The objects whose numbers are in a snapshot. None: that section is absent. An empty tuple: it is there, with
    zeros."""

    memory: MemoryLimit | None = None
    lanes: LanesSource | None = None
    budget: Budget | None = None
    """The root of the tree to show."""
    targets: MetadataTargets | None = None
    schedules: tuple[SchedulesSource, ...] | None = None
    metadata: tuple[MetadataSource, ...] | None = None
    service: ServiceLifecycle | None = None

    @staticmethod
    def of(
        context: ServiceContext,
        *,
        schedules: tuple[SchedulesSource, ...] | None = None,
        metadata: tuple[MetadataSource, ...] | None = None,
        service: ServiceLifecycle | None = None,
    ) -> DiagnosticsSources:
        """What the runtime of `context` has, and what is given."""
        resources = context.resources
        return DiagnosticsSources(
            memory=resources.memory,
            lanes=resources.lanes,
            budget=resources.budget,
            targets=resources.targets,
            schedules=schedules,
            metadata=metadata,
            service=service,
        )
