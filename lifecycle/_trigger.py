"""Triggers: when a schedule is due, as pure functions of what was last and of the clock.

A trigger keeps nothing. It is given what it said last time (the `Last`, with the tick that was taken then) and what the
clocks say now, and answers with a `Look`: how many ticks have come due since, and when to ask again.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import ClassVar

import attrs

from ._schedule_errors import InvalidSchedule

SHORTEST = 0.001
"""Seconds: a shorter period is refused, it would be a hot loop."""


@attrs.frozen
class Now:
    """What the clocks say: Trio's, and the wall's as seconds since 1970."""

    time: float
    wall: float


@attrs.frozen
class Tick:
    """One instant at which a schedule was due."""

    number: int
    """Counted from 0 at the beginning of its grid."""
    time: float
    """On Trio's clock, without jitter."""
    anchor: float = 0.0
    """The time of tick 0. Times are computed from here, never by adding up, so a grid does not drift."""
    wall: float = 0.0
    """The instant by the wall clock; for triggers that go by it."""


@attrs.frozen
class Last:
    """What a trigger needs to know of the past."""

    begun: Now
    """When the schedule began, or when this trigger took over."""
    tick: Tick | None = None
    """The last tick that was taken."""
    ended: float | None = None
    """When a run last ended, on Trio's clock."""


@attrs.frozen
class Look:
    """What a trigger says."""

    due: int
    """Ticks that have come due since the last look."""
    tick: Tick | None
    """The latest tick that has been taken now, to be handed in with the next look."""
    expected: float
    """When a run for that tick was to start, on Trio's clock, jitter included."""
    upcoming: float
    """When the next run is to start; `inf` if that is not known, or never."""
    wake: float
    """When to look again; `inf`: not before a run has ended."""


@attrs.frozen
class FixedDelay:
    """Due `initial_delay` seconds after the beginning, and then `period` seconds after each run has ended.

    `jitter` adds up to so many seconds to each wait, drawn from the schedule's name and the number of the run, so that
    it is the same each time. Raises `InvalidSchedule` for a period below a millisecond.
    """

    period: float
    initial_delay: float = 0.0
    jitter: float = 0.0

    mode: ClassVar[str] = "fixed_delay"
    on_grid: ClassVar[bool] = False

    def __attrs_post_init__(self) -> None:
        _check_times(self)

    def look(self, last: Last, now: Now, name: str, active: int) -> Look:
        """See `Look`. While a run is active nothing is due."""
        number = 0 if last.tick is None else last.tick.number + 1
        start = last.begun.time + self.initial_delay if last.ended is None else last.ended + self.period
        start += offset(name, number, self.jitter)
        if active:
            return Look(0, last.tick, start, math.inf, math.inf)
        if now.time < start:
            return Look(0, last.tick, start, start, start)
        return Look(1, Tick(number, start), start, math.inf, math.inf)

    def take_over(self, last: Last, now: Now) -> Last:
        """What to go on from where this trigger replaces another: the end of the last run, or the beginning."""
        return attrs.evolve(last, tick=None)


@attrs.frozen
class FixedRate:
    """Due on a grid: `initial_delay` seconds after the beginning and every `period` seconds from there, whatever the
    runs take. A late start shifts nothing.

    `jitter` lets each run start up to so many seconds (at most a period) after its tick, drawn from the schedule's name
    and the number of the tick; the grid stays where it is. Raises `InvalidSchedule` for a period below a millisecond.
    """

    period: float
    initial_delay: float = 0.0
    jitter: float = 0.0

    mode: ClassVar[str] = "fixed_rate"
    on_grid: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        _check_times(self)
        if self.jitter > self.period:
            raise InvalidSchedule(
                self.__class__.__name__, "jitter must not be longer than period, ticks keep their order"
            )

    def look(self, last: Last, now: Now, name: str, active: int) -> Look:
        """See `Look`."""
        tick = last.tick
        anchor, number = (last.begun.time + self.initial_delay, -1) if tick is None else (tick.anchor, tick.number)
        reached = max(number, self._reached(anchor, now.time))
        if reached > number and self._start(anchor, reached, name) > now.time:
            reached -= 1  # its jitter is not over; that of the one before is, being a period at most
        upcoming = self._start(anchor, reached + 1, name)
        if reached == number:
            return Look(0, tick, upcoming, upcoming, upcoming)
        taken = Tick(reached, anchor + reached * self.period, anchor)
        return Look(reached - number, taken, self._start(anchor, reached, name), upcoming, upcoming)

    def take_over(self, last: Last, now: Now) -> Last:
        """What to go on from where this trigger replaces another: a period after the last tick, or now."""
        if last.tick is None:
            first = last.begun.time + self.initial_delay
        else:
            first = last.tick.time + self.period
        begun = attrs.evolve(now, time=max(first, now.time) - self.initial_delay)
        return Last(begun, None, last.ended)

    def _reached(self, anchor: float, now: float) -> int:
        """The number of the last point of the grid that is not after `now`; below 0 before the first."""
        number = math.floor((now - anchor) / self.period)
        while anchor + number * self.period > now:
            number -= 1
        while anchor + (number + 1) * self.period <= now:
            number += 1
        return number

    def _start(self, anchor: float, number: int, name: str) -> float:
        return anchor + number * self.period + offset(name, number, self.jitter)


def offset(name: str, number: int, jitter: float) -> float:
    """From 0 to `jitter` seconds, the same for the same name and number, spread evenly over numbers and names."""
    if not jitter:
        return 0.0
    digest = blake2b(f"{number}:{name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return jitter * (int.from_bytes(digest, "big") / 2**64)


def is_seconds(value: object, least: float) -> bool:
    """Whether the value is a finite number of at least so many seconds; True and False are not."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value) and value >= least
    except OverflowError:
        return False


def _check_times(trigger: FixedDelay | FixedRate) -> None:
    what = trigger.__class__.__name__
    if not is_seconds(trigger.period, SHORTEST):
        raise InvalidSchedule(what, f"period must be a finite number of seconds, at least {SHORTEST}")
    if not is_seconds(trigger.initial_delay, 0):
        raise InvalidSchedule(what, "initial_delay must be a finite number of seconds, at least 0")
    if not is_seconds(trigger.jitter, 0):
        raise InvalidSchedule(what, "jitter must be a finite number of seconds, at least 0")
