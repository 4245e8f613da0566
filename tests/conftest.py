"""What every test of Tenure gets: the `row` mark and the hypothesis profiles."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.conformance import COMPLETE, MalformedRow, row_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Generator

    from _pytest.terminal import TerminalReporter

# No deadline: a shared machine stalls, and the tests of time run on a virtual clock.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", 'row("suite:ID"): the row of a conformance suite that the test proves')
    config.addinivalue_line("markers", "slow: takes many seconds; leave it out with -m 'not slow'")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("row"):
            try:
                row_of(mark)
            except MalformedRow as error:
                raise pytest.UsageError(f"{item.nodeid}: {error}") from None


# What proves a row must run: a test that skips itself while it runs fails the whole run, where the suite is complete
# and, with CI=true, everywhere.
SKIPPED = pytest.StashKey[list[str]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        rows = [(suite, row) for suite, row in rows_of(item) if suite in COMPLETE or os.environ.get("CI")]
        unproven = item.config.stash.setdefault(SKIPPED, [])
        unproven += [f"{item.nodeid}: proves {suite}:{row} and was skipped" for suite, row in rows]
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.stash.get(SKIPPED, []) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(SKIPPED, []):
        terminalreporter.write_line(line, red=True)
