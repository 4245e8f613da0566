"""The backlog: every tick ends up in one place, and no bound is ever passed."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lifecycle import MissedTicks, bounded_catch_up
from lifecycle._schedule_backlog import Backlog

policies = st.one_of(
    st.sampled_from(["skip", "coalesce_latest"]), st.builds(bounded_catch_up, st.integers(min_value=1, max_value=5))
)


def most_pending(missed: MissedTicks) -> int:
    return 0 if missed == "skip" else 1 if missed == "coalesce_latest" else missed.runs


class Machine(RuleBasedStateMachine):
    """Against a plain account of what has happened."""

    def __init__(self) -> None:
        super().__init__()
        self.backlog = Backlog(1, "skip")
        self.time = 0.0
        self.ticks = 0
        self.started = 0
        self.for_ticks = 0
        self.asked = 0
        self.dropped_asks = 0
        self.runs: deque[float] = deque()

    def start(self, due: float, for_tick: bool) -> None:
        if self.runs:
            self.overlapping += 1
        self.runs.append(due)
        self.for_ticks += for_tick

    overlapping = 0

    @rule(count=st.integers(min_value=1, max_value=12))
    def tick(self, count: int) -> None:
        self.time += 1
        self.ticks += count
        free = max(0, self.backlog.slots - self.backlog.active)
        starts = self.backlog.tick(count, self.time)
        assert starts == min(count, free)
        for _ in range(starts):
            self.start(self.time, True)

    @rule()
    def take(self) -> None:
        free = max(0, self.backlog.slots - self.backlog.active)
        wanted = self.backlog.pending + self.backlog.asked
        asked = self.backlog.asked
        due = self.backlog.take()
        assert len(due) == min(free, wanted)
        if asked and due:
            self.start(due.pop(0), False)
        assert due == sorted(due)
        for at in due:
            self.start(at, True)

    @precondition(lambda self: self.runs)
    @rule()
    def ended(self) -> None:
        self.runs.popleft()
        self.backlog.ended()

    @rule()
    def ask(self) -> None:
        self.time += 1
        before = self.backlog.asked
        free = self.backlog.active < self.backlog.slots
        assert self.backlog.ask(self.time) == ("already_queued" if before else "started" if free else "queued")
        assert self.backlog.asked

    @rule(slots=st.integers(min_value=1, max_value=4), missed=policies)
    def change(self, slots: int, missed: MissedTicks) -> None:
        self.backlog.change(slots, missed)

    @rule()
    def drop(self) -> None:
        self.backlog.drop()
        assert (self.backlog.pending, self.backlog.asked) == (0, False)

    @invariant()
    def every_tick_is_in_one_place(self) -> None:
        assert self.ticks == self.for_ticks + self.backlog.skips + self.backlog.pending

    @invariant()
    def no_bound_is_passed(self) -> None:
        assert 0 <= self.backlog.pending <= most_pending(self.backlog.missed)
        assert self.backlog.active == len(self.runs)
        assert self.backlog.overlaps == self.overlapping


TestBacklog = pytest.mark.row("runtime:R61")(Machine.TestCase)


@pytest.mark.row("runtime:R62")
@given(
    slots=st.integers(min_value=1, max_value=5),
    missed=policies,
    steps=st.lists(st.one_of(st.integers(min_value=1, max_value=9), st.none()), max_size=60),
)
def test_with_fixed_limits_the_active_runs_never_exceed_the_slots(
    slots: int, missed: MissedTicks, steps: list[int | None]
) -> None:
    backlog = Backlog(slots, missed)
    for step in steps:
        if step is not None:
            backlog.tick(step, 0.0)
        elif backlog.active:
            backlog.ended()
            backlog.take()
        assert backlog.active <= slots
        assert not (backlog.pending and backlog.active < slots)  # nothing waits beside a free slot


@pytest.mark.row("runtime:R61")
@given(batches=st.lists(st.integers(min_value=1, max_value=5), min_size=1, max_size=8), n=st.integers(1, 9))
def test_however_the_ticks_come_a_stuck_serial_job_leaves_the_same(batches: list[int], n: int) -> None:
    ticks = sum(batches)
    policies: list[tuple[MissedTicks, int]] = [
        ("skip", 0),
        ("coalesce_latest", 1),
        (bounded_catch_up(n), min(n, ticks)),
    ]
    for missed, extra in policies:
        backlog = Backlog(1, missed)
        assert backlog.tick(1, 0.0) == 1
        for number, count in enumerate(batches, 1):
            assert backlog.tick(count, float(number)) == 0
        assert (backlog.pending, backlog.skips) == (extra, ticks - extra)
        if missed == "coalesce_latest":
            backlog.ended()
            assert backlog.take() == [float(len(batches))]  # for the latest


def test_a_slot_cannot_be_given_back_twice() -> None:
    backlog = Backlog(1, "skip")
    backlog.tick(1, 0.0)
    backlog.ended()
    with pytest.raises(AssertionError):
        backlog.ended()
