"""A schedule as an actor: supervised, and asked by messages.

Give the schedule to the child, and not what it is made of: so its counts, a pause and its place on the grid outlive a
restart, `Child(ScheduledTask, schedule, name="compaction", restart="transient")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import attrs
import trio

from lifecycle import RunNowAnswer, ScheduleInUse, ScheduleSettings, ScheduleSnapshot

from ._actor import Actor
from ._handlers import handles
from ._message import Request

if TYPE_CHECKING:
    from lifecycle import Schedule, TaskHandle

__all__ = ["GetSnapshot", "Pause", "Reconfigure", "Resume", "RunNow", "ScheduledTask"]


@attrs.frozen
class RunNow(Request[RunNowAnswer | Literal["ending"]]):
    """Start a run now, beside the ticks; see `Schedule.run_now`. Answered with "ending" when no more runs start."""

    shield: ClassVar[bool] = True


@attrs.frozen
class Pause(Request[bool]):
    """Start no runs for ticks until `Resume`; answered with whether this changed anything."""

    shield: ClassVar[bool] = True


@attrs.frozen
class Resume(Request[bool]):
    """Start runs again; answered with whether this changed anything."""

    shield: ClassVar[bool] = True


@attrs.frozen
class Reconfigure(Request[None]):
    """Go by other settings from now on; see `Schedule.reconfigure`."""

    settings: ScheduleSettings

    shield: ClassVar[bool] = True


@attrs.frozen
class GetSnapshot(Request[ScheduleSnapshot]):
    """Answered with the schedule's counts."""

    shield: ClassVar[bool] = True


class ScheduledTask(Actor[RunNow | Pause | Resume | Reconfigure | GetSnapshot]):
    """Drives a schedule. Ready when that is driven; told to end, it starts no more runs and waits for those in hand,
    at most until the work deadline.

    A crash cancels the runs in hand, and after a restart the schedule goes on with its grid: ticks that came meanwhile
    have been missed. It crashes with what a run raised where the schedule says `on_failure="raise"`. When a job returns
    `ScheduleControl.STOP` the actor ends; a *permanent* child would be started again, so let it be *transient*. A start
    fails with `ScheduleInUse` where the schedule is driven already.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    async def started(self) -> None:
        if self.schedule.state != "idle":
            raise ScheduleInUse(self.schedule.name)
        group = self.context.service.group
        begun = trio.Event()
        driver = group.spawn(self._drive, begun, name=f"scheduled-driver:{self.schedule.name}", kind="scheduled_driver")
        self.context.start_soon(self._watch, driver)
        await begun.wait()

    @handles(RunNow)
    def run_now(self, msg: RunNow) -> RunNowAnswer | Literal["ending"]:
        """See `RunNow`."""
        return "ending" if self.schedule.state in ("idle", "stopping") else self.schedule.run_now()

    @handles(Pause)
    def pause(self, msg: Pause) -> bool:
        """See `Pause`."""
        return self.schedule.pause()

    @handles(Resume)
    def resume(self, msg: Resume) -> bool:
        """See `Resume`."""
        return self.schedule.resume()

    @handles(Reconfigure)
    def reconfigure(self, msg: Reconfigure) -> None:
        """See `Reconfigure`."""
        self.schedule.reconfigure(msg.settings)

    @handles(GetSnapshot)
    def get_snapshot(self, msg: GetSnapshot) -> ScheduleSnapshot:
        """See `GetSnapshot`."""
        return self.schedule.snapshot()

    async def _drive(self, begun: trio.Event) -> Exception | None:
        """Returns a failure, which is the supervisor's business: raised here, it would poison the tree."""
        begun.set()  # whoever waits for it comes after the first step of what follows
        try:
            await self.schedule.run(self.context.service.group)
        except Exception as exc:
            return exc
        return None

    async def _watch(self, driver: TaskHandle[Exception | None]) -> None:
        failure = await driver.join()
        if failure is not None:
            raise failure
        self.context.stop()
