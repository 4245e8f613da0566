"""Guarantees: messages that nobody will handle are counted, kept for a while and told."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import Actor, DeadLetter, Inbox, Mailbox, System, handles

from ._systems import Ask, Break, Crash, Doer, DoNow, Hold, Note, Recorder, busy, outcome_of, supervised


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


async def listen(inbox: Inbox[DeadLetter], letters: list[DeadLetter]) -> None:
    async for letter in inbox:
        letters.append(letter)  # noqa: PERF401 (they are wanted as they come)


async def test_every_dead_letter_is_counted_by_reason(system: System) -> None:
    target = await supervised(system, Recorder, [], mailbox=Mailbox(limit=2, policy="drop_oldest"))
    ended = await system.spawn(Recorder, [])
    await ended.stop()
    ended.tell(Note(1))
    target.tell(Break())
    await wait_all_tasks_blocked()
    target.tell(DeadLetter(1, None, "/", "stopped"))  # of a class that it does not take
    release = await busy(target)
    for n in range(4):
        target.tell(Note(n))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.stop)
        await wait_all_tasks_blocked()
        release.set()
    assert system.dead_letters.by_reason == {"stopped": 3, "crashed": 1, "refused": 1, "displaced": 2}
    assert system.dead_letters.count == 7


async def test_a_dead_letter_tells_sender_recipient_and_reason(system: System) -> None:
    ended = await system.spawn(Recorder, [], name="ended")
    await ended.stop()
    sender = await system.spawn(Doer)
    await sender.ask(DoNow(lambda _: ended.tell(Note(1))))
    ended.tell(Note(2))
    assert system.dead_letters.recent == (
        DeadLetter(Note(1), sender, "/ended", "stopped"),
        DeadLetter(Note(2), None, "/ended", "stopped"),
    )


async def test_stop_and_kill_give_up_the_mailbox_in_order(system: System) -> None:
    for mode, reason in (("stop", "stopped"), ("kill", "killed")):
        target = await system.spawn(Recorder, [], name=mode)
        release = await busy(target)
        for n in range(3):
            target.tell(Note(n))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(getattr(target, mode))
            await wait_all_tasks_blocked()
            release.set()
        queued = [letter for letter in system.dead_letters.recent if letter.recipient == f"/{mode}"]
        if mode == "kill":  # and the message in hand
            held = [letter for letter in queued if isinstance(letter.message, Hold)]
            assert len(held) == 1
            queued.remove(held[0])
        assert queued == [DeadLetter(Note(n), None, f"/{mode}", reason) for n in range(3)]  # type: ignore[arg-type]


async def test_an_ask_is_never_a_dead_letter_but_when_it_is_refused(system: System) -> None:
    target = await supervised(system, Recorder, [], mailbox=Mailbox(limit=1, policy="drop_newest"))
    await outcome_of(target.ask, Break())
    release = await busy(target)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outcome_of, target.ask, Ask(1))
        nursery.start_soon(outcome_of, target.ask, Ask(2))
        await wait_all_tasks_blocked()
        nursery.start_soon(target.stop)
        await wait_all_tasks_blocked()
        release.set()
    await outcome_of(target.ask, Ask(3))
    assert system.dead_letters.count == 0


async def test_the_last_100_dead_letters_are_kept(system: System) -> None:
    ended = await system.spawn(Recorder, [])
    await ended.stop()
    for n in range(150):
        ended.tell(Note(n))
    assert [letter.message for letter in system.dead_letters.recent] == [Note(n) for n in range(50, 150)]
    assert system.dead_letters.count == 150


async def test_subscribers_are_told_every_dead_letter(system: System) -> None:
    letters: list[DeadLetter] = []
    listener = await system.spawn(listen, letters)
    ended = await system.spawn(Recorder, [])
    await ended.stop()
    ended.tell(Note(0))
    system.dead_letters.subscribe(listener)
    system.dead_letters.subscribe(listener)
    ended.tell(Note(1))
    ended.tell(Note(2))
    system.dead_letters.unsubscribe(listener)
    ended.tell(Note(3))
    await wait_all_tasks_blocked()
    assert [letter.message for letter in letters] == [Note(1), Note(2)]


async def test_a_subscription_to_dead_letters_ends_with_its_actor(system: System) -> None:
    letters: list[DeadLetter] = []
    listener = await system.spawn(listen, letters)
    ended = await system.spawn(Recorder, [])
    await ended.stop()
    system.dead_letters.subscribe(listener)
    await listener.stop()
    ended.tell(Note(1))
    assert system.dead_letters.count == 1


async def test_a_dead_letter_about_a_dead_letter_is_told_to_nobody(system: System) -> None:
    seen: list[DeadLetter] = []

    class Fragile(Actor[DeadLetter]):
        @handles(DeadLetter)
        def letter(self, msg: DeadLetter) -> None:
            seen.append(msg)
            raise Crash

    fragile = await supervised(system, Fragile)
    ended: Any = await system.spawn(Recorder, [])
    await ended.stop()
    system.dead_letters.subscribe(fragile)
    for n in range(3):
        ended.tell(Note(n))
    ended.tell(DeadLetter(1, None, "/", "stopped"))
    await wait_all_tasks_blocked()
    assert len(seen) == 3
    assert system.dead_letters.by_reason == {"stopped": 4, "crashed": 3}


async def test_a_subscriber_is_not_told_of_its_own_dead_letters(system: System) -> None:
    letters: list[DeadLetter] = []
    listener: Any = await system.spawn(listen, letters)
    system.dead_letters.subscribe(listener)
    listener.tell(Note(1))
    await wait_all_tasks_blocked()
    assert letters == []
    assert system.dead_letters.by_reason == {"refused": 1}


async def test_a_subscriber_is_told_as_far_as_its_mailbox_takes_them(system: System) -> None:
    letters: list[DeadLetter] = []
    listener = await system.spawn(listen, letters, mailbox=Mailbox(limit=2))
    ended = await system.spawn(Recorder, [])
    await ended.stop()
    system.dead_letters.subscribe(listener)
    for n in range(5):
        ended.tell(Note(n))
    await wait_all_tasks_blocked()
    assert [letter.message for letter in letters] == [Note(0), Note(1)]
    assert system.dead_letters.count == 5
