"""Finds deadlocks on the virtual clock, where they would otherwise keep a test busy for ever."""

from __future__ import annotations

from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, final

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECK_EVERY = 1024
"""Turns of Trio's loop between two looks."""

GRACE = 2.0
"""Seconds of real time for which nothing must happen before it is called a deadlock."""

MOST_TASKS = 50
"""How many waiting tasks are listed."""

_KIT = __name__.rpartition(".")[0]


@final
class Watchdog(trio.abc.Instrument):
    """Cancels `scope` when all tasks wait and nothing is due, and notes where they stand."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.tasks: tuple[str, ...] | None = None
        """Where the tasks stood; None if there was no deadlock."""
        self._turns = 0
        self._quiet_since: float | None = None

    def before_io_wait(self, timeout: float) -> None:
        """Called by Trio in every turn of its loop."""
        self._turns += 1
        if self._turns % CHECK_EVERY or self.tasks is not None:
            return
        if not _all_wait():
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = perf_counter()
        elif perf_counter() - self._quiet_since > GRACE:
            self.tasks = tuple(_standing())
            self.scope.cancel()


def _all_wait() -> bool:
    """Whether nothing is left that could wake a task: no time limit, thread, socket or process."""
    now = trio.lowlevel.current_statistics()
    if now.tasks_runnable or now.run_sync_soon_queue_size or now.seconds_to_next_deadline < inf:
        return False
    # Trio itself waits for one socket: the one by which other threads wake it.
    readers = getattr(now.io_statistics, "tasks_waiting_read", 0)
    writers = getattr(now.io_statistics, "tasks_waiting_write", 0)
    if readers > 1 or writers:
        return False
    return trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0


def _standing() -> Iterator[str]:
    root = trio.lowlevel.current_root_task()
    todo = [] if root is None else [root]
    shown = 0
    while todo and shown < MOST_TASKS:
        task = todo.pop()
        todo.extend(child for nursery in task.child_nurseries for child in nursery.child_tasks)
        place = _place(task)
        if place:
            shown += 1
            yield f"{task.name}: {place}"


def _place(task: trio.lowlevel.Task) -> str:
    """The innermost frame that is neither Trio's nor the kit's; empty for tasks that have no other."""
    place = ""
    for frame, line in task.iter_await_frames():
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in ("trio", "outcome", "contextlib") and not module.startswith(_KIT):
            place = f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{line})"
    return place
