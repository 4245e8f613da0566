"""Guarantees: what a drain goes through with."""

from __future__ import annotations

import trio

from actors import Child, Exit, System, one_for_all

from ._systems import Crash, Doer, supervised
from ._trees import Member, calls, crash, raises, settled, sleeps, small_system, until_ended, virtual


async def test_a_drain_goes_on_after_an_abandoned_ask(actor_system: System) -> None:
    journal: list[str] = []
    ref = await actor_system.spawn(Member, journal, name="a")
    exits: list[tuple[float, Exit]] = []
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(1):
            async with trio.open_nursery() as askers:
                askers.start_soon(ref.ask, sleeps(100))
                await settled()
                ref.tell(calls(lambda actor: actor.write("handled")))
                nursery.start_soon(until_ended, ref, "drain", exits)
    assert exits == [(1, Exit("drained"))]
    assert journal == ["started a", "handled a", "drained a"]


async def test_a_supervised_actor_that_crashes_while_it_drains_finishes_its_mailbox(actor_system: System) -> None:
    log: list[int] = []
    ref = await supervised(actor_system, Doer, max_restarts=3)
    ref.tell(sleeps(1))
    for n in range(6):
        ref.tell(raises() if n % 2 else calls(lambda _, n=n: log.append(n)))
    await settled()
    assert await ref.drain() == Exit("drained")
    assert log == [0, 2, 4]
    assert ref.generation == 4
    assert actor_system.dead_letters.by_reason == {"crashed": 3}


async def test_a_crash_of_one_that_drains_is_no_matter_of_its_siblings(actor_system: System) -> None:
    journal: list[str] = []
    strategy = one_for_all(on={KeyError: "resume"})
    supervision = await actor_system.supervise(strategy, *(Child(Member, journal, name=name) for name in "ab"))
    a, b = (supervision.child(name, Member) for name in "ab")
    a.tell(sleeps(1))
    a.tell(raises())
    await settled()
    assert await a.drain() == Exit("drained")
    await crash(b, KeyError())
    assert (b.alive, b.generation) == (True, 1)  # it is resumed


async def test_a_stop_overrules_a_drain_between_two_lives(actor_system: System) -> None:
    journal: list[str] = []
    ref = await supervised(actor_system, Member, journal, 2.0)
    ref.tell(sleeps(1))
    for message in (raises(), calls(lambda actor: actor.write("handled"))):
        ref.tell(message)
    await settled()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ref.drain)
        await settled(2)
        assert await ref.stop() == Exit("stopped")
    assert journal == ["started child", "restarting child"]


@virtual
async def test_a_drain_that_crashes_too_often_has_failed() -> None:
    async with small_system() as system:
        ref = await supervised(system, Doer, max_restarts=2)
        ref.tell(sleeps(1))
        for _ in range(5):
            ref.tell(raises())
        await settled()
        assert (await ref.drain()).failed
        assert system.dead_letters.by_reason == {"crashed": 3, "stopped": 2}
    assert system.report.totals().failed == 1
    async with small_system() as system:
        ref = await supervised(system, Doer, on={Crash: "stop"})
        ref.tell(sleeps(1))
        ref.tell(raises())
        await settled()
        assert (await ref.drain()).failed
    assert system.report.is_healthy()  # here the supervisor has decided
