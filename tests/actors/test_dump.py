"""Guarantees: the dump of the tree."""

from __future__ import annotations

import trio

from actors import Backoff, Child, System, TreeDump, one_for_one

from ._systems import Doer, Note, Recorder, busy, supervised
from ._trees import Member, calls, crash, settled, sleeps, spawns, supervises


async def test_children_stand_below_their_parent_in_start_order(actor_system: System) -> None:
    top = await actor_system.spawn(Doer, name="top")
    await actor_system.spawn(Doer, name="other")
    supervision = await top.ask(supervises(one_for_one(), Child(Doer, name="a"), Child(Doer, name="b")))
    await top.ask(spawns(Doer, name="c"))
    await supervision.child("a", Doer).ask(spawns(Doer, name="leaf"))
    assert [(actor.level, actor.path) for actor in actor_system.dump().actors] == [
        (0, "/top"),
        (1, "/top/supervisor-1"),
        (2, "/top/a"),
        (3, "/top/a/leaf"),
        (2, "/top/b"),
        (1, "/top/c"),
        (0, "/other"),
    ]
    assert all(actor_system.find(actor.path, Doer) for actor in actor_system.dump().actors if "super" not in actor.path)


async def test_a_dump_tells_state_depth_message_age_and_stack(actor_system: System) -> None:
    ref = await actor_system.spawn(Doer, name="busy")
    idle = await actor_system.spawn(Recorder, [], name="idle")
    idle.tell(Note(1))
    ref.tell(sleeps(100))
    await settled()
    for _ in range(3):
        ref.tell(calls(lambda _: None))
    await settled(2.5)
    working, resting = actor_system.dump().actors
    assert (working.state, working.queued, working.handled, working.generation) == ("running", 3, 0, 1)
    assert (working.body, working.message, working.age) == ("Doer", "Do", 2.5)
    assert "sleep" in working.stack[-1]
    assert any("_systems.py" in line and "Doer.do" in line for line in working.stack)
    assert not any("_lives.py" in line for line in working.stack)
    assert (resting.state, resting.queued, resting.handled, resting.message) == ("idle", 0, 1, None)
    assert (resting.age, resting.stack) == (0, ())
    await ref.kill()


async def test_a_dump_shows_what_waits_for_a_restart_and_what_ends(actor_system: System) -> None:
    child = await supervised(actor_system, Doer, backoff=Backoff(10))
    await crash(child)
    parent = await actor_system.spawn(Member, [], 5.0, name="parent")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(parent.stop)
        await settled()
        states = {actor.path: (actor.state, actor.stack) for actor in actor_system.dump().actors}
        assert states["/supervisor/child"] == ("restarting", ())
        assert states["/parent"][0] == "stopping"
        assert "sleep" in states["/parent"][1][-1]
    await settled(10)
    assert [actor.generation for actor in actor_system.dump().actors] == [1, 2]


async def test_an_actor_may_dump_its_own_system(actor_system: System) -> None:
    ref = await actor_system.spawn(Doer, name="self")
    await ref.ask(sleeps(1))
    dump: TreeDump = await ref.ask(calls(lambda actor: actor.context.system.dump()))
    (actor,) = dump.actors
    assert (actor.message, actor.age) == ("DoNow", 0)


async def test_a_dump_draws_itself(actor_system: System) -> None:
    top = await actor_system.spawn(Doer, name="top")
    recorder = await top.ask(spawns(Recorder, [], name="log"))
    free = await busy(recorder)
    lines = str(actor_system.dump()).splitlines()
    assert lines[0] == "system system: 2 actors"
    assert lines[1] == "  /top  Doer  idle  0 queued, 1 handled"
    assert lines[2] == "    /top/log  Recorder  running  0 queued, 0 handled, Hold in hand for 0.000 s"
    assert all(line.startswith("        at ") for line in lines[3:])
    free.set()
