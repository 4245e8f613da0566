"""Guarantees: messages put aside, and behaviours that take over."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import (
    Actor,
    ActorStopped,
    DeadLetter,
    Exit,
    Inbox,
    InvalidSetting,
    Mailbox,
    NotInHand,
    StashFull,
    System,
    handles,
)

from ._systems import Ask, Break, Crash, Do, Doer, DoNow, Hold, Note, outcome_of, supervised


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


class Putter(Actor[Ask | Note | DoNow | Break | Hold]):
    """Puts asks and notes aside until it is opened by a function."""

    def __init__(self, log: list[int], is_open: bool = False) -> None:
        self.log = log
        self.is_open = is_open

    @handles(Ask)
    def ask(self, msg: Ask) -> int:
        if not self.is_open:
            self.context.stash()
        self.log.append(msg.n)
        return msg.n

    @handles(Note)
    def note(self, msg: Note) -> None:
        if self.is_open:
            self.log.append(msg.n)
        else:
            self.context.stash()

    @handles(DoNow)
    def do(self, msg: DoNow) -> Any:
        return msg.fn(self)

    @handles(Break)
    def crash(self, msg: Break) -> int:
        raise Crash

    @handles(Hold)
    async def hold(self, msg: Hold) -> None:
        await msg.until.wait()


def unstash(actor: Putter) -> int:
    actor.is_open = True
    return actor.context.unstash_all()


async def test_a_stashed_ask_goes_on_waiting_for_its_answer(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Putter, log)
    answers: list[int] = []

    async def ask() -> None:
        answers.append(await target.ask(Ask(1)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.sleep(100)
        assert answers == []
        assert await target.ask(DoNow(unstash)) == 1
    assert answers == [1]
    assert log == [1, 1]


async def test_the_stash_holds_as_many_messages_as_the_mailbox(system: System) -> None:
    target = await system.spawn(Putter, [], mailbox=Mailbox(limit=2))
    for n in range(2):
        target.tell(Note(n))
        await wait_all_tasks_blocked()

    def one_more(actor: Putter) -> object:
        with pytest.raises(StashFull) as caught:
            actor.context.stash()
        return caught.value.limit

    assert await target.ask(DoNow(one_more)) == 2  # it is still in hand, and answered
    assert await target.ask(DoNow(unstash)) == 2


async def test_nothing_but_the_message_in_hand_is_stashed(system: System) -> None:
    errors: list[object] = []

    def twice(actor: Putter) -> None:
        actor.context.stash()
        with pytest.raises(NotInHand) as caught:
            actor.context.stash()
        errors.append(caught.value)

    target = await system.spawn(Putter, [])
    target.tell(DoNow(twice))
    await wait_all_tasks_blocked()
    assert len(errors) == 1
    await target.ask(DoNow(lambda actor: setattr(actor, "is_open", True)))


async def test_stashed_messages_outlive_a_restart(system: System) -> None:
    log: list[int] = []
    opened: list[bool] = []

    def make() -> Putter:
        return Putter(log, bool(opened))

    target = await supervised(system, make)
    for n in range(3):
        target.tell(Note(n))
    await wait_all_tasks_blocked()
    opened.append(True)
    target.tell(Note(3))
    target.tell(Break())
    target.tell(Note(4))
    await wait_all_tasks_blocked()
    assert log == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["stop", "drain", "kill"])
async def test_stashed_messages_are_given_up_at_the_end(system: System, mode: str) -> None:
    target = await system.spawn(Putter, [], name="target")
    target.tell(Note(1))
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            assert isinstance(await outcome_of(target.ask, Ask(2)), ActorStopped)

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        await getattr(target, mode)()
    assert system.dead_letters.recent == (DeadLetter(Note(1), None, "/target", "stopped"),)


async def test_a_drain_handles_what_is_unstashed_in_it(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Putter, log)
    answers: list[object] = []

    async def ask() -> None:
        answers.append(await outcome_of(target.ask, Ask(1)))

    release = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        target.tell(Note(2))
        target.tell(Hold(release))
        await wait_all_tasks_blocked()
        target.tell(DoNow(unstash))
        target.tell(Note(3))
        nursery.start_soon(target.drain)
        await wait_all_tasks_blocked()
        release.set()
    assert answers == [1]
    assert log == [1, 1, 2, 3]
    assert system.dead_letters.count == 0


async def test_a_function_actor_may_stash(system: System) -> None:
    log: list[int] = []

    async def body(inbox: Inbox[Ask]) -> None:
        async for msg in inbox:
            if msg.n > 0 and not log:
                inbox.context.stash()
                continue
            log.append(msg.n)
            inbox.context.unstash_all()
            inbox.reply(msg, msg.n)

    target = await system.spawn(body)
    async with trio.open_nursery() as nursery:
        for n in (1, 2):
            nursery.start_soon(target.ask, Ask(n))
            await wait_all_tasks_blocked()
        assert await target.ask(Ask(0)) == 0
    assert log == [0, 1, 2]


# Behaviours


class Locked(Actor[Ask | DoNow]):
    def __init__(self, ends: list[str] | None = None) -> None:
        self.ends = ends

    @handles(Ask)
    def ask(self, msg: Ask) -> int:
        return -msg.n

    @handles(DoNow)
    def do(self, msg: DoNow) -> Any:
        return msg.fn(self)

    async def stopping(self, reason: Exit) -> None:
        if self.ends is not None:
            self.ends.append(f"{type(self).__name__} {reason.kind}")

    async def restarting(self, cause: BaseException) -> None:
        if self.ends is not None:
            self.ends.append(f"{type(self).__name__} {type(cause).__name__}")


class Unlocked(Locked):
    @handles(Ask)
    def ask(self, msg: Ask) -> int:
        return msg.n


async def test_a_behaviour_takes_over_from_the_next_message_on(system: System) -> None:
    target = await system.spawn(Locked)
    assert await target.ask(Ask(1)) == -1

    def become(actor: Locked) -> None:
        actor.context.become(Unlocked())
        actor.context.ref.tell(Ask(1))

    await target.ask(DoNow(become))
    assert await target.ask(Ask(2)) == 2
    assert await target.ask(DoNow(lambda actor: type(actor))) is Unlocked


async def test_unbecome_goes_back_one_behaviour(system: System) -> None:
    target = await system.spawn(Locked)
    await target.ask(DoNow(lambda actor: actor.context.become(Unlocked())))
    await target.ask(DoNow(lambda actor: actor.context.become(Locked())))
    assert await target.ask(Ask(1)) == -1
    assert await target.ask(DoNow(lambda actor: actor.context.unbecome()))
    assert await target.ask(Ask(1)) == 1
    assert await target.ask(DoNow(lambda actor: actor.context.unbecome()))
    assert await target.ask(Ask(1)) == -1
    assert not await target.ask(DoNow(lambda actor: actor.context.unbecome()))


async def test_a_restart_goes_back_to_the_first_behaviour(system: System) -> None:
    target = await supervised(system, Locked)

    def become_and_crash(actor: Locked) -> None:
        actor.context.become(Unlocked())
        raise Crash

    await outcome_of(target.ask, DoNow(become_and_crash))
    assert await target.ask(Ask(1)) == -1
    assert not await target.ask(DoNow(lambda actor: actor.context.unbecome()))


async def test_the_hooks_are_those_of_the_object_that_the_factory_made(system: System) -> None:
    ends: list[str] = []
    target = await supervised(system, Locked, ends)

    def become(actor: Locked) -> None:
        actor.context.become(Unlocked(ends))

    def crash(_: Locked) -> None:
        raise Crash

    await target.ask(DoNow(become))
    await outcome_of(target.ask, DoNow(crash))
    await target.ask(DoNow(become))
    await target.stop()
    assert ends == ["Locked Crash", "Locked stopped"]


async def test_become_is_for_class_actors(system: System) -> None:
    async def body(inbox: Inbox[Ask]) -> None:
        async for msg in inbox:
            with pytest.raises(InvalidSetting):
                inbox.context.become(Locked())  # type: ignore[arg-type]
            inbox.reply(msg, msg.n)

    target = await system.spawn(body)
    assert await target.ask(Ask(1)) == 1
    assert await target.ask(Ask(2)) == 2


async def test_an_async_handler_may_become_another_behaviour(system: System) -> None:
    class Slow(Locked):
        @handles(Ask)
        async def ask(self, msg: Ask) -> int:  # type: ignore[override]
            self.context.become(Unlocked())
            await trio.sleep(1)
            return 100 + msg.n

    target = await system.spawn(Slow)
    async with trio.open_nursery() as nursery:

        async def first() -> None:
            assert await target.ask(Ask(1)) == 101

        nursery.start_soon(first)
        await wait_all_tasks_blocked()
        assert await target.ask(Ask(2)) == 2
    doer = await system.spawn(Doer)
    assert await doer.ask(Do(lambda _: target.ask(Ask(3)))) == 3
