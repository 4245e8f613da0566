"""Waiting for a budget: first come, first served, for capacity and for rate."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lifecycle import (
    AmountInvalid,
    Budget,
    BudgetExhausted,
    Permit,
    Rate,
    Reserve,
    WaitExpired,
)

from ._budgets import held


class Waiters:
    """Tasks that wait for permits and note the order in which they get them."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.order: list[str] = []
        self.permits: dict[str, Permit] = {}

    async def start(self, name: str, budget: Budget, nbytes: int = 0, **more: Any) -> trio.CancelScope:
        scope = trio.CancelScope()

        async def wait() -> None:
            with scope:
                self.permits[name] = await budget.acquire(nbytes, **more)
                self.order.append(name)

        self.nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        return scope

    async def release(self, name: str) -> None:
        self.permits[name].release()
        await wait_all_tasks_blocked()


async def test_those_that_wait_are_served_in_the_order_in_which_they_came_across_budgets() -> None:
    root = Budget.root("root", count=2)
    one, other = root.child("one", count=1), root.child("other")
    async with trio.open_nursery() as nursery:
        waiters = Waiters(nursery)
        await waiters.start("a", one)
        await waiters.start("b", other)
        await waiters.start("c", one)  # for its own level first
        await waiters.start("d", other)
        await waiters.start("e", other)
        assert waiters.order == ["a", "b"]
        assert root.snapshot().waiting == 3
        assert (one.snapshot().waiting, other.snapshot().waiting) == (1, 2)
        await waiters.release("a")  # c came before d, though it stood in another line
        await waiters.release("b")
        await waiters.release("c")
        assert waiters.order == ["a", "b", "c", "d", "e"]
        await waiters.release("d")
        await waiters.release("e")
    assert held(root) == (0, 0)
    assert root.snapshot().rejected_count == 0


async def test_a_large_share_is_not_starved_by_small_ones() -> None:
    root = Budget.root("root", bytes=10)
    one, other = root.child("one"), root.child("other")
    async with trio.open_nursery() as nursery:
        waiters = Waiters(nursery)
        await waiters.start("a", one, 4)
        await waiters.start("b", one, 4)
        await waiters.start("large", one, 9)
        await waiters.start("small", other, 1)  # would fit
        assert waiters.order == ["a", "b"]
        with root.reserve(2):  # what does not wait takes what is free
            pass
        await waiters.release("a")
        assert waiters.order == ["a", "b"]
        await waiters.release("b")
        assert set(waiters.order[2:]) == {"large", "small"}


async def test_one_that_gives_up_lets_those_behind_it_pass() -> None:
    root = Budget.root("root", bytes=10)
    async with trio.open_nursery() as nursery:
        waiters = Waiters(nursery)
        await waiters.start("a", root, 6)
        large = await waiters.start("large", root, 9)
        await waiters.start("small", root, 4)
        assert waiters.order == ["a"]
        large.cancel()
        await wait_all_tasks_blocked()
        assert waiters.order == ["a", "small"]
    assert root.snapshot().waiting == 0
    assert held(root) == (2, 10)


async def test_control_passes_data_and_data_does_not_pass_control() -> None:
    root = Budget.root("root", count=3, control_reserve=Reserve(count=1))
    async with trio.open_nursery() as nursery:
        waiters = Waiters(nursery)
        await waiters.start("a", root, count=2)
        await waiters.start("data", root)
        await waiters.start("control", root, control=True)
        assert waiters.order == ["a", "control"]
        await waiters.start("more control", root, control=True, count=2)
        await waiters.start("more data", root)
        await waiters.release("control")  # one is free: not enough for the control work, and kept for it
        assert waiters.order == ["a", "control"]
        await waiters.release("a")
        assert set(waiters.order[2:]) == {"more control", "data"}
        await waiters.release("data")
        assert waiters.order[-1] == "more data"


async def test_control_is_not_starved_by_data_that_needs_less() -> None:
    root = Budget.root("root", count=3)
    permits = [root.reserve() for _ in range(3)]
    async with trio.open_nursery() as nursery:
        waiters = Waiters(nursery)
        await waiters.start("data", root)
        await waiters.start("control", root, control=True, count=2)
        await waiters.start("more data", root)
        permits.pop().release()
        await wait_all_tasks_blocked()
        assert waiters.order == []
        permits.pop().release()
        await wait_all_tasks_blocked()
        assert waiters.order == ["control"]
        permits.pop().release()
        await wait_all_tasks_blocked()
        assert waiters.order == ["control", "data"]
        await waiters.release("control")
        assert waiters.order == ["control", "data", "more data"]


async def test_one_that_changes_the_line_takes_the_place_of_its_turn() -> None:
    root = Budget.root("root", count=2)
    one, other = root.child("one", count=1), root.child("other")
    first = one.reserve()
    async with trio.open_nursery() as nursery:
        waiters = Waiters(nursery)
        await waiters.start("a", one)  # in the line of its own level
        second = other.reserve()
        await waiters.start("b", other)  # in the line of the root
        first.rebind(other)  # room at the level of the first, none at the root
        await wait_all_tasks_blocked()
        assert waiters.order == []
        second.release()
        await wait_all_tasks_blocked()
        assert waiters.order == ["a"]
        first.release()
        await wait_all_tasks_blocked()
        assert waiters.order == ["a", "b"]


async def test_a_promotion_lets_data_in() -> None:
    root = Budget.root("root", count=2, control_reserve=Reserve(count=1))
    permit = root.reserve()
    async with trio.open_nursery() as nursery:
        waiters = Waiters(nursery)
        await waiters.start("data", root)
        permit.promote()
        await wait_all_tasks_blocked()
        assert waiters.order == ["data"]


async def test_waiting_for_tokens_takes_the_time_that_it_takes_in_order(autojump_clock: MockClock) -> None:
    root = Budget.root("root", rate=Rate(per_second=2, burst=4))
    one, other = root.child("one"), root.child("other")
    times: list[tuple[str, float]] = []

    async def acquire(name: str, budget: Budget, count: int) -> None:
        (await budget.acquire(count=count)).release()
        times.append((name, trio.current_time()))

    async with trio.open_nursery() as nursery:
        start = trio.current_time()
        for name, budget, count in [("a", one, 4), ("b", other, 3), ("c", one, 1), ("d", other, 2)]:
            nursery.start_soon(acquire, name, budget, count)
            await wait_all_tasks_blocked()
    assert [name for name, _ in times] == ["a", "b", "c", "d"]
    assert [time - start for _, time in times] == pytest.approx([0, 1.5, 2, 3])
    assert root.snapshot().throttled_count == 0


async def test_when_the_first_gives_up_the_next_takes_over_the_wait_for_tokens(autojump_clock: MockClock) -> None:
    root = Budget.root("root", rate=Rate(per_second=1, burst=2))
    root.reserve(count=2).release()
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        waiters = Waiters(nursery)
        first = await waiters.start("first", root, count=2)
        await waiters.start("second", root)
        await trio.sleep(0.5)
        first.cancel()
    assert waiters.order == ["second"]
    assert trio.current_time() - start == pytest.approx(1)


@pytest.mark.parametrize("slip", [0.0, 1e-12, -1e-12])
async def test_a_cancellation_at_the_moment_when_the_tokens_are_there_takes_none(
    autojump_clock: MockClock, slip: float
) -> None:
    root = Budget.root("root", rate=Rate(per_second=1, burst=1))
    root.reserve().release()
    got: list[Permit] = []
    with trio.move_on_after(1 + slip):
        got.append(await root.acquire())
    assert len(got) == root.snapshot().current_count
    assert root.snapshot().waiting == 0
    await trio.sleep(1)
    (got.pop() if got else root.reserve()).release()
    (await root.acquire()).release()


async def test_the_deadline_of_a_wait(autojump_clock: MockClock) -> None:
    root = Budget.root("root", count=1)
    permit = root.reserve()
    with pytest.raises(WaitExpired, match="'root'"):
        await root.acquire(deadline=trio.current_time() + 2)
    assert trio.current_time() == pytest.approx(2)
    assert root.snapshot().waiting == 0
    permit.release()
    with pytest.raises(WaitExpired):
        await root.acquire(deadline=trio.current_time())  # it has come, though there is room
    # A tie is lost: the room that is made at the deadline is too late.
    permit = root.reserve()
    end = trio.current_time() + 5
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(WaitExpired):
                await root.acquire(deadline=end)

        async def release() -> None:
            await trio.sleep_until(end)
            permit.release()

        nursery.start_soon(release)
        await wait_all_tasks_blocked()
        nursery.start_soon(wait)
    assert held(root) == (0, 0)


async def test_what_can_never_fit_does_not_wait() -> None:
    root = Budget.root("root", count=4, bytes=10, control_reserve=Reserve(count=1, bytes=1), rate=Rate(1, 3))
    leaf = root.child("leaf")
    for nbytes, count, control in [(10, 1, False), (11, 1, True), (0, 4, True)]:
        with pytest.raises(BudgetExhausted) as caught:
            await leaf.acquire(nbytes, count=count, control=control)
        assert caught.value.never_fits
        assert caught.value.exhausted == "root"
    assert leaf.snapshot().rejected_count == 3
    with pytest.raises(AmountInvalid):
        await leaf.acquire(count=0)


async def test_acquire_is_a_cancel_point_and_takes_nothing_then() -> None:
    root = Budget.root("root", count=1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await root.acquire()
    assert scope.cancelled_caught
    assert root.snapshot().admitted_count == 0


async def test_a_wait_that_was_granted_is_not_cancelled_any_more() -> None:
    root = Budget.root("root", count=1)
    permit = root.reserve()
    got: list[Permit] = []
    with trio.CancelScope() as scope:

        async def wait() -> None:
            got.append(await root.acquire())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            permit.release()
            scope.cancel()
    assert [share.held for share in got] == [True]
    assert held(root) == (1, 0)


async def test_a_cancelled_wait_takes_nothing_from_a_release_in_the_same_step() -> None:
    root = Budget.root("root", count=1)
    permit = root.reserve()
    async with trio.open_nursery() as nursery:
        waiters = Waiters(nursery)
        first = await waiters.start("first", root)
        await waiters.start("second", root)
        first.cancel()
        permit.release()
        await wait_all_tasks_blocked()
        assert waiters.order == ["second"]
    assert root.snapshot().admitted_count == 2


async def test_a_moved_permit_makes_room_where_it_was() -> None:
    root = Budget.root("root")
    one, other = root.child("one", count=1), root.child("other")
    permit = one.reserve()
    async with trio.open_nursery() as nursery:
        waiters = Waiters(nursery)
        await waiters.start("a", one)
        permit.rebind(other)
        await wait_all_tasks_blocked()
        assert waiters.order == ["a"]


async def test_many_that_come_and_go_are_all_served(autojump_clock: MockClock) -> None:
    root = Budget.root("root", count=3, bytes=20)
    leaves = [root.child(f"leaf{number}", count=2) for number in range(3)]
    served = [0]

    async def work(number: int) -> None:
        with trio.move_on_after(5 if number % 7 == 0 else 1000):
            with await leaves[number % 3].acquire(1 + number % 10):
                await trio.sleep(1)
                served[0] += 1

    async with trio.open_nursery() as nursery:
        for number in range(60):
            nursery.start_soon(partial(work, number))
    assert served[0] >= 60 - 9
    assert [held(budget) for budget in root.walk()] == [(0, 0)] * 4
    assert root.snapshot().waiting == 0
