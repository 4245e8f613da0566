"""The sections on what all components of a process share."""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING, get_args

import attrs

from ._diagnostics_sections import (
    BudgetsSection,
    LanesSection,
    MemorySection,
    ServiceSection,
    ShutdownReason,
    ShutdownSection,
)
from ._lane_policy import LANES
from ._service_state import SERVICE_STATES

if TYPE_CHECKING:
    from ._budget import Budget
    from ._budget_snapshot import BudgetSnapshot
    from ._context import ServiceContext
    from ._diagnostics import DiagnosticsOptions
    from ._diagnostics_sources import LanesSource
    from ._lane_snapshot import LaneSnapshot
    from ._memory import MemoryLimit
    from ._service import ServiceLifecycle

SHUTDOWN_REASONS: tuple[ShutdownReason, ...] = get_args(ShutdownReason)

_REASONS: dict[str, ShutdownReason] = {reason: reason for reason in SHUTDOWN_REASONS}


def reason_of(text: str | None) -> ShutdownReason | None:
    """A reason from the closed set, `other` for what is not in it."""
    return None if text is None else _REASONS.get(text, "other")


def shutdown_section(context: ServiceContext, now: float) -> ShutdownSection:
    """The shutdown that holds for a component."""
    nearest, of_runtime = context.deadline, context.runtime.deadline
    holds = nearest if nearest.frozen else of_runtime
    return ShutdownSection(
        scope="process" if holds is of_runtime else "subtree",
        requested=holds.frozen,
        reason=reason_of(holds.reason),
        remaining=nearest.remaining(now) if holds.frozen else None,
        runtime_ready=context.runtime.ready,
    )


def memory_section(limit: MemoryLimit) -> MemorySection:
    """The limit and who set it."""
    return MemorySection("process", limit.bytes, limit.source)


def service_section(service: ServiceLifecycle) -> ServiceSection:
    """Where the service is."""
    entered = service.entered
    return ServiceSection(
        scope="process",
        state=service.state,
        ready=service.is_ready,
        live=service.is_live,
        degraded=len(service.degraded),
        entered={state: entered.get(state, 0) for state in SERVICE_STATES},
    )


def lanes_section(source: LanesSource, options: DiagnosticsOptions) -> LanesSection:
    """All lanes, and single calls in them as far as the options allow."""
    found = source.snapshot()
    every = (*found.lanes, *found.isolated)
    shown = _with_calls(every[: len(found.lanes) + options.max_isolated], options.max_blocking)
    calls = sum(len(lane.tasks) for lane in every)
    truncated = len(shown) < len(every) or sum(len(lane.tasks) for lane in shown) < calls
    if not options.names:
        shown = [_nameless(lane) for lane in shown]
    return LanesSection(
        scope="process",
        capacity=found.capacity,
        running=found.running,
        headroom=found.headroom,
        dedicated_threads=found.dedicated_threads,
        queued=sum(lane.queued for lane in every),
        timed_out_still_running=sum(lane.timed_out_still_running for lane in every),
        entries=tuple(shown[: len(found.lanes)]),
        isolated=tuple(
            lane if options.names else attrs.evolve(lane, lane=f"isolated-{number}")
            for number, lane in enumerate(shown[len(found.lanes) :], 1)
        ),
        truncated=truncated,
    )


def _with_calls(lanes: tuple[LaneSnapshot, ...], most: int) -> list[LaneSnapshot]:
    """The same with at most so many calls in all lanes together: the longest running ones."""
    calls = [call for lane in lanes for call in lane.tasks]
    kept = {id(call) for call in heapq.nlargest(most, calls, key=lambda call: call.elapsed)}
    return [attrs.evolve(lane, tasks=tuple(call for call in lane.tasks if id(call) in kept)) for lane in lanes]


def _nameless(lane: LaneSnapshot) -> LaneSnapshot:
    """The same without names; those of the shared lanes are no secret."""
    tasks = tuple(attrs.evolve(call, name=f"call-{call.id}") for call in lane.tasks)
    return attrs.evolve(lane, lane=lane.lane if lane.lane in LANES else "other", tasks=tasks)


def budgets_section(root: Budget, options: DiagnosticsOptions) -> BudgetsSection:
    """The tree below `root`, and its first nodes one by one as far as the options allow."""
    budgets = sum(1 for _ in root.walk())
    shown = [budget.snapshot() for budget in islice(root.walk(), options.max_budgets)]
    total = root.snapshot()
    if not options.names:
        total = attrs.evolve(total, path="0")
        shown = _numbered(shown)
    return BudgetsSection("process", total, budgets, tuple(shown), len(shown) < budgets)


def _numbered(snapshots: list[BudgetSnapshot]) -> list[BudgetSnapshot]:
    """The same with paths of numbers, which show how they stand to one another: those above come first."""
    labels: dict[str, str] = {}
    for number, each in enumerate(snapshots):
        above = labels.get(each.path.rpartition("/")[0])
        labels[each.path] = str(number) if above is None else f"{above}/{number}"
    return [attrs.evolve(each, path=labels[each.path]) for each in snapshots]
