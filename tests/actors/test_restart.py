"""Guarantees: crashes and restarts."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio

from actors import (
    ActorCrashed,
    Backoff,
    Child,
    ChildEnded,
    Exit,
    Inbox,
    Ref,
    RestartLimitExceeded,
    System,
    Terminated,
    handles,
    one_for_one,
)

from ._systems import Ask, Crash, Do, Doer, Note, Recorder, cell_of, outcome_of, supervised
from ._trees import Member, calls, crash, raises, settled, small_system, spawns, state_of, virtual


def state(actor: Member) -> int:
    return actor.state


def count(actor: Member) -> int:
    actor.state += 1
    return actor.state


async def test_a_restart_begins_with_fresh_state(actor_system: System) -> None:
    ref = await supervised(actor_system, Member, [])
    assert await ref.ask(calls(count)) == 1
    first = cell_of(ref).target
    await crash(ref)
    assert await ref.ask(calls(state)) == 0
    assert cell_of(ref).target is not first


async def test_ref_name_and_mailbox_outlive_a_restart(actor_system: System) -> None:
    log: list[int] = []
    ref = await supervised(actor_system, Recorder, log, backoff=Backoff(1))
    ref.tell(raises())  # which a Recorder does not take: a dead letter, and no crash
    await settled()
    assert ref.generation == 1
    doer = await actor_system.supervise(one_for_one(backoff=Backoff(1)), Child(Doer, name="doer"))
    ref = doer.child("doer", Doer)
    for message in (raises(), calls(lambda _: log.append(1))):
        ref.tell(message)
    await settled()
    assert state_of(ref) == "restarting"
    ref.tell(calls(lambda _: log.append(2)))
    assert actor_system.find("/doer", Doer) is ref
    await settled(1)
    assert (log, ref.generation, ref.alive) == ([1, 2], 2, True)


async def test_the_generation_counts_starts(actor_system: System) -> None:
    ref = await supervised(actor_system, Member, [])
    for generation in range(1, 6):
        assert ref.generation == generation
        await crash(ref)


async def test_restarting_is_told_to_the_old_object_before_the_new_one_starts(actor_system: System) -> None:
    seen: list[object] = []

    class Told(Doer):
        def __init__(self) -> None:
            seen.append("made")

        async def restarting(self, cause: BaseException) -> None:
            await trio.sleep(1)
            seen.append((cause, self.context.ref.generation))

    ref = await supervised(actor_system, Told)
    error = Crash()
    await crash(ref, error)
    await settled(1)
    assert seen == ["made", (error, 1), "made"]


async def test_each_started_object_is_told_of_one_end(actor_system: System) -> None:
    journal: list[str] = []
    ref = await supervised(actor_system, Member, journal)
    await crash(ref)
    await crash(ref)
    await ref.stop()
    assert journal == ["started child", "restarting child"] * 2 + ["started child", "stopped child"]


async def test_a_failed_restart_is_told_to_no_object_twice(actor_system: System) -> None:
    journal: list[str] = []
    starts = 0

    class Flaky(Member):
        async def started(self) -> None:
            nonlocal starts
            starts += 1
            if starts in (2, 3):
                raise Crash
            await super().started()

    ref = await supervised(actor_system, Flaky, journal)
    await crash(ref)
    await ref.stop()
    assert starts == 4
    assert journal == ["started child", "restarting child", "started child", "stopped child"]


@virtual
async def test_a_crash_at_a_restart_counts_like_any_other() -> None:
    starts: list[float] = []

    class Never(Doer):
        async def started(self) -> None:
            starts.append(trio.current_time())
            if len(starts) > 1:
                raise Crash(len(starts))

        async def stopping(self, reason: Exit) -> None:
            starts.append(-1)  # never: no object that has started is there at the end

    with pytest.raises(RestartLimitExceeded) as raised:
        async with small_system() as system:
            backoff = Backoff(1, factor=2)
            supervision = await system.supervise(one_for_one(3, 60, backoff), Child(Never, name="never"))
            await crash(supervision.child("never", Never))
            await trio.sleep_forever()
    assert starts == [0, 1, 3, 7]
    assert [type(cause) for cause in raised.value.exceptions] == [Crash] * 4


async def test_backoff_delays_grow(actor_system: System) -> None:
    times: list[float] = []

    class Timed(Doer):
        async def started(self) -> None:
            times.append(trio.current_time())

    ref = await supervised(actor_system, Timed, backoff=Backoff(1, max=5, factor=2), within=100)
    for _ in range(5):
        await crash(ref)
        await trio.sleep(10)
    assert times == [0, 0 + 1, 10 + 2, 20 + 4, 30 + 5, 40 + 5]


async def test_messages_wait_for_the_end_of_a_backoff(actor_system: System) -> None:
    ref = await supervised(actor_system, Member, [], backoff=Backoff(5))
    await crash(ref)
    assert await ref.ask(calls(lambda _: trio.current_time())) == 5


@pytest.mark.parametrize("mode", ["stop", "drain", "kill"])
async def test_an_end_does_not_wait_for_a_backoff(actor_system: System, mode: str) -> None:
    journal: list[str] = []
    ref = await supervised(actor_system, Member, journal, backoff=Backoff(50, max=50))
    await crash(ref)
    exit_ = await getattr(ref, mode)()
    assert trio.current_time() == 0
    assert exit_ == Exit({"stop": "stopped", "drain": "drained", "kill": "killed"}[mode])
    assert journal == ["started child", f"{exit_.kind} child"]


@virtual
async def test_a_system_ends_in_the_middle_of_a_backoff() -> None:
    async with small_system() as system:
        await crash(await supervised(system, Member, [], backoff=Backoff(50, max=50)))
    assert trio.current_time() == 0
    assert system.report.is_healthy()


async def test_an_end_during_the_restart_hook_starts_nothing_more(actor_system: System) -> None:
    for mode in ("stop", "kill"):
        journal: list[str] = []
        supervision = await actor_system.supervise(one_for_one(), Child(Member, journal, 2.0, name=mode))
        ref = supervision.child(mode, Member)
        await crash(ref)
        assert (await getattr(ref, mode)()).kind in ("stopped", "killed")
        assert journal == [f"started {mode}", f"restarting {mode}"]
        assert ref.generation == 1


async def test_children_end_before_the_restart(actor_system: System) -> None:
    journal: list[str] = []

    class Parent(Member):
        async def started(self) -> None:
            await super().started()
            await self.context.spawn(Member, self.journal, 1.0, name="a")
            await self.context.supervise(one_for_one(), Child(Member, self.journal, name="b"))

    parent = await supervised(actor_system, Parent, journal)
    del journal[:]
    await crash(parent)
    await settled(1)
    ended = journal.index("restarting child")
    assert sorted(journal[:ended]) == ["killed a", "killed b"]
    assert journal[ended:] == ["restarting child", "started child", "started a", "started b"]


async def test_children_end_before_the_backoff(actor_system: System) -> None:
    journal: list[str] = []
    parent = await supervised(actor_system, Member, journal, backoff=Backoff(50, max=50))
    await parent.ask(spawns(Member, journal, name="a"))
    await crash(parent)
    assert journal == ["started child", "started a", "killed a"]


async def test_promises_helpers_timers_and_watches_end_with_a_life(actor_system: System) -> None:
    heard: list[object] = []

    class Busy(Doer):
        @handles(Ask)
        def promise(self, msg: Ask) -> Any:
            self.later = self.context.later(msg)
            return self.later

        @handles(Terminated)
        def told(self, msg: Terminated) -> None:
            heard.append(msg)

        @handles(Note)
        def tick(self, msg: Note) -> None:
            heard.append(msg)

    async def helper() -> None:
        try:
            await trio.sleep_forever()
        finally:
            heard.append("helper ended")

    other = await actor_system.spawn(Doer)
    ref = await supervised(actor_system, Busy)
    await ref.ask(calls(lambda actor: actor.context.send_every(1, Note(1)) and None))
    await ref.ask(calls(lambda actor: actor.context.watch(other)))
    await ref.ask(calls(lambda actor: actor.context.start_soon(helper) and None))
    async with trio.open_nursery() as nursery:
        outcome: list[object] = []

        async def ask() -> None:
            outcome.append(await outcome_of(ref.ask, Ask(1)))

        nursery.start_soon(ask)
        await settled()
        await crash(ref)
    assert isinstance(outcome[0], ActorCrashed)
    await other.stop()
    await settled(3)
    assert heard == ["helper ended"]


async def test_context_stop_of_a_permanent_child_restarts_it(actor_system: System) -> None:
    causes: list[BaseException] = []

    class Quitter(Member):
        async def restarting(self, cause: BaseException) -> None:
            causes.append(cause)

    ref = await supervised(actor_system, Quitter, [], backoff=Backoff(1))
    for generation in (2, 3):
        await ref.ask(calls(lambda actor: actor.context.stop()))
        await settled(2)
        assert await ref.ask(calls(count)) == 1
        assert ref.generation == generation
    assert [type(cause) for cause in causes] == [ChildEnded, ChildEnded]


async def test_a_function_that_returns_is_restarted_too(actor_system: System) -> None:
    async def once(inbox: Inbox[Ask]) -> None:
        async for msg in inbox:
            inbox.reply(msg, inbox.context.ref.generation)
            return

    ref: Ref[Ask] = await supervised(actor_system, once)
    assert [await ref.ask(Ask(n)) for n in range(3)] == [1, 2, 3]


@virtual
async def test_a_bare_actor_is_not_restarted() -> None:
    journal: list[str] = []
    with pytest.raises(ExceptionGroup) as raised:
        async with small_system() as system:
            await crash(await system.spawn(Member, journal, name="a"))
    assert [type(error) for error in raised.value.exceptions] == [Crash]
    assert journal == ["started a", "failed a"]


async def test_a_crash_is_logged(actor_system: System, caplog: pytest.LogCaptureFixture) -> None:
    ref = await supervised(actor_system, Member, [])
    with caplog.at_level(logging.ERROR, "tenure.actors"):
        await crash(ref, Crash("why"))
    (record,) = caplog.records
    assert "/supervisor/child" in record.message
    assert record.exc_info is not None
    assert record.__dict__["actor"] == "/supervisor/child"
    assert actor_system.crashes == 1


@pytest.mark.parametrize("seconds", [0, 20])
async def test_a_hook_that_takes_too_long_is_cancelled(
    actor_system: System, caplog: pytest.LogCaptureFixture, seconds: float
) -> None:
    ref = await supervised(actor_system, Member, [], 3.0 + seconds)
    await crash(ref)
    await settled(5)
    assert ref.generation == 2
    assert ("ran out of time" in caplog.text) == bool(seconds)
    await ref.kill()


async def test_a_request_from_outside_overrules_context_stop(actor_system: System) -> None:
    async def quits(actor: Member) -> None:
        actor.context.stop()
        await trio.sleep(1)

    journal: list[str] = []
    ref = await supervised(actor_system, Member, journal)
    ref.tell(Do(quits))
    await settled()
    assert await ref.stop() == Exit("stopped")
    assert journal == ["started child", "stopped child"]


@pytest.mark.actor_system(unhealthy=True)
async def test_an_end_while_the_old_children_end_starts_nothing_more(actor_system: System) -> None:
    for mode in ("stop", "kill"):
        journal: list[str] = []
        child = Child(Member, journal, name=mode)
        supervision = await actor_system.supervise(one_for_one(backoff=Backoff(50)), child)
        ref = supervision.child(mode, Member)
        await ref.ask(spawns(Member, journal, 2.0, name="child"))
        began = trio.current_time()
        await crash(ref)
        exit_ = await getattr(ref, mode)()
        assert trio.current_time() == began + 2
        assert (exit_.failed, ref.generation) == (True, 1)  # nobody had decided about the failure
        assert journal[2:] == ["killed child", f"failed {mode}"]
