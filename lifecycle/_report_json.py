"""The JSON text of a shutdown report.

Nodes are a flat list in which each names its parent's place, so that a tree of any depth can be written and read.
"""

from __future__ import annotations

import json
from math import inf, isfinite
from typing import Any, TypeVar, cast

import attrs

from ._errors import FormatTooNew, ReportMalformed
from ._outcomes import OUTCOME_NAMES, Outcomes
from ._report import BLOCKING_STATES, BlockingTask, RemainingTask, ShutdownReport

REPORT_FORMAT = 1
"""Number of the format that is written."""

T = TypeVar("T")


def report_to_json(report: ShutdownReport) -> str:
    """See `ShutdownReport.to_json`."""
    nodes: list[dict[str, object]] = []
    todo: list[tuple[ShutdownReport, int | None]] = [(report, None)]
    while todo:
        node, parent = todo.pop()
        place = len(nodes)
        nodes.append(_node_to_dict(node, parent))
        todo.extend((child, place) for child in reversed(node.children))
    totals = attrs.asdict(report.totals())
    return json.dumps({"format": REPORT_FORMAT, "healthy": report.is_healthy(), "totals": totals, "nodes": nodes})


def report_from_json(text: str | bytes) -> ShutdownReport:
    """See `ShutdownReport.from_json`."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ReportMalformed("the text is not JSON that can be read") from exc
    return _from_data(data)


def _node_to_dict(node: ShutdownReport, parent: int | None) -> dict[str, object]:
    return {
        "parent": parent,
        "name": node.name,
        "reason": node.reason,
        "outcome": node.outcome,
        "elapsed": node.elapsed,
        "outcomes": node.outcomes.nonzero(),
        "children_omitted": node.children_omitted,
        "remaining": [{"path": task.path, "detail": task.detail, "stack": task.stack} for task in node.remaining],
        "remaining_omitted": node.remaining_omitted,
        "blocking": [attrs.asdict(task) for task in node.blocking],
        "blocking_omitted": node.blocking_omitted,
        "annotations": node.annotations,
    }


def _from_data(data: object) -> ShutdownReport:
    top = _Fields(data, "the report")
    found = top.count("format")
    if found > REPORT_FORMAT:
        raise FormatTooNew("shutdown report", found, REPORT_FORMAT)
    if found != REPORT_FORMAT:
        raise ReportMalformed(f"the report has the unknown format {found}")
    nodes = top.items("nodes")
    if not nodes:
        raise ReportMalformed("the report has no nodes")
    children: list[list[ShutdownReport]] = [[] for _ in nodes]
    # Parents come first, so from the back every node finds its children made.
    for place in range(len(nodes) - 1, 0, -1):
        fields = _Fields(nodes[place], f"node {place}")
        parent = fields.count("parent")
        if parent >= place:
            raise ReportMalformed(f"node {place} names a parent that does not come before it")
        children[parent].append(_node_from_fields(fields, children[place]))
    return _node_from_fields(_Fields(nodes[0], "node 0"), children[0])


def _node_from_fields(fields: _Fields, reversed_children: list[ShutdownReport]) -> ShutdownReport:
    return ShutdownReport(
        name=fields.text("name"),
        reason=fields.text_or_none("reason"),
        outcome=fields.text("outcome"),
        elapsed=fields.number("elapsed"),
        outcomes=_outcomes_from_fields(fields.inner("outcomes")),
        children=tuple(reversed(reversed_children)),
        children_omitted=fields.count("children_omitted"),
        remaining=tuple(_remaining_from_data(item, fields.where) for item in fields.items("remaining")),
        remaining_omitted=fields.count("remaining_omitted"),
        blocking=_blocking_from_fields(fields),
        blocking_omitted=fields.count("blocking_omitted") if fields.has("blocking_omitted") else 0,
        annotations=fields.texts("annotations"),
    )


def _blocking_from_fields(fields: _Fields) -> tuple[BlockingTask, ...]:
    if not fields.has("blocking"):
        return ()  # written before lanes were in the report
    found: list[BlockingTask] = []
    for item in fields.items("blocking"):
        task = _Fields(item, f"a blocking call of {fields.where}")
        state = task.text("state")
        if state not in BLOCKING_STATES:
            raise ReportMalformed(f"'state' of {task.where} is not one of {', '.join(BLOCKING_STATES)}")
        found.append(
            BlockingTask(
                task.text("name"),
                task.text("lane"),
                state,
                task.number("elapsed"),
                task.texts("stack"),
            )
        )
    return tuple(found)


def _remaining_from_data(data: object, where: str) -> RemainingTask:
    fields = _Fields(data, f"a remaining task of {where}")
    return RemainingTask(fields.text("path"), fields.text("detail"), fields.texts("stack"))


def _outcomes_from_fields(fields: _Fields) -> Outcomes:
    return Outcomes(**{name: fields.count(name) for name in OUTCOME_NAMES if fields.has(name)})


class _Fields:
    """One JSON object, read field by field; whatever is not as it should be is named in `ReportMalformed`."""

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, dict):
            raise ReportMalformed(f"{where} is not an object")
        self._data: dict[str, Any] = data
        self.where = where

    def has(self, key: str) -> bool:
        return key in self._data

    def text(self, key: str) -> str:
        return self._typed(key, self._data.get(key), str, "a text")

    def text_or_none(self, key: str) -> str | None:
        return None if self._data.get(key) is None else self.text(key)

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(self._typed(key, item, str, "a list of texts") for item in self.items(key))

    def count(self, key: str) -> int:
        value = self._typed(key, self._data.get(key), int, "a whole number")
        if value < 0:
            raise self._wrong(key, "a number that is not negative")
        return value

    def number(self, key: str) -> float:
        value = self._data.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(key, "a number")
        try:
            number = float(value)
        except OverflowError:
            number = inf
        if not isfinite(number):
            raise self._wrong(key, "a finite number")
        return number

    def items(self, key: str) -> list[object]:
        value = self._data.get(key)
        if not isinstance(value, list):
            raise self._wrong(key, "a list")
        return cast("list[object]", value)

    def inner(self, key: str) -> _Fields:
        return _Fields(self._data.get(key), f"{key} of {self.where}")

    def _typed(self, key: str, value: object, kind: type[T], wanted: str) -> T:
        # JSON's true and false are not numbers, though Python's are.
        if isinstance(value, bool) or not isinstance(value, kind):
            raise self._wrong(key, wanted)
        return value

    def _wrong(self, key: str, wanted: str) -> ReportMalformed:
        return ReportMalformed(f"{key!r} of {self.where} is not {wanted}")
