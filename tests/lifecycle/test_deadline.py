"""The shutdown deadline: fixed once, then it only moves earlier."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifecycle import ContractViolation, ShutdownDeadline

times = st.floats(min_value=0, max_value=1e6)
calls = st.one_of(
    st.tuples(st.just("freeze"), times, st.one_of(times, st.just(inf))),
    st.tuples(st.just("tighten"), times, times),
    st.tuples(st.just("kill"), times, st.none()),
    st.tuples(st.just("expire"), times, st.none()),
)


def apply(deadline: ShutdownDeadline, call: tuple[str, float, float | None]) -> None:
    name, first, second = call
    if name == "freeze":
        assert second is not None
        deadline.freeze(first, second, name)
    elif name == "tighten":
        assert second is not None
        deadline.tighten(first, second)
    elif name == "kill":
        deadline.kill(first)
    else:
        deadline.expire(first)


def test_it_is_infinite_until_it_is_frozen() -> None:
    deadline = ShutdownDeadline()
    assert (deadline.work, deadline.end, deadline.reason, deadline.frozen) == (inf, inf, None, False)
    assert deadline.remaining(1e9) == inf
    assert not deadline.is_past_work(1e9)


@pytest.mark.parametrize(
    ("within", "kept"),
    [(30.0, 1.0), (10.0, 1.0), (5.0, 0.5), (1.0, 0.1), (0.0, 0.0), (-3.0, 0.0)],
)
def test_the_work_deadline_leaves_a_tenth_and_at_most_a_second_for_cleanup(within: float, kept: float) -> None:
    deadline = ShutdownDeadline()
    assert deadline.freeze(100.0, within, "signal")
    assert deadline.end == 100.0 + max(0.0, within)
    assert deadline.work == pytest.approx(deadline.end - kept)


def test_the_first_reason_and_the_first_end_stay_when_a_later_request_gives_more_time() -> None:
    deadline = ShutdownDeadline()
    assert deadline.freeze(0.0, 10.0, "signal")
    assert not deadline.freeze(1.0, 60.0, "internal")
    assert (deadline.reason, deadline.work, deadline.end) == ("signal", 9.0, 10.0)


def test_a_later_request_with_less_time_moves_both_earlier_and_keeps_the_reason() -> None:
    deadline = ShutdownDeadline()
    deadline.freeze(0.0, 60.0, "signal")
    assert not deadline.freeze(1.0, 4.0, "internal")
    assert deadline.reason == "signal"
    assert deadline.end == 5.0
    assert deadline.work == pytest.approx(4.6)


def test_kill_ends_work_now_and_leaves_cleanup_its_time() -> None:
    deadline = ShutdownDeadline()
    deadline.freeze(0.0, 10.0, "signal")
    assert deadline.kill(2.0)
    assert (deadline.work, deadline.end) == (2.0, 10.0)
    assert not deadline.is_past_end(2.0)


def test_what_a_kill_cut_short_did_not_time_out_but_what_reached_the_end_did() -> None:
    deadline = ShutdownDeadline()
    deadline.freeze(0.0, 10.0, "signal")
    assert not deadline.is_past_work(8.9)
    assert deadline.is_past_work(9.0)
    deadline.kill(2.0)
    assert not deadline.is_past_work(2.0)
    assert not deadline.is_past_work(9.5)
    assert deadline.is_past_work(10.0)
    late = ShutdownDeadline()
    late.freeze(0.0, 10.0, "signal")
    late.kill(9.5)
    assert late.is_past_work(9.5)


def test_a_deadline_that_follows_another_is_no_later_and_takes_over_a_kill() -> None:
    above, below = ShutdownDeadline(), ShutdownDeadline()
    below.freeze(0.0, 100.0, "part")
    above.freeze(0.0, 10.0, "signal")
    assert below.follow(above)
    assert (below.work, below.end, below.reason) == (9.0, 10.0, "part")
    above.kill(2.0)
    below.follow(above)
    assert (below.work, below.end) == (2.0, 10.0)
    assert not below.is_past_work(3.0)
    early = ShutdownDeadline()
    early.freeze(0.0, 1.0, "part")
    assert not early.follow(above)
    assert early.is_past_work(1.0)


def test_expire_ends_everything_now() -> None:
    deadline = ShutdownDeadline()
    deadline.freeze(0.0, 10.0, "signal")
    assert deadline.expire(3.0)
    assert (deadline.work, deadline.end) == (3.0, 3.0)
    assert deadline.remaining(3.0) == 0.0
    assert deadline.remaining(99.0) == 0.0


def test_a_part_may_be_bounded_before_anybody_asked_it_to_stop() -> None:
    deadline = ShutdownDeadline()
    assert deadline.tighten(4.0, 5.0)
    assert (deadline.work, deadline.end, deadline.frozen) == (4.0, 5.0, False)
    assert deadline.freeze(0.0, 30.0, "pre_stop")
    assert (deadline.work, deadline.end, deadline.reason) == (4.0, 5.0, "pre_stop")


def test_subscribers_are_called_after_each_move_and_only_then() -> None:
    deadline = ShutdownDeadline()
    seen: list[tuple[float, float]] = []
    unsubscribe = deadline.subscribe(lambda: seen.append((deadline.work, deadline.end)))
    deadline.freeze(0.0, 10.0, "signal")
    deadline.freeze(0.0, 20.0, "signal")
    deadline.kill(1.0)
    assert seen == [(9.0, 10.0), (1.0, 10.0)]
    unsubscribe()
    unsubscribe()
    deadline.expire(2.0)
    assert len(seen) == 2


def test_a_subscriber_may_move_the_deadline_again() -> None:
    deadline = ShutdownDeadline()
    deadline.subscribe(lambda: deadline.kill(3.0))
    deadline.freeze(0.0, 10.0, "signal")
    assert (deadline.work, deadline.end) == (3.0, 10.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d.freeze(nan, 1.0, "x"),
        lambda d: d.freeze(0.0, nan, "x"),
        lambda d: d.freeze(-inf, inf, "x"),
        lambda d: d.tighten(nan, 1.0),
        lambda d: d.kill(nan),
        lambda d: d.expire(nan),
    ],
)
def test_a_time_that_is_no_number_is_refused_and_changes_nothing(call: object) -> None:
    deadline = ShutdownDeadline()
    assert callable(call)
    with pytest.raises(ContractViolation):
        call(deadline)
    assert (deadline.work, deadline.end, deadline.frozen) == (inf, inf, False)


@given(st.lists(calls, max_size=20))
def test_whatever_is_called_both_only_move_earlier_and_work_is_never_after_the_end(
    sequence: list[tuple[str, float, float | None]],
) -> None:
    deadline = ShutdownDeadline()
    moves: list[None] = []
    deadline.subscribe(lambda: moves.append(None))
    work, end, reason = inf, inf, None
    for call in sequence:
        before = len(moves)
        apply(deadline, call)
        assert deadline.work <= work
        assert deadline.end <= end
        assert deadline.work <= deadline.end
        assert (len(moves) > before) == ((deadline.work, deadline.end) != (work, end))
        assert reason is None or deadline.reason == reason
        work, end, reason = deadline.work, deadline.end, deadline.reason


@given(st.lists(st.tuples(times, times), min_size=1, max_size=10))
def test_the_end_is_the_earliest_that_any_request_asked_for(requests: list[tuple[float, float]]) -> None:
    deadline = ShutdownDeadline()
    for now, within in requests:
        deadline.freeze(now, within, "signal")
    assert deadline.end == min(now + within for now, within in requests)
