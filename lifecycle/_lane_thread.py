"""Dedicated threads: loops that run for as long as their owner does, told to stop and joined."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, TypeVar, cast, final

import trio

from ._task import StopMode, TaskHandle

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._group import TaskGroup
    from ._outcomes import Outcome

T = TypeVar("T")

_log = logging.getLogger("tenure.lifecycle")


@final
class ThreadStop:
    """What a dedicated thread looks at to learn that it has to end. May be used in any thread."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def requested(self) -> bool:
        """Whether the thread has to end."""
        return self._event.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Block until the thread has to end, at most for that long; whether it has to."""
        return self._event.wait(seconds)

    def request(self) -> None:
        """Tell the thread to end."""
        self._event.set()


class _NoLimit:
    """These threads are counted elsewhere."""

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Trio is about to start the thread."""

    def release_on_behalf_of(self, borrower: object) -> None:
        """The thread has ended."""


@final
class DedicatedThread(TaskHandle[T]):
    """A thread that a group owns, and the task that waits for its end. Made by `LaneSet.start_thread`.

    `join` returns what the function returned or raises what it raised; `wait` tells how it ended. `cancel` asks it to
    stop; nothing can make it.
    """

    __slots__ = ("_on_end", "_wake", "stop")

    def __init__(
        self, name: str, group: TaskGroup, wake: Callable[[], object] | None, on_end: Callable[[], object]
    ) -> None:
        super().__init__(name, group, "blocking")
        self.stop: ThreadStop = ThreadStop()
        """What the thread looks at."""
        self._wake = wake
        self._on_end = on_end
        if group.stop_requested:
            self.stop.request()  # told already, with the gate left open

    async def body(self, fn: Callable[[ThreadStop], T]) -> T:
        """The task: it ends when the thread has ended, whoever cancels it."""
        return await trio.to_thread.run_sync(
            fn,
            self.stop,
            thread_name=f"dedicated:{self.name} #{id(self)}",
            abandon_on_cancel=False,
            limiter=cast("trio.CapacityLimiter", _NoLimit()),
        )

    def cancel(self) -> None:
        """Ask the thread to stop. Its task ends when it has; before its first step it never runs."""
        super().cancel()
        self._request()

    def request_stop(self, mode: StopMode) -> TaskGroup | None:
        self._request()
        return super().request_stop(mode)

    def describe(self) -> str:
        return "a dedicated thread" + (", asked to stop" if self.stop.requested else "")

    def settled(self, outcome: Outcome) -> Outcome:
        self._on_end()
        return outcome

    def _request(self) -> None:
        if self.stop.requested or self.ended:
            return
        self.stop.request()
        if self._wake is not None:
            try:
                self._wake()
            except Exception:
                _log.exception("the wake-up of dedicated thread %s failed", self.path)
