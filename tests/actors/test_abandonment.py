"""Guarantees: what becomes of a request whose asker has gone."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import Actor, Inbox, Mailbox, Ref, Request, System, handles

from ._systems import Ask, AskSlowly, Do, Doer, DoNow, Hold, Note, Recorder, busy, cell_of


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


async def give_up(ref: Ref[Any], message: Any, after: float = 0.5) -> None:
    """Ask, and go after a while."""
    start = trio.current_time()
    with trio.move_on_after(after) as scope:
        await ref.ask(message)
    assert scope.cancelled_caught
    assert trio.current_time() == start + after


async def test_an_abandoned_ask_is_never_handled(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    release = await busy(target)
    await give_up(target, Ask(1))
    await give_up(target, AskSlowly(1))
    target.tell(Note(2))
    release.set()
    await wait_all_tasks_blocked()
    assert log == [2]
    assert cell_of(target).abandoned == 2
    assert system.dead_letters.count == 0


async def test_an_ask_abandoned_while_it_waits_for_room_is_never_handled(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(limit=1))
    release = await busy(target)
    target.tell(Note(1))
    await give_up(target, Ask(2))
    release.set()
    await wait_all_tasks_blocked()
    assert log == [1]
    assert cell_of(target).abandoned == 1


async def test_the_handler_of_an_abandoned_ask_is_cancelled(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    target.tell(Note(1))
    await give_up(target, AskSlowly(2))
    assert await target.ask(Ask(3)) == 3
    assert await target.ask(AskSlowly(4)) == 4
    assert log == [1, 2, 3, 4, -4]
    assert target.generation == 1
    assert cell_of(target).abandoned == 1
    assert system.crashes == 0


async def test_messages_behind_an_abandoned_ask_are_not_harmed(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_up, target, AskSlowly(1))
        await wait_all_tasks_blocked()
        for n in range(2, 6):
            target.tell(AskSlowly(n))
    assert await target.ask(Ask(6)) == 6
    assert log == [1, 2, -2, 3, -3, 4, -4, 5, -5, 6]


async def test_giving_up_an_ask_waits_for_nobody(system: System) -> None:
    class Stubborn(Actor[Ask]):
        @handles(Ask)
        async def ask(self, msg: Ask) -> int:
            with trio.CancelScope(shield=True):
                await trio.sleep(100)
            log.append(msg.n)
            return msg.n

    log: list[int] = []
    target = await system.spawn(Stubborn)
    await give_up(target, Ask(1))  # fails if it takes longer than half a second
    assert log == []
    await trio.sleep(100)
    assert log == [1]


@attrs.frozen
class Shielded(AskSlowly):
    shield = True


async def test_a_shielded_message_is_handled_to_its_end(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    await give_up(target, Shielded(1))
    await trio.sleep(1)
    assert log == [1, -1]
    assert cell_of(target).abandoned == 0


async def test_cancel_abandoned_false_shields_every_message(system: System) -> None:
    class Careful(Recorder):
        cancel_abandoned = False

    log: list[int] = []
    target = await system.spawn(Careful, log)
    await give_up(target, AskSlowly(1))
    await trio.sleep(1)
    assert log == [1, -1]


async def test_kill_cancels_a_shielded_message(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_up, target, Shielded(1, seconds=100))
        await trio.sleep(2)
        await target.kill()
    assert log == [1]
    assert trio.current_time() == 2


async def test_a_function_actor_is_not_cancelled_by_an_abandoned_ask(system: System) -> None:
    log: list[int] = []

    async def body(inbox: Inbox[AskSlowly]) -> None:
        async for msg in inbox:
            await trio.sleep(msg.seconds)
            log.append(msg.n)
            inbox.reply(msg, msg.n)

    target = await system.spawn(body)
    await give_up(target, AskSlowly(1))
    assert await target.ask(AskSlowly(2)) == 2
    assert log == [1, 2]


async def test_a_class_with_a_body_of_its_own_is_not_cancelled_by_an_abandoned_ask(system: System) -> None:
    log: list[int] = []

    class Own(Actor[AskSlowly]):
        @handles(AskSlowly)
        async def ask(self, msg: AskSlowly) -> int:
            await trio.sleep(msg.seconds)
            log.append(msg.n)
            return msg.n

        async def started(self) -> None:
            log.append(-1)

        async def __call__(self, inbox: Inbox[AskSlowly], /) -> None:
            log.append(-2)
            await super().__call__(inbox)

    target = await system.spawn(Own)
    await give_up(target, AskSlowly(1))
    assert await target.ask(AskSlowly(2)) == 2
    assert log == [-2, -1, 1, 2]


async def test_an_abandoned_ask_does_not_cut_a_drain_short(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_up, target, AskSlowly(1))
        await wait_all_tasks_blocked()
        for n in range(2, 5):
            target.tell(Note(n))
        exit_ = await target.drain()
    assert log == [1, 2, 3, 4]
    assert exit_.kind == "drained"
    assert system.dead_letters.count == 0


async def test_a_plain_handler_may_cancel_its_asker(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Doer)
    recorder = await system.spawn(Recorder, log)

    def cancel(_: Doer) -> None:
        scope.cancel()

    release = trio.Event()
    target.tell(Do(lambda _: release.wait()))
    await wait_all_tasks_blocked()
    answers: list[object] = []
    async with trio.open_nursery() as nursery:

        async def ask(message: Any) -> None:
            answers.append(await target.ask(message))

        async def give_up_by_hand() -> None:
            nonlocal scope
            with trio.CancelScope() as scope:
                await target.ask(DoNow(cancel))

        scope = trio.CancelScope()
        nursery.start_soon(give_up_by_hand)
        await wait_all_tasks_blocked()
        nursery.start_soon(ask, Do(lambda _: recorder.ask(AskSlowly(1))))
        await wait_all_tasks_blocked()
        release.set()
    assert answers == [1]
    assert log == [1, -1]


@attrs.frozen
class Down(Request[int]):
    """Is passed on to the next in a chain, whose last one never answers."""


class Link(Actor[Down]):
    def __init__(self, following: Ref[Down] | None, gone: list[int]) -> None:
        self.following = following
        self.gone = gone

    @handles(Down)
    async def down(self, msg: Down) -> int:
        try:
            if self.following is None:
                await trio.sleep_forever()
            else:
                await self.following.ask(msg)
        except trio.Cancelled:
            self.gone.append(1)
            raise
        return 0


async def test_abandonment_goes_down_a_chain_of_asks(system: System) -> None:
    gone: list[int] = []
    ref: Ref[Down] | None = None
    for _ in range(1000):
        ref = await system.spawn(Link, ref, gone)
    assert ref is not None
    await give_up(ref, Down())
    await wait_all_tasks_blocked()
    assert len(gone) == 1000


async def test_an_ask_abandoned_in_the_stash_is_not_handled(system: System) -> None:
    class Later(Actor[Ask | Note]):
        opened = False

        @handles(Ask)
        def ask(self, msg: Ask) -> int:
            if not self.opened:
                self.context.stash()
            log.append(msg.n)
            return msg.n

        @handles(Note)
        def note(self, msg: Note) -> None:
            self.opened = True
            self.context.unstash_all()

    log: list[int] = []
    target = await system.spawn(Later)
    await give_up(target, Ask(1))
    target.tell(Note(0))
    assert await target.ask(Ask(2)) == 2
    assert log == [1, 2]
    assert cell_of(target).abandoned == 1


async def test_a_handler_that_ends_as_its_asker_goes_is_not_cut(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    until = trio.Event()

    async def wait_and_note(message: Any) -> None:
        with trio.CancelScope() as scope:
            scopes.append(scope)
            await target.ask(message)

    class Both(AskSlowly):
        pass

    scopes: list[trio.CancelScope] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_and_note, AskSlowly(1))
        await wait_all_tasks_blocked()
        target.tell(Note(2))
        target.tell(Hold(until))
        target.tell(Note(3))
        await trio.sleep(1)  # due in the same instant as the handler's end
        scopes[0].cancel()
        await wait_all_tasks_blocked()
        until.set()
    await wait_all_tasks_blocked()
    assert log in ([1, -1, 2, 3], [1, 2, 3])
