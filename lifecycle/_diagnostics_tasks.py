"""The tasks of a subtree: counted all, and looked at singly as far as a budget goes. Iterative: trees may be deep."""

from __future__ import annotations

import heapq
from math import inf
from typing import TYPE_CHECKING

from ._diagnostics_sections import DetailsSection, KindCounts, TaskDetail, TasksSection
from ._outcomes import OutcomeCounts
from ._task import TASK_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._diagnostics import DiagnosticsOptions
    from ._group import TaskGroup
    from ._task import TaskKind, TaskRecord

_KINDS = frozenset(TASK_KINDS)


def kind_of(record: TaskRecord) -> TaskKind:
    """The kind of a task; `other` for a label that is none of the kinds, which might name something."""
    kind = record.kind
    return kind if kind in _KINDS else "other"


def count_tasks(group: TaskGroup, now: float, long_running: float) -> TasksSection:
    """Count the tasks of `group` and of all groups below it, and how those that have ended did so."""
    active = dict.fromkeys(TASK_KINDS, 0)
    overdue = dict.fromkeys(TASK_KINDS, 0)
    oldest = dict.fromkeys(TASK_KINDS, inf)
    ended = OutcomeCounts()
    groups = local = 0
    limit = now - long_running
    for each in group.walk():
        groups += 1
        ended.merge(each.outcomes)
        for record in each.scan_tasks():
            kind = kind_of(record)
            active[kind] += 1
            started = record.started_at
            if started is not None:
                if started <= limit:
                    overdue[kind] += 1
                if started < oldest[kind]:
                    oldest[kind] = started
        if each is group:
            local = sum(active.values())
    return TasksSection(
        scope="subtree",
        total=sum(active.values()),
        local=local,
        groups=groups,
        kinds={
            kind: KindCounts(active[kind], overdue[kind], None if oldest[kind] == inf else now - oldest[kind])
            for kind in TASK_KINDS
        },
        ended=ended.snapshot(),
    )


def look_at_tasks(group: TaskGroup, now: float, options: DiagnosticsOptions) -> DetailsSection:
    """Look at single tasks, at most `scan_budget` tasks and child groups together, and keep the longest running."""
    scan = _Scan(group, options.scan_budget)
    tasks = list(scan)
    kept = heapq.nsmallest(options.max_details, tasks, key=lambda record: _since(record, now))
    return DetailsSection(
        scope="subtree",
        entries=tuple(_detail(record, group, now, options.names) for record in kept),
        details_scanned=len(tasks),
        group_entries_scanned=scan.groups,
        truncated=scan.stopped or len(kept) < len(tasks),
    )


def _since(record: TaskRecord, now: float) -> float:
    return now if record.started_at is None else record.started_at


def _detail(record: TaskRecord, group: TaskGroup, now: float, names: bool) -> TaskDetail:
    return TaskDetail(
        kind=kind_of(record),
        scope="local" if record.group is group else "subtree",
        elapsed=None if record.started_at is None else max(0.0, now - record.started_at),
        path=record.path if names else None,
    )


class _Scan:
    """The tasks of a subtree, a group's before those of the groups below it, until the budget is spent."""

    def __init__(self, group: TaskGroup, budget: int) -> None:
        self.left = budget
        self.groups = 0
        self.stopped = budget == 0  # then nobody knows what there is
        self._group = group

    def __iter__(self) -> Iterator[TaskRecord]:
        if self.stopped:
            return
        yield from self._charged(self._group.scan_tasks())
        levels = [self._group.scan_components()]
        while levels and not self.stopped:
            child = next(levels[-1], None)
            if child is None:
                levels.pop()
            elif self._charge():
                self.groups += 1
                yield from self._charged(child.scan_tasks())
                levels.append(child.scan_components())

    def _charged(self, records: Iterator[TaskRecord]) -> Iterator[TaskRecord]:
        for record in records:
            if not self._charge():
                return
            yield record

    def _charge(self) -> bool:
        if self.left == 0:
            self.stopped = True
            return False
        self.left -= 1
        return True
