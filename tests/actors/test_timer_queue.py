from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors._errors import TimerInvalid
from actors._timer_queue import (
    SHORTEST_PERIOD,
    Tick,
    TimerEntry,
    TimerQueue,
    check_delay,
    check_period,
    fixed_delay,
    fixed_rate,
)


def payloads(entries: list[TimerEntry[str]]) -> list[str]:
    return [entry.payload for entry in entries]


def test_timers_come_in_order_of_due_time_then_of_adding() -> None:
    queue = TimerQueue[str]()
    for due, payload in ((2.0, "c"), (1.0, "a"), (2.0, "d"), (1.5, "b"), (3.0, "e")):
        queue.add(due, payload)
    assert queue.next_due() == 1.0
    assert payloads(queue.pop_due(0.9)) == []
    assert payloads(queue.pop_due(2.0)) == ["a", "b", "c", "d"]
    assert queue.next_due() == 3.0
    assert len(queue) == 1


def test_an_empty_queue_is_due_never() -> None:
    queue = TimerQueue[str]()
    assert queue.next_due() == math.inf
    assert queue.pop_due(math.inf) == []
    assert len(queue) == 0


def test_a_cancelled_timer_never_comes() -> None:
    queue = TimerQueue[str]()
    first, second = queue.add(1.0, "a"), queue.add(2.0, "b")
    assert queue.cancel(first)
    assert not queue.cancel(first)
    assert queue.next_due() == 2.0
    assert queue.pop_due(5.0) == [second]
    assert not queue.cancel(second)


def test_a_timer_of_another_queue_is_not_cancelled() -> None:
    queue, other = TimerQueue[str](), TimerQueue[str]()
    queue.add(1.0, "a")
    assert not queue.cancel(other.add(1.0, "b"))
    assert (len(queue), len(other)) == (1, 1)


def test_a_timer_due_in_the_past_comes_at_once_and_one_at_infinity_never() -> None:
    queue = TimerQueue[str]()
    queue.add(math.inf, "never")
    queue.add(-1.0, "past")
    assert payloads(queue.pop_due(0.0)) == ["past"]
    assert queue.next_due() == math.inf
    assert len(queue) == 1


def test_a_timer_cannot_be_due_at_nan() -> None:
    queue = TimerQueue[str]()
    with pytest.raises(ValueError, match="NaN"):
        queue.add(math.nan, "a")
    assert len(queue) == 0


def test_a_hundred_thousand_cancels_leave_no_garbage() -> None:
    queue = TimerQueue[int]()
    kept = queue.add(1e9, -1)
    for number in range(100_000):
        queue.cancel(queue.add(float(number), number))
        assert len(queue._heap) <= 2  # pyright: ignore[reportPrivateUsage]
    assert queue.pop_due(1e9) == [kept]


class TimersAgainstASortedList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = TimerQueue[int]()
        self.waiting: list[TimerEntry[int]] = []
        self.entries: list[TimerEntry[int]] = []
        self.now = 0.0

    @rule(delay=st.integers(-2, 10))
    def add(self, delay: int) -> None:
        entry = self.queue.add(self.now + delay, len(self.entries))
        assert entry.payload == len(self.entries)
        self.entries.append(entry)
        self.waiting.append(entry)

    @rule(index=st.integers(0, 200))
    def cancel(self, index: int) -> None:
        if self.entries:
            entry = self.entries[index % len(self.entries)]
            assert self.queue.cancel(entry) == (entry in self.waiting)
            self.waiting = [other for other in self.waiting if other is not entry]

    @rule(by=st.integers(0, 5))
    def advance(self, by: int) -> None:
        self.now += by
        due = sorted((e for e in self.waiting if e.due <= self.now), key=lambda e: (e.due, e.payload))
        assert self.queue.pop_due(self.now) == due
        self.waiting = [e for e in self.waiting if e.due > self.now]

    @invariant()
    def it_agrees(self) -> None:
        assert len(self.queue) == len(self.waiting)
        assert len(self.queue._heap) <= 2 * len(self.waiting)  # pyright: ignore[reportPrivateUsage]
        assert self.queue.next_due() == min((e.due for e in self.waiting), default=math.inf)


test_timers_against_a_sorted_list = TimersAgainstASortedList.TestCase


# Periodic timers


def test_fixed_delay_counts_from_the_end_of_the_turn() -> None:
    assert fixed_delay(now=7.25, period=2.0) == 9.25


def test_fixed_rate_stays_on_the_grid_and_counts_what_it_skips() -> None:
    assert fixed_rate(first=10.0, period=2.0, number=0, now=10.0) == Tick(number=1, due=12.0, missed=0)
    assert fixed_rate(first=10.0, period=2.0, number=0, now=11.5) == Tick(number=1, due=12.0, missed=0)
    assert fixed_rate(first=10.0, period=2.0, number=0, now=12.5) == Tick(number=2, due=14.0, missed=1)
    assert fixed_rate(first=10.0, period=2.0, number=3, now=29.0) == Tick(number=10, due=30.0, missed=6)


def test_fixed_rate_does_not_miss_a_tick_that_is_due_now() -> None:
    assert fixed_rate(first=0.0, period=1.0, number=1, now=2.0) == Tick(number=2, due=2.0, missed=0)


def test_fixed_rate_goes_on_when_it_is_asked_early() -> None:
    assert fixed_rate(first=10.0, period=2.0, number=4, now=0.0) == Tick(number=5, due=20.0, missed=0)


def test_fixed_rate_is_right_where_the_division_rounds_down() -> None:
    first, period, number = 703382.088603836, 9.831893985379429, 606262
    now = math.nextafter(first + number * period, math.inf)
    assert math.ceil((now - first) / period) == number
    assert fixed_rate(first, period, 0, now).number == number + 1


@given(
    first=st.floats(0, 1e7),
    period=st.floats(SHORTEST_PERIOD, 1e5),
    number=st.integers(0, 10**6),
    late=st.floats(0, 1e7),
)
def test_fixed_rate_finds_the_first_tick_that_is_not_past(
    first: float, period: float, number: int, late: float
) -> None:
    now = first + number * period + late
    tick = fixed_rate(first, period, number, now)
    assert tick.number > number
    assert tick.missed == tick.number - number - 1
    assert tick.due == first + tick.number * period
    assert tick.due >= now or tick.number == number + 1
    assert tick.missed == 0 or first + (tick.number - 1) * period < now


@given(first=st.floats(0, 1e6), period=st.floats(0.001, 10), steps=st.lists(st.floats(0, 3), max_size=50))
def test_fixed_rate_accounts_for_every_tick(first: float, period: float, steps: list[float]) -> None:
    turns, missed, number, now = 0, 0, 0, first
    for step in steps:
        tick = fixed_rate(first, period, number, now + step)
        now = max(now + step, tick.due)
        number, turns, missed = tick.number, turns + 1, missed + tick.missed
    assert turns + missed == number
    # Rounding does not add up: the due time is as exact as a float can be.
    assert abs(Fraction(first + number * period) - (Fraction(first) + number * Fraction(period))) < Fraction(1, 10**8)


@pytest.mark.parametrize("value", [-1, -1e-9, math.nan, math.inf, True, None, "1"])
def test_a_delay_that_cannot_work(value: Any) -> None:
    with pytest.raises(TimerInvalid, match="a delay is a number of seconds, 0 or more, not "):
        check_delay(value)


@pytest.mark.parametrize("value", [-1, 0, 1e-7, math.nan, math.inf, False, None, "1"])
def test_a_period_that_cannot_work(value: Any) -> None:
    with pytest.raises(TimerInvalid, match=r"a period is a number of seconds, at least 0\.000001, not "):
        check_period(value)


def test_delays_and_periods_that_work() -> None:
    for delay in (0, 0.0, 1, 1e9):
        check_delay(delay)
    for period in (SHORTEST_PERIOD, 1, 1e9):
        check_period(period)
