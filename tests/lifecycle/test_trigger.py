"""Triggers are pure: the same past and the same clock give the same answer, on a grid that does not drift."""

from __future__ import annotations

import math
import statistics

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from lifecycle import FixedDelay, FixedRate, Schedule
from lifecycle._trigger import Last, Now, Tick, offset

from ._schedules import Job, driven, virtual

periods = st.floats(min_value=0.001, max_value=1e6)
seconds = st.floats(min_value=0, max_value=1e6)


def grid(trigger: FixedRate, begun: float, number: int) -> float:
    return begun + trigger.initial_delay + number * trigger.period


@pytest.mark.row("runtime:R73")
@given(data=st.data(), period=periods, delay=seconds, begun=seconds, name=st.text(max_size=8))
def test_with_jitter_the_grid_does_not_drift_and_each_start_is_within_its_bound(
    data: st.DataObject, period: float, delay: float, begun: float, name: str
) -> None:
    jitter = data.draw(st.floats(min_value=0, max_value=period))
    trigger = FixedRate(period, delay, jitter)
    last = Last(Now(begun, 0))
    now = begun
    taken = 0
    for pause in data.draw(st.lists(st.floats(min_value=0, max_value=5), min_size=1, max_size=30)):
        now += pause * period
        look = trigger.look(last, Now(now, 0), name, 0)
        assert look == trigger.look(last, Now(now, 0), name, 3)  # pure, and it does not look at the runs
        assert look.upcoming == look.wake > now
        taken += look.due
        if look.due:
            assert look.tick is not None
            assert look.tick.number == taken - 1  # none is left out, none comes twice
            assert look.tick.time == grid(trigger, begun, look.tick.number)  # exactly: nothing adds up
            assert 0 <= look.expected - look.tick.time <= jitter * (1 + 1e-9) + 1e-9
            assert look.expected <= now
        last = Last(last.begun, look.tick)
        upcoming = grid(trigger, begun, taken)
        assert upcoming <= look.upcoming <= upcoming + jitter * (1 + 1e-9) + 1e-9


@given(period=periods, delay=seconds, begun=seconds, ahead=st.integers(min_value=0, max_value=10**9))
def test_however_late_a_look_is_it_counts_the_ticks_of_the_grid(
    period: float, delay: float, begun: float, ahead: int
) -> None:
    trigger = FixedRate(period, delay)
    now = grid(trigger, begun, ahead)
    look = trigger.look(Last(Now(begun, 0)), Now(now, 0), "job", 0)
    assert look.due == ahead + 1
    assert look.tick == Tick(ahead, now, begun + delay)


@pytest.mark.parametrize(("period", "number"), [(0.7, 87278), (0.3, 76064), (7.135750948009513, 263802)])
def test_a_tick_is_not_taken_a_hair_before_its_time(period: float, number: int) -> None:
    due = number * period  # the quotient rounds up where the product does
    early = FixedRate(period).look(Last(Now(0, 0)), Now(math.nextafter(due, 0), 0), "job", 0)
    assert (early.due, early.wake) == (number, due)


@pytest.mark.row("runtime:R73")
def test_jitter_is_the_same_each_time_and_spread_evenly_over_numbers_and_names() -> None:
    drawn = [offset("job", number, 2.0) for number in range(2000)]
    assert drawn == [offset("job", number, 2.0) for number in range(2000)]
    others = [offset(f"job {number}", 0, 2.0) for number in range(2000)]
    for sample in (drawn, others):
        assert all(0 <= value <= 2 for value in sample)
        assert statistics.mean(sample) == pytest.approx(1, abs=0.05)
        assert statistics.quantiles(sample, n=4) == pytest.approx([0.5, 1, 1.5], abs=0.1)
    assert offset("job", 5, 0.0) == 0


@pytest.mark.row("runtime:R73")
@virtual
async def test_jitter_delays_runs_within_its_bound_and_shifts_no_tick() -> None:
    job = Job()
    async with driven(Schedule("job", job, FixedRate(10, jitter=4))):
        await trio.sleep(1000)
    delays = [start - 10 * number for number, start in enumerate(job.starts)]
    assert len(delays) == 100
    assert all(0 <= delay <= 4 for delay in delays)
    assert max(delays) - min(delays) > 3
    assert delays == pytest.approx([offset("job", number, 4) for number in range(100)])


@pytest.mark.row("runtime:R59")
@given(period=periods, delay=seconds, begun=seconds, ended=seconds, jitter=st.floats(min_value=0, max_value=100))
def test_a_fixed_delay_is_due_a_period_after_the_last_end(
    period: float, delay: float, begun: float, ended: float, jitter: float
) -> None:
    trigger = FixedDelay(period, delay, jitter)
    first = trigger.look(Last(Now(begun, 0)), Now(begun, 0), "job", 0)
    assert begun + delay <= first.wake or first.due == 1
    tick = Tick(4, ended - 1)
    last = Last(Now(begun, 0), tick, ended)
    due = ended + period + offset("job", 5, jitter)
    assert trigger.look(last, Now(due, 0), "job", 0).due == 1
    early = trigger.look(last, Now(ended, 0), "job", 0)
    assert (early.due, early.wake, early.tick) == (0, due, tick)
    busy = trigger.look(last, Now(due + 1e9, 0), "job", 1)
    assert (busy.due, busy.wake) == (0, float("inf"))  # the end of the run is waited for
