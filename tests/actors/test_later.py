"""Guarantees: promised answers."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import (
    Actor,
    ActorCrashed,
    AlreadyReplied,
    Later,
    NoReply,
    System,
    WrongThread,
    handles,
)

from ._systems import (
    Ask,
    Crash,
    DoNow,
    Note,
    cell_of,
    outcome_of,
    supervised,
)


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


class Promiser(Actor[Ask | Note | DoNow]):
    """Answers when it is told a number, in the order of the asks."""

    def __init__(self) -> None:
        self.open: list[Later[int]] = []

    @handles(Ask)
    def ask(self, msg: Ask) -> Later[int]:
        later = self.context.later(msg)
        self.open.append(later)
        return later

    @handles(Note)
    def note(self, msg: Note) -> None:
        self.open.pop(0).set(msg.n)

    @handles(DoNow)
    def do(self, msg: DoNow) -> Any:
        return msg.fn(self)


async def test_a_promised_answer_frees_the_actor(system: System) -> None:
    target = await system.spawn(Promiser)
    answers: list[int] = []

    async def ask(n: int) -> None:
        answers.append(await target.ask(Ask(n)))

    async with trio.open_nursery() as nursery:
        for n in range(3):
            nursery.start_soon(ask, n)
            await wait_all_tasks_blocked()
        assert await target.ask(DoNow(lambda actor: len(actor.open))) == 3
        for n in range(10, 13):
            target.tell(Note(n))
            await wait_all_tasks_blocked()
    assert answers == [10, 11, 12]


async def test_a_promise_is_kept_from_anywhere_in_the_actor(system: System) -> None:
    async def soon(actor: Promiser) -> None:
        await trio.sleep(3)
        actor.open[0].set(7)

    target = await system.spawn(Promiser)
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            assert await target.ask(Ask(1)) == 7
            assert trio.current_time() == 3

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        await target.ask(DoNow(lambda actor: actor.context.start_soon(soon, actor)))


async def test_a_promise_is_kept_once(system: System) -> None:
    target = await system.spawn(Promiser)
    later: list[Later[int]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.ask, Ask(1))
        await wait_all_tasks_blocked()
        later.append(await target.ask(DoNow(lambda actor: actor.open[0])))
        later[0].set(1)
    assert later[0].done
    for call in (later[0].set, later[0].fail):
        with pytest.raises(AlreadyReplied):
            call(ValueError())  # type: ignore[arg-type]


async def test_a_promise_that_is_let_go_raises_no_reply(system: System) -> None:
    target = await system.spawn(Promiser)
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            assert isinstance(await outcome_of(target.ask, Ask(1)), NoReply)

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        await target.ask(DoNow(lambda actor: actor.open.clear()))
        gc.collect()
    assert cell_of(target).links.laters == set()


@pytest.mark.parametrize("mode", ["stop", "drain", "kill"])
async def test_a_promise_left_at_the_end_raises_no_reply(system: System, mode: str) -> None:
    target = await system.spawn(Promiser)
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            assert isinstance(await outcome_of(target.ask, Ask(1)), NoReply)

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        await getattr(target, mode)()


async def test_a_promise_left_at_a_restart_raises_actor_crashed(system: System) -> None:
    target = await supervised(system, Promiser)

    def crash(_: Promiser) -> None:
        raise Crash

    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            error = await outcome_of(target.ask, Ask(1))
            assert isinstance(error, ActorCrashed)
            assert isinstance(error.cause, Crash)
            assert error.message == Ask(1)

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        target.tell(DoNow(crash))


async def test_a_promise_says_whether_its_asker_has_gone(system: System) -> None:
    target = await system.spawn(Promiser)
    with trio.move_on_after(1):
        await target.ask(Ask(1))
    target.tell(Ask(2))
    first, told = await target.ask(DoNow(lambda actor: actor.open))
    assert first.abandoned
    assert told.abandoned  # nobody ever waited
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.ask, Ask(3))
        await wait_all_tasks_blocked()
        (_, _, waited) = await target.ask(DoNow(lambda actor: actor.open))
        assert not waited.abandoned
        for _ in range(3):
            target.tell(Note(1))  # answers that nobody waits for are dropped


@pytest.mark.actor_system(real_clock=True)
async def test_a_promise_is_kept_in_the_actors_thread(system: System) -> None:
    target = await system.spawn(Promiser)
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            assert await target.ask(Ask(1)) == 5

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        (later,) = await target.ask(DoNow(lambda actor: actor.open))
        for call in (later.set, later.fail):
            with pytest.raises(WrongThread):
                await trio.to_thread.run_sync(call, ValueError())
        await trio.to_thread.run_sync(trio.from_thread.run_sync, later.set, 5)


async def test_a_message_put_aside_before_a_crash_is_still_answered(system: System) -> None:
    lives: list[int] = []

    class Late(Actor[Ask]):
        @handles(Ask)
        def ask(self, msg: Ask) -> int:
            lives.append(msg.n)
            if len(lives) == 1:
                self.context.stash()
                raise Crash
            return msg.n

    target = await supervised(system, Late)
    with trio.fail_after(1):
        assert await target.ask(Ask(1)) == 1
    assert lives == [1, 1]
    assert system.dead_letters.count == 0
