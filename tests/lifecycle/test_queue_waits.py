"""Budgeted queues: pushes that wait."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lifecycle import (
    Budget,
    BudgetedQueue,
    BudgetExhausted,
    BudgetRefusal,
    Permit,
    Pushed,
    QueueClosed,
    Rate,
    Reserve,
    Wait,
    WaitExpired,
)

from ._budgets import held
from .test_queue import pop_all, queue_of, rejected


class Pushers:
    """Tasks that push, and what became of it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.outcomes: dict[str, Pushed | BudgetRefusal] = {}

    async def start(self, queue: BudgetedQueue[str], item: str, **more: Any) -> trio.CancelScope:
        scope = trio.CancelScope()

        async def push() -> None:
            with scope:
                try:
                    self.outcomes[item] = await queue.push(item, **more)
                except BudgetRefusal as error:
                    self.outcomes[item] = error

        self.nursery.start_soon(push)
        await wait_all_tasks_blocked()
        return scope


@pytest.mark.row("runtime:R100")
@pytest.mark.parametrize("how", ["own", "own bytes", "sibling", "ancestor", "charge", "retain", "clear", "lost"])
async def test_a_push_that_waits_is_woken_by_any_release_that_makes_room(how: str) -> None:
    root = Budget.root("root", count=3)
    middle = root.child("middle", count=2)
    by_count = how in ("own", "charge", "retain", "clear")
    queue = queue_of(middle.child("queue", count=1 if by_count else 2, bytes=4), "wait")
    sibling = queue_of(middle.child("sibling"))
    item = "xy" if how == "own bytes" else "x"
    permits: list[Permit] = []
    if by_count:
        queue.try_push("a")
    elif how == "own bytes":
        queue.try_push("abc")
    elif how == "sibling":
        sibling.try_push("a")
        sibling.try_push("b")
    else:
        permits.append(root.reserve(count=3) if how == "ancestor" else middle.reserve(count=2))
    async with trio.open_nursery() as nursery:
        pushers = Pushers(nursery)
        await pushers.start(queue, item)
        assert pushers.outcomes == {}
        assert queue.snapshot().waiters == 1
        if how in ("own", "own bytes"):
            assert await queue.recv() is not None
        elif how == "charge":
            taken = queue.try_recv_budgeted()
            await wait_all_tasks_blocked()
            assert pushers.outcomes == {}
            assert taken is not None
            taken.close()
        elif how == "retain":
            queue.retain(lambda _: False)
        elif how == "clear":
            queue.clear()
        elif how == "sibling":
            assert sibling.try_recv() == "a"
        elif how == "ancestor":
            permits[0].split(1).release()
        else:
            permits.clear()
            assert middle.snapshot().leaked_count == 2
        assert queue.snapshot().depth >= 1  # in the same step: the task need not run for it
        await wait_all_tasks_blocked()
        assert pushers.outcomes == {item: Pushed("enqueued")}
    assert queue.snapshot().waiters == 0
    assert queue.snapshot().rejected_count == root.snapshot().rejected_count == 0  # a wait is no rejection
    assert pop_all(queue)[-1] is item


@pytest.mark.row("runtime:R100")
async def test_close_wakes_a_push_that_waits_and_the_item_comes_back() -> None:
    budget = Budget.root("root", count=1)
    queue = queue_of(budget, "wait")
    queue.try_push("a")
    async with trio.open_nursery() as nursery:
        pushers = Pushers(nursery)
        for item in ("b", "c"):
            await pushers.start(queue, item)
        queue.close()
        await wait_all_tasks_blocked()
    for item in ("b", "c"):
        error = pushers.outcomes[item]
        assert isinstance(error, QueueClosed)
        assert error.item is item
    assert queue.snapshot().waiters == 0
    assert [item async for item in queue] == ["a"]
    assert held(budget) == (0, 0)


@pytest.mark.row("runtime:R100")
async def test_what_can_never_fit_and_what_has_no_token_fail_at_once() -> None:
    root = Budget.root("root", bytes=10, control_reserve=Reserve(bytes=4))
    queue = queue_of(root.child("queue", bytes=8), "wait")
    queue.try_push("a")
    for item, exhausted in [("123456789", "root"), ("1234567", "root")]:  # the reserve of the budget above counts
        with pytest.raises(BudgetExhausted) as caught:
            await queue.push(item)
        assert caught.value.item is item
        assert (caught.value.never_fits, caught.value.exhausted) == (True, exhausted)
    with pytest.raises(BudgetExhausted) as caught:
        await queue.push("123456789", control=True)
    assert caught.value.exhausted == "root/queue"
    assert (queue.snapshot().wait_count, queue.snapshot().rejected_count) == (0, 3)
    impatient = queue_of(Budget.root("root", rate=Rate(1, 1)), Wait(rate=False))
    await impatient.push("a")
    item = "b"
    with pytest.raises(BudgetExhausted) as caught:
        await impatient.push(item)
    assert caught.value.item is item
    assert (caught.value.dimension, caught.value.never_fits) == ("rate", False)
    shot = impatient.snapshot()
    assert (shot.throttled_count, shot.rejected_count, shot.wait_count, shot.waiters) == (1, 1, 0, 0)


@pytest.mark.row("runtime:R100")
async def test_a_push_that_waits_for_room_and_then_has_no_token_fails(autojump_clock: MockClock) -> None:
    root = Budget.root("root", count=2, rate=Rate(1, 2))
    queue = queue_of(root, Wait(rate=False))
    queue.try_push("a")
    queue.try_push("b")
    async with trio.open_nursery() as nursery:
        pushers = Pushers(nursery)
        await pushers.start(queue, "c")
        await pushers.start(queue, "d")
        assert pushers.outcomes == {}
        assert queue.try_recv() == "a"
        await wait_all_tasks_blocked()
    for item in ("c", "d"):
        error = pushers.outcomes[item]
        assert isinstance(error, BudgetExhausted)
        assert (error.item, error.dimension) == (item, "rate")
    assert root.snapshot().throttled_count == 2


@pytest.mark.row("runtime:R100")
async def test_a_push_waits_for_its_token_in_its_turn(autojump_clock: MockClock) -> None:
    root = Budget.root("root", rate=Rate(2, 1))
    queues = [queue_of(root.child(name), "wait") for name in ("one", "other")]
    times: list[tuple[int, float]] = []

    async def push(number: int) -> None:
        await queues[number % 2].push(str(number))
        times.append((number, trio.current_time()))

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(push, number)
            await wait_all_tasks_blocked()
    assert [number for number, _ in times] == [0, 1, 2, 3, 4]
    assert [time for _, time in times] == pytest.approx([0, 0.5, 1, 1.5, 2])
    assert root.snapshot().throttled_count == 0


@pytest.mark.row("runtime:R100")
async def test_a_cancelled_push_was_not_accepted_and_counts_as_nothing(autojump_clock: MockClock) -> None:
    budget = Budget.root("root", count=1)
    queue = queue_of(budget, "wait")
    with trio.CancelScope() as scope:
        scope.cancel()
        await queue.push("already cancelled")
    queue.try_push("a")
    with trio.move_on_after(3):
        await queue.push("b")
    shot = queue.snapshot()
    assert (shot.waiters, shot.wait_count, shot.rejected_count, shot.deadline_exceeded_count) == (0, 1, 0, 0)
    assert pop_all(queue) == ["a"]
    assert held(budget) == (0, 0)
    assert budget.snapshot().admitted_count == 1


@pytest.mark.row("runtime:R101")
async def test_a_deadline_that_has_come_is_final_even_if_there_is_room(autojump_clock: MockClock) -> None:
    budget = Budget.root("root", count=9)
    queue = queue_of(budget, "wait")
    await trio.sleep(5)
    item = "late"
    for deadline in (trio.current_time(), trio.current_time() - 1, 0.0):
        with pytest.raises(WaitExpired) as caught:
            await queue.push(item, deadline=deadline)
        assert caught.value.item is item
    with trio.move_on_at(trio.current_time() - 1) as scope:  # the caller's own scope likewise
        await queue.push(item)
    assert scope.cancelled_caught
    shot = queue.snapshot()
    assert (shot.depth, shot.deadline_exceeded_count, shot.rejected_count) == (0, 3, 0)
    assert budget.snapshot().admitted_count == 0
    assert await queue.push("in time", deadline=trio.current_time() + 1) == Pushed("enqueued")


@pytest.mark.row("runtime:R101")
async def test_a_closed_queue_and_what_never_fits_are_told_before_the_deadline() -> None:
    queue = queue_of(Budget.root("root", bytes=1), "wait")
    with pytest.raises(BudgetExhausted):
        await queue.push("too big", deadline=0.0)
    queue.close()
    with pytest.raises(QueueClosed):
        await queue.push("too big", deadline=0.0)


async def test_a_push_that_waits_loses_to_its_deadline(autojump_clock: MockClock) -> None:
    queue = queue_of(Budget.root("root", count=1), "wait")
    queue.try_push("a")
    item = "b"
    with pytest.raises(WaitExpired) as caught:
        await queue.push(item, deadline=trio.current_time() + 3)
    assert caught.value.item is item
    assert trio.current_time() == 3
    shot = queue.snapshot()
    assert (shot.deadline_exceeded_count, shot.rejected_count, shot.waiters) == (1, 0, 0)
    assert pop_all(queue) == ["a"]


async def test_producers_are_served_first_come_first_served_across_queues() -> None:
    root = Budget.root("root", count=1)
    queues = [queue_of(root.child(name), "wait") for name in ("one", "other")]
    queues[0].try_push("first")
    async with trio.open_nursery() as nursery:
        pushers = Pushers(nursery)
        for number in range(6):
            await pushers.start(queues[number % 2], str(number))
        assert queues[0].try_recv() == "first"
        for number in range(6):
            await wait_all_tasks_blocked()
            assert list(pushers.outcomes) == [str(done) for done in range(number + 1)]
            assert queues[number % 2].try_recv() == str(number)


async def test_a_push_does_not_pass_those_that_wait_but_a_try_push_takes_what_is_free() -> None:
    budget = Budget.root("root", bytes=5)
    queue = queue_of(budget, "wait")
    queue.try_push("abc")
    async with trio.open_nursery() as nursery:
        pushers = Pushers(nursery)
        await pushers.start(queue, "large")
        await pushers.start(queue, "s")  # would fit
        assert pushers.outcomes == {}
        assert queue.try_push("t")
        rejected(queue.try_push("uv"))
        assert [queue.try_recv(), queue.try_recv()] == ["abc", "t"]
        await wait_all_tasks_blocked()
        assert pop_all(queue) == ["large", "s"]


@pytest.mark.row("runtime:R107")
@pytest.mark.parametrize("keeps", [False, True])
async def test_a_consumer_wakes_though_a_producer_waits(keeps: bool) -> None:
    root = Budget.root("root", bytes=10)
    queue = queue_of(root.child("queue"), "wait")
    got: list[Any] = []

    async def consume() -> None:
        got.append(await (queue.recv_budgeted() if keeps else queue.recv()))

    with root.reserve(5):
        async with trio.open_nursery() as nursery:
            pushers = Pushers(nursery)
            await pushers.start(queue, "large!")  # waits for the budget above
            nursery.start_soon(consume)
            await wait_all_tasks_blocked()
            assert got == []
            assert queue.try_push("small")
            await wait_all_tasks_blocked()
            assert len(got) == 1  # the consumer, not the producer
            assert (got[0].into_item() if keeps else got[0]) == "small"
            assert pushers.outcomes == {}
            nursery.start_soon(consume)
            await wait_all_tasks_blocked()
            assert len(got) == 1
            nursery.cancel_scope.cancel()
    assert queue.snapshot().waiters == 0


@pytest.mark.row("runtime:R107")
async def test_room_that_a_waiting_push_gets_wakes_a_consumer_that_waits() -> None:
    root = Budget.root("root", bytes=6)
    queue = queue_of(root.child("queue"), "wait")
    permit = root.reserve(5)
    async with trio.open_nursery() as nursery:
        pushers = Pushers(nursery)
        for item in ("large1", "large2", "large3"):
            await pushers.start(queue, item)
        got: list[str | None] = []

        async def consume() -> None:
            got.append(await queue.recv())

        for _ in range(3):
            nursery.start_soon(consume)
        await wait_all_tasks_blocked()
        permit.release()  # each is handed over, which makes room for the next
        await wait_all_tasks_blocked()
        assert sorted(map(str, got)) == ["large1", "large2", "large3"]
        assert set(pushers.outcomes) == {"large1", "large2", "large3"}
    assert held(root) == (0, 0)


@pytest.mark.row("runtime:R94")
@pytest.mark.row("runtime:R107")
async def test_under_load_with_cancellations_every_item_arrives_once(autojump_clock: MockClock) -> None:
    root = Budget.root("root", count=5, bytes=12)
    queues = [queue_of(root.child(f"queue{number}", count=3), "wait") for number in range(3)]
    sent: set[str] = set()
    got: list[str] = []

    async def produce(number: int) -> None:
        item = "x" * (number % 5) + str(number)
        with trio.move_on_after(0.5 + number % 3):
            await queues[number % 3].push(item)
            sent.add(item)

    async def consume(queue: BudgetedQueue[str], number: int) -> None:
        while True:
            with trio.move_on_after(0.3):
                if number % 2:
                    taken = await queue.recv_budgeted()
                    if taken is None:
                        return
                    with taken:
                        got.append(taken.item)
                        await trio.sleep(0.1)
                else:
                    item = await queue.recv()
                    if item is None:
                        return
                    got.append(item)
                    await trio.sleep(0.05)

    async with trio.open_nursery() as nursery:
        for number, queue in enumerate(queues * 2):
            nursery.start_soon(consume, queue, number)
        async with trio.open_nursery() as producers:
            for number in range(120):
                producers.start_soon(produce, number)
                await trio.sleep(0.01)
        for queue in queues:
            queue.close()
    assert sorted(got) == sorted(sent)
    assert len(sent) > 60
    assert [held(budget) for budget in root.walk()] == [(0, 0)] * 4
    assert root.snapshot().waiting == 0
