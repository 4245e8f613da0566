"""`@simulated`: a fresh clock, system and run for each example."""

from __future__ import annotations

import inspect
import traceback

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors import Actor, Request, System, handles
from actors.testing import UncleanSystem, simulated


@attrs.frozen
class Add(Request[int]):
    amount: int


class Counter(Actor[Add]):
    def __init__(self) -> None:
        self.total = 0

    @handles(Add)
    def add(self, msg: Add) -> int:
        self.total += msg.amount
        return self.total


seen: list[System] = []


@simulated(seed=3, examples=5)
async def test_each_example_has_a_clock_and_a_system_of_its_own(system: System) -> None:
    assert trio.current_time() == 0
    assert system not in seen
    seen.append(system)
    await trio.sleep(1000)
    counter = await system.spawn(Counter, name="counter")
    assert await counter.ask(Add(1)) == 1


def test_the_examples_have_been_run() -> None:
    assert len(seen) == 5
    assert all(system.report is not None for system in seen)


@given(st.lists(st.integers(min_value=-5, max_value=5), max_size=10))
@simulated(seed=1, inline="both")
async def test_it_works_under_hypothesis(system: System, amounts: list[int]) -> None:
    counter = await system.spawn(Counter)
    for amount in amounts:
        counter.tell(Add(amount))
    assert await counter.ask(Add(0)) == sum(amounts)


@pytest.mark.parametrize("amount", [1, 2])
@simulated()
async def test_other_parameters_are_passed_on(system: System, amount: int, tmp_path: object) -> None:
    assert tmp_path is not None
    assert await (await system.spawn(Counter)).ask(Add(amount)) == amount


def test_both_ways_of_dispatch_are_run() -> None:
    ways: list[bool] = []

    @simulated(examples=2, inline="both")
    async def test(system: System) -> None:
        await trio.lowlevel.checkpoint()
        ways.append(system.inline)

    test()
    assert ways == [True, False, True, False]


def draws(seed: int, examples: int) -> list[float]:
    found: list[float] = []

    @simulated(seed=seed, examples=examples)
    async def test(system: System) -> None:
        await trio.lowlevel.checkpoint()
        found.append(system.random.random())

    test()
    return found


def test_an_example_has_the_seed_that_its_number_gives() -> None:
    three = draws(7, 3)
    assert len(set(three)) == 3
    assert three == [*draws(7, 1), *draws(8, 1), *draws(9, 1)]


def orders(seed: int, examples: int) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []

    @simulated(seed=seed, examples=examples)
    async def test(system: System) -> None:
        order: list[int] = []

        async def note(number: int) -> None:
            await trio.lowlevel.checkpoint()
            order.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(note, number)
        found.append(tuple(order))

    test()
    return found


def test_runs_repeat_with_their_seed_and_differ_without() -> None:
    assert orders(0, 10) == orders(0, 10)
    assert len(set(orders(0, 10))) == 10


def test_a_failing_example_says_how_to_see_it_again() -> None:
    @simulated(seed=100, examples=50, inline="both")
    async def test(system: System) -> None:
        await trio.lowlevel.checkpoint()
        assert system.inline or system.random.random() < 0.8

    with pytest.raises(AssertionError) as caught:
        test()
    text = "".join(traceback.format_exception_only(caught.value))
    seed = int(text.partition("@simulated(seed=")[2].partition(",")[0])
    assert f"@simulated(seed={seed}, inline=False)" in text
    assert draws(seed, 1)[0] >= 0.8


def test_each_example_is_checked_at_its_end() -> None:
    @simulated()
    async def test(system: System) -> None:
        system.group.spawn_service(trio.sleep, 100)

    with pytest.raises(UncleanSystem, match="unhealthy"):
        test()


def test_what_is_left_of_the_signature_is_for_pytest() -> None:
    @simulated()
    async def test(system: System, one: int, *, two: str) -> None:
        """Says what it does."""

    assert list(inspect.signature(test).parameters) == ["one", "two"]
    assert test.__doc__ == "Says what it does."
    assert not inspect.iscoroutinefunction(test)


def test_only_async_tests_can_be_simulated() -> None:
    def test(system: System) -> None: ...

    with pytest.raises(TypeError, match="below @given"):
        simulated()(test)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="below @given"):
        simulated()(given(st.none())(test))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        simulated(examples=0)
