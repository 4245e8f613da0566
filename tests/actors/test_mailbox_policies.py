"""Guarantees: the policies of a mailbox that drop messages."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import (
    Actor,
    DeadLetter,
    Mailbox,
    MailboxFull,
    MessageDropped,
    System,
    coalesce,
    drop_stale,
    handles,
)

from ._systems import Ask, Note, Recorder, Urgent, busy, cell_of, outcome_of


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


DROPPING: list[Any] = ["drop_newest", "drop_oldest", coalesce(lambda msg: msg.n), drop_stale(1000)]


async def test_drop_newest_drops_the_new_message(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(limit=2, policy="drop_newest"))
    release = await busy(target)
    for n in range(5):
        target.tell(Note(n))
    release.set()
    await wait_all_tasks_blocked()
    assert log == [0, 1]
    assert cell_of(target).box.dropped == 3


async def test_drop_oldest_drops_the_message_that_waits_longest(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(limit=2, policy="drop_oldest"))
    release = await busy(target)
    for n in range(5):
        target.tell(Note(n))
    release.set()
    await wait_all_tasks_blocked()
    assert log == [3, 4]
    assert cell_of(target).box.dropped == 3


@attrs.frozen
class Price:
    symbol: str
    value: int


@attrs.frozen
class Flush:
    pass


class Board(Actor[Price | Note | Urgent | Flush]):
    """Puts prices below 0 aside until it is told otherwise."""

    def __init__(self, log: list[object], until: trio.Event) -> None:
        self.log = log
        self.until = until

    @handles(Price)
    def price(self, msg: Price) -> None:
        if msg.value < 0:
            self.context.stash()
        else:
            self.log.append((msg.symbol, msg.value))

    @handles(Note)
    def note(self, msg: Note) -> None:
        self.log.append(msg.n)

    @handles(Urgent)
    async def wait(self, msg: Urgent) -> None:
        await self.until.wait()

    @handles(Flush)
    def flush(self, msg: Flush) -> None:
        self.context.unstash_all()


BY_SYMBOL = Mailbox(limit=3, policy=coalesce(lambda msg: msg.symbol))


async def test_coalesce_keeps_the_newest_of_each_key_in_the_place_of_the_oldest(system: System) -> None:
    log: list[object] = []
    until = trio.Event()
    board = await system.spawn(Board, log, until, name="board", mailbox=BY_SYMBOL)
    for _ in range(3):  # the numbering of what has been taken must not matter
        board.tell(Price("x", 0))
        await wait_all_tasks_blocked()
    log.clear()
    board.tell(Urgent(0))
    await wait_all_tasks_blocked()
    for value in range(1, 4):
        for symbol in "abc":
            board.tell(Price(symbol, value))
    with pytest.raises(MailboxFull):
        board.tell(Price("d", 1))
    until.set()
    await wait_all_tasks_blocked()
    assert log == [("a", 3), ("b", 3), ("c", 3)]
    assert system.dead_letters.by_reason == {"displaced": 6}


async def test_coalesce_holds_after_unstash(system: System) -> None:
    log: list[object] = []
    until = trio.Event()
    board = await system.spawn(Board, log, until, mailbox=Mailbox(limit=10, policy=coalesce(lambda msg: msg.symbol)))
    for symbol in "axbcy":
        board.tell(Price(symbol, -1 if symbol in "abc" else 0))
        await wait_all_tasks_blocked()
    assert log == [("x", 0), ("y", 0)]
    board.tell(Flush())
    board.tell(Urgent(0))
    await wait_all_tasks_blocked()
    # Now the prices of a, b and c below 0 are aside again, and the ones below are queued.
    board.tell(Price("b", 5))
    board.tell(Price("x", 6))
    cell_of(board).links.unstash_all()
    board.tell(Price("b", 7))
    board.tell(Price("y", 8))
    board.tell(Price("a", 9))
    until.set()
    await wait_all_tasks_blocked()
    assert log[2:] == [("a", 9), ("b", 7), ("x", 6), ("y", 8)]


async def test_a_message_without_a_key_coalesces_with_nothing(system: System) -> None:
    log: list[object] = []
    until = trio.Event()
    board = await system.spawn(Board, log, until, mailbox=BY_SYMBOL)
    board.tell(Urgent(0))
    await wait_all_tasks_blocked()
    board.tell(Note(1))  # the key function raises
    board.tell(Note(1))
    board.tell(Price([], 1))  # type: ignore[arg-type]  # a key that cannot be hashed
    until.set()
    await wait_all_tasks_blocked()
    assert log == [1, 1, ([], 1)]


async def test_drop_stale_drops_what_has_waited_too_long(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, name="target", mailbox=Mailbox(limit=3, policy=drop_stale(5)))
    release = await busy(target)
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            error = await outcome_of(target.ask, Ask(0))
            assert isinstance(error, MessageDropped)
            assert (error.path, error.policy) == ("/target", "drop_stale")

        nursery.start_soon(ask)
        await trio.sleep(1)
        target.tell(Note(1))
        await trio.sleep(4)
        target.tell(Note(2))  # the ask has waited for 5 seconds now, which is not longer
        with pytest.raises(MailboxFull):
            target.tell(Note(3))
        await trio.sleep(0.5)
        target.tell(Note(4))
        await trio.sleep(1)
        release.set()
    await wait_all_tasks_blocked()
    assert log == [2, 4]
    assert system.dead_letters.recent == (DeadLetter(Note(1), None, "/target", "stale"),)


@pytest.mark.parametrize("policy", DROPPING)
async def test_a_displaced_ask_raises_and_a_displaced_tell_is_a_dead_letter(system: System, policy: Any) -> None:
    target = await system.spawn(Recorder, [], name="target", mailbox=Mailbox(limit=1, policy=policy))
    release = await busy(target)
    outcomes: list[Any] = []

    async def ask() -> None:
        outcomes.append(await outcome_of(target.ask, Ask(1)))

    async with trio.open_nursery() as nursery:
        if policy == "drop_newest":
            target.tell(Note(1))
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        if policy == DROPPING[3]:
            await trio.sleep(1001)
        if policy != "drop_newest":
            target.tell(Note(1))
        if policy == DROPPING[3]:
            await trio.sleep(1001)
        target.tell(Note(1))
        release.set()
    (error,) = outcomes
    assert isinstance(error, MessageDropped)
    assert error.path == "/target"
    reason = "stale" if policy == DROPPING[3] else "displaced"
    assert system.dead_letters.recent == (DeadLetter(Note(1), None, "/target", reason),)


@pytest.mark.parametrize("policy", DROPPING)
async def test_the_dropping_policies_never_wait(system: System, policy: Any) -> None:
    target = await system.spawn(Recorder, [], mailbox=Mailbox(limit=1, policy=policy))
    release = await busy(target)
    with trio.fail_after(0.5):
        for n in range(5):
            outcome = await outcome_of(target.send, Note(n))
            assert outcome is None or isinstance(outcome, MailboxFull)
    release.set()
