"""The shutdown deadline: fixed once, then it only moves earlier."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan

from ._errors import ContractViolation

RESERVE_MOST = 1.0
"""Seconds kept for clean-up between the work deadline and the end, at most."""

RESERVE_SHARE = 0.1
"""Share of the time given that is kept for clean-up, at most."""


def reserve(within: float) -> float:
    """Seconds of `within` that belong to clean-up: 10 % of it, and never more than one second."""
    return min(RESERVE_MOST, RESERVE_SHARE * max(0.0, within))


class ShutdownDeadline:
    """When work ends (`work`) and when everything ends, clean-up included (`end`).

    Both are times on Trio's clock and infinite until the first `freeze`. Whatever is called later, each of them only
    moves earlier and `work <= end` holds. The object reads no clock: callers pass the current time as `now`.
    """

    __slots__ = ("_end", "_killed", "_next", "_reason", "_subscribers", "_work")

    def __init__(self) -> None:
        self._end = inf
        self._work = inf
        self._killed = False
        self._reason: str | None = None
        self._next = 0
        self._subscribers: dict[int, Callable[[], object]] = {}

    @property
    def end(self) -> float:
        """The end of everything; infinite until fixed."""
        return self._end

    @property
    def work(self) -> float:
        """The time at which what still works is cancelled; infinite until fixed."""
        return self._work

    @property
    def reason(self) -> str | None:
        """Why the first `freeze` was called; None until then, and never another afterwards."""
        return self._reason

    @property
    def frozen(self) -> bool:
        """True once a reason is fixed."""
        return self._reason is not None

    def remaining(self, now: float) -> float:
        """Seconds until the end, 0.0 once it has passed, infinite until it is fixed."""
        return max(0.0, self._end - now)

    def is_past_work(self, now: float) -> bool:
        """Whether the time for work has run out. Work that a `kill` cut short was cancelled, it did not time out."""
        return now >= self._end or (now >= self._work and not self._killed)

    def is_past_end(self, now: float) -> bool:
        """Whether the end has come."""
        return now >= self._end

    def freeze(self, now: float, within: float, reason: str) -> bool:
        """Fix the reason and an end `within` seconds from `now`; True if this call fixed the reason.

        A later call keeps the first reason and may only move the deadline earlier. A negative `within` counts as 0.
        """
        end = now + max(0.0, within)
        _refuse_nan(now, within, end)
        first = self._reason is None
        if first:
            self._reason = reason
        self._move(end - reserve(within), end)
        return first

    def tighten(self, work: float, end: float) -> bool:
        """Move both earlier, each to the given time if that is earlier than its own; True if something moved.

        Fixes no reason: a part of the tree may have a bound before anybody has asked it to stop.
        """
        _refuse_nan(work, end)
        return self._move(work, end)

    def follow(self, other: ShutdownDeadline) -> bool:
        """Be no later than `other` is now; work that this cuts short was killed if it was killed there."""
        if other._killed and other._work < self._work:
            self._killed = True
        return self._move(other._work, other._end)

    def kill(self, now: float) -> bool:
        """End work at `now`: what is in hand is cancelled and clean-up keeps its time. True if something moved."""
        _refuse_nan(now)
        if now < self._work:
            self._killed = True
        return self._move(now, inf)

    def expire(self, now: float) -> bool:
        """End everything at `now`, clean-up included. True if something moved."""
        _refuse_nan(now)
        return self._move(now, now)

    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` after each move, with both values in place; returns the function that ends this.

        Callbacks run in the order of subscription inside the call that moved the deadline, and must not raise.
        """
        token = self._next
        self._next += 1
        self._subscribers[token] = callback

        def unsubscribe() -> None:
            self._subscribers.pop(token, None)

        return unsubscribe

    def _move(self, work: float, end: float) -> bool:
        end = min(self._end, end)
        work = min(self._work, work, end)
        if work == self._work and end == self._end:
            return False
        self._work = work
        self._end = end
        for callback in tuple(self._subscribers.values()):
            callback()
        return True

    def __repr__(self) -> str:
        return f"<ShutdownDeadline reason={self._reason!r} work={self._work!r} end={self._end!r}>"


def _refuse_nan(*times: float) -> None:
    if any(isnan(time) for time in times):
        raise ContractViolation("a shutdown deadline was given a time that is not a number (nan)")
