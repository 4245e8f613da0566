"""Writes docs/conformance.md: which tests prove which rows of the conformance suites.

`python -m tests.conformance` writes the page, `--check` compares it with the committed one. A test names the row that
it proves by `@pytest.mark.row("suite:ID")`, and may name several by several marks.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "conformance.md"


def _rows(**last: int) -> tuple[str, ...]:
    return tuple(f"{letter}{number}" for letter, end in last.items() for number in range(1, end + 1))


# In the order of the page.
SUITES: dict[str, tuple[str, ...]] = {
    "runtime": _rows(R=135),
    "channels": _rows(A=120, B=12),
    "tubes": ("G", *_rows(C=7, T=7, S=2, A=8, N=1, H=17)),
}
# Suites of which every row must have a test that runs.
COMPLETE: frozenset[str] = frozenset({"runtime"})

Found = list[tuple[str, str, str]]  # suite, row, test
Page = dict[str, dict[str, list[str]]]  # suite, row: tests


class MalformedRow(Exception):
    """The arguments of a row mark are not one string of the form "suite:ID"."""


class NotConformant(Exception):
    """The page cannot be written: the message has a line for each mistake."""


def row_of(mark: pytest.Mark) -> tuple[str, str]:
    """The suite and the row that a mark names; whether there is such a row is not looked up."""
    if len(mark.args) == 1 and not mark.kwargs:
        suite, _, row = str(mark.args[0]).partition(":")
        if suite in SUITES and re.fullmatch(r"[A-Z][0-9]*", row):
            return suite, row
    given = ", ".join([*map(repr, mark.args), *(f"{name}={value!r}" for name, value in mark.kwargs.items())])
    raise MalformedRow(f'row({given}) is malformed: write row("suite:ID"), where suite is one of {", ".join(SUITES)}')


def rows_of(item: pytest.Item) -> list[tuple[str, str]]:
    """The suites and rows that a test is marked with."""
    return [row_of(mark) for mark in item.iter_markers("row")]


def is_skipped(item: pytest.Item) -> bool:
    """Whether a mark says that the test does not run here."""
    if item.get_closest_marker("skip") is not None:
        return True
    return any(bool(mark.kwargs.get("condition", mark.args and mark.args[0])) for mark in item.iter_markers("skipif"))


class _Collector:
    def __init__(self) -> None:
        self.found: Found = []
        self.skipped: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            test = item.nodeid.partition("[")[0]
            rows = rows_of(item)
            self.found += [(*row, test) for row in rows]
            if rows and is_skipped(item):
                self.skipped += [f"{item.nodeid}: proves {suite}:{row} and is skipped" for suite, row in rows]


def collect() -> Found:
    """Suite, row and test of each row mark, without running a test. NotConformant if a mark skips one of them."""
    collector = _Collector()
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", str(ROOT / "tests")], [collector])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise NotConformant(f"the tests cannot be collected:\n{output.getvalue()}")
    if collector.skipped:
        raise NotConformant("\n".join(collector.skipped))
    return collector.found


def arrange(found: Found) -> Page:
    """The tests by suite and row, in the order of SUITES; NotConformant for an unknown or an uncovered row."""
    tests: dict[tuple[str, str], set[str]] = defaultdict(set)
    for suite, row, test in found:
        tests[suite, row].add(test)
    known = {(suite, row) for suite, rows in SUITES.items() for row in rows}
    mistakes = [
        f"{test}: there is no row {suite}:{row}"
        for suite, row in sorted(tests.keys() - known)
        for test in sorted(tests[suite, row])
    ]
    mistakes += [
        f"{suite}:{row} has no test"
        for suite in SUITES
        if suite in COMPLETE
        for row in SUITES[suite]
        if (suite, row) not in tests
    ]
    if mistakes:
        raise NotConformant("\n".join(mistakes))
    return {
        suite: {row: sorted(tests[suite, row]) for row in rows if (suite, row) in tests}
        for suite, rows in SUITES.items()
    }


def render(page: Page) -> str:
    """The page as Markdown."""
    lines = [
        "# Conformance",
        "",
        "Which tests prove which rows of the conformance suites. `make docs` writes this page from the `row` marks.",
    ]
    for suite, rows in page.items():
        lines += ["", f"## {suite}", "", f"{len(rows)} of {len(SUITES[suite])} rows have tests."]
        if rows:
            lines += ["", "| row | tests |", "|---|---|"]
            lines += [f"| {row} | {'<br>'.join(f'`{test}`' for test in tests)} |" for row, tests in rows.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description="Write docs/conformance.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not up to date")
    options = parser.parse_args()
    try:
        text = render(arrange(collect()))
    except NotConformant as error:
        print(error, file=sys.stderr)
        return 1
    shown = PAGE.relative_to(ROOT)
    if not options.check:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(text, encoding="utf-8")
        print(f"{shown} is written")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{shown} is not up to date: run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
