"""The limits of a budget and the rules that they obey."""

from __future__ import annotations

from math import isfinite

import attrs

from ._budget_errors import BudgetInvalid, BudgetRule, Dimension


@attrs.frozen
class Rate:
    """How many may be admitted over time: `per_second` on average, `burst` at once after a pause."""

    per_second: float
    burst: int = 1


@attrs.frozen
class Reserve:
    """The share of a budget that only control work may use. None of `rate`: control has no tokens of its own."""

    count: int = 0
    bytes: int = 0
    rate: Rate | None = None


@attrs.frozen
class BudgetLimits:
    """What a budget admits. None: no limit of its own, those above it hold."""

    count: int | None = None
    """Permits at a time (a permit of count n is n of them)."""
    bytes: int | None = None
    """Bytes at a time."""
    rate: Rate | None = None
    """Permits over time. Releasing gives no tokens back."""
    control_reserve: Reserve = Reserve()
    """What of the above data work leaves to control work."""
    max_age: float | None = None
    """Seconds after which an item in a queue on this budget is stale, for the policies that look at age."""

    def under(self, parent: BudgetLimits) -> BudgetLimits:
        """The limits that hold here: its own, or else the parent's."""
        return BudgetLimits(
            count=parent.count if self.count is None else self.count,
            bytes=parent.bytes if self.bytes is None else self.bytes,
            rate=parent.rate if self.rate is None else self.rate,
            control_reserve=self.control_reserve,
            max_age=parent.max_age if self.max_age is None else self.max_age,
        )


def check_name(path: str, name: str) -> None:
    """Refuse a name that is blank or would break a path."""
    if not name:
        raise BudgetInvalid(path, "name_blank")
    if "/" in name:
        raise BudgetInvalid(path, "name_has_slash")


def check_limits(path: str, own: BudgetLimits, parent: BudgetLimits | None) -> None:
    """Refuse limits that break a rule; `parent` holds what is in force above."""
    reserve = own.control_reserve
    _check_amount(path, "count", own.count, reserve.count, None if parent is None else parent.count)
    _check_amount(path, "bytes", own.bytes, reserve.bytes, None if parent is None else parent.bytes)
    _check_rate(path, own.rate, reserve.rate, None if parent is None else parent.rate)
    age = own.max_age
    if age is not None:
        if not _is_number(age):
            raise BudgetInvalid(path, "not_a_number")
        if age <= 0:
            raise BudgetInvalid(path, "max_age_zero")
        if parent is not None and parent.max_age is not None and age > parent.max_age:
            raise BudgetInvalid(path, "child_max_age_exceeds_parent")


def _check_amount(path: str, what: Dimension, own: int | None, reserve: int, above: int | None) -> None:
    def refuse(rule: BudgetRule) -> BudgetInvalid:
        return BudgetInvalid(path, rule, what)

    if not _is_whole(reserve) or reserve < 0 or (own is not None and not _is_whole(own)):
        raise refuse("not_a_number")
    if own is None:
        if reserve:
            raise refuse("reserve_without_capacity")
        return
    if own < 1:
        raise refuse("capacity_zero")
    if reserve > own:
        raise refuse("reserve_exceeds_capacity")
    if above is not None and own > above:
        raise refuse("child_exceeds_parent")


def _check_rate(path: str, own: Rate | None, reserve: Rate | None, above: Rate | None) -> None:
    for rate in (own, reserve):
        if rate is None:
            continue
        if not _is_number(rate.per_second) or not _is_whole(rate.burst):
            raise BudgetInvalid(path, "not_a_number", "rate")
        if rate.per_second <= 0 or rate.burst <= 0:
            raise BudgetInvalid(path, "rate_zero", "rate")
    if own is None:
        if reserve is not None:
            raise BudgetInvalid(path, "reserve_without_capacity", "rate")
        return
    if reserve is not None and _exceeds(reserve, own):
        raise BudgetInvalid(path, "reserve_exceeds_capacity", "rate")
    if above is not None and _exceeds(own, above):
        raise BudgetInvalid(path, "child_exceeds_parent", "rate")


def _exceeds(rate: Rate, other: Rate) -> bool:
    return rate.per_second > other.per_second or rate.burst > other.burst


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
