"""The cron trigger: instants of the wall clock, in a time zone.

The expressions are read by `cronsim`. What it is given here is time without a zone, or time in UTC where that is what
counts; the meeting of expressions and clock changes is decided in this module, in one way for all expressions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import attrs

from ._schedule_errors import CronUnavailable, InvalidSchedule
from ._trigger import Last, Look, Now, Tick, is_seconds, offset

RECHECK = 30.0
"""Seconds of Trio's clock after which the wall clock is looked at again, at the latest: it may have been set."""

MOST_COUNTED = 1000
"""Ticks that are counted in one look. Beyond them the clock was set, and those that are left are passed over."""

SET_BACK_FIXED = 3 * 3600.0
"""Seconds by which the wall clock may be set back before a job with a fixed time of day is run again for it."""

SET_BACK_REPEATING = 60.0
"""The same for a job that repeats within the hour or hourly: it soon follows the new time."""

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
LONGEST_CHANGE = timedelta(hours=26)
"""Of a clock by its zone: over the date line and an hour of summer time."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@attrs.frozen
class Cron:
    """Due when the wall clock in `zone` matches a cron expression of five fields, or of six with seconds first.

    A job with fixed minutes and hours runs once for each of its local times: a time that a clock change leaves out is
    made up for at the first instant after the gap, a time that comes twice counts the first time. A job whose minute or
    hour begins with `*` follows real time: none is left out or doubled.

    When the wall clock is set forward, the ticks that it jumped over have been missed: one is run at once (where a slot
    is free) and the schedule's policy decides about the others. When it is set back, no tick is run again, unless it
    would have to wait for more than three hours (a minute for jobs that follow real time): then the schedule goes on
    from the new time. Steps are noticed within 30 seconds.

    `jitter` lets each run start up to so many seconds after its tick. Raises `InvalidSchedule`, and `CronUnavailable`
    where the package `cronsim` (extra `cron`) is not installed.
    """

    expression: str
    zone: str | tzinfo = "UTC"
    jitter: float = 0.0
    _tz: tzinfo = attrs.field(init=False, repr=False, eq=False)
    _fixed: bool = attrs.field(init=False, repr=False, eq=False)
    _known: list[tuple[float, float]] = attrs.field(init=False, repr=False, eq=False, factory=list)

    mode: ClassVar[str] = "cron"
    on_grid: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        if not is_seconds(self.jitter, 0):
            raise InvalidSchedule("Cron", "jitter must be a finite number of seconds, at least 0")
        object.__setattr__(self, "_tz", _zone(self.zone))
        if next(_matches(self.expression, datetime(2000, 1, 1)), None) is None:
            raise InvalidSchedule("Cron", "the expression matches no time at all")
        time_of_day = self.expression.split()[:-3]
        object.__setattr__(self, "_fixed", not any(field.startswith("*") for field in time_of_day))

    def look(self, last: Last, now: Now, name: str, active: int) -> Look:
        """See `Look`."""
        tick = last.tick
        number, mark = (-1, last.begun.wall) if tick is None else (tick.number, tick.wall)
        if mark - now.wall > (SET_BACK_FIXED if self._fixed else SET_BACK_REPEATING):
            mark = now.wall
            tick = Tick(number, now.time, wall=mark)
        due = 0
        upcoming = self.after(mark)
        while due < MOST_COUNTED and self._start(upcoming, name) <= now.wall:
            due += 1
            mark = upcoming
            upcoming = self.after(mark)
        if due == MOST_COUNTED:
            mark = max(mark, now.wall - self.jitter)
            upcoming = self.after(mark)
        if due:
            tick = Tick(number + due, now.time - (now.wall - mark), wall=mark)
        expected = now.time - (now.wall - self._start(mark, name))
        left = self._start(upcoming, name) - now.wall
        # A millisecond at least: the two clocks do not agree to the last digit.
        return Look(due, tick, expected, now.time + left, now.time + min(max(left, 0.001), RECHECK))

    def take_over(self, last: Last, now: Now) -> Last:
        """What to go on from where this trigger replaces another: the time that it is."""
        return Last(now, None, last.ended)

    def after(self, wall: float) -> float:
        """The first tick after an instant, both in seconds since 1970; `inf` when there is none in fifty years."""
        if self._known and self._known[0][0] == wall:
            return self._known[0][1]
        found = self._after(wall)
        self._known[:] = [(wall, found)]
        return found

    def _start(self, tick: float, name: str) -> float:
        return tick + offset(name, int(tick), self.jitter) if math.isfinite(tick) else tick

    def _after(self, wall: float) -> float:
        since = _at(math.floor(wall))
        if not self._fixed:
            return self._after_in_real_time(since)
        for local in _matches(self.expression, since.astimezone(self._tz).replace(tzinfo=None)):
            found = _posix(_instant(local, self._tz))
            if found > wall:
                return found
        return math.inf

    def _after_in_real_time(self, since: datetime) -> float:
        """Search at one distance of local time from UTC, and again from where that changes."""
        distance = _distance(since, self._tz)
        while True:
            local = next(_matches(self.expression, since.replace(tzinfo=None) + distance), None)
            if local is None:
                return math.inf
            found = (local - distance).replace(tzinfo=UTC)
            beyond = _departure(since, found, distance, self._tz)
            if beyond is None:
                return _posix(found)
            change = _change(since, beyond, distance, self._tz)
            since, distance = change - SECOND, _distance(change, self._tz)


def _zone(zone: object) -> tzinfo:
    if isinstance(zone, tzinfo):
        return zone
    if zone == "UTC":
        return UTC
    try:
        return ZoneInfo(str(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        mistake = "zone is no time zone that is known here: use a name like Europe/Berlin, or pip install tzdata"
        raise InvalidSchedule("Cron", mistake) from exc


def _matches(expression: object, since: datetime) -> Iterator[datetime]:
    """The matching times after `since`; both have no zone, or UTC."""
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as exc:
        raise CronUnavailable from exc
    if not isinstance(expression, str):
        raise InvalidSchedule("Cron", "expression must be a string")
    try:
        return CronSim(expression, since)
    except CronSimError as exc:
        # What is wrong is one of a few fixed texts: the name of a field, or that their number is not 5 or 6.
        raise InvalidSchedule("Cron", f"the expression was not understood: {str(exc).lower()}") from exc


# -- local time. Instants are in UTC; local times have no zone.


def _at(wall: float) -> datetime:
    return _EPOCH + timedelta(seconds=wall)


def _posix(instant: datetime) -> float:
    return (instant - _EPOCH).total_seconds()


def _distance(instant: datetime, tz: tzinfo) -> timedelta:
    """Of local time from UTC."""
    return instant.astimezone(tz).utcoffset() or timedelta()


def _instant(local: datetime, tz: tzinfo) -> datetime:
    """The instant of a local time: the first of two, and for a time that there is not, the end of the gap."""
    instant = local.replace(tzinfo=tz, fold=0).astimezone(UTC)
    if instant.astimezone(tz).replace(tzinfo=None) == local:
        return instant
    before = local.replace(tzinfo=tz, fold=1).astimezone(UTC)
    return _change(before, instant, _distance(before, tz), tz)


def _departure(since: datetime, until: datetime, distance: timedelta, tz: tzinfo) -> datetime | None:
    """An instant after `since` and not after `until` with another distance, or None if there is none that matters.

    A change back soon after `since` repeats local times before it, so it is looked for by the hour. Later ones repeat
    only local times that come after the one that was found.
    """
    at = since + HOUR
    soon = min(until, since + LONGEST_CHANGE)
    while at < soon:
        if _distance(at, tz) != distance:
            return at
        at += HOUR
    return until if _distance(until, tz) != distance else None


def _change(since: datetime, until: datetime, distance: timedelta, tz: tzinfo) -> datetime:
    """The first second after `since` at another distance, which `until` has."""
    low, high = 0, math.ceil((until - since).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if _distance(since + timedelta(seconds=middle), tz) == distance:
            low = middle
        else:
            high = middle
    return since + timedelta(seconds=high)
