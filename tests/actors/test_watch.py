"""Guarantees: an actor that watches another is told of its end exactly once."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import Actor, Exit, HandlerMissing, Inbox, MessageRefused, Ref, System, Terminated, handles

from ._systems import Break, Crash, Do, Doer, DoNow, Note, Recorder, busy, cell_of, outcome_of, supervised


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


@attrs.frozen
class Gone:
    n: int


class Watcher(Actor[Terminated | Gone | DoNow | Do]):
    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    @handles(Terminated)
    def terminated(self, msg: Terminated) -> None:
        self.seen.append((msg.ref, msg.reason))

    @handles(Gone)
    def gone(self, msg: Gone) -> None:
        self.seen.append(msg)

    @handles(DoNow)
    def do_now(self, msg: DoNow) -> Any:
        return msg.fn(self)

    @handles(Do)
    async def do(self, msg: Do) -> Any:
        return await msg.fn(self)


async def watch(watcher: Ref[Any], *refs: Ref[Any], **how: Any) -> None:
    for ref in refs:
        await watcher.ask(DoNow(lambda actor, ref=ref: actor.context.watch(ref, **how)))


async def once(inbox: Inbox[Note]) -> None:
    async for _ in inbox:
        return


async def test_a_watcher_is_told_once_of_every_kind_of_end(system: System) -> None:
    seen: list[Any] = []
    watcher = await system.spawn(Watcher, seen)
    stopped, drained, killed = [await system.spawn(Recorder, []) for _ in range(3)]
    finished = await system.spawn(once)
    failed = await supervised(system, Recorder, [], restart="temporary")
    await watch(watcher, stopped, drained, killed, finished, failed)
    await stopped.stop()
    await drained.drain()
    await killed.kill()
    finished.tell(Note(1))
    failed.tell(Break())
    await wait_all_tasks_blocked()
    reasons = dict(seen)
    assert len(seen) == 5
    assert [reasons[ref].kind for ref in (stopped, drained, killed, finished, failed)] == [
        "stopped",
        "drained",
        "killed",
        "finished",
        "failed",
    ]
    assert isinstance(reasons[failed].cause, Crash)


async def test_an_actor_that_has_ended_already_is_told_of_at_once(system: System) -> None:
    seen: list[Any] = []
    watcher = await system.spawn(Watcher, seen)
    target = await system.spawn(Recorder, [])
    await target.stop()
    await watch(watcher, target)
    await wait_all_tasks_blocked()
    assert seen == [(target, Exit("stopped"))]


async def test_watching_twice_tells_once(system: System) -> None:
    seen: list[Any] = []
    watcher = await system.spawn(Watcher, seen)
    target = await system.spawn(Recorder, [])
    await watch(watcher, target, target)
    await watch(watcher, target, as_=Gone(1))  # the first watch holds
    await target.stop()
    await wait_all_tasks_blocked()
    assert seen == [(target, Exit("stopped"))]

    def twice(actor: Watcher) -> None:
        actor.context.watch(target)
        actor.context.watch(target, as_=Gone(2))

    await watcher.ask(DoNow(twice))  # it has ended: a new watch, told once
    await wait_all_tasks_blocked()
    assert len(seen) == 2


async def test_a_watch_may_name_its_message(system: System) -> None:
    seen: list[Any] = []
    watcher = await system.spawn(Watcher, seen)
    first, second = [await system.spawn(Recorder, []) for _ in range(2)]
    await second.stop()
    await watch(watcher, first, as_=Gone(1))
    await watch(watcher, second, as_=Gone(2))
    await first.stop()
    await wait_all_tasks_blocked()
    assert seen == [Gone(2), Gone(1)]


async def test_unwatch_is_told_nothing_any_more(system: System) -> None:
    seen: list[Any] = []
    watcher = await system.spawn(Watcher, seen)
    refs = [await system.spawn(Recorder, []) for _ in range(4)]

    async def unwatch(actor: Watcher) -> None:
        context = actor.context
        for n, ref in enumerate(refs):
            context.watch(ref, as_=Gone(0)) if n % 2 else context.watch(ref)
        context.unwatch(refs[0])
        context.unwatch(refs[1])
        for ref in refs:
            await ref.stop()
        assert cell_of(watcher).box.depth == 2
        context.unwatch(refs[2])  # not even of an end that is unread
        context.unwatch(refs[0])

    await watcher.ask(Do(unwatch))
    await wait_all_tasks_blocked()
    assert seen == [Gone(0)]


async def test_unwatch_takes_no_message_of_others(system: System) -> None:
    seen: list[Any] = []
    watcher = await system.spawn(Watcher, seen)
    first, second = [await system.spawn(Recorder, []) for _ in range(2)]

    async def unwatch(actor: Watcher) -> None:
        actor.context.watch(first, as_=Gone(1))
        actor.context.watch(second, as_=Gone(1))  # an equal message
        watcher.tell(Gone(1))
        await first.stop()
        await second.stop()
        actor.context.unwatch(second)
        actor.context.unwatch(second)

    await watcher.ask(Do(unwatch))
    await wait_all_tasks_blocked()
    assert seen == [Gone(1), Gone(1)]


async def test_a_restart_is_not_an_end(system: System) -> None:
    seen: list[Any] = []
    watcher = await system.spawn(Watcher, seen)
    target = await supervised(system, Recorder, [])
    await watch(watcher, target)
    target.tell(Break())
    await wait_all_tasks_blocked()
    assert target.generation == 2
    assert seen == []
    await target.stop()
    await wait_all_tasks_blocked()
    assert seen == [(target, Exit("stopped"))]


async def test_a_watch_ends_with_the_life_that_made_it(system: System) -> None:
    seen: list[Any] = []
    watcher = await supervised(system, Watcher, seen)
    first, second = [await system.spawn(Recorder, []) for _ in range(2)]
    await watch(watcher, first, second)

    async def crash(_: Watcher) -> None:
        await first.stop()  # its end is in the mailbox, unread
        raise Crash

    assert await outcome_of(watcher.ask, Do(crash))
    await second.stop()
    await wait_all_tasks_blocked()
    assert watcher.generation == 2
    assert seen == []
    await watch(watcher, first)
    await wait_all_tasks_blocked()
    assert seen == [(first, Exit("stopped"))]


@pytest.mark.parametrize("how", ["unwatch", "restart"])
async def test_a_notice_in_the_stash_is_taken_out_too(system: System, how: str) -> None:
    class Putter(Watcher):
        @handles(Terminated)
        def terminated(self, msg: Terminated) -> None:
            if how not in self.seen:
                self.context.stash()
            self.seen.append(how)

    def go_on(actor: Watcher) -> None:
        if how == "restart":
            raise Crash
        actor.context.unwatch(target)
        actor.context.unstash_all()

    seen: list[Any] = []
    watcher = await supervised(system, Putter, seen)
    target = await system.spawn(Recorder, [])
    await watch(watcher, target)
    await target.stop()
    await wait_all_tasks_blocked()
    watcher.tell(DoNow(go_on))
    await wait_all_tasks_blocked()
    assert seen == [how]


async def test_the_end_of_an_actor_is_told_ahead_of_data(system: System) -> None:
    seen: list[Any] = []
    watcher = await system.spawn(Watcher, seen)
    target = await system.spawn(Recorder, [])
    await watch(watcher, target)
    until = trio.Event()
    watcher.tell(Do(lambda _: until.wait()))
    await wait_all_tasks_blocked()
    watcher.tell(Gone(1))
    await target.stop()
    until.set()
    await wait_all_tasks_blocked()
    assert seen == [(target, Exit("stopped")), Gone(1)]


async def test_a_watch_without_a_handler_is_refused(system: System) -> None:
    target = await system.spawn(Recorder, [])
    doer = await system.spawn(Doer)
    error = await doer.ask(Do(lambda actor: outcome_of(attempt, actor.context, target)))
    assert isinstance(error, HandlerMissing)
    assert error.messages == (Terminated,)
    errors: list[object] = []

    async def body(inbox: Inbox[Note]) -> None:
        async for _ in inbox:
            error = await outcome_of(attempt, inbox.context, target)
            errors.append(error)

    function = await system.spawn(body)
    function.tell(Note(1))
    await wait_all_tasks_blocked()
    assert [type(error) for error in errors] == [MessageRefused]


async def attempt(context: Any, ref: Ref[Any]) -> None:
    context.watch(ref)


async def test_all_is_true_before_a_watcher_is_told(system: System) -> None:
    seen: list[Any] = []

    class Looker(Watcher):
        @handles(Terminated)
        def terminated(self, msg: Terminated) -> None:
            self.seen.append((msg.ref.alive, self.context.system.dead_letters.count))

    watcher = await system.spawn(Looker, seen)
    target = await system.spawn(Recorder, [], name="target")
    release = await busy(target)
    target.tell(Note(1))
    await watch(watcher, target)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.stop)
        await wait_all_tasks_blocked()
        release.set()
    await wait_all_tasks_blocked()
    assert seen == [(False, 1)]
    await system.spawn(Recorder, [], name="target")


async def test_notices_that_nobody_reads_are_no_dead_letters(system: System) -> None:
    watcher = await system.spawn(Watcher, [])
    target = await system.spawn(Recorder, [])
    await watch(watcher, target)
    until = trio.Event()
    watcher.tell(Do(lambda _: until.wait()))
    await wait_all_tasks_blocked()
    await target.stop()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watcher.stop)
        await wait_all_tasks_blocked()
        until.set()
    assert system.dead_letters.count == 0


async def test_watches_of_ended_actors_are_forgotten(system: System) -> None:
    watcher = await system.spawn(Watcher, [])
    for _ in range(20):
        target = await system.spawn(Recorder, [])
        await watch(watcher, target)
        await target.stop()
    assert cell_of(watcher).links.watching == set()
    lasting = await system.spawn(Recorder, [])
    for _ in range(20):
        brief = await system.spawn(Watcher, [])
        await watch(brief, lasting)
        await brief.stop()
    assert cell_of(lasting).links.watchers == {}
