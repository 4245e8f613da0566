"""A schedule: a job, when it is due, and the driver that starts its runs."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf, isfinite
from typing import TYPE_CHECKING, TypeAlias, final

import attrs
import trio

from ._errors import OperationalError
from ._schedule_backlog import Backlog, MissedTicks, RunNowAnswer
from ._schedule_errors import InvalidSchedule, ScheduleInUse, ScheduleNotRunning
from ._schedule_run import ScheduledRun
from ._schedule_settings import OnFailure, ScheduleSettings, Trigger
from ._schedule_snapshot import Accounts, ScheduleSnapshot, ScheduleState
from ._task import WatchedTask
from ._trigger import Last, Now

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._group import TaskGroup

    Start: TypeAlias = Callable[[ScheduledRun], object]


def utc_now() -> datetime:
    """The wall clock of the machine."""
    return datetime.now(UTC)


@final
class Schedule:
    """A job that is run when its trigger says so, while `run` is running. Lives in one Trio program.

    What it counts and where it stands on its grid are kept when `run` has ended, so a further `run` goes on from there:
    ticks that came in between have been missed, and `missed` decides about them. A pause outlives it too.
    """

    __slots__ = (
        "__weakref__",
        "_accounts",
        "_backlog",
        "_driven",
        "_failure",
        "_job",
        "_last",
        "_paused",
        "_poked",
        "_settings",
        "_sleep",
        "_stopping",
        "_upcoming",
        "_wall_clock",
        "name",
    )

    def __init__(
        self,
        name: str,
        job: Callable[[], Awaitable[object]],
        trigger: Trigger,
        *,
        max_active: int = 1,
        missed: MissedTicks = "skip",
        max_run_time: float | None = None,
        on_failure: OnFailure = "continue",
        wall_clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """See `ScheduleSettings` for the options. `job()` is called for each run and what it returns is awaited.
        `wall_clock` gives the time with its zone; only `Cron` goes by it. Raises `InvalidSchedule`."""
        _check_name_and_job(name, job)
        self.name: str = name
        self._job = job
        self._settings = ScheduleSettings(trigger, max_active, missed, max_run_time, on_failure)
        self._wall_clock = wall_clock
        self._backlog = Backlog(max_active, missed)
        self._last: Last | None = None
        self._upcoming = inf
        self._driven = False
        self._paused = False
        self._stopping = False
        self._failure: Exception | None = None
        self._poked = False
        self._sleep: trio.Event | None = None
        self._accounts = Accounts()

    def __repr__(self) -> str:
        return f"<Schedule {self.name} {self.state}, {self._backlog.active} active>"

    # -- what it is

    @property
    def settings(self) -> ScheduleSettings:
        """What it was told last. `reconfigure(attrs.evolve(schedule.settings, ...))` changes it."""
        return self._settings

    @property
    def state(self) -> ScheduleState:
        """What the driver is doing."""
        if not self._driven:
            return "idle"
        if self._stopping or self._failure is not None:
            return "stopping"
        return "paused" if self._paused else "running"

    @property
    def paused(self) -> bool:
        """Whether ticks are passed over until `resume`."""
        return self._paused

    @property
    def active(self) -> int:
        """Runs in hand."""
        return self._backlog.active

    def snapshot(self) -> ScheduleSnapshot:
        """The counts as they stand. Sync; to be called in Trio."""
        due = self._upcoming if self.state == "running" else inf
        next_due = max(0.0, due - trio.current_time()) if isfinite(due) else None
        return self._accounts.snapshot(self.name, self._settings.trigger.mode, self.state, self._backlog, next_due)

    # -- what may be asked of it; all of these are sync

    def run_now(self) -> RunNowAnswer:
        """Start a run now, beside the ticks, also during a pause. The grid of the trigger stays; a fixed delay counts
        from the end of this run. With no slot free, one such run waits for a slot.

        Raises `ScheduleNotRunning` when nothing drives the schedule, or it is ending.
        """
        if self.state in ("idle", "stopping"):
            raise ScheduleNotRunning(self.name, self.state)
        answer = self._backlog.ask(trio.current_time())
        self._poke()
        return answer

    def pause(self) -> bool:
        """Start no runs for ticks until `resume`; those in hand go on, those that wait are skipped. False if it was
        paused already."""
        if self._paused:
            return False
        self._paused = True
        self._backlog.drop_pending()
        self._poke()
        return True

    def resume(self) -> bool:
        """Start runs again. Ticks of a grid that came meanwhile are passed over, and the grid is where it was; a fixed
        delay that is over by now is due at once. False if it was not paused."""
        if not self._paused:
            return False
        self._paused = False
        trigger = self._settings.trigger
        if self._last is not None and trigger.on_grid:
            look = trigger.look(self._last, self._now(), self.name, self._backlog.active)
            self._last = attrs.evolve(self._last, tick=look.tick)
            self._accounts.passed_over += look.due
        self._poke()
        return True

    def reconfigure(self, settings: ScheduleSettings) -> None:
        """Go by other settings from now on. Runs in hand keep their `max_run_time`.

        A new `FixedRate` is due one of its periods after the last tick, or now if that is past, and its grid goes on
        from there; a new `FixedDelay` counts from the end of the last run; a new `Cron` from now.
        """
        if self._last is not None and settings.trigger != self._settings.trigger:
            self._last = settings.trigger.take_over(self._last, self._now())
        self._settings = settings
        self._backlog.change(settings.max_active, settings.missed)
        self._poke()

    def stop(self) -> None:
        """Start no more runs: `run` returns when those in hand have ended. No effect where nothing drives it."""
        if self._driven:
            self._stopping = True
            self._poke()

    # -- the driver

    async def run(self, group: TaskGroup | None = None) -> None:
        """Start a run whenever one is due, until `stop`, or until a job returns `ScheduleControl.STOP`.

        The runs are tasks of the kind *scheduled_run* in `group`: when that is told to stop, no more are started, and
        those in hand may go on until its work deadline. Without a group they are children of this call.

        By `on_failure="raise"` it ends with what a run raised. Cancelling it cancels the runs of its own; those in a
        group are the group's. Raises `ScheduleInUse` if it is running already. A checkpoint.
        """
        if self._driven:
            raise ScheduleInUse(self.name)
        self._driven = True
        self._stopping = False
        self._failure = None
        try:
            if group is None:
                async with trio.open_nursery() as nursery:
                    try:
                        await self._drive(lambda run: nursery.start_soon(run.perform_alone, name=_task_name(run)))
                    except Exception as exc:  # of the wall clock: it leaves as it is, in no group
                        self._failure = exc
                    if self._failure is not None:
                        nursery.cancel_scope.cancel()
            else:
                take_back = group.at_stop(self.stop)
                try:
                    await self._drive(lambda run: _start_in(group, run))
                finally:
                    take_back()
        finally:
            self._backlog.drop()
            self._driven = False
        if self._failure is not None:
            raise self._failure

    async def _drive(self, start: Start) -> None:
        await trio.lowlevel.checkpoint()
        if self._last is None:
            self._last = Last(self._now())
        while True:
            # Before each turn: whoever is cancelled and due at the same instant starts nothing.
            await trio.lowlevel.checkpoint_if_cancelled()
            if self._stopping or self._failure is not None:
                break
            await self._sleep_until(self._turn(start))
        while self._backlog.active and self._failure is None:
            await self._sleep_until(inf)

    def _turn(self, start: Start) -> float:
        """Start what is due, and say when to look again."""
        for due in self._backlog.take():
            self._start_run(start, due)
        if self._paused:
            return inf
        assert self._last is not None
        look = self._settings.trigger.look(self._last, self._now(), self.name, self._backlog.active)
        self._last = attrs.evolve(self._last, tick=look.tick)
        self._upcoming = look.upcoming
        if look.due:
            for _ in range(self._backlog.tick(look.due, look.expected)):
                self._start_run(start, look.expected)
        return look.wake

    def _start_run(self, start: Start, due: float) -> None:
        """The slot is reserved. Whatever happens, it is given back in `_settle`, and there only."""
        settings = self._settings
        logs = settings.on_failure == "continue"
        run = ScheduledRun(self.name, self._job, due, settings.max_run_time, logs, self._settle)
        try:
            start(run)
        except OperationalError as exc:  # the gate of the group is closed
            self._backlog.drop_pending()  # nothing else could be started either
            run.reject(exc)

    def _settle(self, run: ScheduledRun) -> None:
        now = trio.current_time()
        self._accounts.ended(run, now)
        if self._last is not None:
            self._last = attrs.evolve(self._last, ended=now)
        self._backlog.ended()
        if run.failure is not None and self._settings.on_failure == "raise" and self._failure is None:
            self._failure = run.failure
        if run.stop:
            self.stop()
        self._poke()

    def _poke(self) -> None:
        """Let the driver take a turn. One that comes before it sleeps is kept."""
        self._poked = True
        if self._sleep is not None:
            self._sleep.set()

    async def _sleep_until(self, wake: float) -> None:
        if self._poked:
            await trio.lowlevel.checkpoint()
        else:
            self._sleep = trio.Event()
            with trio.CancelScope(deadline=wake):
                await self._sleep.wait()
            self._sleep = None
        self._poked = False

    def _now(self) -> Now:
        wall = self._wall_clock()
        if wall.tzinfo is None:
            raise InvalidSchedule("schedule", "wall_clock must give times with a zone, as datetime.now(UTC) does")
        return Now(trio.current_time(), wall.timestamp())


def _check_name_and_job(name: object, job: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InvalidSchedule("schedule", "name must be a string that is not blank")
    if not callable(job):
        raise InvalidSchedule("schedule", "job must be a function that returns something to await")


def _task_name(run: ScheduledRun) -> str:
    return f"scheduled-run:{run.name}"


def _start_in(group: TaskGroup, run: ScheduledRun) -> None:
    group.launch(WatchedTask(_task_name(run), group, "scheduled_run", run.close_task), run.perform)
