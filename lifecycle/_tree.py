"""What all groups of one runtime share."""

from __future__ import annotations

from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, final

import trio

from ._deadline import ShutdownDeadline

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ._group import TaskGroup
    from ._task import TaskRecord


@final
class Tree:
    """One deadline, one place for failures to go, one count of things that every group may do wrong."""

    __slots__ = ("_cleanups", "_last_id", "closed_component_requests", "deadline", "on_failure", "shutdown_within")

    def __init__(self, shutdown_within: float, on_failure: Callable[[TaskRecord, Exception], None]) -> None:
        self.deadline: ShutdownDeadline = ShutdownDeadline()
        self.shutdown_within: float = shutdown_within
        self.on_failure: Callable[[TaskRecord, Exception], None] = on_failure
        self.closed_component_requests: int = 0
        self._last_id = 0
        self._cleanups: dict[trio.CancelScope, TaskGroup] = {}
        self.deadline.subscribe(self.tighten_cleanups)

    def next_id(self) -> int:
        """A number that no other group of this runtime has."""
        self._last_id += 1
        return self._last_id

    def task_failed(self, record: TaskRecord, cause: Exception) -> None:
        """An exception left an unsupervised task of this tree."""
        self.on_failure(record, cause)

    @contextmanager
    def cleanup(self, group: TaskGroup, within: float | None = None) -> Generator[trio.CancelScope, None, None]:
        """A shielded scope for clean-up of `group` that must await. It ends by itself: `within` seconds from now
        (default: the runtime's `shutdown_within`), and never later than the group's shutdown deadline, also one set
        meanwhile."""
        limit = trio.current_time() + (self.shutdown_within if within is None else within)
        with self.until_end(group, limit) as scope:
            scope.shield = True
            yield scope

    @contextmanager
    def until_end(self, group: TaskGroup, limit: float = inf) -> Generator[trio.CancelScope, None, None]:
        """A scope that ends at `limit` and never later than the group's shutdown deadline, also one set meanwhile."""
        with trio.CancelScope(deadline=min(limit, group.deadline.end)) as scope:
            self._cleanups[scope] = group
            try:
                yield scope
            finally:
                del self._cleanups[scope]

    def tighten_cleanups(self) -> None:
        """A deadline somewhere in the tree has moved: let clean-up that is under way end by it."""
        for scope, group in self._cleanups.items():
            scope.deadline = min(scope.deadline, group.deadline.end)
