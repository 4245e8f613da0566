"""Diagnostics: what a component and all below it are doing, as numbers that name nothing."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING

import attrs
import trio

from ._diagnostics_errors import DiagnosticsInvalid
from ._diagnostics_sections import (
    BudgetsSection,
    ComponentSection,
    DetailsSection,
    LanesSection,
    MemorySection,
    MetadataSection,
    SchedulesSection,
    ServiceSection,
    ShutdownSection,
    TargetsSection,
    TasksSection,
)
from ._diagnostics_shared import budgets_section, lanes_section, memory_section, service_section, shutdown_section
from ._diagnostics_sources import DiagnosticsSources
from ._diagnostics_tasks import count_tasks, look_at_tasks
from ._diagnostics_work import metadata_section, schedules_section

if TYPE_CHECKING:
    from ._context import ServiceContext


@attrs.frozen(kw_only=True)
class DiagnosticsOptions:
    """What a snapshot shows beside its totals, which nothing bounds. Raises `DiagnosticsInvalid`."""

    names: bool = False
    """Show names: of components, tasks, budgets, schedules, metadata resources and their files. Otherwise there are
    only kinds, states and numbers."""

    long_running: float = 30.0
    """Seconds after which a task counts as long running; finite, at least 0."""

    scan_budget: int = 0
    """Tasks and child groups, together, that are looked at singly. 0: the details are empty, and say so."""

    max_details: int = 0
    """Tasks that are shown singly: of those looked at, the longest running."""

    max_blocking: int = 16
    """Blocking calls that are shown singly, in all lanes together: the longest running."""
    max_isolated: int = 16
    """Isolated lanes that are shown singly; the shared lanes always are."""
    max_budgets: int = 16
    max_schedules: int = 16
    max_resources: int = 32
    """Metadata resources that are shown singly."""

    def __attrs_post_init__(self) -> None:
        mistakes = tuple(self._mistakes())
        if mistakes:
            raise DiagnosticsInvalid(mistakes)

    def _mistakes(self) -> Iterator[str]:
        # The types are checked too: options often come from a request. Hence `object`.
        values: dict[str, object] = {field.name: getattr(self, field.name) for field in attrs.fields(type(self))}
        for name, value in values.items():
            if name == "names":
                if not isinstance(value, bool):
                    yield "names must be True or False"
            elif isinstance(value, bool) or not isinstance(value, (int, float) if name == "long_running" else int):
                yield f"{name} must be a {'number of seconds' if name == 'long_running' else 'whole number'}"
            elif not isfinite(value) or value < 0:
                yield f"{name} must be finite and at least 0"


@attrs.frozen
class DiagnosticsSnapshot:
    """What a component, its subtree and its process were doing at one instant. A section that is None was not measured,
    which is not the same as zero."""

    at: float
    """When, on Trio's clock."""
    redacted: bool
    """Whether names are left out."""
    component: ComponentSection
    tasks: TasksSection
    details: DetailsSection
    shutdown: ShutdownSection
    memory: MemorySection | None = None
    lanes: LanesSection | None = None
    budgets: BudgetsSection | None = None
    schedules: SchedulesSection | None = None
    metadata: MetadataSection | None = None
    targets: TargetsSection | None = None
    service: ServiceSection | None = None

    def to_json(self) -> str:
        """The snapshot as a JSON text, with a `format` number. Absent sections are null. Without names in the snapshot
        there are none in the text."""
        from ._diagnostics_json import snapshot_to_json

        return snapshot_to_json(self)


DEFAULT_OPTIONS = DiagnosticsOptions()


def diagnose(
    context: ServiceContext,
    options: DiagnosticsOptions = DEFAULT_OPTIONS,
    sources: DiagnosticsSources | None = None,
) -> DiagnosticsSnapshot:
    """Look at `context`, at everything below it, and at what `sources` holds of the process.

    Without `sources`, at what every runtime has: memory, lanes, budgets and metadata targets. Sync, all in one step, so
    that the numbers fit each other; takes time in proportion to the tasks, groups, budgets and schedules there are.
    Call it in the runtime's own thread. It changes nothing.
    """
    sources = DiagnosticsSources.of(context) if sources is None else sources
    group = context.group
    now = trio.current_time()
    return DiagnosticsSnapshot(
        at=now,
        redacted=not options.names,
        component=ComponentSection(
            scope="local",
            state=group.state,
            stop_requested=group.stop_requested,
            components=group.component_count,
            depth=group.level,
            path=group.path if options.names else None,
        ),
        tasks=count_tasks(group, now, options.long_running),
        details=look_at_tasks(group, now, options),
        shutdown=shutdown_section(context, now),
        memory=None if sources.memory is None else memory_section(sources.memory),
        lanes=None if sources.lanes is None else lanes_section(sources.lanes, options),
        budgets=None if sources.budget is None else budgets_section(sources.budget, options),
        schedules=None if sources.schedules is None else schedules_section(sources.schedules, group, options),
        metadata=None if sources.metadata is None else metadata_section(sources.metadata, options),
        targets=None if sources.targets is None else TargetsSection("process", sources.targets.stats()),
        service=None if sources.service is None else service_section(sources.service),
    )
