"""Timers in the order of their due times, and the arithmetic of the periodic ones. All times are in seconds."""

from __future__ import annotations

import heapq
import math
from typing import Generic, TypeVar

import attrs

from ._backoff import is_number
from ._errors import TimerInvalid

P = TypeVar("P")

SHORTEST_PERIOD = 1e-6


@attrs.define(eq=False)
class TimerEntry(Generic[P]):
    """One timer in a queue."""

    due: float
    sequence: int
    payload: P


class TimerQueue(Generic[P]):
    """A heap of timers by due time; those with the same due time stay in the order in which they were added.

    A cancel is O(1) amortised and lets go of the payload at once; the heap never holds more cancelled keys than live
    ones.
    """

    __slots__ = ("_heap", "_live", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._live: dict[int, TimerEntry[P]] = {}  # by sequence number; a key of the heap that is not here is cancelled
        self._sequence = 0

    def __len__(self) -> int:
        """The timers that wait."""
        return len(self._live)

    def add(self, due: float, payload: P) -> TimerEntry[P]:
        """Waits until `due`, which may be past (due at once) or `math.inf` (never). ValueError if it is NaN."""
        if math.isnan(due):
            raise ValueError("a timer is due at a time, not at NaN")
        self._sequence += 1
        entry = TimerEntry(due, self._sequence, payload)
        self._live[entry.sequence] = entry
        heapq.heappush(self._heap, (due, entry.sequence))
        return entry

    def cancel(self, entry: TimerEntry[P]) -> bool:
        """Whether the timer was waiting: False if it has been popped or cancelled before."""
        if self._live.get(entry.sequence) is not entry:
            return False
        del self._live[entry.sequence]
        self._compact()
        return True

    def pop_due(self, now: float) -> list[TimerEntry[P]]:
        """Takes out every timer whose due time is at or before `now`, in order."""
        due: list[TimerEntry[P]] = []
        while self._heap and self._heap[0][0] <= now:
            _, sequence = heapq.heappop(self._heap)
            entry = self._live.pop(sequence, None)
            if entry is not None:
                due.append(entry)
        self._compact()
        return due

    def next_due(self) -> float:
        """The earliest due time, `math.inf` when nothing waits."""
        while self._heap and self._heap[0][1] not in self._live:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def _compact(self) -> None:
        # Costs at most twice the keys that it removes, and each of those was put there by a cancel.
        if len(self._heap) > 2 * len(self._live):
            self._heap = [key for key in self._heap if key[1] in self._live]
            heapq.heapify(self._heap)


@attrs.frozen
class Tick:
    """A turn of a fixed-rate timer: tick `number` is due at `first + number * period`; `missed` were skipped before."""

    number: int
    due: float
    missed: int


def fixed_delay(now: float, period: float) -> float:
    """When a timer is due again that counts its period from the end of its last turn, which is now."""
    return now + period


def fixed_rate(first: float, period: float, number: int, now: float) -> Tick:
    """The tick after tick `number` of a timer that stays on its grid: the first one that is not past.

    Counted from `first`, so that rounding does not add up. A tick that is due exactly now is not missed.
    """
    following = number + 1
    # The division may be off by one either way.
    reached = math.ceil((now - first) / period)
    if first + (reached - 1) * period >= now:
        reached -= 1
    elif first + reached * period < now:
        reached += 1
    chosen = max(following, reached)
    return Tick(chosen, first + chosen * period, chosen - following)


def check_delay(delay: float) -> None:
    """Raises `TimerInvalid` unless the delay is a number of seconds, 0 or more."""
    if not is_number(delay) or delay < 0:
        raise TimerInvalid(f"a delay is a number of seconds, 0 or more, not {delay!r}")


def check_period(period: float) -> None:
    """Raises `TimerInvalid` unless the period is a number of seconds, at least a microsecond."""
    if not is_number(period) or period < SHORTEST_PERIOD:
        raise TimerInvalid(f"a period is a number of seconds, at least {SHORTEST_PERIOD:f}, not {period!r}")
