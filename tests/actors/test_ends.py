"""Guarantees: how an actor ends."""

from __future__ import annotations

import pytest
import trio

from actors import (
    ActorStopped,
    Child,
    Exit,
    Inbox,
    System,
    Terminated,
    WouldDeadlock,
    handles,
    one_for_one,
)

from ._systems import Ask, Crash, Do, Doer, Note, Recorder, busy, cell_of, outcome_of, supervised
from ._trees import (
    Member,
    calls,
    crash,
    deaf,
    raises,
    settled,
    sleeps,
    small_system,
    spawns,
    state_of,
    supervises,
    until_ended,
    virtual,
)

EXITS = {"stop": Exit("stopped"), "drain": Exit("drained"), "kill": Exit("killed")}


async def test_stop_finishes_the_message_in_hand(actor_system: System) -> None:
    log: list[int] = []
    ref = await actor_system.spawn(Recorder, log)
    free = await busy(ref)
    ref.tell(Note(1))
    async with trio.open_nursery() as nursery:
        exits: list[tuple[float, Exit]] = []
        outcomes: list[object] = []

        async def ask() -> None:
            outcomes.append(await outcome_of(ref.ask, Ask(2)))

        nursery.start_soon(ask)
        await settled()
        nursery.start_soon(until_ended, ref, "stop", exits)
        await settled()
        assert isinstance(outcomes[0], ActorStopped)  # at once, long before the end
        assert exits == []
        free.set()
    assert exits == [(0, Exit("stopped"))]
    assert (log, actor_system.dead_letters.by_reason) == ([], {"stopped": 1})


async def test_drain_finishes_the_mailbox(actor_system: System) -> None:
    log: list[int] = []
    ref = await actor_system.spawn(Recorder, log)
    free = await busy(ref)
    for n in range(200):
        ref.tell(Note(n))
    async with trio.open_nursery() as nursery:
        exits: list[tuple[float, Exit]] = []
        nursery.start_soon(until_ended, ref, "drain", exits)
        await settled()
        assert isinstance(await outcome_of(ref.ask, Ask(1)), ActorStopped)  # it takes nothing more
        free.set()
    assert exits == [(0, Exit("drained"))]
    assert log == list(range(200))


async def test_kill_cancels_the_message_in_hand(actor_system: System) -> None:
    ref = await actor_system.spawn(Doer)
    ref.tell(sleeps(100))
    ref.tell(sleeps(100))
    await settled()
    assert await ref.kill() == Exit("killed")
    assert trio.current_time() == 0
    assert actor_system.dead_letters.by_reason == {"killed": 2}


async def test_an_end_returns_when_all_of_it_has_ended(actor_system: System) -> None:
    for mode, exit_ in EXITS.items():
        journal: list[str] = []
        ref = await actor_system.spawn(Member, journal, 1.0, name=mode)
        await ref.ask(spawns(Member, journal, 1.0, name="child"))
        before = trio.current_time()
        assert await getattr(ref, mode)() == exit_
        assert trio.current_time() == before + 2
        assert journal[2:] == [f"{exit_.kind} child", f"{exit_.kind} {mode}"]
        assert (ref.alive, await ref.wait_stopped()) == (False, exit_)


async def test_a_function_that_returns_has_finished(actor_system: System) -> None:
    async def once(inbox: Inbox[Note]) -> None:
        async for _ in inbox:
            return

    ref = await actor_system.spawn(once)
    ref.tell(Note(1))
    assert await ref.wait_stopped() == Exit("finished")


async def test_context_stop_and_drain_are_requests(actor_system: System) -> None:
    for mode, handled in (("stop", []), ("drain", ["handled drain"])):
        journal: list[str] = []
        ref = await actor_system.spawn(Member, journal, name=mode)

        async def ask_for_the_end(actor: Member, mode: str = mode) -> None:
            getattr(actor.context, mode)()
            await trio.sleep(1)
            actor.write("finished")

        ref.tell(Do(ask_for_the_end))
        ref.tell(calls(lambda actor: actor.write("handled")))
        assert await ref.wait_stopped() == EXITS[mode]
        assert journal == [f"started {mode}", f"finished {mode}", *handled, f"{EXITS[mode].kind} {mode}"]


@pytest.mark.parametrize(
    ("first", "then", "last"),
    [("drain", "stop", "stopped"), ("drain", "kill", "killed"), ("stop", "kill", "killed")],
)
async def test_a_stronger_end_overrules_a_weaker_one(actor_system: System, first: str, then: str, last: str) -> None:
    log: list[int] = []
    ref = await actor_system.spawn(Recorder, log)
    free = await busy(ref)
    ref.tell(Note(1))
    async with trio.open_nursery() as nursery:
        exits: list[tuple[float, Exit]] = []
        for mode in (first, then, first):  # the last changes nothing
            nursery.start_soon(until_ended, ref, mode, exits)
            await settled()
        free.set()
    assert [exit_.kind for _, exit_ in exits] == [last] * 3
    assert log == []


@pytest.mark.parametrize("supervised_too", [False, True])
async def test_a_stronger_end_reaches_children_that_are_ending(actor_system: System, supervised_too: bool) -> None:
    journal: list[str] = []
    ref = await actor_system.spawn(Member, journal)
    if supervised_too:
        supervision = await ref.ask(supervises(one_for_one(), *(Child(Member, journal, name=name) for name in "ab")))
        children = [supervision.child(name, Member) for name in "ab"]
    else:
        children = [await ref.ask(spawns(Member, journal, name=name)) for name in "ab"]
    for child, seconds in zip(children, (2, 1), strict=True):
        child.tell(sleeps(seconds))
        child.tell(calls(lambda actor: actor.write("handled")))
    await settled()
    async with trio.open_nursery() as nursery:
        exits: list[tuple[float, Exit]] = []
        nursery.start_soon(until_ended, ref, "drain", exits)
        await settled()
        assert state_of(ref) == "stopping"
        nursery.start_soon(until_ended, ref, "stop", exits)
    assert [exit_.kind for _, exit_ in exits] == ["drained"] * 2  # which it had, before it was told to stop
    assert journal[3:5] == ["stopped b", "stopped a"]
    assert trio.current_time() == 2


async def test_waiting_for_its_own_end_raises(actor_system: System) -> None:
    errors: list[object] = []

    async def ends_itself(actor: Doer) -> None:
        ref = actor.context.ref
        errors.extend([await outcome_of(call) for call in (ref.stop, ref.drain, ref.kill, ref.wait_stopped)])
        errors.append(await outcome_of(actor.context.system.wait_stopped))

        async def in_a_nursery() -> None:
            errors.append(await outcome_of(ref.stop))

        async with trio.open_nursery() as nursery:  # noqa: ASYNC112 (its tasks are what this is about)
            nursery.start_soon(in_a_nursery)

    ref = await actor_system.spawn(Doer)
    await ref.ask(Do(ends_itself))
    child = await ref.ask(spawns(Doer))
    errors.append(await child.ask(Do(lambda _: outcome_of(ref.stop))))
    supervision = await actor_system.supervise(one_for_one(), Child(Doer, name="child"))
    errors.append(await supervision.child("child", Doer).ask(Do(lambda _: outcome_of(supervision.stop))))
    assert [type(error) for error in errors] == [WouldDeadlock] * 8
    assert ref.alive


async def test_a_helper_may_wait_for_the_end_of_its_actor(actor_system: System) -> None:
    ref = await actor_system.spawn(Doer)
    await ref.ask(calls(lambda actor: actor.context.start_soon(actor.context.ref.stop) and None))
    assert await ref.wait_stopped() == Exit("stopped")


async def test_cancelling_an_end_cancels_only_the_wait(actor_system: System) -> None:
    ref = await actor_system.spawn(Doer)
    ref.tell(sleeps(5))
    await settled()
    with trio.move_on_after(1) as scope:
        await ref.stop()
    assert scope.cancelled_caught
    assert ref.alive
    assert await ref.wait_stopped() == Exit("stopped")
    assert trio.current_time() == 5


async def test_children_are_told_to_end_when_their_parent_is_done(actor_system: System) -> None:
    ref = await actor_system.spawn(Doer)
    child = await ref.ask(spawns(Doer))

    async def asks(_: Doer) -> object:
        await trio.sleep(1)
        return await child.ask(calls(lambda _: "answered"))

    async with trio.open_nursery() as nursery:
        answers: list[object] = []

        async def ask() -> None:
            answers.append(await ref.ask(Do(asks)))

        nursery.start_soon(ask)
        await settled()
        await ref.stop()
    assert answers == ["answered"]
    assert not child.alive


async def test_kill_goes_to_the_whole_subtree_at_once(actor_system: System) -> None:
    journal: list[str] = []
    ref = await actor_system.spawn(Member, journal, name="top")
    middle = await ref.ask(spawns(Member, journal, name="middle"))
    bottom = await middle.ask(spawns(Member, journal, name="bottom"))
    for each in (ref, middle, bottom):
        each.tell(sleeps(100))
    await settled()
    await ref.kill()
    assert trio.current_time() == 0
    assert journal[3:] == ["killed bottom", "killed middle", "killed top"]


async def test_a_parent_does_not_end_before_its_children(actor_system: System) -> None:
    ref = await actor_system.spawn(Doer)
    child = await ref.ask(spawns(Doer))
    child.tell(deaf(3))
    await settled()
    await ref.kill()
    assert trio.current_time() == 3
    assert not child.alive


async def test_stopping_is_called_when_mailbox_and_children_have_ended(actor_system: System) -> None:
    seen: list[object] = []

    class Told(Doer):
        async def stopping(self, reason: Exit) -> None:
            cell = cell_of(self.context.ref)
            seen.append((reason, cell.box.closed, cell.own.over))

    ref = await actor_system.spawn(Told)
    await ref.ask(spawns(Doer))
    await ref.stop()
    assert seen == [(Exit("stopped"), True, True)]


async def test_every_watcher_is_told_of_the_end_once(actor_system: System) -> None:
    told: list[Exit] = []

    class Watcher(Doer):
        @handles(Terminated)
        def terminated(self, msg: Terminated) -> None:
            told.append(msg.reason)

    ref = await supervised(actor_system, Doer)
    watchers = [await actor_system.spawn(Watcher) for _ in range(3)]
    for watcher in watchers:
        for _ in range(2):
            await watcher.ask(calls(lambda actor: actor.context.watch(ref)))
    await crash(ref)
    assert told == []
    await ref.kill()
    await settled()
    assert told == [Exit("killed")] * 3


@virtual
async def test_a_failure_of_a_child_fails_its_parent() -> None:
    journal: list[str] = []
    errors = [Crash("one"), Crash("two")]
    with pytest.raises(ExceptionGroup) as raised:
        async with small_system() as system:
            top = await system.spawn(Member, journal, name="top")
            parent = await top.ask(spawns(Member, journal, name="parent"))
            children = [await parent.ask(spawns(Member, journal, name=name)) for name in "abc"]
            parent.tell(sleeps(100))
            await settled()
            for child, error in zip(children, errors, strict=False):
                child.tell(raises(error))
            await trio.sleep_forever()
    assert set(raised.value.exceptions) == set(errors)  # flat, whatever lay between
    assert trio.current_time() == 0
    assert sorted(journal[5:7]) == ["failed a", "failed b"]
    assert journal[7:] == ["killed c", "failed parent", "failed top"]
    assert system.dead_letters.by_reason == {"crashed": 3}


async def test_a_supervised_parent_is_restarted_for_its_child(actor_system: System) -> None:
    parent = await supervised(actor_system, Member, [])
    child = await parent.ask(spawns(Member, []))
    await crash(child)
    assert (parent.generation, child.alive) == (2, False)
    assert parent.alive


@virtual
async def test_a_failure_of_the_stopping_hook_is_not_lost() -> None:
    class Sloppy(Doer):
        async def stopping(self, reason: Exit) -> None:
            raise Crash("at the end")

    with pytest.raises(ExceptionGroup) as raised:
        async with small_system() as system:
            await system.spawn(Sloppy)
    assert raised.value.exceptions[0].args == ("at the end",)
    async with small_system() as system:
        ref = await supervised(system, Sloppy)
        assert (await ref.stop()).failed
    assert system.report.totals().failed == 1
