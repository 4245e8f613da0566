"""Guarantees: spawning and readiness."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors import (
    ActorStopped,
    Backoff,
    Child,
    EndedBeforeReady,
    Inbox,
    InvalidMailbox,
    NotABody,
    StartFailed,
    System,
    SystemStopped,
    one_for_one,
)

from ._systems import Crash, Do, Doer, Note, Recorder, cell_of, outcome_of, supervised
from ._trees import Member, crash, kinds, settled, sleeps, small_system, state_of, virtual


class Slow(Doer):
    """Starts in a second, and then fails if it is told so beforehand."""

    def __init__(self, fails: bool = False, child: list[str] | None = None) -> None:
        self.fails = fails
        self.child = child

    async def started(self) -> None:
        if self.child is not None:
            await self.context.spawn(Member, self.child, name="child")
        await trio.sleep(1)
        if self.fails:
            raise Crash("no")


async def slow_function(inbox: Inbox[Note], fails: bool = False) -> None:
    await trio.sleep(1)
    if fails:
        raise Crash("no")
    async for _ in inbox:
        pass


async def returns_early(inbox: Inbox[Note]) -> None:
    await trio.sleep(1)


async def test_spawn_returns_when_the_actor_is_ready(actor_system: System) -> None:
    for body in (Slow, slow_function):
        before = trio.current_time()
        ref = await actor_system.spawn(body)
        assert trio.current_time() == before + 1
        assert state_of(ref) == "running"
        assert ref.alive


async def test_a_failed_start_raises_at_the_spawner(actor_system: System) -> None:
    for body in (Slow, slow_function):
        with pytest.raises(StartFailed) as raised:
            await actor_system.spawn(body, True, name="x")
        assert raised.value.path == "/x"
        assert isinstance(raised.value.cause, Crash)
        assert raised.value.__cause__ is raised.value.cause


async def test_a_body_that_returns_early_has_not_started(actor_system: System) -> None:
    with pytest.raises(StartFailed) as raised:
        await actor_system.spawn(returns_early)
    assert isinstance(raised.value.cause, EndedBeforeReady)


@virtual
async def test_a_failed_start_leaves_no_trace() -> None:
    async with small_system() as system:
        other = await system.spawn(Doer)
        for _ in range(3):
            with pytest.raises(StartFailed):
                await system.spawn(Slow, True, name="x", needs=[other])
            assert system.dump().actors == system.dump().actors[:1]
            assert system.group.task_count == 1
        await system.spawn(Doer, name="x")
        await other.stop()
    assert system.report.is_healthy()


async def test_a_failed_start_is_the_spawners_alone(actor_system: System) -> None:
    async def tries(actor: Doer) -> str:
        with pytest.raises(StartFailed):
            await actor.context.spawn(Slow, True)
        return "went on"

    parent = await actor_system.spawn(Doer)
    assert await parent.ask(Do(tries)) == "went on"
    assert parent.alive


@virtual
async def test_a_cancelled_spawn_leaves_nothing() -> None:
    journal: list[str] = []
    async with small_system() as system:
        for body in (Slow, slow_function):
            with trio.move_on_after(0.5) as scope:
                await system.spawn(body, name="x")
            assert scope.cancelled_caught
            assert system.group.task_count == 0
        with trio.move_on_after(0.5):
            await system.spawn(Slow, False, journal, name="x")
        assert journal == ["started child", "killed child"]
        await system.spawn(Doer, name="x")
    assert kinds(system) == {"completed": 1, "cancelled": 4}


async def test_a_failed_start_ends_what_it_had_spawned(actor_system: System) -> None:
    journal: list[str] = []
    with pytest.raises(StartFailed):
        await actor_system.spawn(Slow, True, journal)
    assert journal == ["started child", "killed child"]


async def test_spawn_is_a_cancel_point_and_once_per_slice_a_schedule_point(actor_system: System) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        for _ in range(200):
            await actor_system.spawn(Doer)
        assert turns >= 200 // 64
        nursery.cancel_scope.cancel()
    with trio.CancelScope() as scope:
        scope.cancel()
        await actor_system.spawn(Doer, name="never")
    assert scope.cancelled_caught
    assert "never" not in str(actor_system.dump())


@virtual
async def test_a_stopped_system_spawns_nothing() -> None:
    async with small_system() as system:
        busy = await system.spawn(Doer)
        busy.tell(sleeps(1))
        await settled()
        system.stop()
        with pytest.raises(SystemStopped):
            await system.spawn(Doer)
        with pytest.raises(SystemStopped):
            await system.supervise(one_for_one(), Child(Doer))
    with pytest.raises(SystemStopped):
        await system.spawn(Doer)


@virtual
async def test_an_actor_that_has_ended_spawns_nothing() -> None:
    refused: list[object] = []

    class Late(Doer):
        async def stopping(self, reason: object) -> None:
            refused.append(await outcome_of(self.context.spawn, Doer))

    async with small_system() as system:
        late = await system.spawn(Late)
        context = cell_of(late).context
        await late.stop()
        refused.append(await outcome_of(context.spawn, Doer))
    assert [type(error) for error in refused] == [ActorStopped, ActorStopped]


async def test_an_actor_between_two_lives_spawns_nothing(actor_system: System) -> None:
    ref = await supervised(actor_system, Doer, backoff=Backoff(1))
    context = cell_of(ref).context
    await crash(ref)
    with pytest.raises(ActorStopped):
        await context.spawn(Doer)
    await settled(1)
    assert (await context.spawn(Doer)).alive


@virtual
async def test_a_start_is_not_interrupted_by_a_stop() -> None:
    for mode in ("stop", "drain"):
        async with small_system() as system, trio.open_nursery() as nursery:
            refs: list[Any] = []

            async def spawn(system: System = system, refs: list[Any] = refs) -> None:
                refs.append(await system.spawn(Slow))

            nursery.start_soon(spawn)
            await settled()
            getattr(system, mode)()
            await trio.sleep(1)
            await settled()
            (ref,) = refs
            assert cell_of(ref).exit.kind == {"stop": "stopped", "drain": "drained"}[mode]


@virtual
async def test_a_kill_ends_a_start() -> None:
    async with small_system() as system, trio.open_nursery() as nursery:
        failures: list[object] = []

        async def spawn() -> None:
            with trio.CancelScope(shield=True):
                failures.append(await outcome_of(system.spawn, Slow))

        nursery.start_soon(spawn)
        await settled()
        (cell,) = system.group.records()
        cell.end("kill")
        await settled()
        assert trio.current_time() == 0
        (failure,) = failures
        assert isinstance(failure, StartFailed)
        assert isinstance(failure.cause, ActorStopped)


async def test_children_start_in_order_one_after_the_other(actor_system: System) -> None:
    times: list[tuple[str, float]] = []

    class Timed(Slow):
        async def started(self) -> None:
            await super().started()
            times.append((self.context.name, trio.current_time()))

    await actor_system.supervise(one_for_one(), Child(Timed, name="a"), Child(Timed, name="b"), Child(Timed, name="c"))
    assert times == [("a", 1), ("b", 2), ("c", 3)]


async def test_supervise_starts_all_or_nothing(actor_system: System) -> None:
    journal: list[str] = []
    children = [Child(Member, journal, name="a"), Child(Member, journal, name="b"), Child(Slow, True, name="c")]
    with pytest.raises(StartFailed) as raised:
        await actor_system.supervise(one_for_one(), *children, Child(Member, journal, name="d"))
    assert raised.value.path == "/c"
    assert journal == ["started a", "started b", "stopped b", "stopped a"]
    assert actor_system.dump().actors == ()


async def test_what_is_no_body_is_refused(actor_system: System) -> None:
    spawn: Any = actor_system.spawn
    for body in (7, "body", int, object()):
        with pytest.raises(NotABody):
            await spawn(body)
    with pytest.raises(StartFailed) as raised:
        await spawn(lambda: 7)
    assert isinstance(raised.value.cause, NotABody)
    with pytest.raises(InvalidMailbox):
        await spawn(Doer, mailbox=7)
    assert actor_system.dump().actors == ()


async def test_an_object_is_spawned_once_and_not_supervised(actor_system: System) -> None:
    actor = Recorder([])
    ref = await actor_system.spawn(actor)
    with pytest.raises(StartFailed) as raised:
        await actor_system.spawn(actor)
    assert isinstance(raised.value.cause, NotABody)
    with pytest.raises(NotABody):
        Child(Recorder([]))
    with pytest.raises(NotABody):
        await actor_system.pool(Recorder([]), size=2)
    assert Child(Recorder([]), restart="temporary").restart == "temporary"
    await ref.stop()
    await actor_system.spawn(actor)
