"""The shutdown report as a text for people."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import attrs

from ._outcomes import Outcomes
from ._report import RemainingTask, ShutdownReport

MAX_INDENT = 24
"""Levels that are drawn by indentation; deeper ones stand at this level and name their depth."""

MAX_TEXT = 400
"""Characters shown of a name, detail or line of a stack."""

MAX_FRAMES = 40
"""Lines shown of one stack: the innermost ones."""


def render_report(report: ShutdownReport, max_lines: int) -> str:
    """The verdict, what was still running and where, then the tree, in about `max_lines` lines at most."""
    lines = [_verdict(report), f"  in all: {_counts(report.totals())}"]
    lines += [f"  note: {_clean(note)}" for note in report.annotations]
    # What was still running is what people look for: it gets up to three quarters of the room.
    running = itertools.chain(_remaining_lines(report), _blocking_lines(report))
    lines += _bounded(running, max(8, max_lines * 3 // 4), "of what was still running")
    lines.append("")
    lines += _bounded(_tree_lines(report, max_lines), max(8, max_lines - len(lines)), "of the tree")
    return "\n".join(lines)


def _verdict(report: ShutdownReport) -> str:
    health = "healthy" if report.is_healthy() else "NOT HEALTHY"
    reason = "" if report.reason is None else f" (reason: {_clean(report.reason)})"
    return f"shutdown of {_clean(report.name)}: {health}, {_clean(report.outcome)} in {report.elapsed:.3f} s{reason}"


def _remaining_lines(report: ShutdownReport) -> Iterator[str]:
    omitted = sum(node.remaining_omitted for node in report.walk())
    tasks = report.still_running()
    if not tasks and not omitted:
        yield "nothing was still running"
        return
    yield f"still running: {len(tasks) + omitted}"
    for task in tasks:
        yield from _task_lines(task)
    if omitted:
        yield f"  and {omitted} more that the report does not list"


def _blocking_lines(report: ShutdownReport) -> Iterator[str]:
    if report.blocking_still_running:
        yield f"blocking calls that have not returned: {report.blocking_still_running}"
    for node in report.walk():
        for task in node.blocking:
            state = task.state.replace("_", " ")
            yield f"  {_clean(task.name)} in lane {_clean(task.lane)}: {state}, {task.elapsed:.3f} s"
            yield from _stack_lines(task.stack)
        if node.blocking_omitted:
            yield f"  and {node.blocking_omitted} more that the report does not list"


def _task_lines(task: RemainingTask) -> Iterator[str]:
    detail = f": {_clean(task.detail)}" if task.detail else ""
    yield f"  {_clean(task.path)}{detail}"
    yield from _stack_lines(task.stack)


def _stack_lines(stack: tuple[str, ...]) -> Iterator[str]:
    hidden = len(stack) - MAX_FRAMES
    if hidden > 0:
        yield f"      ({hidden} outer frames left out)"
    for frame in stack[-MAX_FRAMES:]:
        yield f"      {_clean(frame)}"


@attrs.frozen
class _Place:
    """A node, the prefix of its line, the prefix that its children inherit, and its depth."""

    node: ShutdownReport
    lead: str
    inherited: str
    depth: int


def _tree_lines(report: ShutdownReport, max_lines: int) -> Iterator[str]:
    # A long tree leaves out healthy parts as long as there are unhealthy ones to show.
    brief = not report.is_healthy() and _longer_than(report, max_lines)
    todo = [_Place(report, "", "", 0)]
    while todo:
        place = todo.pop()
        node = place.node
        if brief and place.depth > MAX_INDENT and node.outcomes.is_healthy():
            # One of thousands of levels, on the way to what went wrong.
            todo.extend(_below(place, child, last=True) for child in reversed(node.children) if not child.is_healthy())
            continue
        yield place.lead + _node_line(node)
        if place.depth:
            for note in node.annotations:
                yield f"{place.inherited}    note: {_clean(note)}"
        shown = [child for child in node.children if not (brief and child.is_healthy())]
        left_out = len(node.children) - len(shown)
        if left_out:
            yield f"{place.inherited}{'├' if shown else '└'}── ({left_out} healthy)"
        if node.children_omitted:
            yield f"{place.inherited}{'├' if shown else '└'}── ({node.children_omitted} more, counted above)"
        places = [_below(place, child, last=child is shown[-1]) for child in shown]
        todo.extend(reversed(places))


def _below(parent: _Place, child: ShutdownReport, last: bool) -> _Place:
    depth = parent.depth + 1
    if depth > MAX_INDENT:
        return _Place(child, f"{parent.inherited}(level {depth}) ", parent.inherited, depth)
    branch, rail = ("└── ", "    ") if last else ("├── ", "│   ")
    return _Place(child, parent.inherited + branch, parent.inherited + rail, depth)


def _node_line(node: ShutdownReport) -> str:
    mark = "" if node.outcomes.is_healthy() and not node.blocking else "  <-- not healthy"
    counts = _counts(node.outcomes)
    return f"{_clean(node.name)}  {_clean(node.outcome)}, {node.elapsed:.3f} s, {counts}{mark}"


def _counts(outcomes: Outcomes) -> str:
    counts = outcomes.nonzero()
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()) or "no tasks"


def _longer_than(report: ShutdownReport, lines: int) -> bool:
    return any(place >= lines for place, _ in enumerate(report.walk()))


def _bounded(lines: Iterator[str], most: int, of_what: str) -> list[str]:
    kept: list[str] = []
    for line in lines:
        if len(kept) == most:
            return [*kept, f"(more {of_what} is left out here; the JSON has it)"]
        kept.append(line)
    return kept


def _clean(text: str) -> str:
    # Names and details may hold anything; none of it may steer the reader's terminal or break the tree.
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + "…"
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
