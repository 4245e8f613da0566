"""Guarantees: children and trees."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors import Actor, Child, Ref, Request, System, handles, one_for_one

from ._systems import Crash, Do, Doer, cell_of, outcome_of, supervised
from ._trees import Member, calls, crash, deaf, kinds, raises, settled, small_system, spawns, virtual

DEPTH = 4096


class Dig(Request["Ref[Dig]"]):
    """Answered with the ref of a new child."""


class Level(Actor[Dig]):
    """A level of a deep tree."""

    @handles(Dig)
    async def dig(self, msg: Dig) -> Ref[Dig]:
        return await self.context.spawn(Level, name="x")


async def dig(system: System, depth: int) -> list[Ref[Dig]]:
    refs = [await system.spawn(Level, name="x")]
    while len(refs) < depth:
        refs.append(await refs[-1].ask(Dig()))
    return refs


@pytest.mark.parametrize("end", ["drain", "stop", "kill", "fail", "cancel"])
@virtual
async def test_trees_may_be_4096_levels_deep(end: str) -> None:
    outcome: object = None
    with trio.move_on_after(1) as scope:
        try:
            async with small_system() as system:
                refs = await dig(system, DEPTH)
                if end == "fail":
                    cell_of(refs[-1]).node.child_failed([Crash()])
                    await trio.sleep_forever()
                elif end == "cancel":
                    await trio.sleep_forever()
                else:
                    getattr(system, end)()
                    await trio.sleep_forever()
        except ExceptionGroup as group:
            outcome = group.exceptions
    assert not any(ref.alive for ref in refs)
    assert system.report.totals().total == DEPTH
    if end == "fail":
        assert isinstance(outcome, tuple)
        assert [type(error) for error in outcome] == [Crash]
    else:
        assert outcome is None
    assert scope.cancelled_caught == (end == "cancel")


@virtual
async def test_a_failure_goes_up_through_4096_levels() -> None:
    error = Crash()
    with pytest.raises(ExceptionGroup) as raised:
        async with small_system() as system:
            refs = await dig(system, DEPTH)
            doer = await cell_of(refs[-1]).context.spawn(Doer)
            doer.tell(raises(error))
            await trio.sleep_forever()
    assert raised.value.exceptions == (error,)
    assert system.report.totals().total == DEPTH + 1


@virtual
async def test_a_deep_tree_is_dumped_and_reported_on() -> None:
    async with small_system() as system:
        refs = await dig(system, DEPTH)
        dump = system.dump()
        assert [actor.level for actor in dump.actors] == list(range(DEPTH))
        assert dump.actors[-1].path == refs[-1].path == "/x" * DEPTH
        assert str(dump).count("\n") == DEPTH
        doer = await cell_of(refs[-1]).context.spawn(Doer)
        doer.tell(deaf(12))
        await settled()
    assert system.report.totals().leaked == DEPTH + 1
    assert system.report.render()
    assert system.report.to_json()


async def spread(width: int) -> None:
    async with small_system() as system:
        parent = await system.spawn(Doer, name="parent")

        async def many(actor: Doer) -> list[Ref[Any]]:
            return [await actor.context.spawn(Level) for _ in range(width)]

        refs = await parent.ask(Do(many))
        assert len({ref.path for ref in refs}) == width
        assert len(system.dump().actors) + system.dump().omitted == width + 1
    assert kinds(system) == {"completed": width + 1}


def test_trees_may_be_wide() -> None:
    virtual(spread)(width=20_000)


@pytest.mark.slow
def test_trees_may_be_100_000_wide() -> None:
    virtual(spread)(width=100_000)


@virtual
async def test_a_supervisor_may_have_many_children() -> None:
    width = 5000
    async with small_system() as system:
        supervision = await system.supervise(one_for_one(), *(Child(Level) for _ in range(width)))
        assert len(supervision.children()) == width
    assert kinds(system) == {"completed": width + 1}


async def test_children_live_below_their_parent(actor_system: System) -> None:
    parent = await actor_system.spawn(Doer, name="parent")
    child = await parent.ask(spawns(Doer, name="child"))
    assert child.path == "/parent/child"
    assert await child.ask(calls(lambda actor: actor.context.path)) == "/parent/child"
    assert actor_system.find("/parent/child", Doer) is child
    await parent.stop()
    assert not child.alive


async def test_a_child_may_end_before_its_parent(actor_system: System) -> None:
    parent = await actor_system.spawn(Doer)
    for _ in range(3):
        child = await parent.ask(spawns(Doer, name="child"))
        await child.stop()
        await settled()
    assert cell_of(parent).own.task_count == 0
    assert parent.alive


async def test_a_helper_task_belongs_to_its_actor(actor_system: System) -> None:
    ended: list[str] = []

    async def helper(name: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(name)

    async def starts(actor: Doer) -> None:
        actor.context.start_soon(helper, "one")
        handle = actor.context.start_soon(helper, "two", name="second")
        await trio.sleep(1)
        handle.cancel()
        assert await handle.wait() == "aborted"

    ref = await actor_system.spawn(Doer)
    await ref.ask(Do(starts))
    assert ended == ["two"]
    await ref.stop()
    assert ended == ["two", "one"]


async def test_a_helper_that_fails_fails_its_actor(actor_system: System) -> None:
    async def fails(group: bool) -> None:
        if not group:
            raise Crash
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails, False)
            await trio.sleep_forever()

    ref = await supervised(actor_system, Doer)
    for generation, group in ((2, False), (3, True)):
        await ref.ask(calls(lambda actor, group=group: actor.context.start_soon(fails, group) and None))
        await settled()
        assert ref.generation == generation


async def test_a_helper_asks_in_the_name_of_its_actor(actor_system: System) -> None:
    other = await actor_system.spawn(Doer)
    senders: list[object] = []

    async def helper() -> None:
        senders.append(await other.ask(calls(lambda actor: actor.context.sender)))

    ref = await actor_system.spawn(Doer)
    await ref.ask(calls(lambda actor: actor.context.start_soon(helper) and None))
    await settled()
    context = cell_of(ref).context
    context.start_soon(helper)  # also when it is started from elsewhere
    await settled()
    assert senders == [ref, ref]


@virtual
async def test_what_a_report_has_no_room_for_is_counted_in_it() -> None:
    width = 600
    async with small_system() as system:
        for number in range(width):
            parent = await system.spawn(Doer)
            child = await parent.ask(spawns(Doer, name="child"))
            child.tell(deaf(11 if number > width - 10 else 9.5))  # past D, or only past W
            if number < width - 10:
                parent.tell(deaf(9.5))
        await settled()
    report = system.report
    assert report.totals().total == 2 * width
    assert report.totals().leaked == 2 * 9
    assert len([task for task in report.still_running() if task.path.endswith("child")]) == 9


@virtual
async def test_a_report_of_very_many_groups_counts_all_that_still_run() -> None:
    width = 600
    async with small_system() as system:
        for _ in range(width):
            parent = await system.spawn(Doer)
            (await parent.ask(spawns(Doer))).tell(deaf(11))
        await settled()
    assert system.report.totals().nonzero() == {"timed_out": 2 * width, "leaked": 2 * width}


@virtual
async def test_every_actor_is_counted_once_in_the_report() -> None:
    """Those that ended before the shutdown, those of restarted parents, and those that end with it."""
    journal: list[str] = []

    class Parent(Member):
        async def started(self) -> None:
            for _ in range(3):
                await self.context.spawn(Member, self.journal)
            await super().started()

    async with small_system() as system:
        parent = await supervised(system, Parent, journal)
        for _ in range(4):
            await crash(parent)
        for _ in range(5):
            await (await system.spawn(Doer)).stop()
        assert isinstance(await outcome_of(system.spawn, lambda: 7), Exception)
    assert system.report.totals().total == 2 + 5 * 3 + 5  # what was never made is not among them
    assert kinds(system) == {"completed": 10, "cancelled": 12}
