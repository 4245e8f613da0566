"""Tokens that come back with time: how a rate is kept."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from ._budget_limits import Rate

_ROUNDING = 1e-6
"""A part of a token that the arithmetic of floats may have lost."""


@final
class Bucket:
    """Up to `burst` tokens, full at first, refilled by `per_second`. Reads no clock."""

    __slots__ = ("burst", "per_second", "since", "tokens")

    def __init__(self, per_second: float, burst: int) -> None:
        self.per_second: float = per_second
        self.burst: int = burst
        self.tokens: float = burst
        self.since: float | None = None

    def refill(self, now: float) -> None:
        """Add what has come back since the last call. A clock that goes back adds nothing."""
        if self.since is None or now > self.since:
            if self.since is not None:
                self.tokens = min(float(self.burst), self.tokens + (now - self.since) * self.per_second)
            self.since = now

    def lacks(self, count: int) -> bool:
        """Whether there are fewer tokens than that, as of the last refill."""
        return self.tokens + _ROUNDING < count

    def seconds_until(self, count: int) -> float:
        """Seconds from the last refill until there are as many; `inf` if there never are."""
        if count > self.burst or self.per_second <= 0:
            return inf if self.lacks(count) else 0.0
        return max(0.0, (count - self.tokens) / self.per_second)


@final
class Buckets:
    """The tokens of a budget: all of them, and those that data work may use."""

    __slots__ = ("all", "data")

    def __init__(self, rate: Rate, reserve: Rate | None) -> None:
        self.all: Bucket = Bucket(rate.per_second, rate.burst)
        self.data: Bucket | None = (
            None if reserve is None else Bucket(rate.per_second - reserve.per_second, rate.burst - reserve.burst)
        )

    def refuses(self, count: int, control: bool, now: float) -> bool:
        """Whether there are not enough tokens now."""
        self.all.refill(now)
        if self.data is not None:
            self.data.refill(now)
        return self.all.lacks(count) or (not control and self.data is not None and self.data.lacks(count))

    def take(self, count: int, control: bool) -> None:
        """Use tokens that `refuses` has found."""
        self.all.tokens -= count
        if self.data is not None and not control:
            self.data.tokens -= count

    def promote(self, count: int) -> None:
        """Give data tokens back: what used them has become control work."""
        if self.data is not None:
            self.data.tokens = min(float(self.data.burst), self.data.tokens + count)

    def never(self, count: int, control: bool) -> bool:
        """Whether there are never that many tokens at once."""
        return count > self.all.burst or (not control and self.data is not None and count > self.data.burst)

    def seconds_until(self, count: int, control: bool) -> float:
        """Seconds from the last look until there are enough tokens."""
        seconds = self.all.seconds_until(count)
        if self.data is not None and not control:
            seconds = max(seconds, self.data.seconds_until(count))
        return seconds
