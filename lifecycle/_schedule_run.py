"""One run of a schedule, from the reserved slot to the one moment in which its end is counted."""

from __future__ import annotations

import logging
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, final

import trio

from ._exceptions import split_cancelled
from ._logs import current_trace_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._outcomes import Outcome
    from ._schedule_snapshot import RunEnd
    from ._task import TaskHandle

_log = logging.getLogger("tenure.lifecycle")


class ScheduleControl(Enum):
    """What a job may return to its schedule; anything else counts as `CONTINUE`."""

    CONTINUE = "continue"
    STOP = "stop"
    """Start no more runs. Those in hand finish, then the schedule ends."""


@final
class ScheduledRun:
    """One run. Its slot is reserved before it is made, and given back by `close`, which whoever starts it calls once,
    when nothing of the run is left; also for one that never got its first step."""

    __slots__ = ("_job", "_limit", "_settle", "due", "end", "failure", "logs", "name", "started", "stop")

    def __init__(
        self,
        name: str,
        job: Callable[[], Awaitable[object]],
        due: float,
        limit: float | None,
        logs: bool,
        settle: Callable[[ScheduledRun], None],
    ) -> None:
        self.name: str = name
        self.due: float = due
        self.started: float | None = None
        self.end: RunEnd = "cancelled"  # until something else is known
        self.failure: Exception | None = None
        self.stop: bool = False
        self.logs: bool = logs
        self._job = job
        self._limit = inf if limit is None else limit
        self._settle = settle

    async def perform(self) -> None:
        """Do the job. Lets nothing leave but `Cancelled` and what is no `Exception`."""
        self.started = trio.current_time()
        try:
            with trio.CancelScope(deadline=self.started + self._limit) as scope:
                self.stop = await self._job() is ScheduleControl.STOP
            self.end = "timed_out" if scope.cancelled_caught else "completed"
        except Exception as exc:
            self._failed(exc)
        except BaseException as exc:
            cancelled, rest = split_cancelled(exc)
            if cancelled is not None and isinstance(rest, Exception):
                self._failed(rest)
                raise cancelled from None  # noqa: ASYNC104 (the rest is kept as the run's failure)
            raise

    async def perform_alone(self) -> None:
        """The same, for a run that is no task of a group."""
        try:
            await self.perform()
        finally:
            self.close()

    def reject(self, cause: Exception) -> None:
        """The run cannot be started."""
        self.end = "rejected"
        _log.warning("run of schedule %s was rejected: %s", self.name, cause, extra=self._where())
        self.close()

    def _where(self) -> dict[str, object]:
        return {"schedule": self.name, "trace_id": current_trace_id()}

    def close(self) -> None:
        """Count the end."""
        self._settle(self)

    def close_task(self, task: TaskHandle[None], outcome: Outcome) -> Outcome:
        """The same for the task that the run is; the answer is what the task counts as."""
        self.close()
        return "failed" if self.end in ("failed", "timed_out") else outcome

    def _failed(self, exc: Exception) -> None:
        self.end = "failed"
        self.failure = exc
        if self.logs:
            _log.error("run of schedule %s failed: %r", self.name, exc, exc_info=exc, extra=self._where())
