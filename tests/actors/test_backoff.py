from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors._backoff import Backoff
from actors._errors import InvalidBackoff

BAD: list[tuple[dict[str, Any], str]] = [
    ({"initial": -0.1}, "initial"),
    ({"initial": math.nan}, "initial"),
    ({"initial": math.inf}, "initial"),
    ({"initial": True}, "initial"),
    ({"initial": "1"}, "initial"),
    ({"initial": None}, "initial"),
    ({"initial": 10**400}, "initial"),
    ({"initial": 2, "max": 1}, "max"),
    ({"initial": 100}, "max"),
    ({"initial": 1, "max": math.nan}, "max"),
    ({"initial": 1, "max": math.inf}, "max"),
    ({"initial": 1, "factor": 0.5}, "factor"),
    ({"initial": 1, "factor": math.inf}, "factor"),
    ({"initial": 1, "factor": False}, "factor"),
    ({"initial": 1, "jitter": -0.1}, "jitter"),
    ({"initial": 1, "jitter": 1.1}, "jitter"),
    ({"initial": 1, "jitter": math.nan}, "jitter"),
]


@st.composite
def backoffs(draw: st.DrawFn) -> Backoff:
    initial = draw(st.floats(0, 1e6) | st.integers(0, 1000))
    return Backoff(
        initial,
        max=initial + draw(st.floats(0, 1e300)),
        factor=draw(st.floats(1, 1e300) | st.integers(1, 1000)),
        jitter=draw(st.floats(0, 1)),
    )


@pytest.mark.parametrize(("fields", "name"), BAD, ids=repr)
def test_a_backoff_that_cannot_work_names_the_mistake(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidBackoff, match=f"^{name} is a number") as raised:
        Backoff(**fields)
    assert repr(fields.get(name, 60.0)) in str(raised.value)


def test_delays_grow_by_the_factor_up_to_the_maximum() -> None:
    backoff = Backoff(0.5, max=5, factor=3)
    rng = random.Random(0)
    assert [backoff.delay(attempt, rng) for attempt in range(1, 6)] == [0.5, 1.5, 4.5, 5.0, 5.0]


def test_attempts_count_from_one() -> None:
    with pytest.raises(ValueError, match="from 1"):
        Backoff(1).delay(0, random.Random(0))


def test_without_jitter_no_random_number_is_drawn() -> None:
    rng = random.Random(0)
    before = rng.getstate()
    Backoff(1).delay(3, rng)
    assert rng.getstate() == before


def test_jitter_uses_the_whole_range() -> None:
    rng = random.Random(0)
    backoff = Backoff(10, jitter=0.5)
    delays = [backoff.delay(1, rng) for _ in range(1000)]
    assert 5 <= min(delays) < 5.1
    assert 14.9 < max(delays) <= 15
    assert 9.8 < sum(delays) / len(delays) < 10.2


def test_the_maximum_holds_after_the_draw() -> None:
    rng = random.Random(0)
    backoff = Backoff(10, max=10, jitter=1)
    delays = [backoff.delay(1, rng) for _ in range(100)]
    assert max(delays) == 10
    assert min(delays) < 2


@given(backoffs(), st.integers(1, 30) | st.integers(1, 10**400), st.integers())
def test_every_delay_lies_in_its_range(backoff: Backoff, attempt: int, seed: int) -> None:
    base = Backoff(backoff.initial, backoff.max, backoff.factor).delay(attempt, random.Random(seed))
    delay = backoff.delay(attempt, random.Random(seed))
    assert math.isfinite(delay)
    assert min(backoff.initial, backoff.max) <= base <= backoff.max
    assert math.nextafter(base * (1 - backoff.jitter), 0) <= delay
    assert delay <= min(math.nextafter(base * (1 + backoff.jitter), math.inf), backoff.max)


@given(backoffs(), st.integers(1, 2000))
def test_without_jitter_delays_never_shrink(backoff: Backoff, attempt: int) -> None:
    steady = Backoff(backoff.initial, backoff.max, backoff.factor)
    rng = random.Random(0)
    assert steady.delay(attempt, rng) <= steady.delay(attempt + 1, rng)


@given(st.integers(1, 10**400))
def test_a_factor_of_one_stays_at_the_start(attempt: int) -> None:
    assert Backoff(0.25, factor=1).delay(attempt, random.Random(0)) == 0.25


@given(backoffs(), st.integers(1, 100), st.integers())
def test_a_seed_repeats_the_delay(backoff: Backoff, attempt: int, seed: int) -> None:
    assert backoff.delay(attempt, random.Random(seed)) == backoff.delay(attempt, random.Random(seed))
