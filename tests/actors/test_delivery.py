"""Guarantees: which messages are handled, how often, and what becomes of the others."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import (
    Actor,
    ActorCrashed,
    ActorStopped,
    Child,
    DeadLetter,
    Inbox,
    MessageRefused,
    Ref,
    Request,
    System,
    WrongThread,
    handles,
    one_for_all,
)

from ._systems import (
    Ask,
    Break,
    BreakSlowly,
    Crash,
    Do,
    Doer,
    DoNow,
    Note,
    Recorder,
    busy,
    cell_of,
    outcome_of,
    supervised,
)


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


async def test_at_most_once(system: System) -> None:
    log: list[int] = []
    target = await supervised(system, Recorder, log)
    for n in range(30):
        target.tell(Break(n) if n % 7 == 0 else Note(n))
    await wait_all_tasks_blocked()
    assert sorted(log) == list(range(30))
    assert cell_of(target).handled == 25
    assert system.dead_letters.by_reason == {"crashed": 5}


async def test_tell_never_runs_the_receiver(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    for n in range(10):
        target.tell(Note(n))
        assert log == []
    await wait_all_tasks_blocked()
    assert log == list(range(10))


async def test_the_mailbox_outlives_a_restart(system: System) -> None:
    log: list[int] = []
    target = await supervised(system, Recorder, log)
    target.tell(BreakSlowly(0))
    for n in range(1, 4):
        target.tell(Note(n))
    assert await target.ask(Ask(4)) == 4
    assert log == [0, 1, 2, 3, 4]
    assert target.generation == 2


@pytest.mark.parametrize("message", [Break(1), BreakSlowly(1)])
async def test_the_message_in_hand_at_a_crash_is_not_handled_again(system: System, message: Any) -> None:
    log: list[int] = []
    target = await supervised(system, Recorder, log)
    target.tell(message)
    error = await outcome_of(target.ask, message)
    assert await target.ask(Ask(2)) == 2
    assert log == [1, 1, 2]
    assert isinstance(error, ActorCrashed)
    assert (error.path, error.message) == ("/supervisor/child", message)
    assert isinstance(error.cause, Crash)
    assert error.__cause__ is error.cause
    (letter,) = system.dead_letters.recent
    assert letter == DeadLetter(message, None, "/supervisor/child", "crashed")


async def test_a_tell_to_an_ended_actor_is_a_dead_letter(system: System) -> None:
    target = await system.spawn(Recorder, [], name="target")
    release = await busy(target)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.stop)
        await wait_all_tasks_blocked()
        target.tell(Note(1))  # it is ending
        release.set()
    target.tell(Note(2))  # it has ended
    assert system.dead_letters.recent == (
        DeadLetter(Note(1), None, "/target", "stopped"),
        DeadLetter(Note(2), None, "/target", "stopped"),
    )


async def test_send_and_ask_to_an_ended_actor_raise_actor_stopped(system: System) -> None:
    target = await system.spawn(Recorder, [], name="target")
    release = await busy(target)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.stop)
        await wait_all_tasks_blocked()
        for call in (target.send, target.ask):
            error = await outcome_of(call, Ask(1))
            assert isinstance(error, ActorStopped)
            assert (error.path, error.exit) == ("/target", None)
        release.set()
    for call in (target.send, target.ask):
        error = await outcome_of(call, Ask(1))
        assert isinstance(error, ActorStopped)
        assert error.exit is not None
        assert error.exit.kind == "stopped"
    assert system.dead_letters.count == 0


@attrs.frozen
class Unknown(Request[int]):
    pass


async def test_a_message_without_a_handler_is_refused(system: System) -> None:
    log: list[int] = []
    target: Ref[Any] = await system.spawn(Recorder, log, name="target")
    sender = await system.spawn(Doer)
    await sender.ask(DoNow(lambda _: target.tell(Unknown())))
    with pytest.raises(MessageRefused) as caught:
        await target.ask(Unknown())
    assert (caught.value.path, caught.value.message_type) == ("/target", Unknown)
    assert await target.ask(Ask(1)) == 1
    assert target.generation == 1
    assert set(system.dead_letters.recent) == {
        DeadLetter(Unknown(), sender, "/target", "refused"),
        DeadLetter(Unknown(), None, "/target", "refused"),
    }


async def test_a_function_actor_refuses_what_its_annotation_does_not_name(system: System) -> None:
    seen: list[object] = []

    async def body(inbox: Inbox[Ask]) -> None:
        async for msg in inbox:
            seen.append(msg)
            inbox.reply(msg, msg.n)

    target: Ref[Any] = await system.spawn(body, name="target")
    target.tell(Note(1))
    with pytest.raises(MessageRefused):
        await target.ask(Unknown())
    assert await target.ask(Ask(2)) == 2
    assert seen == [Ask(2)]
    assert system.dead_letters.by_reason == {"refused": 2}


async def test_a_function_actor_may_refuse_a_message_in_hand(system: System) -> None:
    async def body(inbox: Inbox[Ask]) -> None:
        async for msg in inbox:
            if msg.n < 0:
                inbox.refuse(msg)
            else:
                inbox.reply(msg, msg.n)

    target = await system.spawn(body)
    target.tell(Ask(-1))
    with pytest.raises(MessageRefused):
        await target.ask(Ask(-1))
    assert await target.ask(Ask(1)) == 1
    assert system.dead_letters.by_reason == {"refused": 2}
    assert cell_of(target).handled == 1


@pytest.mark.parametrize("as_function", [False, True])
async def test_a_restart_for_the_sake_of_others_keeps_the_mailbox(system: System, as_function: bool) -> None:
    lives: list[list[int]] = []

    async def function(inbox: Inbox[Note]) -> None:
        life: list[int] = []
        lives.append(life)
        async for msg in inbox:
            await trio.sleep(1)
            life.append(msg.n)

    class Class(Actor[Note]):
        def __init__(self) -> None:
            self.life: list[int] = []
            lives.append(self.life)

        @handles(Note)
        async def note(self, msg: Note) -> None:
            await trio.sleep(1)
            self.life.append(msg.n)

    body: Any = function if as_function else Class
    children = Child(Recorder, [], name="sibling"), Child(body, name="target")
    supervision = await system.supervise(one_for_all(), *children)
    target = supervision.child("target", body)
    for n in range(5):
        target.tell(Note(n))
    await trio.sleep(1.5)
    await outcome_of(supervision.child("sibling", Recorder).ask, Break())
    await trio.sleep(10)
    assert lives == [[0, 1], [2, 3, 4]]  # the message in hand is finished
    assert target.generation == 2
    assert system.dead_letters.count == 0


@attrs.frozen
class Who(Request[object]):
    pass


@attrs.frozen
class WhoSlowly(Request[object]):
    pass


class Nosy(Actor[Who | WhoSlowly]):
    @handles(Who)
    def who(self, msg: Who) -> object:
        return self.context.sender

    @handles(WhoSlowly)
    async def who_slowly(self, msg: WhoSlowly) -> object:
        await trio.sleep(1)
        return self.context.sender


async def test_sender_is_who_sent_the_message(system: System) -> None:
    target = await system.spawn(Nosy)
    asker = await system.spawn(Doer)
    for message in (Who(), WhoSlowly()):
        assert await target.ask(message) is None
        assert await asker.ask(Do(lambda _, m=message: target.ask(m))) is asker

    async def from_a_helper(actor: Doer) -> object:
        answers: list[object] = []

        async def helper() -> None:
            answers.append(await target.ask(Who()))

        await actor.context.start_soon(helper).wait()
        return answers[0]

    assert await asker.ask(Do(from_a_helper)) is asker


@pytest.mark.actor_system(real_clock=True)
async def test_a_ref_belongs_to_its_thread(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)

    async def elsewhere() -> list[object]:
        outcomes: list[object] = [await outcome_of(target.send, Note(1)), await outcome_of(target.ask, Ask(2))]
        try:
            target.tell(Note(3))
        except WrongThread as exc:
            outcomes.append(exc)
        return outcomes

    outcomes = await trio.to_thread.run_sync(trio.run, elsewhere)
    assert [type(outcome) for outcome in outcomes] == [WrongThread] * 3
    assert await target.ask(Ask(4)) == 4
    assert log == [4]


async def test_a_derived_class_is_taken_by_the_handler_of_its_base(system: System) -> None:
    @attrs.frozen
    class Louder(Note):
        pass

    log: list[int] = []
    target = await system.spawn(Recorder, log)
    target.tell(Louder(1))
    await wait_all_tasks_blocked()
    assert log == [1]
    assert system.dead_letters.count == 0


async def test_a_handler_that_wraps_a_coroutine_function_is_awaited(system: System) -> None:
    import functools

    def loud(fn: Any) -> Any:
        @functools.wraps(fn)
        def wrapper(*args: Any) -> Any:
            return fn(*args)

        return wrapper

    class Wrapped(Actor[Ask]):
        @handles(Ask)
        @loud
        async def answer(self, msg: Ask) -> int:
            await trio.sleep(1)
            return msg.n

    target = await system.spawn(Wrapped)
    assert await target.ask(Ask(3)) == 3
