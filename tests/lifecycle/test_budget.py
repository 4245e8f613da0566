"""Budgets: reservation up the tree, the control reserve, rates, the rules of their limits."""

from __future__ import annotations

import gc
import threading
from math import inf, nan
from typing import TYPE_CHECKING, Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from actors.testing import eventually
from lifecycle import (
    AmountInvalid,
    Budget,
    BudgetExhausted,
    BudgetInvalid,
    BudgetRefusal,
    ContractViolation,
    DifferentTree,
    OperationalError,
    Permit,
    PermitSpent,
    Rate,
    Reserve,
)

from ._budgets import Clock, held, state

if TYPE_CHECKING:
    from lifecycle import BudgetRule, Dimension


# ---------------------------------------------------------------- all the way up, or not at all


@pytest.mark.row("runtime:R88")
def test_a_permit_is_held_at_every_level_and_given_back_at_every_level() -> None:
    levels = [Budget.root("root", count=10, bytes=1000)]
    for depth in range(6):
        levels.append(levels[-1].child(f"level{depth}", count=9, bytes=900))
    with levels[-1].reserve(300, count=2) as permit:
        assert [held(level) for level in levels] == [(2, 300)] * 7
        assert (permit.path, permit.count, permit.bytes, permit.control, permit.held) == (
            levels[-1].path, 2, 300, False, True,
        )  # fmt: skip
    assert [held(level) for level in levels] == [(0, 0)] * 7
    assert [(s.admitted_count, s.released_count) for s in (level.snapshot() for level in levels)] == [(2, 2)] * 7
    assert (permit.count, permit.bytes, permit.held) == (0, 0, False)


@pytest.mark.row("runtime:R89")
def test_a_parent_bounds_the_sum_of_its_children() -> None:
    root = Budget.root("root", bytes=1024)
    one, other = root.child("one", bytes=1024), root.child("other", bytes=1024)
    with one.reserve(768):
        with pytest.raises(BudgetExhausted) as caught:
            other.reserve(300)
        error = caught.value
        assert (error.path, error.exhausted, error.dimension) == ("root/other", "root", "bytes")
        assert not error.never_fits
        assert "'root/other'" in str(error)
        assert "'root'" in str(error)
        assert "bytes" in str(error)
        assert other.try_reserve(300) is None
        assert other.try_reserve(256) is not None


@pytest.mark.row("runtime:R90")
def test_a_refusal_at_a_leaf_changes_nothing_above() -> None:
    clock = Clock()
    root = Budget.root("root", rate=Rate(1, 5), clock=clock)
    middle = root.child("middle", rate=Rate(1, 4))
    leaf = middle.child("leaf", count=1, rate=Rate(1, 3))
    leaf.reserve().release()
    before = state(root, middle)
    with leaf.reserve():
        for _ in range(10):
            with pytest.raises(BudgetExhausted) as caught:
                leaf.reserve()
            assert (caught.value.exhausted, caught.value.dimension) == ("root/middle/leaf", "count")
    assert [(c, b, k, a + 1) for c, b, k, a in before] == state(root, middle)
    # Two of the tokens are used at each level, however often the leaf has refused.
    assert middle.try_reserve(count=3) is None
    middle.reserve(count=2).release()
    assert root.try_reserve(count=2) is None
    root.reserve().release()


def test_a_refusal_is_counted_where_it_was_met_and_where_it_was_asked() -> None:
    root = Budget.root("root", count=1)
    middle = root.child("middle")
    leaf = middle.child("leaf")
    with root.reserve():
        assert leaf.try_reserve() is None
        assert root.try_reserve() is None
    assert [budget.snapshot().rejected_count for budget in (root, middle, leaf)] == [2, 0, 1]
    assert root.snapshot().admitted_count == 1


def test_the_nearest_to_the_root_is_named_and_count_comes_before_bytes() -> None:
    root = Budget.root("root", count=1, bytes=10)
    leaf = root.child("leaf", count=1, bytes=10)
    with leaf.reserve(10), pytest.raises(BudgetExhausted) as caught:
        leaf.reserve(1)
    assert (caught.value.exhausted, caught.value.dimension) == ("root", "count")


def test_a_share_that_can_never_fit_says_so() -> None:
    budget = Budget.root("root", count=4, bytes=10, control_reserve=Reserve(count=1, bytes=2)).child("leaf")
    for nbytes, count, control, dimension in [
        (11, 1, True, "bytes"),
        (9, 1, False, "bytes"),
        (0, 5, True, "count"),
        (0, 4, False, "count"),
    ]:
        with pytest.raises(BudgetExhausted) as caught:
            budget.reserve(nbytes, count=count, control=control)
        assert (caught.value.never_fits, caught.value.dimension) == (True, dimension)
        assert "never" in str(caught.value)


@pytest.mark.parametrize("amount", [{"count": 0}, {"count": -1}, {"bytes": -1}])
@pytest.mark.parametrize("call", ["reserve", "try_reserve"])
def test_an_amount_that_is_none_is_refused(amount: dict[str, int], call: str) -> None:
    budget = Budget.root("root")
    with pytest.raises(AmountInvalid, match="'root'"):
        getattr(budget, call)(**amount)
    assert held(budget) == (0, 0)


@pytest.mark.row("runtime:R88")
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_level_is_ever_above_its_limit_and_at_rest_nothing_is_held(data: st.DataObject) -> None:
    clock = Clock()
    draw = data.draw
    limit = st.one_of(st.none(), st.integers(1, 8))

    def limits(count: int | None, size: int | None) -> dict[str, Any]:
        spare = Reserve(draw(st.integers(0, count or 0)), draw(st.integers(0, size or 0)))
        return {"count": count, "bytes": size, "control_reserve": spare}

    def below(most: int | None) -> int | None:
        own = draw(limit)
        return own if own is None or most is None else min(own, most)

    nodes = [Budget.root("root", clock=clock, **limits(draw(limit), draw(limit)))]
    for number in range(draw(st.integers(1, 6))):
        parent = draw(st.sampled_from(nodes))
        force = parent.limits_in_force
        rate = draw(st.one_of(st.none(), st.just(Rate(1, 3)))) if force.rate is None else None
        nodes.append(parent.child(f"n{number}", rate=rate, **limits(below(force.count), below(force.bytes))))
    holds: list[tuple[Permit, Budget]] = []

    def check() -> None:
        for node in nodes:
            shot, reserve = node.snapshot(), node.limits.control_reserve
            below_it = [p for p, where in holds if where.path == node.path or where.path.startswith(node.path + "/")]
            assert shot.current_count == sum(p.count for p in below_it)
            assert shot.current_bytes == sum(p.bytes for p in below_it)
            assert shot.control_count == sum(p.count for p in below_it if p.control)
            assert shot.admitted_count - shot.released_count == shot.current_count
            if node.limits.count is not None:
                assert shot.current_count <= node.limits.count
                assert shot.current_count - shot.control_count <= node.limits.count - reserve.count
            if node.limits.bytes is not None:
                assert shot.current_bytes <= node.limits.bytes
                assert shot.current_bytes - shot.control_bytes <= node.limits.bytes - reserve.bytes

    for _ in range(draw(st.integers(1, 40))):
        match draw(st.sampled_from(["reserve", "release", "rebind", "promote", "split", "time"])):
            case "reserve":
                where = draw(st.sampled_from(nodes))
                share = where.try_reserve(
                    draw(st.integers(0, 5)), count=draw(st.integers(1, 3)), control=draw(st.booleans())
                )
                if share is not None:
                    holds.append((share, where))
            case "time":
                clock.now += draw(st.floats(0, 3))
            case step if holds:
                place = draw(st.integers(0, len(holds) - 1))
                share, where = holds[place]
                if step == "release":
                    del holds[place]
                    share.release()
                    share.release()
                elif step == "rebind":
                    target = draw(st.sampled_from(nodes))
                    try:
                        share.rebind(target)
                        holds[place] = (share, target)
                    except BudgetExhausted:
                        assert share.path == where.path
                elif step == "promote":
                    share.promote()
                elif share.count > 1:
                    holds.append((share.split(1, draw(st.integers(0, share.bytes))), where))
            case _:
                pass  # nothing is held yet
        check()
    for share, _ in holds:
        share.release()
    for node in nodes:
        shot = node.snapshot()
        assert (shot.current_count, shot.current_bytes, shot.control_count, shot.control_bytes) == (0, 0, 0, 0)
        assert shot.admitted_count == shot.released_count


# ---------------------------------------------------------------- the control reserve


@pytest.mark.row("runtime:R91")
def test_data_stops_at_the_control_reserve_and_control_does_not() -> None:
    root = Budget.root("root", count=4, bytes=100, control_reserve=Reserve(count=1, bytes=40))
    leaf = root.child("leaf")
    data = [leaf.reserve(20) for _ in range(3)]
    with pytest.raises(BudgetExhausted) as caught:
        leaf.reserve()
    assert (caught.value.exhausted, caught.value.dimension) == ("root", "count")
    control = leaf.reserve(40, control=True)
    assert held(root) == (4, 100)
    assert (root.snapshot().control_count, root.snapshot().control_bytes) == (1, 40)
    assert leaf.try_reserve(control=True) is None  # all is used
    for permit in (*data, control):
        permit.release()
    # The same for bytes; and control work may use what is not reserved.
    with leaf.reserve(60), pytest.raises(BudgetExhausted) as caught:
        leaf.reserve(1)
    assert caught.value.dimension == "bytes"
    with leaf.reserve(100, count=4, control=True):
        assert held(root) == (4, 100)
    assert state(root)[0][:3] == (0, 0, 0)


def test_control_work_beyond_the_reserve_does_not_take_the_share_of_data_twice() -> None:
    budget = Budget.root("root", count=4, control_reserve=Reserve(count=2))
    with budget.reserve(count=2, control=True):  # as much as is reserved
        assert budget.try_reserve(count=2) is not None
    gc.collect()


# ---------------------------------------------------------------- rate


@pytest.mark.row("runtime:R92")
def test_a_burst_then_the_refill_and_no_token_comes_back_by_a_release() -> None:
    clock = Clock()
    budget = Budget.root("root", rate=Rate(per_second=2, burst=3), clock=clock)
    for _ in range(3):
        budget.reserve().release()
    with pytest.raises(BudgetExhausted) as caught:
        budget.reserve()
    assert (caught.value.dimension, caught.value.never_fits) == ("rate", False)
    assert held(budget) == (0, 0)
    clock.now += 0.49
    assert budget.try_reserve() is None
    clock.now += 0.01
    budget.reserve().release()
    assert budget.try_reserve() is None
    clock.now += 100  # no more than the burst is saved up
    for _ in range(3):
        budget.reserve().release()
    assert budget.try_reserve() is None
    assert (budget.snapshot().throttled_count, budget.snapshot().rejected_count) == (4, 4)
    with pytest.raises(BudgetExhausted) as caught:
        budget.reserve(count=4)
    assert caught.value.never_fits


@pytest.mark.row("runtime:R92")
async def test_rates_go_by_trios_clock_unless_told_otherwise(autojump_clock: trio.testing.MockClock) -> None:
    budget = Budget.root("root", rate=Rate(1, 1))
    budget.reserve().release()
    assert budget.try_reserve() is None
    await trio.sleep(1)
    budget.reserve().release()


@pytest.mark.row("runtime:R92")
def test_control_has_tokens_of_its_own_and_promotion_gives_the_data_token_back() -> None:
    clock = Clock()
    budget = Budget.root("root", rate=Rate(10, 3), control_reserve=Reserve(rate=Rate(5, 1)), clock=clock)
    permits = [budget.reserve(), budget.reserve()]
    assert budget.try_reserve() is None  # the third token is for control
    permits[0].promote()
    with budget.reserve():  # by the data token that the promotion has given back, and the last of all tokens
        assert budget.try_reserve(control=True) is None
    for permit in permits:
        permit.release()
    clock.now += 0.2  # two for all, one of them for data
    budget.reserve().release()
    assert budget.try_reserve() is None
    budget.reserve(control=True).release()
    assert budget.try_reserve(control=True) is None


def test_a_clock_that_goes_back_gives_nothing() -> None:
    clock = Clock()
    budget = Budget.root("root", rate=Rate(1, 1), clock=clock)
    budget.reserve().release()
    clock.now -= 50
    assert budget.try_reserve() is None
    clock.now += 50.5
    assert budget.try_reserve() is None
    clock.now += 0.5
    assert budget.try_reserve() is not None


# ---------------------------------------------------------------- promote, rebind, split


@pytest.mark.row("runtime:R93")
def test_promotion_frees_the_share_of_data_and_keeps_the_totals() -> None:
    root = Budget.root("root", count=3, bytes=30, control_reserve=Reserve(count=1, bytes=10))
    leaf = root.child("leaf")
    permits = [leaf.reserve(10), leaf.reserve(10)]
    assert leaf.try_reserve() is None
    permits[0].promote()
    permits[0].promote()
    assert permits[0].control
    assert held(root) == held(leaf) == (2, 20)
    assert root.snapshot().control_count == 1
    with leaf.reserve(10):
        assert held(root) == (3, 30)
    for permit in permits:
        permit.release()
    assert state(root, leaf) == [(0, 0, 0, 3)] * 2


@pytest.mark.row("runtime:R93")
def test_rebind_keeps_what_lies_above_both_and_is_all_or_nothing() -> None:
    clock = Clock()
    root = Budget.root("root", count=1, bytes=100, rate=Rate(1, 1), clock=clock)
    both = root.child("both", count=1)
    one, other = both.child("one"), both.child("other")
    deep = other.child("deep", bytes=50)
    permit = one.reserve(60)
    above = state(root, both)  # full: if it were released or charged again, it would show
    permit.rebind(other)
    assert (permit.path, held(one), held(other)) == ("root/both/other", (0, 0), (1, 60))
    assert state(root, both) == above
    before = state(root, both, one, other, deep)
    with pytest.raises(BudgetExhausted) as caught:
        permit.rebind(deep)
    assert (caught.value.path, caught.value.exhausted) == (deep.path, deep.path)
    assert state(root, both, one, other, deep) == before
    assert (permit.path, permit.held) == ("root/both/other", True)
    permit.rebind(root)  # up
    assert (held(both), held(other), state(root)) == ((0, 0), (0, 0), above[:1])
    permit.rebind(one)  # and down: a new admission at the levels below
    assert (held(both), state(root)) == ((1, 60), above[:1])
    permit.rebind(one)
    permit.release()
    assert held(root) == held(both) == held(one) == (0, 0)


@pytest.mark.row("runtime:R93")
def test_rebind_keeps_a_control_permit_control_and_refuses_another_tree() -> None:
    root = Budget.root("root", count=2, control_reserve=Reserve(count=1))
    one = root.child("one")
    other = root.child("other", count=1, control_reserve=Reserve(count=1))
    foreign = Budget.root("root").child("one")
    permit = one.reserve(7, control=True)
    with pytest.raises(DifferentTree, match="another tree"):
        permit.rebind(foreign)
    assert (permit.path, held(one), held(foreign)) == ("root/one", (1, 7), (0, 0))
    permit.rebind(other)
    assert other.snapshot().control_count == 1
    permit.release()
    assert state(root, one, other) == [(0, 0, 0, 1)] * 3


@pytest.mark.parametrize("control", [False, True])
def test_a_permit_is_resized_at_every_level_or_at_none(control: bool) -> None:
    root = Budget.root("root", count=1, bytes=100, rate=Rate(0.001, 1), clock=Clock())
    leaf = root.child("leaf", bytes=90)
    permit = leaf.reserve(10, control=control)
    admitted = leaf.snapshot().admitted_count
    for nbytes in (80, 80, 5, 90):  # its count and its rate are used up, and are not asked again
        permit.resize(nbytes)
        assert permit.bytes == nbytes
        assert held(root) == held(leaf) == (1, nbytes)
        assert root.snapshot().control_bytes == (nbytes if control else 0)
    assert leaf.snapshot().admitted_count == admitted
    with pytest.raises(BudgetExhausted) as caught:
        permit.resize(91)
    assert (caught.value.exhausted, caught.value.dimension) == ("root/leaf", "bytes")
    with pytest.raises(AmountInvalid):
        permit.resize(-1)
    assert held(root) == held(leaf) == (1, 90)
    assert leaf.snapshot().rejected_count == 1
    permit.release()
    assert held(root) == held(leaf) == (0, 0)
    with pytest.raises(PermitSpent):
        permit.resize(1)


async def test_what_a_smaller_permit_frees_goes_to_those_that_wait() -> None:
    budget = Budget.root("root", bytes=100)
    permit = budget.reserve(100)
    async with trio.open_nursery() as nursery:
        got: list[Permit] = []

        async def wait() -> None:
            got.append(await budget.acquire(60))

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        permit.resize(40)
        await trio.testing.wait_all_tasks_blocked()
        assert [other.bytes for other in got] == [60]
    for other in (permit, *got):
        other.release()


def test_a_split_permit_is_released_in_parts() -> None:
    budget = Budget.root("root", count=5, bytes=50)
    whole = budget.reserve(50, count=5)
    part = whole.split(2, 20)
    assert held(budget) == (5, 50)
    assert (whole.count, whole.bytes, part.count, part.bytes) == (3, 30, 2, 20)
    part.release()
    assert held(budget) == (3, 30)
    for count, nbytes in [(3, 0), (0, 0), (1, 31), (1, -1)]:
        with pytest.raises(PermitSpent):
            whole.split(count, nbytes)
    whole.release()
    assert state(budget) == [(0, 0, 0, 5)]


def test_a_spent_permit_can_only_be_released_again() -> None:
    budget = Budget.root("root")
    permit = budget.reserve(3)
    permit.release()
    permit.release()
    for use in (permit.promote, lambda: permit.rebind(budget), lambda: permit.split(1), lambda: permit.path):
        with pytest.raises(PermitSpent):
            use()
    assert held(budget) == (0, 0)
    assert "released" in repr(permit)


# ---------------------------------------------------------------- nothing leaks


@pytest.mark.row("runtime:R94")
async def test_a_holder_that_is_cancelled_or_raises_or_is_aborted_leaves_nothing() -> None:
    budget = Budget.root("root").child("leaf")

    async def hold(scope: trio.CancelScope) -> None:
        with scope, budget.reserve(5):
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        nursery.start_soon(hold, scope)
        await wait_all_tasks_blocked()
        assert held(budget) == (1, 5)
        scope.cancel()
    assert held(budget) == (0, 0)
    with pytest.raises(ZeroDivisionError), budget.reserve(5):
        raise ZeroDivisionError
    assert held(budget) == (0, 0)
    async with trio.open_nursery() as nursery:  # the owner ends everything
        nursery.start_soon(hold, trio.CancelScope())
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert held(budget) == (0, 0)
    assert budget.snapshot().admitted_count == budget.snapshot().released_count == 3


@pytest.mark.row("runtime:R94")
def test_a_permit_that_is_dropped_is_released_and_counted() -> None:
    root = Budget.root("root", count=2)
    leaf = root.child("leaf")
    leaf.reserve(9, count=2)
    gc.collect()
    leaf.reserve(count=2).release()  # there was room again
    assert held(root) == (0, 0)
    assert (leaf.snapshot().leaked_count, root.snapshot().leaked_count) == (2, 0)


@pytest.mark.row("runtime:R94")
async def test_a_permit_that_is_dropped_in_another_thread_wakes_those_that_wait() -> None:
    budget = Budget.root("root", count=1)
    holder = [budget.reserve()]
    got = trio.Event()

    async def acquire() -> None:
        with await budget.acquire():
            got.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(acquire)
        await wait_all_tasks_blocked()
        assert budget.snapshot().waiting == 1
        thread = threading.Thread(target=holder.clear)
        thread.start()
        await eventually(got.is_set)
        thread.join()
    assert (held(budget), budget.snapshot().leaked_count) == ((0, 0), 1)


# ---------------------------------------------------------------- the rules

CHILDREN: list[tuple[dict[str, Any], BudgetRule, Dimension | None]] = [
    ({"name": "  "}, "name_blank", None),
    ({"name": "a/b"}, "name_has_slash", None),
    ({"count": 0}, "capacity_zero", "count"),
    ({"bytes": 0}, "capacity_zero", "bytes"),
    ({"rate": Rate(0, 1)}, "rate_zero", "rate"),
    ({"rate": Rate(1, 0)}, "rate_zero", "rate"),
    ({"max_age": 0}, "max_age_zero", None),
    ({"count": 2, "control_reserve": Reserve(count=3)}, "reserve_exceeds_capacity", "count"),
    ({"bytes": 2, "control_reserve": Reserve(bytes=3)}, "reserve_exceeds_capacity", "bytes"),
    ({"rate": Rate(1, 2), "control_reserve": Reserve(rate=Rate(1, 3))}, "reserve_exceeds_capacity", "rate"),
    ({"rate": Rate(1, 2), "control_reserve": Reserve(rate=Rate(2, 1))}, "reserve_exceeds_capacity", "rate"),
    ({"control_reserve": Reserve(count=1)}, "reserve_without_capacity", "count"),
    ({"control_reserve": Reserve(bytes=1)}, "reserve_without_capacity", "bytes"),
    ({"control_reserve": Reserve(rate=Rate(1, 1))}, "reserve_without_capacity", "rate"),
    ({"count": 11}, "child_exceeds_parent", "count"),
    ({"bytes": 1001}, "child_exceeds_parent", "bytes"),
    ({"rate": Rate(6, 5)}, "child_exceeds_parent", "rate"),
    ({"rate": Rate(5, 6)}, "child_exceeds_parent", "rate"),
    ({"max_age": 61}, "child_max_age_exceeds_parent", None),
    ({"name": "taken"}, "name_in_use", None),
    ({"count": 1.5}, "not_a_number", "count"),
    ({"bytes": True}, "not_a_number", "bytes"),
    ({"max_age": nan}, "not_a_number", None),
    ({"rate": Rate(inf, 1)}, "not_a_number", "rate"),
    ({"control_reserve": Reserve(count=-1), "count": 1}, "not_a_number", "count"),
]


@pytest.mark.row("runtime:R95")
@pytest.mark.parametrize(("given", "rule", "dimension"), CHILDREN)
@pytest.mark.parametrize("kind", ["child", "key"])
def test_a_budget_that_breaks_a_rule_is_refused_with_its_path(
    kind: str, given: dict[str, Any], rule: BudgetRule, dimension: Dimension | None
) -> None:
    root = Budget.root("root", count=10, bytes=1000, rate=Rate(5, 5), max_age=60)
    root.child("taken")
    between = root.child("between")  # its limits are those above it
    for parent in (root,) if rule == "name_in_use" else (root, between):
        given = {"name": "new", **given}
        make = getattr(parent, kind)
        if kind == "key" and rule == "name_in_use":
            with pytest.raises(BudgetRefusal):
                make(**given)
            continue
        with pytest.raises(BudgetInvalid) as caught:
            make(**given)
        error = caught.value
        path = f"{parent.path}/{given['name'].strip()}"
        assert (error.path, error.rule, error.dimension) == (path, rule, dimension)
        assert repr(path) in str(error)
        assert isinstance(error, ContractViolation)
    assert [budget.name for budget in root.walk()] == ["root", "taken", "between"]


@pytest.mark.row("runtime:R95")
def test_a_root_obeys_the_same_rules_and_names_are_trimmed() -> None:
    with pytest.raises(BudgetInvalid) as caught:
        Budget.root(" ")
    assert caught.value.rule == "name_blank"
    with pytest.raises(BudgetInvalid, match="'top'"):
        Budget.root("top", count=0)
    budget = Budget.root(" top ", count=10, bytes=5, rate=Rate(1, 1), max_age=3).child(" a ", count=10).child("b")
    assert (budget.path, budget.name) == ("top/a/b", "b")
    assert budget.parent is not None
    assert (budget.parent.path, budget.parent.limits.bytes) == ("top/a", None)
    force = budget.limits_in_force  # what is left out is as above
    assert (force.count, force.bytes, force.rate, force.max_age) == (10, 5, Rate(1, 1), 3)


def test_refusals_are_operational_and_mistakes_are_not() -> None:
    assert issubclass(BudgetRefusal, OperationalError)
    assert issubclass(BudgetExhausted, BudgetRefusal)
    for mistake in (AmountInvalid, DifferentTree, PermitSpent):
        assert issubclass(mistake, ContractViolation)
