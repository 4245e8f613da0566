"""Guarantees: supervision."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors import (
    ActorCrashed,
    ActorStopped,
    Backoff,
    Child,
    Exit,
    Inbox,
    NoSuchActor,
    RestartLimitExceeded,
    StartFailed,
    Supervision,
    Supervisor,
    System,
    WrongSpecimen,
    one_for_all,
    one_for_one,
    rest_for_one,
)
from actors.testing import run_virtual

from ._systems import Ask, Crash, Doer, Recorder, cell_of, outcome_of, supervised
from ._trees import Member, calls, crash, kinds, raises, settled, sleeps, small_system, spawns, state_of, virtual


async def three(system: System, strategy: Any, journal: list[str], **options: Any) -> Supervision:
    """A supervisor of `a`, `b` and `c`, whose start is no longer in the journal."""
    children = [Child(Member, journal, name=name, **options) for name in "abc"]
    supervision = await system.supervise(strategy, *children)
    del journal[:]
    return supervision


async def test_one_for_one_restarts_only_the_one_that_failed(actor_system: System) -> None:
    journal: list[str] = []
    supervision = await three(actor_system, one_for_one(), journal)
    await crash(supervision.child("b", Member))
    assert journal == ["restarting b", "started b"]


async def test_one_for_all_restarts_all_in_order(actor_system: System) -> None:
    journal: list[str] = []
    supervision = await three(actor_system, one_for_all(), journal)
    await crash(supervision.child("b", Member))
    assert journal == ["restarting b", "restarting c", "restarting a", "started a", "started b", "started c"]


async def test_rest_for_one_restarts_those_that_were_started_later(actor_system: System) -> None:
    journal: list[str] = []
    supervision = await three(actor_system, rest_for_one(), journal)
    await crash(supervision.child("b", Member))
    assert journal == ["restarting b", "restarting c", "started b", "started c"]


async def test_restarted_siblings_keep_refs_and_mailboxes_too(actor_system: System) -> None:
    journal: list[str] = []
    supervision = await three(actor_system, one_for_all(backoff=Backoff(1)), journal)
    a, c = supervision.child("a", Member), supervision.child("c", Member)
    await crash(c)
    assert await a.ask(calls(lambda actor: actor.context.ref.generation)) == 2
    assert trio.current_time() == 1
    assert supervision.children() == (a, cell_of(supervision.child("b", Member)).ref, c)


async def test_a_sibling_finishes_its_message_before_it_is_restarted(actor_system: System) -> None:
    journal: list[str] = []
    supervision = await three(actor_system, one_for_all(), journal)
    a, b = supervision.child("a", Member), supervision.child("b", Member)
    a.tell(sleeps(2))
    a.tell(calls(lambda actor: actor.write("handled after")))
    await settled()
    await crash(b)
    assert journal == ["restarting b", "restarting c"]
    await settled(2)
    assert [event for event in journal[2:] if event.endswith("a")] == ["restarting a", "started a", "handled after a"]
    assert actor_system.dead_letters.by_reason == {"crashed": 1}


@pytest.mark.parametrize(("shutdown", "seconds"), [(2.0, 2), (None, 5)])
async def test_a_sibling_that_is_too_slow_is_cancelled(
    actor_system: System, shutdown: float | None, seconds: float
) -> None:
    journal: list[str] = []
    supervision = await three(actor_system, one_for_all(), journal, shutdown=shutdown)
    error = Crash()
    supervision.child("a", Member).tell(sleeps(100))
    async with trio.open_nursery() as nursery:
        outcomes: list[object] = []

        async def ask() -> None:
            outcomes.append(await outcome_of(supervision.child("c", Member).ask, sleeps(100)))

        nursery.start_soon(ask)
        await settled()
        await crash(supervision.child("b", Member), error)
        await settled(2 * seconds)
    assert journal[-3:] == ["started a", "started b", "started c"]
    assert actor_system.dead_letters.by_reason == {"crashed": 1, "killed": 1}
    assert isinstance(outcomes[0], ActorCrashed)
    assert outcomes[0].cause is error


async def test_the_causes_of_a_restart_are_told_to_siblings(actor_system: System) -> None:
    causes: list[BaseException] = []

    class Told(Doer):
        async def restarting(self, cause: BaseException) -> None:
            causes.append(cause)

    supervision = await actor_system.supervise(one_for_all(), Child(Told, name="a"), Child(Told, name="b"))
    error = Crash()
    await crash(supervision.child("a", Told), error)
    assert causes == [error, error]


async def test_a_group_is_restarted_again_when_one_of_it_fails_to_start(actor_system: System) -> None:
    journal: list[str] = []
    starts = 0

    class Flaky(Member):
        async def started(self) -> None:
            nonlocal starts
            starts += 1
            if starts == 2:
                raise Crash
            await super().started()

    children = [Child(Member, journal, name="a"), Child(Flaky, journal, name="b"), Child(Member, journal, name="c")]
    supervision = await actor_system.supervise(one_for_all(), *children)
    del journal[:]
    await crash(supervision.child("a", Member))
    assert journal == [
        *("restarting a", "restarting c", "restarting b", "started a"),
        *("restarting a", "started a", "started b", "started c"),
    ]


@pytest.mark.actor_system(unread_failures=True)
@pytest.mark.parametrize("strategy", [one_for_all, rest_for_one])
async def test_a_group_starts_without_one_that_is_given_up(actor_system: System, strategy: Any) -> None:
    journal: list[str] = []
    starts = 0

    class Hopeless(Member):
        async def started(self) -> None:
            nonlocal starts
            starts += 1
            if starts > 1:
                raise KeyError
            await super().started()

    children = [Child(Member, journal, name="a"), Child(Hopeless, journal, name="b"), Child(Member, journal, name="c")]
    supervision = await actor_system.supervise(strategy(on={KeyError: "stop"}), *children)
    await crash(supervision.child("a", Member))
    assert [ref.name for ref in supervision.children()] == ["a", "c"]
    assert await supervision.child("c", Member).ask(calls(lambda _: "runs")) == "runs"


@pytest.mark.actor_system(unread_failures=True)
async def test_the_backoff_of_a_group_delays_no_other_decision(actor_system: System) -> None:
    journal: list[str] = []
    strategy = rest_for_one(backoff=Backoff(10), on={KeyError: "stop"})
    supervision = await three(actor_system, strategy, journal)
    a, b, c = (supervision.child(name, Member) for name in "abc")
    await crash(b)
    await settled(1)
    await crash(a)  # a restart of all takes over
    await settled(9.5)
    assert [ref.generation for ref in (a, b, c)] == [1, 1, 1]
    await settled(1)
    assert [ref.generation for ref in (a, b, c)] == [2, 2, 2]
    await crash(b)
    await crash(a, KeyError())
    assert not a.alive


async def test_a_group_starts_without_one_that_is_stopped_meanwhile(actor_system: System) -> None:
    journal: list[str] = []
    supervision = await three(actor_system, one_for_all(backoff=Backoff(5)), journal)
    refs = [supervision.child(name, Member) for name in "abc"]
    await crash(refs[0])
    assert [state_of(ref) for ref in refs] == ["restarting"] * 3
    assert await refs[1].stop() == Exit("stopped")
    await settled(5)
    assert journal[-2:] == ["started a", "started c"]


async def test_a_child_that_is_being_restarted_starts_after_those_before_it(actor_system: System) -> None:
    journal: list[str] = []
    supervision = await actor_system.supervise(
        rest_for_one(), Child(Member, journal, 1.0, name="a"), Child(Member, journal, 3.0, name="b")
    )
    del journal[:]
    await crash(supervision.child("b", Member))
    await crash(supervision.child("a", Member))
    await settled(10)
    assert journal == ["restarting a", "restarting b", "started a", "started b"]


async def test_two_failures_at_once_restart_a_group_once(actor_system: System) -> None:
    journal: list[str] = []
    supervision = await three(actor_system, one_for_all(1), journal)
    for name in "ac":
        supervision.child(name, Member).tell(raises())
    await settled()
    assert [ref.alive for ref in supervision.children()] == [True] * 3
    assert [ref.box_.cell.generation for ref in supervision.children()] == [2, 2, 2]


@pytest.mark.actor_system(unread_failures=True)
@pytest.mark.parametrize(
    ("restart", "after_failure", "after_end"),
    [("permanent", True, True), ("transient", True, False), ("temporary", False, False)],
)
async def test_the_restart_kind_says_after_which_ends(
    actor_system: System, restart: Any, after_failure: bool, after_end: bool
) -> None:
    supervision = await actor_system.supervise(one_for_one(), name="s")
    for message, again in ((raises(), after_failure), (calls(lambda actor: actor.context.stop()), after_end)):
        ref = await supervision.start(Child(Doer, restart=restart))
        ref.tell(message)
        await settled()
        assert (ref.alive, ref.generation) == (again, 2 if again else 1)


async def test_a_temporary_child_ends_for_good_with_its_group(actor_system: System) -> None:
    journal: list[str] = []
    supervision = await three(actor_system, one_for_all(), journal)
    extra = await supervision.start(Child(Member, journal, name="extra", restart="temporary"))
    await crash(supervision.child("a", Member))
    assert await extra.wait_stopped() == Exit("stopped")
    assert "stopped extra" in journal
    assert [ref.name for ref in supervision.children()] == ["a", "b", "c"]


async def test_a_child_that_is_stopped_by_its_ref_is_not_restarted(actor_system: System) -> None:
    supervision = await three(actor_system, one_for_all(), [])
    for name, mode in zip("abc", ("stop", "drain", "kill"), strict=True):
        await getattr(supervision.child(name, Member), mode)()
    assert supervision.children() == ()
    assert supervision.ref.alive


async def test_resume_goes_on_with_state_children_and_timers(actor_system: System) -> None:
    journal: list[str] = []
    ref = await supervised(actor_system, Member, journal, on={KeyError: "resume"})
    child = await ref.ask(spawns(Member, journal, name="grandchild"))
    await ref.ask(calls(lambda actor: setattr(actor, "state", 7)))
    await ref.ask(calls(lambda actor: actor.context.send_after(1, calls(lambda _: journal.append("tick"))) and None))
    failure = await outcome_of(ref.ask, raises(KeyError()))
    assert type(failure.cause) is KeyError
    assert await ref.ask(calls(lambda actor: actor.state)) == 7
    await settled(1)
    assert (child.alive, ref.generation) == (True, 1)
    assert journal == ["started child", "started grandchild", "tick"]


@pytest.mark.parametrize("seed", range(8))
def test_a_child_that_fails_while_its_parent_is_resumed_fails_it(seed: int) -> None:
    async def main() -> None:
        async with small_system() as system:
            ref = await supervised(system, Member, [], on={KeyError: "resume"})
            child = await ref.ask(spawns(Member, []))
            child.tell(raises())
            await crash(ref, KeyError())
            assert ref.generation == 2
            assert not child.alive

    run_virtual(main, seed=seed)


async def test_what_cannot_be_resumed_is_restarted(actor_system: System) -> None:
    starts = 0

    async def function(inbox: Inbox[Ask]) -> None:
        nonlocal starts
        starts += 1
        async for msg in inbox:
            if msg.n == 0:
                raise KeyError
            inbox.reply(msg, msg.n)

    ref = await supervised(actor_system, function, on={KeyError: "resume"}, max_restarts=2)
    for _ in range(2):
        await outcome_of(ref.ask, Ask(0))
    assert await ref.ask(Ask(1)) == 1
    assert (starts, ref.generation) == (3, 3)


async def test_stop_ends_only_the_child_that_failed(actor_system: System) -> None:
    journal: list[str] = []
    supervision = await three(actor_system, one_for_all(on={KeyError: "stop"}), journal)
    b = supervision.child("b", Member)
    async with trio.open_nursery() as nursery:
        exits: list[Exit] = []

        async def wait() -> None:
            exits.append(await b.wait_stopped())

        nursery.start_soon(wait)
        await settled()
        await crash(b, KeyError())
    assert exits[0].failed
    assert journal == ["failed b"]


@virtual
async def test_escalate_fails_the_supervisor_with_the_cause() -> None:
    journal: list[str] = []
    error = KeyError()
    with pytest.raises(ExceptionGroup) as raised:
        async with small_system() as system:
            supervision = await three(system, one_for_one(on={KeyError: "escalate"}), journal)
            await crash(supervision.child("b", Member), error)
            await trio.sleep_forever()
    assert raised.value.exceptions == (error,)
    assert sorted(journal) == ["failed b", "killed a", "killed c"]
    assert kinds(system) == {"completed": 1, "cancelled": 2, "panicked": 1}


@virtual
async def test_too_many_restarts_leave_the_block_with_their_causes() -> None:
    errors = [Crash(n) for n in range(4)]
    with pytest.raises(RestartLimitExceeded) as raised:
        async with small_system() as system:
            supervision = await system.supervise(one_for_one(max_restarts=3, within=5), Child(Doer, name="child"))
            for error in errors:
                await crash(supervision.child("child", Doer), error)
            await trio.sleep_forever()
    assert list(raised.value.exceptions) == errors
    assert raised.value.supervisor == "/supervisor-1"
    assert raised.value.report is system.report  # type: ignore[attr-defined]
    assert not system.report.is_healthy()


async def test_restarts_outside_the_window_do_not_count(actor_system: System) -> None:
    supervision = await actor_system.supervise(one_for_one(max_restarts=2, within=5), Child(Doer, name="child"))
    ref = supervision.child("child", Doer)
    for _ in range(10):
        await crash(ref)
        await settled(2.5)
    assert ref.generation == 11


@virtual
async def test_restart_limits_of_nested_supervisors_stay_flat() -> None:
    """Two restarts of the inner supervisor, with two of the child each, make nine crashes in all."""
    crashes = 0
    with pytest.raises(RestartLimitExceeded) as raised:
        async with small_system() as system:
            inner = Child(Supervisor, one_for_one(2), Child(Doer, name="leaf"), name="inner")
            outer = Child(Supervisor, one_for_one(2), inner, name="outer")
            await system.supervise(one_for_one(0), outer, name="top")
            while True:
                crashes += 1
                await crash(system.find("/top/outer/inner/leaf", Doer), Crash(crashes))
    assert crashes == 9
    assert [error.args for error in raised.value.exceptions] == [(n,) for n in range(1, 10)]
    assert raised.value.supervisor == "/top"


async def test_a_child_that_is_started_later_is_the_last_in_order(actor_system: System) -> None:
    journal: list[str] = []
    supervision = await three(actor_system, rest_for_one(), journal)
    extra = await supervision.start(Child(Member, journal, name="extra"))
    await crash(supervision.child("c", Member))
    assert journal == ["started extra", "restarting c", "restarting extra", "started c", "started extra"]
    assert supervision.children()[-1] is extra
    with pytest.raises(StartFailed):
        await supervision.start(Child(Recorder, name="broken"))  # without its argument
    assert len(supervision.children()) == 4


async def test_a_supervision_looks_up_its_children(actor_system: System) -> None:
    supervision = await three(actor_system, one_for_one(), [])
    a = supervision.child("a", Member)
    assert supervision.children()[0] is a
    with pytest.raises(WrongSpecimen):
        supervision.child("a", Recorder)
    with pytest.raises(NoSuchActor) as raised:
        supervision.child("z", Member)
    assert raised.value.path == "/z"
    await supervision.stop()
    assert supervision.children() == ()
    assert "0 children" in repr(supervision)
    with pytest.raises(NoSuchActor):
        supervision.child("a", Member)
    with pytest.raises(ActorStopped):
        await supervision.start(Child(Doer))
