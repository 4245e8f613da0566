"""Property tests: supervision against a naive model; trees that are torn down at random, of which nothing is lost."""

from __future__ import annotations

import functools
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import (
    ActorStopped,
    Child,
    ChildEnded,
    Exit,
    Ref,
    RestartLimitExceeded,
    StartFailed,
    System,
    SystemStopped,
    Terminated,
    handles,
    one_for_all,
    one_for_one,
    rest_for_one,
)
from actors._cell import Cell
from actors.testing import run_virtual
from lifecycle import TaskGroup

from ._systems import Crash, Do, Doer, cell_of
from ._trees import Member, calls, raises, settled, sleeps, small_system, supervises

if TYPE_CHECKING:
    from collections.abc import Generator

STRATEGIES: dict[str, Any] = {"one_for_one": one_for_one, "one_for_all": one_for_all, "rest_for_one": rest_for_one}


@contextmanager
def quiet() -> Generator[None]:
    """Hundreds of crashes are no news here."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


# ---------------------------------------------------------------- the window and the order


@attrs.define
class Model:
    """What a supervisor does, in the simplest words."""

    kind: str
    most: int
    within: float
    children: dict[str, str]  # name: restart kind, in start order
    restarts: list[float] = attrs.field(factory=list[float])
    generations: dict[str, int] = attrs.field(factory=dict[str, int])

    def apply(self, action: str, name: str, now: float) -> list[str] | None:
        """The journal of what follows; None when the supervisor gives up."""
        if name not in self.children:
            return []
        if action in ("stop", "kill"):
            del self.children[name]
            return [f"{'stopped' if action == 'stop' else 'killed'} {name}"]
        failed = action == "crash"
        restart = self.children[name]
        if restart == "temporary" or (restart == "transient" and not failed):
            del self.children[name]
            return [f"{'failed' if failed else 'stopped'} {name}"]
        if len([time for time in self.restarts if now - time < self.within]) >= self.most:
            return None
        self.restarts.append(now)
        return self.restart(name)

    def restart(self, name: str) -> list[str]:
        names = list(self.children)
        affected = {"one_for_one": [name], "one_for_all": names, "rest_for_one": names[names.index(name) :]}[self.kind]
        journal: list[str] = []
        for other in [name, *(each for each in reversed(affected) if each != name)]:
            if self.children[other] == "temporary":
                del self.children[other]
                journal.append(f"stopped {other}")
            else:
                journal.append(f"restarting {other}")
        for other in affected:
            if other in self.children:
                self.generations[other] = self.generations.get(other, 1) + 1
                journal.append(f"started {other}")
        return journal


events = st.tuples(
    st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.5, 6.0]),
    st.sampled_from(["crash", "crash", "crash", "quit", "stop", "kill"]),
    st.integers(0, 4),
)


@settings(max_examples=150)
@given(
    kind=st.sampled_from(list(STRATEGIES)),
    most=st.integers(0, 4),
    within=st.sampled_from([0.5, 1.0, 5.0]),
    restarts=st.lists(st.sampled_from(["permanent", "permanent", "transient", "temporary"]), min_size=1, max_size=5),
    script=st.lists(events, max_size=12),
)
def test_restart_window_and_order_are_those_of_the_model(
    kind: str, most: int, within: float, restarts: list[Any], script: list[tuple[float, str, int]]
) -> None:
    model = Model(kind, most, within, {f"c{n}": restart for n, restart in enumerate(restarts)})
    with quiet():
        run_virtual(functools.partial(follow, model, STRATEGIES[kind](most, within), script))


async def follow(model: Model, strategy: Any, script: list[tuple[float, str, int]]) -> None:
    """Do what the script says, and compare the journal after each step."""
    journal: list[str] = []
    gave_up = False
    try:
        async with small_system() as system:
            children = [Child(Member, journal, name=name, restart=kind) for name, kind in model.children.items()]
            supervision = await system.supervise(strategy, *children, name="s")
            refs = [supervision.child(name, Member) for name in model.children]
            for gap, action, number in script:
                journal.clear()
                await trio.sleep(gap)
                ref = refs[number % len(refs)]
                living = sorted(model.children)
                expected = model.apply(action, ref.name, trio.current_time())
                gave_up = expected is None
                await act(ref, action)
                assert journal == expected
                check(model, refs)
            journal.clear()
            living = list(model.children)
        assert journal == [f"drained {name}" for name in reversed(living)]
    except RestartLimitExceeded as error:
        assert gave_up
        assert len(error.exceptions) == model.most + 1
        assert sorted(line.split()[1] for line in journal) == living  # each was told of its end, once
    else:
        assert not gave_up


async def act(ref: Ref[Any], action: str) -> None:
    if action in ("stop", "kill"):
        await getattr(ref, action)()
    elif ref.alive:
        ref.tell(raises() if action == "crash" else calls(lambda actor: actor.context.stop()))
    await settled()


def check(model: Model, refs: list[Ref[Any]]) -> None:
    for ref in refs:
        assert ref.alive == (ref.name in model.children)
        if ref.alive:
            assert ref.generation == model.generations.get(ref.name, 1)


# ---------------------------------------------------------------- accounting


class Plain(Doer):
    pass


class SlowToStop(Doer):
    async def stopping(self, reason: Exit) -> None:
        await trio.sleep(1.5)


class FailsToStop(Doer):
    async def stopping(self, reason: Exit) -> None:
        raise Crash


class FailsToStart(Doer):
    """At every second life."""

    async def started(self) -> None:
        await trio.sleep(0.25)
        if self.context.ref.generation % 2 == 0:
            raise Crash


BODIES = [Plain, SlowToStop, FailsToStop, FailsToStart]


class Watcher(Doer):
    def __init__(self, told: list[tuple[Ref[Any], Exit]]) -> None:
        self.told = told

    @handles(Terminated)
    def terminated(self, msg: Terminated) -> None:
        self.told.append((msg.ref, msg.reason))


@attrs.define
class World:
    """One run: the actors that were made, and those that are known by their refs."""

    cells: list[Cell] = attrs.field(factory=list[Cell])
    refs: list[Ref[Any]] = attrs.field(factory=list[Ref[Any]])
    watchers: list[Ref[Any]] = attrs.field(factory=list[Ref[Any]])

    def meet(self, ref: Ref[Any]) -> None:
        self.refs.append(ref)
        for watcher in self.watchers:
            cell_of(watcher).context.watch(ref)

    def spawning(self, body: Any) -> Do:
        async def fn(actor: Doer) -> None:
            self.meet(await actor.context.spawn(body))

        return Do(fn)

    def supervising(self, body: Any, strategy: Any) -> Do:
        async def fn(actor: Doer) -> None:
            message = supervises(strategy, Child(body), Child(Plain, restart="transient"), Child(Plain))
            supervision = await message.fn(actor)
            self.meet(supervision.ref)
            for ref in supervision.children():
                self.meet(ref)

        return Do(fn)

    async def act(self, system: System, nursery: trio.Nursery, action: str, number: int, seconds: float) -> None:
        body = BODIES[number % len(BODIES)]
        ref = self.refs[number % len(self.refs)] if self.refs else None
        if ref is None or action == "spawn on the system":
            self.meet(await system.spawn(body))
        elif action == "spawn":
            ref.tell(self.spawning(body))
        elif action == "supervise":
            ref.tell(self.supervising(body, list(STRATEGIES.values())[number % 3](2, 5)))
        elif action == "crash":
            ref.tell(raises())
        elif action == "quit":
            ref.tell(calls(lambda actor: actor.context.stop()))
        elif action == "work":
            ref.tell(sleeps(seconds))
        else:
            nursery.start_soon(getattr(ref, action))


actions = st.tuples(
    st.sampled_from(
        [
            *("spawn on the system", "spawn", "spawn", "supervise", "supervise", "crash", "crash", "quit"),
            *("work", "work", "stop", "drain", "kill"),
        ]
    ),
    st.integers(0, 40),
    st.sampled_from([0.0, 0.0, 0.25, 1.0, 4.0, 20.0]),
)


@settings(max_examples=150)
@given(
    script=st.lists(actions, max_size=30),
    end=st.sampled_from(["leave", "raise", "cancel", "stop", "kill"]),
    inline=st.booleans(),
)
def test_nothing_is_lost_of_a_tree_that_is_torn_down(
    script: list[tuple[str, int, float]], end: str, inline: bool
) -> None:
    with quiet():
        run_virtual(functools.partial(tear_down, script, end, inline))


async def tear_down(script: list[tuple[str, int, float]], end: str, inline: bool) -> None:
    world = World()
    told: list[tuple[Ref[Any], Exit]] = []
    async with small_system() as outer:
        for _ in range(2):
            world.watchers.append(await outer.spawn(Watcher, told))
        adopt = TaskGroup.adopt

        def adopt_and_note(group: TaskGroup, record: Any, *args: Any) -> None:
            if isinstance(record, Cell):
                world.cells.append(record)
            adopt(group, record, *args)

        with patch.object(TaskGroup, "adopt", adopt_and_note):
            system = await live_and_die(world, script, end, inline)
        await settled()
    assert system.report is not None
    assert all(cell.exit is not None for cell in world.cells)
    assert system.group.over
    totals = system.report.totals()
    body = 1 if end == "raise" and totals.total > len(world.cells) else 0
    assert totals.total == len(world.cells) + body
    assert totals.leaked == 0
    for ref in world.refs:
        assert [exit_ for watched, exit_ in told if watched is ref] == [cell_of(ref).exit] * 2
    assert len(told) == 2 * len(world.refs)


async def live_and_die(world: World, script: list[tuple[str, int, float]], end: str, inline: bool) -> System:
    failures: list[BaseException] = []
    try:
        with trio.CancelScope() as scope:
            async with small_system(inline=inline) as system, trio.open_nursery() as nursery:
                for action, number, seconds in script:
                    await world.act(system, nursery, action, number, seconds)
                    await trio.sleep(seconds / 2)
                if end == "raise":
                    raise Crash
                if end == "cancel":
                    scope.cancel()
                    await trio.sleep(1)
                if end in ("stop", "kill"):
                    getattr(system, end)()
                nursery.cancel_scope.cancel()
    except Exception as exc:
        failures.append(exc)
    expected = (Crash, StartFailed, ActorStopped, SystemStopped, ChildEnded)
    assert all(isinstance(leaf, expected) for failure in failures for leaf in leaves(failure))
    return system


def leaves(exc: BaseException) -> list[BaseException]:
    parts: Any = getattr(exc, "exceptions", None)
    return [exc] if parts is None else [leaf for part in parts for leaf in leaves(part)]
