"""Budgeted queues: accounting, rejection, closing, receiving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lifecycle import (
    AmountInvalid,
    Budget,
    BudgetClosed,
    BudgetedItem,
    BudgetedQueue,
    BudgetExhausted,
    ContractViolation,
    DifferentTree,
    PermitSpent,
    Pushed,
    QueueClosed,
    QueueInvalid,
    QueueSnapshot,
    Rate,
    Rejected,
    Reserve,
    Wait,
    close_slow_consumer,
    coalesce,
    coalesce_latest,
    drop_stale,
)

from ._budgets import Clock, held, state

if TYPE_CHECKING:
    from lifecycle import QueuePolicy


def key_of(item: str) -> str:
    return item[0]


POLICIES: list[Any] = [
    "reject", "wait", Wait(rate=False), coalesce(key_of), coalesce_latest(), drop_stale(10), close_slow_consumer(10),
]  # fmt: skip


def queue_of(budget: Budget, policy: QueuePolicy = "reject") -> BudgetedQueue[str]:
    return BudgetedQueue(budget, policy=policy, size=len)


def pop_all(queue: BudgetedQueue[str]) -> list[str]:
    return list(iter(queue.try_recv, None))


def rejected(result: Pushed | Rejected[Any]) -> Rejected[Any]:
    assert isinstance(result, Rejected)
    assert not result
    return result


# ---------------------------------------------------------------- reject


@pytest.mark.row("runtime:R99")
def test_at_twice_the_load_depth_and_bytes_are_bounded_and_aged_items_are_kept() -> None:
    clock = Clock()
    budget = Budget.root("root", clock=clock).child("queue", count=8, bytes=30, max_age=5)
    queue = queue_of(budget)
    accepted: list[str] = []
    for number in range(16):
        item = f"{number:05}"
        result = queue.try_push(item)
        if result:
            assert result == Pushed("enqueued", 0)
            accepted.append(item)
        else:
            refusal = rejected(result)
            assert refusal.item is item
            assert isinstance(refusal.error, BudgetExhausted)
            assert (refusal.error.dimension, refusal.error.item) == ("bytes", item)
        shot = queue.snapshot()
        assert shot.depth <= 6
        assert shot.retained_bytes <= 30
        clock.now += 100  # far beyond max_age, of which this policy knows nothing
    assert len(accepted) == 6
    shot = queue.snapshot()
    assert (shot.rejected_count, shot.dropped_count, shot.throttled_count, shot.closed) == (10, 0, 0, False)
    assert shot.oldest_age == 1600
    assert pop_all(queue) == accepted
    assert held(budget) == (0, 0)
    # By count.
    tight: BudgetedQueue[int] = BudgetedQueue(budget.child("tight", count=2))
    outcomes = [bool(tight.try_push(number)) for number in range(4)]
    assert outcomes == [True, True, False, False]
    assert tight.snapshot().rejected_count == 2


@pytest.mark.parametrize("policy", POLICIES)
async def test_items_come_out_in_the_order_in_which_they_went_in(policy: Any) -> None:
    queue = queue_of(Budget.root("root", clock=Clock()), policy)
    items = list("abcdefgh")
    for item in items[:4]:
        queue.try_push(item, control=item == "c")
    for item in items[4:]:
        await queue.push(item, control=item == "f")
    assert len(queue) == 8
    assert [await queue.recv() for _ in range(4)] == items[:4]
    assert pop_all(queue) == items[4:]
    assert queue.try_recv() is queue.try_recv_budgeted() is None
    assert queue.snapshot().pushed_count == queue.snapshot().received_count == 8


async def test_a_refused_push_raises_with_the_item() -> None:
    queue = queue_of(Budget.root("root", count=1))
    await queue.push("first")
    with pytest.raises(BudgetExhausted) as caught:
        await queue.push("second")
    assert (caught.value.item, caught.value.policy) == ("second", "reject")
    assert pop_all(queue) == ["first"]


def test_control_items_may_use_the_reserve() -> None:
    budget = Budget.root("root", count=2, control_reserve=Reserve(count=1), clock=Clock())
    queue = queue_of(budget)
    assert queue.try_push("data")
    assert not queue.try_push("more")
    assert queue.try_push("stop", control=True)
    assert budget.snapshot().control_count == 1
    assert pop_all(queue) == ["data", "stop"]
    assert state(budget) == [(0, 0, 0, 2)]


def test_what_cannot_be_an_item_is_refused() -> None:
    budget = Budget.root("root", clock=Clock())
    queue: BudgetedQueue[Any] = BudgetedQueue(budget)
    with pytest.raises(QueueInvalid, match="None"):
        queue.try_push(None)
    negative: BudgetedQueue[str] = BudgetedQueue(budget, size=lambda _: -1)
    with pytest.raises(AmountInvalid):
        negative.try_push("a")
    assert state(budget) == [(0, 0, 0, 0)]


# ---------------------------------------------------------------- the charge


@pytest.mark.row("runtime:R104")
@pytest.mark.parametrize("waits", [False, True])
async def test_recv_releases_at_once_and_recv_budgeted_keeps_until_released(waits: bool) -> None:
    budget = Budget.root("root").child("queue", count=3)
    queue = queue_of(budget)
    assert queue.try_push("abc")
    assert held(budget) == (1, 3)
    assert (await queue.recv() if waits else queue.try_recv()) == "abc"
    assert held(budget) == (0, 0)
    queue.try_push("abcd")
    item = await queue.recv_budgeted() if waits else queue.try_recv_budgeted()
    assert item is not None
    assert item.item == "abcd"
    assert (queue.snapshot().depth, queue.snapshot().reserved_count, queue.snapshot().retained_bytes) == (0, 1, 4)
    with item:
        assert held(budget) == (1, 4)
    assert held(budget) == (0, 0)
    item.close()
    queue.try_push("x")
    item = queue.try_recv_budgeted()
    assert item is not None
    item.permit.promote()
    assert item.into_item() == "x"
    assert state(budget) == [(0, 0, 0, 3)]


@pytest.mark.row("runtime:R104")
def test_into_parts_moves_the_charge() -> None:
    clock = Clock()
    root = Budget.root("root", clock=clock)
    budget = root.child("queue")
    queue = queue_of(budget)
    queue.try_push("abc", control=True)
    clock.now += 5
    taken = queue.try_recv_budgeted()
    assert taken is not None
    assert taken.enqueued_at == 100
    with taken:
        item, permit, since = taken.into_parts()
    assert (item, since, permit.bytes, permit.control, permit.path) == ("abc", 100, 3, True, "root/queue")
    taken.close()
    assert taken.into_item() == "abc"
    assert held(budget) == (1, 3)
    permit.rebind(root)
    assert (held(budget), held(root)) == ((0, 0), (1, 3))
    permit.release()
    assert held(root) == (0, 0)


@pytest.mark.row("runtime:R104")
@pytest.mark.parametrize("keeps", [False, True])
async def test_an_item_that_is_handed_to_a_task_is_charged_likewise(keeps: bool) -> None:
    budget = Budget.root("root").child("queue", count=1)
    queue = queue_of(budget)
    got: list[str | BudgetedItem[str] | None] = []

    async def receive() -> None:
        got.append(await (queue.recv_budgeted() if keeps else queue.recv()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await wait_all_tasks_blocked()
        assert queue.try_push("abc")
        assert held(budget) == ((1, 3) if keeps else (0, 0))
        assert bool(queue.try_push("abc")) is not keeps
    if keeps:
        assert isinstance(got[0], BudgetedItem)
        got[0].close()
    else:
        assert got == ["abc"]
        assert queue.try_recv() == "abc"
    assert held(budget) == (0, 0)


@pytest.mark.row("runtime:R105")
@pytest.mark.parametrize("policy", POLICIES)
def test_a_budgeted_push_charges_what_lies_above_both_once(policy: Any) -> None:
    root = Budget.root("root", count=1, bytes=100, clock=Clock())
    source = root.child("source")
    budget = root.child("queue", bytes=50)
    queue = queue_of(budget, policy)
    permit = source.reserve(40)
    before = state(root)
    with permit:
        assert queue.try_push_budgeted("abc", permit) == Pushed("enqueued")
        assert not permit.held
        assert state(root) == before
    assert (held(source), held(budget), state(root)) == ((0, 0), (1, 40), before)
    taken = queue.try_recv_budgeted()
    assert taken is not None
    item, moved, _ = taken.into_parts()
    assert (item, moved.count, moved.bytes) == ("abc", 1, 40)
    moved.rebind(source)  # and on to the next
    assert (held(source), held(budget), state(root)) == ((1, 40), (0, 0), before)
    moved.release()


@pytest.mark.row("runtime:R105")
@pytest.mark.parametrize("policy", POLICIES)
def test_a_foreign_permit_and_a_refused_one_stay_as_they_are(policy: Any) -> None:
    clock = Clock()
    root = Budget.root("root", clock=clock)
    key = root.key("tenant", count=4)
    budget = key.budget.child("queue", count=2)
    queue = queue_of(budget, policy)
    queue.try_push("kept")
    foreign = Budget.root("root").reserve(3)
    with pytest.raises(DifferentTree):
        queue.try_push_budgeted("abc", foreign)
    assert (foreign.held, foreign.path, foreign.count, foreign.bytes) == (True, "root", 1, 3)
    permit = root.reserve(3, count=3)  # more than can ever fit
    refusal = rejected(queue.try_push_budgeted("abc", permit))
    assert refusal.item == "abc"
    assert isinstance(refusal.error, BudgetExhausted)
    assert (refusal.error.exhausted, refusal.error.never_fits) == (budget.path, True)
    assert (permit.held, permit.path, permit.count) == (True, "root", 3)
    # A closed budget destroys nothing, whatever the policy, even if all is stale and full.
    with budget.reserve():
        key.close()
        clock.now += 100
        refusal = rejected(queue.try_push_budgeted("key", permit))
        assert isinstance(refusal.error, BudgetClosed)
        assert isinstance(rejected(queue.try_push("key")).error, BudgetClosed)
    assert (permit.held, len(queue), queue.closed, queue.snapshot().dropped_count) == (True, 1, False, 0)
    permit.release()
    with pytest.raises(PermitSpent):
        queue.try_push_budgeted("abc", permit)


def test_a_budgeted_push_follows_the_policy() -> None:
    clock = Clock()
    root = Budget.root("root", clock=clock)
    newest = queue_of(root.child("newest", count=2), coalesce_latest())
    newest.try_push("a")
    newest.try_push("b")
    assert newest.try_push_budgeted("c", root.reserve(1, count=2)) == Pushed("coalesced", 2)
    assert held(root) == (2, 1)
    assert pop_all(newest) == ["c"]
    assert held(root) == (0, 0)
    keyed = queue_of(root.child("keyed", bytes=4), coalesce(key_of))
    keyed.try_push("a1")
    assert keyed.try_push_budgeted("a2", root.reserve(4)) == Pushed("coalesced", 1)
    permit = root.reserve(5)
    assert not keyed.try_push_budgeted("a3", permit)
    assert permit.held
    permit.release()
    assert (pop_all(keyed), held(root)) == (["a2"], (0, 0))


# ---------------------------------------------------------------- closing


@pytest.mark.row("runtime:R106")
@pytest.mark.parametrize("policy", POLICIES)
async def test_after_close_consumers_drain_then_get_none_and_pushes_are_refused(policy: Any) -> None:
    budget = Budget.root("root", clock=Clock())
    queue = queue_of(budget, policy)
    for item in "abcd":
        await queue.push(item)
    queue.close()
    queue.close()
    assert queue.closed
    refusal = rejected(queue.try_push("e"))
    assert isinstance(refusal.error, QueueClosed)
    assert (refusal.item, refusal.error.slow_consumer) == ("e", False)
    with pytest.raises(QueueClosed) as caught:
        await queue.push("e")
    assert caught.value.item == "e"
    with budget.reserve() as permit:
        assert isinstance(rejected(queue.try_push_budgeted("e", permit)).error, QueueClosed)
        assert permit.held
    assert await queue.recv() == "a"
    taken = await queue.recv_budgeted()
    assert taken is not None
    with taken:
        assert taken.item == "b"
    assert [item async for item in queue] == ["c", "d"]
    for _ in range(2):
        assert await queue.recv() is await queue.recv_budgeted() is queue.try_recv() is None
    assert held(budget) == (0, 0)
    assert (queue.snapshot().closed, queue.snapshot().rejected_count) == (True, 0)


@pytest.mark.row("runtime:R106")
async def test_close_wakes_the_consumers_that_wait() -> None:
    queue = queue_of(Budget.root("root"))
    got: list[object] = []

    async def receive() -> None:
        got.append(await queue.recv())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        nursery.start_soon(receive)
        await wait_all_tasks_blocked()
        queue.close()
    assert got == [None, None]


# ---------------------------------------------------------------- receiving


async def test_consumers_that_wait_are_served_first_come_first_served() -> None:
    queue = queue_of(Budget.root("root"))
    got: list[tuple[int, str | None]] = []

    async def receive(number: int) -> None:
        got.append((number, await queue.recv()))

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(receive, number)
            await wait_all_tasks_blocked()
        for item in "abc":
            queue.try_push(item)
        assert queue.try_recv() is None  # each has its own already
    assert sorted(got) == [(0, "a"), (1, "b"), (2, "c")]


async def test_a_cancelled_receive_takes_nothing_and_one_that_was_served_is_not_cancelled() -> None:
    queue = queue_of(Budget.root("root"))
    queue.try_push("a")
    for receive in (queue.recv, queue.recv_budgeted):
        with trio.CancelScope() as scope:
            scope.cancel()
            await receive()
        assert scope.cancelled_caught
    assert queue.try_recv() == "a"
    async with trio.open_nursery() as nursery:  # while it waits
        nursery.start_soon(queue.recv)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    queue.try_push("b")
    assert await queue.recv() == "b"
    got: list[str | None] = []

    async def receive_one() -> None:
        got.append(await queue.recv())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive_one)
        await wait_all_tasks_blocked()
        queue.try_push("c")
        nursery.cancel_scope.cancel()
    assert got == ["c"]


async def test_others_get_their_turn_while_a_queue_is_emptied_or_filled() -> None:
    queue: BudgetedQueue[int] = BudgetedQueue(Budget.root("root"))
    turns = [0]

    async def count_turns() -> None:
        while True:
            turns[0] += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_turns)
        for number in range(640):
            await queue.push(number)
        assert 9 <= turns[0] <= 640
        filled = turns[0]
        for number in range(640):
            assert await queue.recv() == number
        assert turns[0] - filled >= 9
        nursery.cancel_scope.cancel()


async def test_receiving_from_a_closed_queue_is_a_checkpoint() -> None:
    queue = queue_of(Budget.root("root"))
    queue.close()
    with trio.move_on_after(0.001) as scope:
        while True:
            await queue.recv()
    assert scope.cancelled_caught


async def test_a_task_that_raises_while_it_works_on_an_item_leaves_no_charge() -> None:
    budget = Budget.root("root")
    queue = queue_of(budget)
    queue.try_push("a")
    with pytest.raises(ZeroDivisionError):
        taken = await queue.recv_budgeted()
        assert taken is not None
        with taken:
            raise ZeroDivisionError
    assert held(budget) == (0, 0)


# ---------------------------------------------------------------- retain, clear, snapshot


@pytest.mark.parametrize("policy", POLICIES)
def test_retain_keeps_the_order_and_releases_what_it_removes(policy: Any) -> None:
    budget = Budget.root("root", clock=Clock())
    queue = queue_of(budget, policy)
    for item in ("a1", "b2", "c3", "d4"):
        queue.try_push(item)
    assert queue.try_recv() == "a1"
    assert queue.retain(lambda item: item != "c3") == 1
    assert held(budget) == (2, 4)
    assert queue.retain(lambda _: True) == 0
    if queue.snapshot().policy == "coalesce":
        assert queue.try_push("d5") == Pushed("coalesced", 1)
        assert queue.try_push("c6") == Pushed()
        assert pop_all(queue) == ["b2", "d5", "c6"]
    else:
        assert pop_all(queue) == ["b2", "d4"]
    assert queue.snapshot().dropped_count == budget.snapshot().dropped_count == 1
    assert held(budget) == (0, 0)


def test_clear_drops_all() -> None:
    budget = Budget.root("root", clock=Clock())
    queue = queue_of(budget)
    for item in "abc":
        queue.try_push(item)
    assert (queue.clear(), queue.clear(), len(queue), held(budget)) == (3, 0, 0, (0, 0))
    assert queue.try_push("d")
    assert bool(queue)


async def test_a_snapshot_tells_it_all(autojump_clock: MockClock) -> None:
    budget = Budget.root("root").child("queue", count=2)
    queue = queue_of(budget, "wait")
    queue.try_push("abc")
    await trio.sleep(3)
    queue.try_push("d")
    taken = queue.try_recv_budgeted()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.push, "e")
        await wait_all_tasks_blocked()
        assert queue.snapshot() == QueueSnapshot(
            path="root/queue",
            policy="wait",
            depth=1,
            reserved_count=2,
            retained_bytes=4,
            oldest_age=0.0,
            pushed_count=2,
            received_count=1,
            throttled_count=0,
            rejected_count=0,
            dropped_count=0,
            coalesced_count=0,
            closed_slow_consumer_count=0,
            waiters=1,
            wait_count=1,
            deadline_exceeded_count=0,
            closed=False,
        )
        assert taken is not None
        taken.close()
    shot = queue.snapshot()
    assert (shot.depth, shot.waiters, shot.wait_count, shot.pushed_count) == (2, 0, 1, 3)
    assert queue.try_recv() == "d"
    await trio.sleep(2)
    assert queue.snapshot().oldest_age == 2


@pytest.mark.parametrize("policy", [drop_stale(), drop_stale(0), drop_stale(float("inf")), close_slow_consumer(-1)])
def test_an_age_that_is_none_is_refused(policy: Any) -> None:
    with pytest.raises(QueueInvalid, match="age") as caught:
        queue_of(Budget.root("root"), policy)
    assert isinstance(caught.value, ContractViolation)


def test_an_age_above_that_of_the_budget_is_refused() -> None:
    budget = Budget.root("root", max_age=5).child("queue")
    queue_of(budget, drop_stale(5))
    queue_of(budget, drop_stale())
    for policy in (drop_stale(5.1), close_slow_consumer(6)):
        with pytest.raises(QueueInvalid, match="'root/queue'"):
            queue_of(budget, policy)


def test_a_rate_refuses_pushes() -> None:
    clock = Clock()
    budget = Budget.root("root", rate=Rate(1, 2), clock=clock)
    queue = queue_of(budget)
    assert [bool(queue.try_push(item)) for item in "abc"] == [True, True, False]
    shot = queue.snapshot()
    assert (shot.throttled_count, shot.rejected_count) == (1, 1)
    assert pop_all(queue) == ["a", "b"]
    assert not queue.try_push("c")
    clock.now += 1
    assert queue.try_push("c")
