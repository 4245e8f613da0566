"""The shutdown report: a tree with rolled-up totals, its JSON, and its rendering for people."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifecycle import FormatTooNew, Outcomes, RemainingTask, ReportMalformed, ShutdownReport

counts = st.integers(min_value=0, max_value=1000)
outcomes = st.builds(Outcomes, counts, counts, counts, counts, counts, counts, counts)
tasks = st.builds(RemainingTask, st.text(), st.text(), st.lists(st.text(), max_size=3).map(tuple))


def nodes(children: st.SearchStrategy[tuple[ShutdownReport, ...]]) -> st.SearchStrategy[ShutdownReport]:
    return st.builds(
        ShutdownReport,
        name=st.text(),
        reason=st.none() | st.text(),
        outcome=st.text(),
        elapsed=st.floats(min_value=0, max_value=1e9),
        outcomes=outcomes,
        children=children,
        children_omitted=counts,
        remaining=st.lists(tasks, max_size=3).map(tuple),
        remaining_omitted=counts,
        annotations=st.lists(st.text(), max_size=2).map(tuple),
    )


reports = st.recursive(nodes(st.just(())), lambda below: nodes(st.lists(below, max_size=3).map(tuple)), max_leaves=8)


def chain(depth: int, leaf: ShutdownReport) -> ShutdownReport:
    report = leaf
    for level in range(depth, 0, -1):
        report = ShutdownReport(f"n{level}", outcomes=Outcomes(completed=1), children=(report,))
    return report


LEAK = ShutdownReport(
    "reader",
    outcome="overrun",
    outcomes=Outcomes(leaked=1, timed_out=1),
    remaining=(RemainingTask("/pipeline/reader", "handling Line(7)", ("app.py:10 in run", "app.py:20 in parse")),),
)


def test_totals_are_the_sum_over_the_tree() -> None:
    left = ShutdownReport("left", outcomes=Outcomes(completed=2, aborted=1))
    report = ShutdownReport("root", outcomes=Outcomes(completed=1), children=(left, LEAK))
    assert report.totals() == Outcomes(completed=3, aborted=1, leaked=1, timed_out=1)
    assert report.totals().total == 5
    assert report.outcomes == Outcomes(completed=1)


@given(reports)
def test_totals_and_health_agree_with_a_walk(report: ShutdownReport) -> None:
    total = Outcomes()
    for node in report.walk():
        total += node.outcomes
    assert report.totals() == total
    bad = total.leaked + total.failed + total.panicked + total.timed_out
    assert report.is_healthy() == (bad == 0)


@pytest.mark.parametrize("count", ["leaked", "failed", "panicked", "timed_out"])
def test_one_bad_task_anywhere_below_makes_the_report_unhealthy(count: str) -> None:
    leaf = ShutdownReport("leaf", outcomes=attrs.evolve(Outcomes(), **{count: 1}))
    assert not chain(5, leaf).is_healthy()


def test_cancelled_and_aborted_alone_are_healthy() -> None:
    assert chain(5, ShutdownReport("leaf", outcomes=Outcomes(completed=3, cancelled=4, aborted=5))).is_healthy()


def test_a_node_lists_at_most_64_remaining_tasks_and_counts_the_others() -> None:
    many = tuple(RemainingTask(f"/t{i}") for i in range(100))
    report = ShutdownReport("root", remaining=many, remaining_omitted=1)
    assert report.remaining == many[:64]
    assert report.remaining_omitted == 37


@given(reports)
def test_a_report_comes_back_from_its_json(report: ShutdownReport) -> None:
    text = report.to_json()
    again = ShutdownReport.from_json(text)
    assert again == report
    assert hash(again) == hash(report)
    assert again.to_json() == text


@given(reports, reports)
def test_reports_are_equal_exactly_when_their_json_is(one: ShutdownReport, two: ShutdownReport) -> None:
    assert (one == two) == (one.to_json() == two.to_json())


def test_the_json_says_format_health_and_totals_before_the_nodes() -> None:
    data = json.loads(ShutdownReport("root", children=(LEAK,)).to_json())
    assert list(data) == ["format", "healthy", "totals", "nodes"]
    assert data["format"] == 1
    assert data["healthy"] is False
    assert data["totals"]["leaked"] == 1
    assert [node["parent"] for node in data["nodes"]] == [None, 0]


def test_a_newer_format_is_refused_with_both_numbers() -> None:
    data = json.loads(LEAK.to_json())
    data["format"] = 2
    with pytest.raises(FormatTooNew) as caught:
        ShutdownReport.from_json(json.dumps(data))
    assert (caught.value.found, caught.value.supported) == (2, 1)
    assert "format 2" in str(caught.value)
    assert "up to 1" in str(caught.value)


def test_fields_that_are_not_known_are_passed_over() -> None:
    data = json.loads(LEAK.to_json())
    data["later"] = data["nodes"][0]["later"] = [1]
    assert ShutdownReport.from_json(json.dumps(data)) == LEAK


def broken(**changes: Any) -> str:
    data = json.loads(ShutdownReport("root", children=(LEAK,)).to_json())
    data["nodes"][1].update(changes)
    return json.dumps(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        "[]",
        "7",
        "{}",
        "[" * 100_000,
        '{"format": 0, "nodes": []}',
        '{"format": true, "nodes": []}',
        '{"format": 1}',
        '{"format": 1, "nodes": []}',
        '{"format": 1, "nodes": [3]}',
        '{"format": 1, "nodes": [{}]}',
        broken(parent=1),
        broken(parent=None),
        broken(parent=-1),
        broken(name=None),
        broken(reason=3),
        broken(elapsed="1"),
        broken(elapsed=10**400),
        broken(outcomes=None),
        broken(outcomes={"leaked": -1}),
        broken(outcomes={"leaked": True}),
        broken(remaining=[{}]),
        broken(remaining={}),
        broken(annotations=[1]),
        broken(children_omitted=1.5),
        broken(elapsed=float("nan")),
        b"\xff\xfe",
    ],
)
def test_a_text_that_is_no_report_is_refused_by_a_typed_error(text: str | bytes) -> None:
    with pytest.raises(ReportMalformed):
        ShutdownReport.from_json(text)


def test_a_tree_4096_deep_is_summed_compared_written_read_and_rendered() -> None:
    report = chain(4096, LEAK)
    again = ShutdownReport.from_json(report.to_json())
    assert again == report
    assert again != chain(4096, ShutdownReport("reader"))
    assert hash(again) == hash(report)
    assert report.totals() == Outcomes(completed=4096, leaked=1, timed_out=1)
    assert not report.is_healthy()
    assert repr(report).startswith("<ShutdownReport 'n1' completed, unhealthy")
    text = report.render()
    assert "/pipeline/reader: handling Line(7)" in text
    assert "(level 4096) reader  overrun" in text
    assert len(text.splitlines()) < 100


def test_the_rendering_says_what_was_still_running_and_where() -> None:
    report = ShutdownReport(
        "shop",
        reason="signal",
        outcome="overrun",
        elapsed=2.0,
        children=(ShutdownReport("pipeline", children=(LEAK,)), ShutdownReport("till", outcomes=Outcomes(completed=3))),
        annotations=("3 components were asked for after the close",),
    )
    assert report.render().splitlines() == [
        "shutdown of shop: NOT HEALTHY, overrun in 2.000 s (reason: signal)",
        "  in all: 3 completed, 1 timed out, 1 leaked",
        "  note: 3 components were asked for after the close",
        "still running: 1",
        "  /pipeline/reader: handling Line(7)",
        "      app.py:10 in run",
        "      app.py:20 in parse",
        "",
        "shop  overrun, 2.000 s, no tasks",
        "├── pipeline  completed, 0.000 s, no tasks",
        "│   └── reader  overrun, 0.000 s, 1 timed out, 1 leaked  <-- not healthy",
        "└── till  completed, 0.000 s, 3 completed",
    ]
    assert str(report) == report.render()


def test_a_healthy_rendering_says_so() -> None:
    text = ShutdownReport("shop", outcomes=Outcomes(cancelled=2), children_omitted=5).render()
    assert "shop: healthy" in text
    assert "nothing was still running" in text
    assert "└── (5 more, counted above)" in text


def test_a_wide_tree_shows_the_unhealthy_parts_and_says_what_it_leaves_out() -> None:
    many = tuple(ShutdownReport(f"worker{i}") for i in range(10_000))
    text = ShutdownReport("shop", children=(*many[:5000], LEAK, *many[5000:])).render(max_lines=50)
    assert "(10000 healthy)" in text
    assert "reader  overrun" in text
    assert "worker" not in text
    healthy = ShutdownReport("shop", children=many).render(max_lines=50).splitlines()
    assert len(healthy) <= 51
    assert healthy[-1] == "(more of the tree is left out here; the JSON has it)"


def test_thousands_of_remaining_tasks_leave_room_for_the_tree() -> None:
    each = tuple(RemainingTask("/t", "x", ("a", "b")) for _ in range(64))
    parts = tuple(ShutdownReport(f"part{i}", remaining=each, remaining_omitted=6) for i in range(50))
    lines = ShutdownReport("shop", children=parts).render(max_lines=200).splitlines()
    assert len(lines) <= 202
    assert "still running: 3500" in lines
    assert any("part0" in line for line in lines)


@given(reports)
def test_no_name_or_detail_can_steer_the_terminal(report: ShutdownReport) -> None:
    assert all(line.isprintable() for line in report.render().split("\n"))


def test_a_long_detail_and_a_long_stack_are_cut() -> None:
    task = RemainingTask("/t", "x" * 10_000, tuple(f"frame{i}" for i in range(1000)))
    text = ShutdownReport("shop", remaining=(task,)).render()
    assert len(text) < 2000
    assert "frame999" in text
    assert "(960 outer frames left out)" in text
