"""Guarantees: bounded mailboxes, and what happens when one is full."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import (
    Actor,
    ActorStopped,
    InvalidMailbox,
    Mailbox,
    MailboxFull,
    System,
    Terminated,
    coalesce,
    drop_stale,
    handles,
)

from ._systems import Ask, Break, Do, Doer, DoNow, Note, Recorder, Urgent, busy, cell_of, outcome_of, supervised


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


DROPPING: list[Any] = ["drop_newest", "drop_oldest", coalesce(lambda msg: msg.n), drop_stale(1000)]


async def test_the_default_mailbox_holds_1000_messages_and_waits(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    release = await busy(target)
    for n in range(1000):
        target.tell(Note(n))
    with pytest.raises(MailboxFull):
        target.tell(Note(1000))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.send, Note(1000))
        await wait_all_tasks_blocked()
        release.set()
    await wait_all_tasks_blocked()
    assert log == list(range(1001))


async def test_tell_to_a_full_mailbox_raises_mailbox_full(system: System) -> None:
    target = await system.spawn(Recorder, [], name="target", mailbox=Mailbox(limit=2))
    release = await busy(target)
    target.tell(Note(0))
    target.tell(Note(1))
    with pytest.raises(MailboxFull) as caught:
        target.tell(Note(2))
    assert (caught.value.name, caught.value.limit, caught.value.depth) == ("/target", 2, 2)
    release.set()


async def test_send_and_ask_wait_for_room(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(limit=1))
    release = await busy(target)
    target.tell(Note(0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.send, Note(1))
        await wait_all_tasks_blocked()
        nursery.start_soon(target.ask, Ask(2))
        await wait_all_tasks_blocked()
        assert target.depth == 1
        release.set()
    assert log == [0, 1, 2]


async def test_reject_makes_all_three_raise(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(limit=1, policy="reject"))
    release = await busy(target)
    target.tell(Note(0))
    with pytest.raises(MailboxFull):
        target.tell(Note(1))
    for call in (target.send, target.ask):
        assert isinstance(await outcome_of(call, Ask(2)), MailboxFull)
    release.set()
    await wait_all_tasks_blocked()
    assert log == [0]


@pytest.mark.parametrize("policy", ["wait", "reject", *DROPPING])
async def test_the_control_lane_is_bounded_apart(system: System, policy: Any) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(limit=1, policy=policy, control_limit=2))
    release = await busy(target)
    target.tell(Note(0))
    target.tell(Urgent(1))
    target.tell(Urgent(2))
    with pytest.raises(MailboxFull) as caught:
        target.tell(Urgent(3))
    assert caught.value.limit == 2
    assert isinstance(await outcome_of(target.send, Urgent(3)), MailboxFull)
    release.set()
    await wait_all_tasks_blocked()
    assert log == [1, 2, 0]


@pytest.mark.parametrize("policy", ["drop_newest", "drop_oldest"])
async def test_control_is_never_displaced(system: System, policy: Any) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(limit=1, policy=policy))
    release = await busy(target)
    target.tell(Urgent(1))
    target.tell(Urgent(2))
    for n in range(3, 6):
        target.tell(Note(n))
    release.set()
    await wait_all_tasks_blocked()
    assert log == [1, 2, 3 if policy == "drop_newest" else 5]


async def test_notices_need_no_room(system: System) -> None:
    class Watcher(Actor[Terminated | Urgent]):
        @handles(Terminated)
        def terminated(self, msg: Terminated) -> None:
            seen.append(msg)

        @handles(Urgent)
        async def wait(self, msg: Urgent) -> None:
            for ref in others:
                self.context.watch(ref)
            await until.wait()

    seen: list[Terminated] = []
    until = trio.Event()
    others = [await system.spawn(Recorder, []) for _ in range(5)]
    watcher = await system.spawn(Watcher, mailbox=Mailbox(limit=1, control_limit=1))
    watcher.tell(Urgent(0))
    await wait_all_tasks_blocked()
    watcher.tell(Urgent(1))
    for ref in others:
        await ref.stop()
    until.set()
    await wait_all_tasks_blocked()
    assert [msg.ref for msg in seen] == others


async def test_a_cancelled_send_leaves_nothing(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(limit=1))
    release = await busy(target)
    target.tell(Note(0))
    with trio.move_on_after(1) as scope:
        await target.send(Note(1))
    assert scope.cancelled_caught
    release.set()
    await wait_all_tasks_blocked()
    with trio.CancelScope() as scope:
        scope.cancel()
        await target.send(Note(2))
    await wait_all_tasks_blocked()
    assert log == [0]


@pytest.mark.parametrize("policy", ["wait", "reject", "drop_oldest", *DROPPING[2:]])
async def test_abandoned_asks_give_their_room_back(system: System, policy: Any) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(limit=3, policy=policy))
    release = await busy(target)
    target.tell(Note(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.ask, Ask(2))
        nursery.start_soon(target.ask, Ask(3))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    target.tell(Note(4))
    target.tell(Note(5))
    target.tell(Note(4)) if policy == DROPPING[2] else None  # it is still found in its place
    release.set()
    await wait_all_tasks_blocked()
    assert log == [1, 4, 5]
    assert cell_of(target).abandoned == 2


async def test_those_that_gave_up_waiting_for_room_are_forgotten(system: System) -> None:
    target = await system.spawn(Recorder, [], mailbox=Mailbox(limit=1))
    release = await busy(target)
    target.tell(Note(0))
    for _ in range(50):
        for call in (target.ask, target.send):
            with trio.move_on_after(1):
                await call(Ask(1))
    assert len(cell_of(target).box.waiting or ()) <= 2
    release.set()
    await wait_all_tasks_blocked()
    assert cell_of(target).abandoned == 50


async def test_send_to_oneself_never_waits(system: System) -> None:
    async def fill(actor: Doer) -> object:
        await actor.context.ref.send(DoNow(lambda _: None))
        return await outcome_of(actor.context.ref.send, DoNow(lambda _: None))

    doer = await system.spawn(Doer, mailbox=Mailbox(limit=1))
    with trio.fail_after(1):
        error = await doer.ask(Do(fill))
    assert isinstance(error, MailboxFull)
    await doer.stop()


@pytest.mark.parametrize(
    "settings",
    [
        {"limit": 0},
        {"limit": True},
        {"limit": 1.5},
        {"control_limit": 0},
        {"policy": "drop"},
        {"policy": None},
    ],
)
def test_an_invalid_mailbox_is_refused_when_it_is_made(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidMailbox):
        Mailbox(**settings)
    for age in (0, -1, math.inf, math.nan, "1", None):
        with pytest.raises(InvalidMailbox):
            drop_stale(age)  # type: ignore[arg-type]
    with pytest.raises(InvalidMailbox):
        coalesce("symbol")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["stop", "drain", "kill"])
async def test_those_that_wait_for_room_fail_at_once_when_the_actor_is_told_to_end(system: System, mode: str) -> None:
    target = await system.spawn(Recorder, [], mailbox=Mailbox(limit=1))
    release = await busy(target)
    target.tell(Note(0))
    outcomes: list[Any] = []

    async def note(call: Any) -> None:
        outcomes.append(await outcome_of(call, Ask(1)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(note, target.send)
        nursery.start_soon(note, target.ask)
        await wait_all_tasks_blocked()
        nursery.start_soon(getattr(target, mode))
        await wait_all_tasks_blocked()
        assert [type(outcome) for outcome in outcomes] == [ActorStopped] * 2
        release.set()


async def test_those_that_wait_for_room_outlive_a_restart(system: System) -> None:
    log: list[int] = []
    target = await supervised(system, Recorder, log, mailbox=Mailbox(limit=1))
    release = await busy(target)
    target.tell(Break(0))
    async with trio.open_nursery() as nursery:
        for n in range(1, 5):
            nursery.start_soon(target.send if n % 2 else target.ask, Ask(n))
            await wait_all_tasks_blocked()
        release.set()
    await wait_all_tasks_blocked()
    assert log == [0, 1, 2, 3, 4]
    assert target.generation == 2
