"""Guarantees: in which order messages are handled."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import Actor, Inbox, Mailbox, Ref, Request, System, handles

from ._systems import Ask, AskSlowly, Break, Do, Doer, Note, Recorder, Urgent, busy, supervised


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


async def mixed(target: Ref[Any], first: int, count: int) -> None:
    """Send numbers in every way there is."""
    for n in range(first, first + count):
        if n % 3 == 0:
            target.tell(Note(n))
        elif n % 3 == 1:
            await target.send(Note(n))
        else:
            await target.ask(Ask(n))


async def test_order_per_pair(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(limit=3))
    senders = [await system.spawn(Doer) for _ in range(3)]
    async with trio.open_nursery() as nursery:
        for index, sender in enumerate(senders):
            nursery.start_soon(sender.ask, Do(lambda _, first=1000 * index: mixed_waiting(target, first)))
    await wait_all_tasks_blocked()
    assert len(log) == 300
    for index in range(3):
        assert [n for n in log if n // 1000 == index] == list(range(1000 * index, 1000 * index + 100))


async def mixed_waiting(target: Ref[Any], first: int) -> None:
    for n in range(first, first + 100):
        await (target.send(Note(n)) if n % 2 else target.ask(Ask(n)))


async def test_order_of_an_outside_task(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mixed, target, 0, 60)
        nursery.start_soon(mixed, target, 1000, 60)
    await wait_all_tasks_blocked()
    assert [n for n in log if n < 1000] == list(range(60))
    assert [n for n in log if n >= 1000] == list(range(1000, 1060))


async def test_an_inline_ask_overtakes_nothing(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    for n in range(0, 300, 3):
        target.tell(Note(n))
        await target.send(Note(n + 1))
        assert await target.ask(Ask(n + 2)) == n + 2
    assert log == list(range(300))


async def test_those_that_wait_for_room_are_served_in_order(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(limit=1))
    release = await busy(target)
    target.tell(Note(0))
    async with trio.open_nursery() as nursery:
        for n in range(1, 30):
            if n % 2:
                nursery.start_soon(target.send, Note(n))
            else:
                nursery.start_soon(target.ask, Ask(n))
            await wait_all_tasks_blocked()
        release.set()
    await wait_all_tasks_blocked()
    assert log == list(range(30))


async def test_a_tell_does_not_overtake_those_that_wait_for_room(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(limit=2))

    release = await busy(target)
    target.tell(Note(0))
    target.tell(Note(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.send, Note(2))
        await wait_all_tasks_blocked()
        with trio.move_on_after(0.5):
            await target.ask(Ask(99))
        release.set()
        await wait_all_tasks_blocked()
        target.tell(Note(3))
    await wait_all_tasks_blocked()
    assert log == [0, 1, 2, 3]


async def test_control_goes_before_data(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    release = await busy(target)
    for n in range(5):
        target.tell(Note(n))
        target.tell(Urgent(100 + n))
    release.set()
    await wait_all_tasks_blocked()
    assert log == [100, 101, 102, 103, 104, 0, 1, 2, 3, 4]


@attrs.frozen
class Base(Request[int]):
    n: int


@attrs.frozen
class Derived(Base):
    pass


@attrs.frozen
class UrgentBase:
    control = True
    n: int


@attrs.frozen
class UrgentDerived(UrgentBase):
    pass


async def test_a_derived_class_keeps_its_place(system: System) -> None:
    log: list[int] = []

    class Taker(Actor[Base | UrgentBase]):
        @handles(Base)
        def base(self, msg: Base) -> int:
            log.append(msg.n)
            return msg.n

        @handles(UrgentBase)
        def urgent(self, msg: UrgentBase) -> None:
            log.append(msg.n)

    target = await system.spawn(Taker)
    for n in range(3):
        target.tell(Base(n))
    for n in range(3, 6):
        target.tell(Derived(n))
    target.tell(Base(6))
    for n in range(100, 103):
        target.tell(UrgentDerived(n))
    await wait_all_tasks_blocked()
    assert log == [100, 101, 102, 0, 1, 2, 3, 4, 5, 6]
    assert await target.ask(Derived(7)) == 7


@attrs.frozen
class Open:
    pass


class Door(Actor[Ask | Note | Urgent | Open]):
    """Puts everything aside until it is opened."""

    def __init__(self, log: list[int]) -> None:
        self.log = log
        self.is_open = False

    @handles(Ask)
    def ask(self, msg: Ask) -> int:
        self.take(msg.n)
        return msg.n

    @handles(Note)
    def note(self, msg: Note) -> None:
        self.take(msg.n)

    @handles(Urgent)
    def urgent(self, msg: Urgent) -> None:
        self.take(msg.n)

    def take(self, n: int) -> None:
        if self.is_open:
            self.log.append(n)
        else:
            self.context.stash()

    @handles(Open)
    async def open(self, msg: Open) -> None:
        await trio.sleep(1)
        self.is_open = True
        self.context.unstash_all()


async def test_unstashed_messages_go_first_in_their_order(system: System) -> None:
    log: list[int] = []
    door = await system.spawn(Door, log)
    async with trio.open_nursery() as nursery:
        for n in range(4):
            nursery.start_soon(door.ask, Ask(n)) if n % 2 else door.tell(Note(n))
            await wait_all_tasks_blocked()
        door.tell(Urgent(100))
        await wait_all_tasks_blocked()
        door.tell(Open())
        for n in range(4, 8):
            door.tell(Note(n))
    await wait_all_tasks_blocked()
    assert log == [100, 0, 1, 2, 3, 4, 5, 6, 7]


async def test_one_message_in_hand(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    async with trio.open_nursery() as nursery:
        for n in range(1, 6):
            nursery.start_soon(target.ask, AskSlowly(n))
            nursery.start_soon(target.ask, Ask(1000))
            target.tell(Note(1000))
    starts_and_ends = [n for n in log if n != 1000]
    for start, end in zip(starts_and_ends[::2], starts_and_ends[1::2], strict=True):
        assert start == -end
        assert log.index(end) == log.index(start) + 1


async def test_one_message_in_hand_of_a_function_actor(system: System) -> None:
    log: list[int] = []

    async def body(inbox: Inbox[AskSlowly]) -> None:
        async for msg in inbox:
            log.append(msg.n)
            await trio.sleep(msg.seconds)
            log.append(-msg.n)
            inbox.reply(msg, msg.n)

    target = await system.spawn(body)
    async with trio.open_nursery() as nursery:
        for n in range(1, 6):
            nursery.start_soon(target.ask, AskSlowly(n))
    assert [-n for n in log[1::2]] == log[::2]


async def test_a_restart_keeps_the_order(system: System) -> None:
    log: list[int] = []
    target = await supervised(system, Recorder, log)
    for n in range(20):
        target.tell(Break(n) if n % 5 == 0 else Note(n))
    await wait_all_tasks_blocked()
    assert log == list(range(20))
    assert target.generation == 5
