"""Where a task stands: its frames, and those of the worker thread that it waits for."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trio

MAX_FRAMES = 64
"""How many frames of one stack are kept: the innermost ones."""

# Frames of the machinery above and below every task, which say nothing about it.
_MACHINERY = (os.path.join("lifecycle", "_group.py"), os.path.join("trio", "_core", "_traps.py"))

# The functions that call the work of a thread: Trio's and a lane's.
_CALLS_OF_WORK = ("worker_fn", "work")

_LANE_CALL = os.path.join("lifecycle", "_lane_call.py")


def task_stack(task: trio.lowlevel.Task | None) -> tuple[str, ...]:
    """One line for each frame of a suspended task, the innermost last. Empty if the task has not begun or has ended.

    If it waits for `trio.to_thread.run_sync` or a lane, the frames of that thread follow, as far as they can be seen.
    """
    if task is None:
        return ()
    lines: list[str] = []
    thread_name: str | None = None
    try:
        for frame, lineno in task.iter_await_frames():
            if not frame.f_code.co_filename.endswith(_MACHINERY):
                lines.append(_line(frame, lineno))
            if frame.f_code.co_name == "to_thread_run_sync":
                thread_name = frame.f_locals.get("thread_name")
            elif frame.f_code.co_filename.endswith(_LANE_CALL):
                lines.extend(frame.f_locals["self"].thread_lines())
    except TypeError:
        lines.append("(inside an awaitable that shows no frames)")
    if thread_name is not None:
        lines.extend(_thread_lines(thread_name))
    return tuple(lines[-MAX_FRAMES:])


def thread_frames(ident: int, frames: dict[int, FrameType] | None = None) -> tuple[str, ...]:
    """One line for each frame of a thread, the innermost last; `frames` is what `sys._current_frames()` returned."""
    top = (sys._current_frames() if frames is None else frames).get(ident)  # pyright: ignore[reportPrivateUsage]
    walked = list(traceback.walk_stack(top))
    found = [(frame, lineno) for frame, lineno in walked if not _is_machinery(frame)]
    if not found:
        # The work itself may be the machinery's, such as a wait for an event: show what lies above the call of it.
        calls = [place for place, (frame, _) in enumerate(walked) if frame.f_code.co_name in _CALLS_OF_WORK]
        found = walked[: calls[0]] if calls else []
    return tuple(_line(frame, lineno) for frame, lineno in reversed(found[:MAX_FRAMES]))


def _thread_lines(thread_name: str) -> list[str]:
    # Trio names the worker after its work while it does it. Two with one name cannot be told apart: say nothing then.
    found = [thread.ident for thread in threading.enumerate() if thread.name == thread_name]
    if len(found) != 1 or found[0] is None:
        return []
    # A call into C shows no frame of its own, but the thread's name says what was called.
    return [f"in thread {thread_name!r}", *thread_frames(found[0])]


def _is_machinery(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module == f"{__package__}._lane_call" or module.partition(".")[0] in ("threading", "trio", "outcome")


def _line(frame: FrameType, lineno: int) -> str:
    return f"{frame.f_code.co_filename}:{lineno} in {frame.f_code.co_qualname}"
