"""What a schedule is told, all of which can be changed while it runs."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from ._cron import Cron
from ._schedule_backlog import MissedTicks, check_limits
from ._schedule_errors import InvalidSchedule
from ._trigger import FixedDelay, FixedRate, is_seconds

Trigger: TypeAlias = FixedDelay | FixedRate | Cron
"""When a schedule is due."""

OnFailure = Literal["continue", "raise"]
"""What a failed run means: it is counted and logged and the schedule goes on, or this ends with what it raised."""


@attrs.frozen
class ScheduleSettings:
    """When a schedule is due and what it does then. Raises `InvalidSchedule` where these contradict each other."""

    trigger: Trigger

    max_active: int = 1
    """Runs at a time, at most. More than one needs a trigger with a grid, `FixedRate` or `Cron`."""

    missed: MissedTicks = "skip"
    """What becomes of ticks that find no slot free. `FixedDelay` misses none, so it takes `skip` only."""

    max_run_time: float | None = None
    """Seconds after which a run is cancelled and counted as timed out. A thread that it started goes on."""

    on_failure: OnFailure = "continue"
    """What an exception that leaves a run means for the schedule. A run that timed out is no reason to end."""

    def __attrs_post_init__(self) -> None:
        trigger = self.trigger
        if not isinstance(trigger, (FixedDelay, FixedRate, Cron)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidSchedule("schedule", "trigger must be a FixedDelay, a FixedRate or a Cron")
        check_limits(self.max_active, self.missed)
        if not trigger.on_grid and (self.max_active != 1 or self.missed != "skip"):
            mistake = (
                "a FixedDelay runs one at a time and misses nothing: leave max_active and missed, or use FixedRate"
            )
            raise InvalidSchedule("schedule", mistake)
        if self.max_run_time is not None and not (is_seconds(self.max_run_time, 0) and self.max_run_time > 0):
            raise InvalidSchedule("schedule", "max_run_time must be a finite number of seconds above 0, or None")
        if self.on_failure not in ("continue", "raise"):
            raise InvalidSchedule("schedule", "on_failure must be 'continue' or 'raise'")
