"""What every test of Tenure gets: the `row` mark and the hypothesis profiles."""

from __future__ import annotations

import os

import hypothesis
import pytest

from tests.conformance import MalformedRow, row_of

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
