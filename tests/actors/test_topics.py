"""Guarantees: publish and subscribe."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import Actor, Lagged, Mailbox, Ref, System, Topic, coalesce, handles

from ._systems import Break, Crash, Doer, DoNow, Hold, Note, Recorder, busy, cell_of, outcome_of, supervised


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


class Reader(Actor[Note | Lagged | Hold]):
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    @handles(Note)
    def note(self, msg: Note) -> None:
        self.log.append(msg.n)

    @handles(Lagged)
    def lagged(self, msg: Lagged) -> None:
        self.log.append(f"missed {msg.missed}")

    @handles(Hold)
    async def hold(self, msg: Hold) -> None:
        await msg.until.wait()


async def test_every_subscriber_is_sent_every_message_in_order(system: System) -> None:
    topic: Topic[Note] = Topic("notes")
    logs: list[list[Any]] = [[], []]
    readers = [await system.spawn(Reader, log) for log in logs]
    assert topic.publish(Note(0)) == 0
    for reader in readers:
        topic.subscribe(reader)
        topic.subscribe(reader)
    assert [topic.publish(Note(n)) for n in range(1, 6)] == [2] * 5
    assert topic.unsubscribe(readers[0])
    assert not topic.unsubscribe(readers[0])
    assert topic.publish(Note(6)) == 1
    await wait_all_tasks_blocked()
    assert logs == [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]]


async def test_a_subscription_ends_with_its_actor(system: System) -> None:
    topic: Topic[Note] = Topic("notes")
    reader = await system.spawn(Reader, [])
    topic.subscribe(reader)
    release = await busy(reader)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.stop)
        await wait_all_tasks_blocked()
        assert topic.subscribers == ()
        release.set()
    topic.subscribe(reader)
    topic.subscribe_lagged(reader)
    assert topic.subscribers == ()
    assert topic.publish(Note(1)) == 0
    assert system.dead_letters.count == 0


async def test_a_subscription_outlives_a_restart(system: System) -> None:
    log: list[int] = []
    topic: Topic[Note] = Topic("notes")
    recorder = await supervised(system, Recorder, log)
    topic.subscribe(recorder)
    await outcome_of(recorder.ask, Break(0))
    topic.publish(Note(1))
    await wait_all_tasks_blocked()
    assert log == [0, 1]


async def test_publish_waits_for_nobody_and_counts_what_was_missed(system: System) -> None:
    topic: Topic[Note] = Topic("notes")
    logs: list[list[Any]] = [[], []]
    slow = await system.spawn(Reader, logs[0], mailbox=Mailbox(limit=2))
    fast = await system.spawn(Reader, logs[1])
    topic.subscribe(slow)
    topic.subscribe(fast)
    release = await busy(slow)
    assert [topic.publish(Note(n)) for n in range(5)] == [2, 2, 1, 1, 1]
    assert (topic.missed(slow), topic.missed(fast)) == (3, 0)
    release.set()
    await wait_all_tasks_blocked()
    assert logs == [[0, 1], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
async def test_a_lagging_subscriber_is_told_how_many_it_missed_and_where(system: System, limit: int) -> None:
    topic: Topic[Note] = Topic("notes")
    log: list[Any] = []
    reader: Ref[Any] = await system.spawn(Reader, log, mailbox=Mailbox(limit=limit))
    topic.subscribe_lagged(reader)
    n = 0
    for published in (7, 3, 9, 1, 1):
        release = await busy(reader)
        for _ in range(published):
            topic.publish(Note(n))
            n += 1
        release.set()
        await wait_all_tasks_blocked()
    # Whatever was read, the numbers add up at every place.
    expected = 0
    for entry in log:
        if isinstance(entry, int):
            assert entry == expected
            expected += 1
        else:
            expected += int(entry.removeprefix("missed "))
    assert expected == n
    assert any(isinstance(entry, str) for entry in log)
    missed = sum(int(entry.removeprefix("missed ")) for entry in log if isinstance(entry, str))
    assert missed == topic.missed(reader)


async def test_subscribe_lagged_keeps_the_counts(system: System) -> None:
    topic: Topic[Note] = Topic("notes")
    log: list[Any] = []
    reader: Ref[Any] = await system.spawn(Reader, log, mailbox=Mailbox(limit=1))
    topic.subscribe(reader)
    release = await busy(reader)
    for n in range(3):
        topic.publish(Note(n))
    topic.subscribe_lagged(reader)
    assert topic.missed(reader) == 2
    release.set()
    await wait_all_tasks_blocked()
    topic.publish(Note(3))
    await wait_all_tasks_blocked()
    assert log == [0, "missed 2", 3]


async def test_the_publisher_is_the_sender(system: System) -> None:
    senders: list[object] = []

    class Nosy(Reader):
        @handles(Note)
        def note(self, msg: Note) -> None:
            senders.append(self.context.sender)

    topic: Topic[Note] = Topic("notes")
    topic.subscribe(await system.spawn(Nosy, []))
    publisher = await system.spawn(Doer)
    await publisher.ask(DoNow(lambda _: topic.publish(Note(1))))
    topic.publish(Note(2))
    await wait_all_tasks_blocked()
    assert senders == [publisher, None]


async def test_publish_never_raises(system: System) -> None:
    def broken(_: object) -> Any:
        raise Crash

    topic: Topic[Note] = Topic("notes")
    log: list[Any] = []
    for mailbox in (Mailbox(limit=1, policy="reject"), Mailbox(policy=coalesce(broken)), Mailbox()):
        reader: Ref[Any] = await system.spawn(Reader, log, mailbox=mailbox)
        topic.subscribe_lagged(reader)
        await busy(reader)
    assert [topic.publish(Note(n)) for n in range(3)] == [3, 2, 2]
    for ref in topic.subscribers:
        await ref.kill()
    assert cell_of(reader).exit is not None
