"""The admission policy of lanes against the rules as they are written down, on random histories."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifecycle import LanePolicy, Lanes, LaneSettings, LaneSettingsInvalid
from lifecycle._lane_admission import LaneAdmission, LaneRule, LaneShare, LaneTicket


@st.composite
def systems(draw: st.DrawFn) -> tuple[int, list[LaneRule]]:
    capacity = draw(st.integers(3, 6))
    left = capacity
    rules: list[LaneRule] = []
    for _ in range(3):
        reserved = draw(st.integers(0, min(left, 2)))
        left -= reserved
        limit = draw(st.integers(max(reserved, 1), capacity))
        rules.append(LaneRule(limit=limit, depth=draw(st.integers(1, 4)), reserved=reserved))
    return capacity, rules


def may_start(admission: LaneAdmission, share: LaneShare) -> bool:
    """The rule for a newcomer of a lane, in its own words: below capacity and ceiling, and more slots free than the
    other lanes with waiters lack of their reservations."""
    free = admission.capacity - admission.running
    lacking = sum(
        max(0, other.reserved - other.running) for other in admission.shares if other is not share and other.queue
    )
    return free > lacking and share.running < share.limit


def next_waiter(admission: LaneAdmission) -> LaneTicket | None:
    """Who gets the next slot: of lanes below their reservation, or else of all, who came first."""
    heads = [(share, next(iter(share.queue))) for share in admission.shares if share.queue]
    heads = [(share, head) for share, head in heads if share.running < share.limit]
    below = [(share, head) for share, head in heads if share.running < share.reserved]
    return min((head for _, head in below or heads), key=lambda head: head.arrival, default=None)


class History:
    """Drives one admission at random and checks every step."""

    def __init__(self, capacity: int, rules: list[LaneRule], seed: int) -> None:
        self.admission = LaneAdmission(capacity, rules)
        self.rules = rules
        self.random = random.Random(seed)
        self.now = 0.0
        self.tickets: list[LaneTicket] = []

    def step(self) -> None:
        self.now += 1.0
        steps: list[Callable[[], None]] = [self.offer, self.offer, self.leave]
        self.random.choice(steps)()
        self.check()

    def offer(self) -> None:
        ticket = LaneTicket(self.random.randrange(3))
        share = self.admission.shares[ticket.lane]
        overflow = self.random.random() < 0.2
        expected = may_start(self.admission, share) and not share.queue
        full = len(share.queue) >= share.depth
        place = self.admission.offer(ticket, self.now, overflow=overflow)
        otherwise = ("overflow" if overflow else "outside") if full else "queued"
        assert place == ticket.place == ("holding" if expected else otherwise)
        if place != "outside":
            self.tickets.append(ticket)

    def leave(self) -> None:
        if not self.tickets:
            return
        ticket = self.tickets.pop(self.random.randrange(len(self.tickets)))
        held = ticket.place == "holding"
        before = {other: other.place for other in self.tickets}
        granted = self.admission.leave(ticket)
        moved = [other for other in self.tickets if before[other] != "holding" and other.place == "holding"]
        assert moved == ([] if granted is None else [granted])
        assert granted is None or held
        assert self.admission.leave(ticket) is None  # again: nothing to give back

    def check(self) -> None:
        admission = self.admission
        assert admission.running == sum(share.running for share in admission.shares) <= admission.capacity
        for number, share in enumerate(admission.shares):
            own = [ticket for ticket in self.tickets if ticket.lane == number]
            places = [[t for t in own if t.place == place] for place in ("holding", "queued", "overflow")]
            assert share.running == len(places[0]) <= share.limit
            assert list(share.queue) == places[1]  # in the order in which they came
            assert list(share.overflow) == places[2]
            assert len(places[1]) <= share.depth
            assert not places[2] or len(places[1]) == share.depth
            if share.queue:
                assert share.running == share.limit or admission.running == admission.capacity  # nobody waits in vain
                assert share.oldest_wait(self.now) == self.now - places[1][0].since
            else:
                assert share.oldest_wait(self.now) == 0.0
            assert share.borrowed == max(0, share.running - share.reserved)


@given(system=systems(), seed=st.integers(0, 2**32))
def test_every_step_of_a_random_history_follows_the_rules(system: tuple[int, list[LaneRule]], seed: int) -> None:
    history = History(*system, seed)
    for _ in range(80):
        history.step()


@pytest.mark.row("runtime:R75")
@pytest.mark.row("runtime:R76")
@pytest.mark.row("runtime:R77")
@given(system=systems(), seed=st.integers(0, 2**32))
def test_a_slot_that_becomes_free_goes_to_the_one_waiter_who_is_next(
    system: tuple[int, list[LaneRule]], seed: int
) -> None:
    history = History(*system, seed)
    for _ in range(60):
        history.step()
    admission = history.admission
    rng = random.Random(seed)
    while admission.running:
        holders = [ticket for ticket in history.tickets if ticket.place == "holding"]
        leaver = rng.choice(holders)
        share = admission.shares[leaver.lane]
        # As it is when the slot is free and has not been given on.
        share.running -= 1
        expected = next_waiter(admission)
        share.running += 1
        assert admission.leave(leaver) is expected
        history.tickets.remove(leaver)
        history.check()
    assert all(share.waiting == 0 for share in admission.shares)


def test_a_newcomer_may_pass_the_waiters_of_a_lane_that_is_at_its_ceiling() -> None:
    admission = LaneAdmission(4, [LaneRule(1, 4, 1), LaneRule(4, 4, 1)])
    first, waits, other = LaneTicket(0), LaneTicket(0), LaneTicket(1)
    assert [admission.offer(ticket, 0.0) for ticket in (first, waits, other)] == ["holding", "queued", "holding"]


@pytest.mark.row("runtime:R75")
def test_borrowed_slots_are_not_taken_back_and_protection_begins_with_a_waiter() -> None:
    admission = LaneAdmission(3, [LaneRule(3, 4, 1), LaneRule(3, 4, 1), LaneRule(3, 4, 1)])
    lent = [LaneTicket(0) for _ in range(3)]
    assert [admission.offer(ticket, 0.0) for ticket in lent] == ["holding"] * 3  # idle capacity is anybody's
    more, one, two = LaneTicket(0), LaneTicket(1), LaneTicket(2)
    assert [admission.offer(ticket, 1.0) for ticket in (more, two, one)] == ["queued"] * 3
    assert [ticket.place for ticket in lent] == ["holding"] * 3
    assert [admission.leave(ticket) for ticket in lent] == [two, one, more]


def test_who_waits_for_room_in_the_queue_comes_before_those_who_come_later() -> None:
    admission = LaneAdmission(1, [LaneRule(1, 1, 1)])
    holds, queued, lease, late = (LaneTicket(0) for _ in range(4))
    admission.offer(holds, 0.0)
    admission.offer(queued, 0.0)
    assert admission.offer(lease, 0.0, overflow=True) == "overflow"
    assert admission.offer(late, 0.0) == "outside"
    admission.leave(queued)
    assert lease.place == "queued"
    assert admission.offer(late, 0.0) == "outside"
    assert admission.leave(holds) is lease


# ---------------------------------------------------------------- settings


@pytest.mark.row("runtime:R1")
@pytest.mark.parametrize(
    ("parallelism", "capacity", "lanes", "queues"),
    [
        (0, 4, (4, 2, 2), (16, 8, 8)),
        (1, 4, (4, 2, 2), (16, 8, 8)),
        (2, 8, (8, 4, 2), (32, 16, 8)),
        (32, 128, (128, 64, 32), (512, 256, 128)),
        (10**9, 512, (512, 256, 128), (2048, 1024, 512)),
    ],
)
def test_the_limits_follow_from_the_parallelism(
    parallelism: int, capacity: int, lanes: tuple[int, ...], queues: tuple[int, ...]
) -> None:
    found = LaneSettings.for_parallelism(parallelism)
    policies = (found.storage_io, found.metadata_io, found.cpu)
    assert found.capacity == capacity
    assert tuple(policy.max_concurrency for policy in policies) == lanes
    assert tuple(policy.max_queue for policy in policies) == queues
    assert found.mistakes() == ()
    assert found.spare_threads == max(2, capacity // 8)


def test_every_mistake_is_named_at_once() -> None:
    bad = LanePolicy(0, 0, queue_timeout=0, task_timeout=float("inf"), warn_after=-1, reserved=-1)
    settings = LaneSettings(capacity=2, cpu=bad, headroom=0, dedicated_threads=-1)
    with pytest.raises(LaneSettingsInvalid) as caught:
        Lanes(settings)
    fields = [mistake.split()[0] for mistake in caught.value.mistakes]
    assert fields == [
        "capacity",
        "storage_io.max_concurrency",
        "metadata_io.max_concurrency",
        *(f"cpu.{field}" for field in ("max_concurrency", "max_queue")),
        *(f"cpu.{field}" for field in ("queue_timeout", "task_timeout", "warn_after", "reserved")),
        "headroom",
        "dedicated_threads",
    ]
    assert all(mistake in str(caught.value) for mistake in caught.value.mistakes)


def test_the_lanes_reserve_no_more_than_there_is() -> None:
    assert LaneSettings.uniform(LanePolicy(max_concurrency=3, reserved=2), 6).mistakes() == ()
    (mistake,) = LaneSettings.uniform(LanePolicy(max_concurrency=3, reserved=2), 5).mistakes()
    assert "reserve" in mistake
