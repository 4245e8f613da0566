"""Guarantees: asks, replies and their errors."""

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
    AlreadyReplied,
    Inbox,
    Mailbox,
    NoReply,
    NotInHand,
    Request,
    System,
    handles,
)

from ._systems import (
    Ask,
    AskSlowly,
    Break,
    Crash,
    Do,
    Doer,
    Recorder,
    busy,
    outcome_of,
    supervised,
)


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


async def answerer(inbox: Inbox[Ask], how: Any) -> None:
    async for msg in inbox:
        how(inbox, msg)


async def test_an_ask_returns_the_reply(system: System) -> None:
    target = await system.spawn(Recorder, [])
    function = await system.spawn(answerer, lambda inbox, msg: inbox.reply(msg, msg.n))
    for n in range(5):
        assert await target.ask(Ask(n)) == n
        assert await target.ask(AskSlowly(n)) == n
        assert await function.ask(Ask(n)) == n


async def test_a_crash_in_hand_raises_actor_crashed_at_the_asker(system: System) -> None:
    target = await supervised(system, Recorder, [])
    release = await busy(target)
    errors: list[Any] = []

    async def ask() -> None:
        errors.append(await outcome_of(target.ask, Break()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        release.set()
    await ask()
    for error in errors:
        assert isinstance(error, ActorCrashed)
        assert isinstance(error.cause, Crash)


async def test_a_reply_may_be_an_error(system: System) -> None:
    target = await system.spawn(answerer, lambda inbox, msg: inbox.fail(msg, KeyError(msg.n)))
    for n in range(2):
        with pytest.raises(KeyError):
            await target.ask(Ask(n))
    target.tell(Ask(3))
    await wait_all_tasks_blocked()
    assert target.generation == 1


async def test_a_request_that_is_not_answered_raises_no_reply(system: System) -> None:
    target = await system.spawn(answerer, lambda inbox, msg: None)
    with pytest.raises(NoReply) as caught:
        await target.ask(Ask(1))
    assert (caught.value.path, caught.value.message) == (target.path, Ask(1))


async def test_a_body_that_returns_with_a_request_in_hand_raises_no_reply(system: System) -> None:
    async def once(inbox: Inbox[Ask]) -> None:
        async for _ in inbox:
            return

    target = await system.spawn(once)
    with pytest.raises(NoReply):
        await target.ask(Ask(1))
    assert (await target.wait_stopped()).kind == "finished"


async def test_a_second_reply_raises_already_replied(system: System) -> None:
    errors: list[Any] = []

    def twice(inbox: Inbox[Ask], msg: Ask) -> None:
        first, second = (inbox.reply, inbox.fail) if msg.n % 2 else (inbox.fail, inbox.reply)
        first(msg, ValueError())
        for again in (first, second):
            with pytest.raises(AlreadyReplied) as caught:
                again(msg, ValueError())
            errors.append(caught.value.message)

    target = await system.spawn(answerer, twice)
    for n in range(2):
        target.tell(Ask(n))
        await outcome_of(target.ask, Ask(n))
    assert errors == [Ask(0)] * 4 + [Ask(1)] * 4


async def test_a_reply_to_a_message_not_in_hand_raises_not_in_hand(system: System) -> None:
    kept: list[Ask] = []
    errors: list[object] = []

    def late(inbox: Inbox[Ask], msg: Ask) -> None:
        if kept:
            for call in (inbox.reply, inbox.fail):
                with pytest.raises(NotInHand):
                    call(kept[0], ValueError())
            for other in (inbox.refuse, inbox.later, inbox.context.later):
                with pytest.raises(NotInHand) as caught:
                    other(kept[0])
                errors.append(caught.value.message_type)
        kept.append(msg)

    target = await system.spawn(answerer, late)
    target.tell(Ask(1))
    target.tell(Ask(2))
    await wait_all_tasks_blocked()
    assert errors == [Ask] * 3


async def test_asks_that_wait_fail_at_once_when_the_actor_is_stopped(system: System) -> None:
    target = await system.spawn(Recorder, [], name="target")
    release = await busy(target)
    outcomes: list[Any] = []

    async def ask(n: int) -> None:
        outcomes.append(await outcome_of(target.ask, Ask(n)))

    async with trio.open_nursery() as nursery:
        for n in range(5):
            nursery.start_soon(ask, n)
        await wait_all_tasks_blocked()
        nursery.start_soon(target.stop)
        await wait_all_tasks_blocked()
        assert [type(outcome) for outcome in outcomes] == [ActorStopped] * 5
        release.set()


@attrs.frozen
class DeadlineAsk(Request[float]):
    pass


@attrs.frozen
class DeadlineAskSlowly(Request[float]):
    pass


class Clerk(Actor[DeadlineAsk | DeadlineAskSlowly]):
    @handles(DeadlineAsk)
    def now(self, msg: DeadlineAsk) -> float:
        return self.context.deadline

    @handles(DeadlineAskSlowly)
    async def slowly(self, msg: DeadlineAskSlowly) -> float:
        await trio.sleep(1)
        return self.context.deadline


async def test_the_handler_sees_the_deadline_of_its_asker(system: System) -> None:
    clerk = await system.spawn(Clerk)
    for message in (DeadlineAsk(), DeadlineAskSlowly()):
        at = trio.current_time() + 10
        with trio.fail_after(20), trio.fail_at(at):
            assert await clerk.ask(message) == at
        assert await clerk.ask(message) == float("inf")


async def test_one_actor_asks_from_many_tasks_at_a_time(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(limit=2))
    answers: list[int] = []

    async def ask(actor: Doer) -> None:
        async with trio.open_nursery() as nursery:
            for n in range(20):
                nursery.start_soon(note, n)

    async def note(n: int) -> None:
        answers.append(await target.ask(Ask(n)))

    asker = await system.spawn(Doer)
    release = await busy(target)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(asker.ask, Do(ask))
        await wait_all_tasks_blocked()
        release.set()
    assert sorted(answers) == sorted(log) == list(range(20))
