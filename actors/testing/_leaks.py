"""Tasks that do not end: the kit ends them, so that the test fails and does not hang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from actors import System

PATIENCE = 1.0
"""Seconds after the shutdown deadline, on Trio's clock, until tasks that still run lose their shields."""


async def end_leaked_tasks(system: System) -> None:
    """Once the shutdown deadline is over, take the shields off what still runs, so that it ends after all.

    The report has been made by then, with those tasks in it. One that goes on after every cancellation cannot be ended.
    """
    await system.stopping.wait()
    while (end := system.deadline.end + PATIENCE) > trio.current_time():
        with trio.move_on_at(end):
            await trio.sleep(PATIENCE)
    while True:
        for group in system.group.walk():
            for record in group.records():
                if record.task is not None:
                    _unshield(record.task)
        await trio.sleep(PATIENCE)


def _unshield(task: trio.lowlevel.Task) -> None:
    todo = [task]
    while todo:
        task = todo.pop()
        status: Any = getattr(task, "_cancel_status", None)
        while status is not None:
            status._scope.shield = False
            status = status._parent
        for nursery in task.child_nurseries:
            todo.extend(nursery.child_tasks)
