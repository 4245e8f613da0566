"""Keys: budgets that are closed and retired, and never mistaken for a later one of their name."""

from __future__ import annotations

from math import inf

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from lifecycle import (
    Budget,
    BudgetClosed,
    BudgetedQueue,
    BudgetExhausted,
    BudgetKeyInUse,
    BudgetKeysExhausted,
    KeyRetirement,
    Permit,
    Rejected,
)

from ._budgets import held


@pytest.mark.row("runtime:R96")
def test_a_closed_key_admits_nothing_by_any_way_in() -> None:
    root = Budget.root("root", count=10)
    key = root.key("tenant", count=5)
    escaped = key.budget
    below = escaped.child("below")
    inner = below.key("inner")
    outside = root.child("outside")
    permit, foreign = below.reserve(7), outside.reserve()
    key.close()
    key.close()
    assert key.closed
    for budget in (escaped, below, inner.budget):
        assert budget.snapshot().closed
        for control in (False, True):
            with pytest.raises(BudgetClosed) as caught:
                budget.reserve(control=control)
            assert (caught.value.path, caught.value.closed) == (budget.path, "root/tenant")
        assert budget.try_reserve() is None
        with pytest.raises(BudgetClosed):
            foreign.rebind(budget)
        with pytest.raises(BudgetClosed):
            budget.child("new")
        with pytest.raises(BudgetClosed):
            budget.key("new")
    assert foreign.path == "root/outside"
    assert held(escaped) == held(below) == (1, 7)
    # What is held may be moved within, moved out, and released.
    permit.rebind(escaped)
    permit.rebind(below)
    permit.rebind(outside)
    assert held(escaped) == held(below) == (0, 0)
    for share in (permit, foreign):
        share.release()
    assert held(root) == (0, 0)
    assert not root.snapshot().closed
    root.reserve().release()


@pytest.mark.row("runtime:R96")
async def test_those_that_wait_are_told_when_the_key_closes() -> None:
    root = Budget.root("root", count=2)
    key = root.key("tenant", count=1)
    queue: BudgetedQueue[str] = BudgetedQueue(key.budget.child("queue"), policy="wait")
    errors: list[BudgetClosed] = []

    async def acquire() -> None:
        with pytest.raises(BudgetClosed) as caught:
            await key.budget.acquire()
        errors.append(caught.value)

    async def push() -> None:
        with pytest.raises(BudgetClosed) as caught:
            await queue.push("item")
        errors.append(caught.value)

    with key.budget.reserve():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(acquire)
            nursery.start_soon(push)
            await wait_all_tasks_blocked()
            key.close()
    assert {error.closed for error in errors} == {"root/tenant"}
    assert {error.item for error in errors} == {None, "item"}
    with pytest.raises(BudgetClosed):
        await key.budget.acquire()
    rejected = queue.try_push("late")
    assert isinstance(rejected, Rejected)
    assert isinstance(rejected.error, BudgetClosed)


@pytest.mark.row("runtime:R96")
async def test_retiring_waits_for_what_is_held_and_may_be_repeated(autojump_clock: trio.testing.MockClock) -> None:
    root = Budget.root("root")
    key = root.key("tenant")
    first = key.budget.reserve(5)
    second = key.budget.child("below").reserve(3, count=2)
    first.release()
    assert await key.retire(trio.current_time() + 1) == KeyRetirement(False, 2, 3)
    assert trio.current_time() == pytest.approx(1)
    assert await key.retire(until=-inf) == KeyRetirement(False, 2, 3)
    with pytest.raises(BudgetKeyInUse) as caught:
        root.key("tenant")
    assert caught.value.generation == key.generation
    with trio.move_on_after(1):
        await key.retire()
    retired: list[KeyRetirement] = []

    async def retire() -> None:
        retired.append(await key.retire())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(retire)
        await wait_all_tasks_blocked()
        second.split(1).release()
        await wait_all_tasks_blocked()
        assert retired == []
        second.release()
    assert retired == [KeyRetirement(True, 0, 0)]
    assert await key.retire() == KeyRetirement(False, 0, 0)
    assert root.key("tenant").generation > key.generation


@pytest.mark.row("runtime:R96")
async def test_a_stale_generation_neither_charges_nor_releases_a_newer_one() -> None:
    root = Budget.root("root", key_capacity=1)
    old = root.key("tenant", count=1)
    escaped = old.budget
    assert (await old.retire(-inf)).released  # nothing held: at once, whatever the time
    new = root.key("tenant", count=1)
    permit = new.budget.reserve()
    for _ in range(2):
        assert await old.retire(-inf) == KeyRetirement(False, 0, 0)
    assert not new.closed
    assert held(new.budget) == (1, 0)
    with pytest.raises(BudgetClosed):
        escaped.reserve()
    with pytest.raises(BudgetClosed):
        permit.rebind(escaped)
    with pytest.raises(BudgetKeyInUse):
        root.key("tenant")
    assert [budget.path for budget in root.walk()] == ["root", "root/tenant"]
    permit.release()
    assert (await new.retire()).released


@pytest.mark.row("runtime:R96")
async def test_a_tree_takes_4096_keys_and_a_retired_one_makes_room() -> None:
    root = Budget.root("root")
    deep = root.child("deep")
    keys = [(root if number % 2 else deep).key(f"k{number}") for number in range(4096)]
    with pytest.raises(BudgetKeysExhausted) as caught:
        root.key("more")
    assert (caught.value.path, caught.value.capacity) == ("root/more", 4096)
    keys[7].close()  # closed is not retired
    with pytest.raises(BudgetKeysExhausted):
        root.key("more")
    await keys[7].retire()
    root.key("more")
    with pytest.raises(BudgetKeysExhausted):
        root.key("k7")
    Budget.root("other").key("more")


async def test_the_keys_below_a_retired_one_end_with_it() -> None:
    root = Budget.root("root", key_capacity=3)
    outer = root.key("outer")
    inner = outer.budget.child("between").key("inner")
    innermost = inner.budget.key("innermost")
    assert (await outer.retire()).released
    for key in (innermost, inner, outer):
        assert await key.retire() == KeyRetirement(False, 0, 0)
    again = [root.key(f"k{number}") for number in range(3)]
    assert len({key.generation for key in (*again, outer, inner, innermost)}) == 6
    with pytest.raises(BudgetKeysExhausted):
        root.key("one more")


async def test_many_generations_leave_nothing_behind() -> None:
    root = Budget.root("root", count=2, key_capacity=1)
    for generation in range(1, 1001):
        key = root.key("tenant", count=1)
        assert key.generation == generation
        permit: Permit = key.budget.reserve(1)
        with pytest.raises(BudgetExhausted):
            key.budget.reserve()
        permit.release()
        assert (await key.retire()).released
    assert held(root) == (0, 0)
    assert [budget.name for budget in root.walk()] == ["root"]
