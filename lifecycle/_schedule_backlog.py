"""Which ticks become runs: slots, and what happens to ticks that find none free. Knows no clock and starts nothing."""

from __future__ import annotations

from collections import deque
from typing import Literal, TypeAlias, final

import attrs

from ._schedule_errors import InvalidSchedule

MOST_PENDING = 10_000
"""Runs that a catch-up policy may keep waiting, at most."""


@attrs.frozen
class BoundedCatchUp:
    """Make up for missed ticks, for `runs` of them at most at a time."""

    runs: int

    def __attrs_post_init__(self) -> None:
        if not _is_count(self.runs, MOST_PENDING):
            raise InvalidSchedule("bounded_catch_up", f"runs must be a whole number from 1 to {MOST_PENDING}")


def bounded_catch_up(runs: int) -> BoundedCatchUp:
    """The policy that makes up for missed ticks later, for `runs` (1 to 10,000) of them at most at a time."""
    return BoundedCatchUp(runs)


MissedTicks: TypeAlias = Literal["skip", "coalesce_latest"] | BoundedCatchUp
"""What becomes of ticks for which no slot is free: none is run, one run for all of them, or up to n runs."""

RunNowAnswer = Literal["started", "queued", "already_queued"]
"""The run starts now; or as soon as a slot is free; or one that was asked for before is still waiting for a slot."""


@final
class Backlog:
    """The slots of one schedule and the runs that wait for one.

    `tick` and `take` reserve a slot for each start that they answer with; `ended` gives one back. Every tick ends up
    in exactly one place: `ticks == started by ticks + skips + pending`.
    """

    __slots__ = ("_asked", "_pending", "active", "limit", "missed", "overlaps", "skips", "slots")

    def __init__(self, slots: int, missed: MissedTicks) -> None:
        self.slots: int = slots
        self.missed: MissedTicks = missed
        self.limit: int = _limit(missed)
        self.active: int = 0
        self.skips: int = 0
        self.overlaps: int = 0
        self._pending: deque[float] = deque()
        self._asked: float | None = None

    @property
    def pending(self) -> int:
        """Runs for missed ticks that wait for a slot."""
        return len(self._pending)

    @property
    def asked(self) -> bool:
        """Whether a run that was asked for waits for a slot."""
        return self._asked is not None

    def tick(self, count: int, due: float) -> int:
        """`count` ticks have come due, the latest at `due`. Returns how many runs to start now, for the latest of them;
        the others wait or are skipped, by the policy."""
        starts = max(0, min(count, self.slots - self.active))
        self._reserve(starts)
        rest = count - starts
        if rest:
            kept = self.pending
            if self.limit and self.missed == "coalesce_latest":
                self._pending.clear()  # one run says all; it is for the latest
                self._pending.append(due)
                self.skips += rest - 1 + kept
            else:
                room = min(rest, self.limit - kept)
                self._pending.extend([due] * room)
                self.skips += rest - room
        return starts

    def ask(self, now: float) -> RunNowAnswer:
        """A run is wanted beside the ticks. One at most waits; `take` hands it out."""
        if self._asked is not None:
            return "already_queued"
        self._asked = now
        return "started" if self.active < self.slots else "queued"

    def take(self) -> list[float]:
        """The waiting runs for which slots are free, each as the time at which it was due: start them."""
        due: list[float] = []
        free = self.slots - self.active
        if free > 0 and self._asked is not None:
            due.append(self._asked)
            self._asked = None
        while len(due) < free and self._pending:
            due.append(self._pending.popleft())
        self._reserve(len(due))
        return due

    def ended(self) -> None:
        """A run has ended, or could not be started: its slot is free."""
        assert self.active > 0, "a slot was given back twice"
        self.active -= 1

    def drop_pending(self) -> None:
        """No missed tick waits any more; those that did are skipped."""
        self.skips += len(self._pending)
        self._pending.clear()

    def drop(self) -> None:
        """Nothing waits any more, neither a missed tick nor a run that was asked for."""
        self.drop_pending()
        self._asked = None

    def change(self, slots: int, missed: MissedTicks) -> None:
        """Other limits from now on. Active runs stay; of those waiting, the oldest beyond the new limit are skipped."""
        self.slots, self.missed, self.limit = slots, missed, _limit(missed)
        while len(self._pending) > self.limit:
            self._pending.popleft()
            self.skips += 1

    def _reserve(self, starts: int) -> None:
        if starts:
            self.overlaps += starts if self.active else starts - 1
            self.active += starts


def check_limits(slots: object, missed: object) -> None:
    """Raise `InvalidSchedule` unless a `Backlog` can be made of these."""
    if not _is_count(slots, MOST_PENDING):
        raise InvalidSchedule("schedule", f"max_active must be a whole number from 1 to {MOST_PENDING}")
    if not isinstance(missed, BoundedCatchUp) and missed not in ("skip", "coalesce_latest"):
        raise InvalidSchedule("schedule", "missed must be 'skip', 'coalesce_latest' or bounded_catch_up(n)")


def _limit(missed: MissedTicks) -> int:
    if isinstance(missed, BoundedCatchUp):
        return missed.runs
    return 1 if missed == "coalesce_latest" else 0


def _is_count(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most
