"""A cancel scope that ends at a shutdown deadline, wherever that moves."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ._deadline import ShutdownDeadline


@contextmanager
def scope_until(deadline: ShutdownDeadline, limit: Callable[[], float]) -> Generator[trio.CancelScope, None, None]:
    """A scope whose deadline is `limit()`, looked up again each time that `deadline` moves."""
    with trio.CancelScope(deadline=limit()) as scope:

        def move() -> None:
            scope.deadline = limit()

        release = deadline.subscribe(move)
        try:
            yield scope
        finally:
            release()
