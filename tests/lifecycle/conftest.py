"""Fixtures of the tests of the runtime."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ._bodies import Gate


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A closure that is held until the test lets it go, or is over."""
    gate = Gate()
    yield gate
    gate.go.set()
