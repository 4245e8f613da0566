"""Guarantees: asks that would wait for themselves are found, and no others."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import ActorCrashed, AskCycle, Inbox, Later, System, open_system

from ._systems import Ask, Do, Doer, DoNow, Hold, Recorder, busy, outcome_of, supervised

if TYPE_CHECKING:
    from actors import Ref


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


def ask(ref: Ref[Any], message: Any) -> Do:
    """Let an actor ask another one, and return the outcome."""
    return Do(lambda _: outcome_of(ref.ask, message))


async def test_an_ask_to_oneself_raises_at_once(system: System) -> None:
    doer = await system.spawn(Doer, name="a")
    error = await doer.ask(ask(doer, DoNow(None)))
    assert isinstance(error, AskCycle)
    assert error.path == ("/a", "/a")

    async def body(inbox: Inbox[Ask]) -> None:
        async for msg in inbox:
            with pytest.raises(AskCycle):
                await inbox.context.ref.ask(Ask(1))
            inbox.reply(msg, 1)

    function = await system.spawn(body)
    assert await function.ask(Ask(1)) == 1


async def test_a_cycle_of_asks_raises_with_its_path(system: System) -> None:
    a, b, c = [await system.spawn(Doer, name=name) for name in "abc"]
    error = await a.ask(ask(b, ask(c, ask(a, Do(None)))))
    assert isinstance(error, AskCycle)
    assert error.path == ("/c", "/a", "/b", "/c")


async def test_a_cycle_through_a_queued_ask_is_found(system: System) -> None:
    a, b = [await system.spawn(Doer, name=name) for name in "ab"]
    release = trio.Event()

    async def wait_and_ask(_: Doer) -> object:
        await release.wait()
        return await outcome_of(a.ask, Do(None))

    async with trio.open_nursery() as nursery:
        errors: list[object] = []

        async def first() -> None:
            errors.append(await b.ask(Do(wait_and_ask)))

        nursery.start_soon(first)
        await wait_all_tasks_blocked()
        nursery.start_soon(a.ask, ask(b, DoNow(lambda _: 1)))  # behind the first
        await wait_all_tasks_blocked()
        release.set()
    (error,) = errors
    assert isinstance(error, AskCycle)


async def test_one_of_several_asks_at_a_time_closes_a_cycle(system: System) -> None:
    a, b = [await system.spawn(Doer, name=name) for name in "ab"]
    other = await system.spawn(Recorder, [])

    async def several(_: Doer) -> object:
        outcomes: list[object] = []

        async def one(ref: Any, message: Any) -> None:
            outcomes.append(await outcome_of(ref.ask, message))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, other, Ask(1))
            nursery.start_soon(one, b, ask(a, Do(None)))
        return outcomes

    outcomes = await a.ask(Do(several))
    assert 1 in outcomes
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AskCycle", "int"]


async def test_a_promised_answer_closes_no_cycle(system: System) -> None:
    a, b = [await system.spawn(Doer, name=name) for name in "ab"]
    laters: list[Later[Any]] = []

    def defer(actor: Doer) -> Later[Any]:
        item = actor.context.cell_.in_hand
        assert item is not None
        laters.append(actor.context.later(item[0]))  # type: ignore[arg-type]
        return laters[0]

    async def ask_back(_: Doer) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.ask, DoNow(lambda _: 1))
            await wait_all_tasks_blocked()
            laters[0].set(5)

    async with trio.open_nursery() as nursery:

        async def first() -> None:
            assert await a.ask(Do(lambda _: b.ask(DoNow(defer)))) == 5

        nursery.start_soon(first)
        await wait_all_tasks_blocked()
        await b.ask(Do(ask_back))


async def test_a_stashed_ask_closes_a_cycle(system: System) -> None:
    a, b = [await system.spawn(Doer, name=name) for name in "ab"]
    aside: list[int] = []

    def stash_once(actor: Doer) -> int:
        if not aside:
            aside.append(1)
            actor.context.stash()
        return 7

    async def ask_back(actor: Doer) -> object:
        error = await outcome_of(a.ask, DoNow(None))
        actor.context.unstash_all()
        return error

    async with trio.open_nursery() as nursery:

        async def first() -> None:
            assert await a.ask(Do(lambda _: b.ask(DoNow(stash_once)))) == 7

        nursery.start_soon(first)
        await wait_all_tasks_blocked()
        assert isinstance(await b.ask(Do(ask_back)), AskCycle)


async def test_an_ask_from_a_helper_task_closes_no_cycle(system: System) -> None:
    a = await system.spawn(Doer)
    answers: list[object] = []

    async def helper() -> None:
        answers.append(await a.ask(DoNow(lambda _: 1)))

    async def start(actor: Doer) -> None:
        actor.context.start_soon(helper)
        await trio.sleep(1)

    await a.ask(Do(start))
    await wait_all_tasks_blocked()
    assert answers == [1]


async def test_an_ask_from_a_nursery_around_the_loop_closes_no_cycle(system: System) -> None:
    answers: list[int] = []
    until = trio.Event()

    async def body(inbox: Inbox[Ask | Hold]) -> None:
        async def worker() -> None:
            await until.wait()
            answers.append(await inbox.context.ref.ask(Ask(1)))
            answers.append(await other.ask(Do(lambda _: inbox.context.ref.ask(Ask(2)))))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker)
            async for msg in inbox:
                if isinstance(msg, Hold):
                    await msg.until.wait()
                else:
                    inbox.reply(msg, msg.n)
            nursery.cancel_scope.cancel()

    other = await system.spawn(Doer)
    function = await system.spawn(body)
    release = await busy(function)  # also while a message is in hand
    until.set()
    await wait_all_tasks_blocked()
    release.set()
    await wait_all_tasks_blocked()
    assert answers == [1, 2]


async def test_an_answered_ask_closes_no_cycle(system: System) -> None:
    a, b = [await system.spawn(Doer) for _ in range(2)]

    async def ask_and_linger(_: Doer) -> None:
        assert await b.ask(DoNow(lambda _: 1)) == 1
        await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(a.ask, Do(ask_and_linger))
        await wait_all_tasks_blocked()
        assert await b.ask(Do(lambda _: a.ask(DoNow(lambda _: 2)))) == 2
    assert trio.current_time() == 1


async def test_a_cycle_in_hand_fails_the_handler_that_closes_it(system: System) -> None:
    target = await supervised(system, Doer)
    error = await outcome_of(target.ask, Do(lambda actor: actor.context.ref.ask(Do(None))))
    assert isinstance(error, ActorCrashed)
    assert isinstance(error.cause, AskCycle)
    assert await target.ask(DoNow(lambda _: 3)) == 3


async def test_cycles_are_found_under_a_tracer(autojump_clock: trio.testing.MockClock) -> None:
    class Plain:
        async def traced(self, ask: Any, answer: Any, /) -> Any:
            return await answer

        def handling(self, ask: Any, /) -> Any:
            return nullcontext()

    with trio.fail_after(1):
        async with open_system(tracer=Plain(), slices="count") as system:
            doer = await system.spawn(Doer)
            assert isinstance(await doer.ask(ask(doer, Do(None))), AskCycle)
