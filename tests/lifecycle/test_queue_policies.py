"""Budgeted queues: the policies that drop or replace."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from lifecycle import (
    Budget,
    BudgetedQueue,
    BudgetExhausted,
    Pushed,
    QueueClosed,
    Rate,
    Reserve,
    close_slow_consumer,
    coalesce,
    coalesce_latest,
    drop_stale,
)

from ._budgets import Clock, held, state
from .test_queue import key_of, pop_all, queue_of, rejected

# ---------------------------------------------------------------- coalesce


@pytest.mark.row("runtime:R102")
def test_when_its_own_budget_is_full_the_newest_takes_the_place_of_all() -> None:
    root = Budget.root("root", clock=Clock())
    budget = root.child("queue", count=3, bytes=10)
    queue = queue_of(budget, coalesce_latest())
    for item in ("a", "b", "c"):
        assert queue.try_push(item) == Pushed("enqueued")
    assert queue.try_push("dd") == Pushed("coalesced", 3)  # by count
    assert held(root) == (1, 2)
    assert queue.try_push("123456789") == Pushed("coalesced", 1)  # by bytes
    assert held(root) == (1, 9)
    shot = queue.snapshot()
    assert (shot.depth, shot.coalesced_count, shot.rejected_count, shot.pushed_count) == (1, 4, 0, 5)
    assert budget.snapshot().coalesced_count == 4
    assert pop_all(queue) == ["123456789"]
    assert held(root) == (0, 0)


def full(root: Budget, **limits: Any) -> BudgetedQueue[str]:
    """A queue that holds a, b and c, and no more by its own budget."""
    queue = queue_of(root.child("queue", count=3, bytes=10, **limits), coalesce_latest())
    for item in "abc":
        assert queue.try_push(item)
    return queue


def refuse(queue: BudgetedQueue[str], item: str, exhausted: str, dimension: str, pending: list[str]) -> None:
    """A push is refused, and all that is queued stays."""
    before = queue.snapshot()
    refusal = rejected(queue.try_push(item))
    assert refusal.item is item
    assert isinstance(refusal.error, BudgetExhausted)
    assert (refusal.error.exhausted, refusal.error.dimension) == (exhausted, dimension)
    shot = queue.snapshot()
    assert (shot.reserved_count, shot.retained_bytes) == (before.reserved_count, before.retained_bytes)
    assert (shot.coalesced_count, shot.dropped_count) == (before.coalesced_count, before.dropped_count)
    assert shot.rejected_count == before.rejected_count + 1
    assert pop_all(queue) == pending


@pytest.mark.row("runtime:R102")
def test_a_full_budget_above_or_an_item_that_is_too_big_leaves_what_is_queued() -> None:
    root = Budget.root("root", count=4, bytes=20, clock=Clock())
    queue = full(root)
    with root.reserve():
        refuse(queue, "d", "root", "count", ["a", "b", "c"])
    for item, exhausted in [("12345678901", "root/queue"), ("123456789012345678901", "root")]:
        for old in "abc":
            queue.try_push(old)
        refuse(queue, item, exhausted, "bytes", ["a", "b", "c"])
    assert held(root) == (0, 0)


@pytest.mark.row("runtime:R102")
def test_when_even_the_room_of_all_is_not_enough_nothing_is_lost() -> None:
    clock = Clock()
    # Held by items that were taken out: all of the count, or some of the bytes.
    queue = full(Budget.root("root", clock=clock))
    taken = [queue.try_recv_budgeted() for _ in range(3)]
    refuse(queue, "d", "root/queue", "count", [])
    assert taken.pop() is not None
    queue = queue_of(Budget.root("root", bytes=10, clock=clock), coalesce_latest())
    queue.try_push("12345")
    one = queue.try_recv_budgeted()
    queue.try_push("123")
    refuse(queue, "123456", "root", "bytes", ["123"])
    assert one is not None
    # The count is what refuses first; once that is out of the way, there is no token.
    queue = full(Budget.root("root", clock=clock), rate=Rate(1, 3))
    refuse(queue, "d", "root/queue", "rate", ["a", "b", "c"])
    assert queue.snapshot().throttled_count == 1
    # The same above: it has room for the item, but no token for it.
    queue = full(Budget.root("root", rate=Rate(1, 3), clock=clock))
    refuse(queue, "d", "root", "rate", ["a", "b", "c"])


@pytest.mark.row("runtime:R102")
def test_data_does_not_replace_what_would_leave_it_no_room() -> None:
    # Control items hold the reserve; without them there is still no more than its share for data.
    budget = Budget.root("root", bytes=10, control_reserve=Reserve(bytes=6), clock=Clock())
    queue = queue_of(budget, coalesce_latest())
    queue.try_push("12345678", control=True)
    refuse(queue, "12345", "root", "bytes", ["12345678"])
    queue.try_push("12345678", control=True)
    assert queue.try_push("1234") == Pushed("coalesced", 1)
    assert state(budget)[0][:3] == (1, 4, 0)


def test_a_newer_item_takes_the_place_of_the_one_with_its_key() -> None:
    root = Budget.root("root", clock=Clock())
    budget = root.child("queue", count=3, bytes=8)
    queue = queue_of(budget, coalesce(key_of))
    for item in ("a1", "b1", "c1"):
        assert queue.try_push(item) == Pushed("enqueued")
    assert queue.try_push("b22") == Pushed("coalesced", 1)
    assert queue.try_push("a2") == Pushed("coalesced", 1)
    assert held(budget) == (3, 7)
    refusal = rejected(queue.try_push("d1"))
    assert refusal.item == "d1"
    assert not queue.try_push("c1234")  # more bytes than there are, with the old one gone
    assert queue.try_push("c23") == Pushed("coalesced", 1)
    assert queue.try_recv() == "a2"
    assert queue.try_push("a3") == Pushed("enqueued")
    assert pop_all(queue) == ["b22", "c23", "a3"]
    assert (held(root), queue.snapshot().coalesced_count, budget.snapshot().coalesced_count) == ((0, 0), 3, 3)


def test_a_replacement_needs_no_more_than_the_difference_above() -> None:
    root = Budget.root("root", count=2, bytes=6, clock=Clock())
    queue = queue_of(root.child("queue"), coalesce(key_of))
    queue.try_push("a12")
    with root.reserve(2):  # the root is full
        assert queue.try_push("a13") == Pushed("coalesced", 1)
        assert queue.try_push("a134") == Pushed("coalesced", 1)
        assert not queue.try_push("a1345")
    assert pop_all(queue) == ["a134"]
    assert held(root) == (0, 0)


@pytest.mark.parametrize("policy", [coalesce(key_of), coalesce_latest(), drop_stale(5), close_slow_consumer(5)])
async def test_the_room_that_a_policy_makes_goes_to_those_that_wait(autojump_clock: MockClock, policy: Any) -> None:
    root = Budget.root("root", bytes=8)
    queue = queue_of(root.child("queue", count=2), policy)
    queue.try_push("a23")
    queue.try_push("b234")
    async with trio.open_nursery() as nursery:

        async def acquire() -> None:
            (await root.acquire(3)).release()

        nursery.start_soon(acquire)
        await wait_all_tasks_blocked()
        assert root.snapshot().waiting == 1
        await trio.sleep(6)
        queue.try_push("a")
        assert root.snapshot().waiting == 0


@given(st.lists(st.one_of(st.sampled_from(["pop", "retain", "clear"]), st.text("abc", min_size=1, max_size=3))))
def test_coalescing_by_key_is_a_dictionary_in_order(steps: list[str]) -> None:
    budget = Budget.root("root", count=3, clock=Clock())
    queue = queue_of(budget, coalesce(key_of))
    model: dict[str, str] = {}
    for step in steps:
        if step == "pop":
            item = queue.try_recv()
            assert item == (model.pop(next(iter(model))) if model else None)
        elif step == "retain":
            queue.retain(lambda item: len(item) < 3)
            model = {key: item for key, item in model.items() if len(item) < 3}
        elif step == "clear":
            queue.clear()
            model.clear()
        else:
            assert queue.try_push(step).__bool__()
            model[step[0]] = step
        assert held(budget) == (len(model), sum(map(len, model.values())))
    assert pop_all(queue) == list(model.values())


def test_keys_of_items_that_are_gone_are_forgotten() -> None:
    queue: BudgetedQueue[int] = BudgetedQueue(Budget.root("root", clock=Clock()), policy=coalesce(lambda item: item))
    for number in range(5000):
        queue.try_push(number)
        assert queue.try_recv() == number
    assert queue.try_push(17) == Pushed("enqueued")
    assert queue._keys is not None  # pyright: ignore[reportPrivateUsage]
    assert len(queue._keys[1]) < 200  # pyright: ignore[reportPrivateUsage]


# ---------------------------------------------------------------- drop stale


@pytest.mark.row("runtime:R103")
async def test_what_is_as_old_as_the_age_is_dropped_on_push_and_on_receive(autojump_clock: MockClock) -> None:
    root = Budget.root("root", max_age=5)
    budget = root.child("queue", count=2)
    queue = queue_of(budget, drop_stale())
    queue.try_push("a")
    await trio.sleep(1)
    queue.try_push("b")
    await trio.sleep(3.9)
    refusal = rejected(queue.try_push("c"))  # full of fresh ones
    assert isinstance(refusal.error, BudgetExhausted)
    await trio.sleep(0.1)  # a is 5 seconds old now
    assert queue.try_push("c") == Pushed("dropped_stale", 1)
    assert held(budget) == (2, 2)
    await trio.sleep(1)
    assert await queue.recv() == "c"  # b is 5 seconds old
    queue.try_push("d")
    await trio.sleep(5)
    assert queue.try_recv() is None
    assert (queue.snapshot().dropped_count, budget.snapshot().dropped_count, held(root)) == (3, 3, (0, 0))
    queue.try_push("e")
    await trio.sleep(5)
    assert queue.snapshot().oldest_age == 5  # nobody looked
    assert (queue.sweep(), queue.sweep(), held(root)) == (1, 0, (0, 0))
    assert not queue.closed


@pytest.mark.row("runtime:R103")
async def test_a_consumer_that_finds_only_stale_items_waits_for_a_fresh_one(autojump_clock: MockClock) -> None:
    queue = queue_of(Budget.root("root"), drop_stale(5))
    queue.try_push("stale")
    await trio.sleep(6)
    async with trio.open_nursery() as nursery:

        async def later() -> None:
            await trio.sleep(1)
            queue.try_push("fresh")

        nursery.start_soon(later)
        assert await queue.recv() == "fresh"
    assert trio.current_time() == 7


# ---------------------------------------------------------------- close the slow consumer


@pytest.mark.row("runtime:R103")
def test_a_slow_consumer_is_closed_when_its_own_budget_is_full() -> None:
    root = Budget.root("root", clock=Clock())
    budget = root.child("queue", count=2)
    queue = queue_of(budget, close_slow_consumer())
    queue.try_push("a")
    queue.try_push("b")
    refusal = rejected(queue.try_push("c"))
    assert refusal.item == "c"
    assert isinstance(refusal.error, QueueClosed)
    assert refusal.error.slow_consumer
    assert "too slow" in str(refusal.error)
    later = rejected(queue.try_push("d")).error
    assert isinstance(later, QueueClosed)
    assert later.slow_consumer
    assert (queue.closed, queue.try_recv(), len(queue), held(root)) == (True, None, 0, (0, 0))
    shot = queue.snapshot()
    assert (shot.dropped_count, shot.closed_slow_consumer_count, shot.closed) == (2, 1, True)
    assert (budget.snapshot().dropped_count, budget.snapshot().closed_slow_consumer_count) == (2, 1)


@pytest.mark.row("runtime:R103")
@pytest.mark.parametrize("by", ["push", "try_recv", "recv", "sweep"])
async def test_a_slow_consumer_is_closed_when_its_oldest_item_has_come_of_age(
    autojump_clock: MockClock, by: str
) -> None:
    budget = Budget.root("root")
    queue = queue_of(budget, close_slow_consumer(5))
    queue.try_push("a")
    await trio.sleep(4.5)
    queue.try_push("b")
    await trio.sleep(0.25)
    assert (queue.sweep(), queue.closed) == (0, False)
    await trio.sleep(0.25)  # exactly 5 seconds
    if by == "push":
        error = rejected(queue.try_push("c")).error
        assert isinstance(error, QueueClosed)
        assert error.slow_consumer
    elif by == "sweep":
        assert queue.sweep() == 2
    else:
        assert (queue.try_recv() if by == "try_recv" else await queue.recv()) is None
    assert (queue.closed, held(budget), queue.snapshot().closed_slow_consumer_count) == (True, (0, 0), 1)


@pytest.mark.row("runtime:R103")
def test_what_is_full_above_or_out_of_tokens_or_too_big_closes_nobody() -> None:
    clock = Clock()
    root = Budget.root("root", count=3, bytes=100, clock=clock)
    queue = queue_of(root.child("queue", count=3, bytes=10, rate=Rate(1, 2)), close_slow_consumer(5))
    queue.try_push("a")
    with root.reserve(count=2):  # a noisy neighbour
        refuse_open(queue, "root", "count")
    with root.reserve(99):
        refuse_open(queue, "root", "bytes")
    refuse_open(queue, "root/queue", "bytes", "12345678901")
    queue.try_push("b")
    refuse_open(queue, "root/queue", "rate")
    assert pop_all(queue) == ["a", "b"]


def refuse_open(queue: BudgetedQueue[str], exhausted: str, dimension: str, item: str = "x") -> None:
    error = rejected(queue.try_push(item)).error
    assert isinstance(error, BudgetExhausted)
    assert (error.exhausted, error.dimension) == (exhausted, dimension)
    assert not queue.closed


@pytest.mark.row("runtime:R103")
def test_a_closing_queue_leaves_the_items_that_were_taken_out() -> None:
    budget = Budget.root("root", count=2, clock=Clock())
    queue = queue_of(budget, close_slow_consumer())
    queue.try_push("a")
    queue.try_push("b")
    taken = queue.try_recv_budgeted()
    assert not queue.try_push("c")
    assert (queue.closed, held(budget)) == (True, (1, 1))
    assert taken is not None
    taken.close()
    assert held(budget) == (0, 0)
