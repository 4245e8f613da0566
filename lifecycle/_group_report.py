"""The shutdown report of a subtree of groups, as it stands. Iterative: trees may be deep."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ._ended import MAX_NOTES
from ._outcomes import Outcomes
from ._report import MAX_REMAINING, RemainingTask, ShutdownReport
from ._stack import task_stack

if TYPE_CHECKING:
    from ._group import TaskGroup
    from ._task import TaskRecord


def build_report(top: TaskGroup, reason: str | None) -> ShutdownReport:
    """See `TaskGroup.report`."""
    built: dict[TaskGroup, ShutdownReport] = {}
    for group in reversed(list(top.walk())):
        below = [built.pop(child) for child in group.scan_components()]
        built[group] = _node(group, below, reason if group is top else None)
    return built[top]


def _node(group: TaskGroup, below: list[ShutdownReport], reason: str | None) -> ShutdownReport:
    running = group.task_count
    counts = group.ended.counts.snapshot()
    children = [*group.ended.notes, *below]
    if len(children) > 2 * MAX_NOTES:
        children.sort(key=ShutdownReport.is_healthy)  # what is wrong is shown
    for omitted in children[2 * MAX_NOTES :]:
        counts += omitted.totals()
    return ShutdownReport(
        name=group.name,
        reason=reason,
        outcome=group.state,
        elapsed=group.closing_for(),
        outcomes=counts + Outcomes(leaked=running, timed_out=running),
        children=tuple(children[: 2 * MAX_NOTES]),
        children_omitted=group.ended.omitted + max(0, len(children) - 2 * MAX_NOTES),
        remaining=tuple(_remaining(record) for record in itertools.islice(group.scan_tasks(), MAX_REMAINING)),
        remaining_omitted=max(0, running - MAX_REMAINING),
    )


def _remaining(record: TaskRecord) -> RemainingTask:
    return RemainingTask(path=record.place, detail=record.describe(), stack=task_stack(record.task))
