"""An actor, as a class and as a function, that takes messages of every kind, and notes what becomes of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import attrs
import trio

from actors import Actor, ActorContext, Inbox, Later, Request, StashFull, handles

from ._systems import Crash


@attrs.frozen
class Message(Request[int]):
    """The number says who sent it: sender * 1000 + serial."""

    n: int


class Plain(Message):
    pass


class DerivedPlain(Plain):
    pass


class Urgent(Message):
    control = True


class DerivedUrgent(Urgent):
    pass


class Slow(Message):
    """An async handler that takes a second."""


class Shielded(Slow):
    shield = True


class Crashing(Message):
    pass


class CrashingSlowly(Message):
    pass


class Aside(Message):
    """Put aside the first time."""


class Unstash(Message):
    pass


class Promise(Message):
    """Answered by the next `Keep`."""


class Keep(Message):
    pass


KINDS = [
    Plain,
    DerivedPlain,
    Urgent,
    DerivedUrgent,
    Slow,
    Shielded,
    Crashing,
    CrashingSlowly,
    Aside,
    Unstash,
    Promise,
    Keep,
]
Protocol = Plain | Urgent | Slow | Crashing | CrashingSlowly | Aside | Unstash | Promise | Keep


@attrs.define(eq=False)
class World:
    """What has happened."""

    taken: list[int] = attrs.Factory(list)
    """At the first time that each message is in hand."""
    started: Counter[int] = attrs.Factory(Counter)
    """Every time, but when it is put aside."""
    completed: Counter[int] = attrs.Factory(Counter)
    dead: defaultdict[int, list[str]] = attrs.Factory(lambda: defaultdict(list))
    outcomes: dict[int, tuple[str, Any]] = attrs.Factory(dict)
    """How it was sent, and what came of that for the sender."""
    controls: set[int] = attrs.Factory(set)
    aside: list[int] = attrs.Factory(list)
    """In the order in which they were handled in the end."""
    put_aside: set[int] = attrs.Factory(set)
    started_at: dict[int, float] = attrs.Factory(dict)
    gone_at: dict[int, float] = attrs.Factory(dict)
    completed_at: dict[int, float] = attrs.Factory(dict)
    interruptible: set[int] = attrs.Factory(set)

    def take(self, msg: Message) -> bool:
        """Whether this is the first time."""
        first = msg.n not in self.taken
        if first:
            self.taken.append(msg.n)
        if isinstance(msg, Urgent):
            self.controls.add(msg.n)
        return first

    def start(self, msg: Message) -> None:
        self.take(msg)
        self.started[msg.n] += 1
        self.started_at[msg.n] = trio.current_time()
        if msg.n in self.put_aside:
            self.aside.append(msg.n)

    def complete(self, msg: Message) -> int:
        self.completed[msg.n] += 1
        self.completed_at[msg.n] = trio.current_time()
        if type(msg) is Slow:
            self.interruptible.add(msg.n)
        return msg.n


def put_aside(context: ActorContext[Any], world: World, msg: Message) -> bool:
    try:
        context.stash()
    except StashFull:
        return False
    world.put_aside.add(msg.n)
    return True


class Target(Actor[Protocol]):
    def __init__(self, world: World) -> None:
        self.world = world
        self.promises: list[tuple[Message, Later[int]]] = []

    @handles(Plain)
    def plain(self, msg: Plain) -> int:
        self.world.start(msg)
        return self.world.complete(msg)

    @handles(Urgent)
    def urgent(self, msg: Urgent) -> int:
        self.world.start(msg)
        return self.world.complete(msg)

    @handles(Slow)
    async def slow(self, msg: Slow) -> int:
        self.world.start(msg)
        await trio.sleep(1)
        return self.world.complete(msg)

    @handles(Crashing)
    def crash(self, msg: Crashing) -> int:
        self.world.start(msg)
        raise Crash

    @handles(CrashingSlowly)
    async def crash_slowly(self, msg: CrashingSlowly) -> int:
        self.world.start(msg)
        await trio.sleep(1)
        raise Crash

    @handles(Aside)
    def aside(self, msg: Aside) -> int:
        if self.world.take(msg) and put_aside(self.context, self.world, msg):
            return 0
        self.world.start(msg)
        return self.world.complete(msg)

    @handles(Unstash)
    def unstash(self, msg: Unstash) -> int:
        self.world.start(msg)
        self.context.unstash_all()
        return self.world.complete(msg)

    @handles(Promise)
    def promise(self, msg: Promise) -> Later[int]:
        self.world.start(msg)
        later = self.context.later(msg)
        if later.abandoned:
            self.world.complete(msg)  # it was told
        self.promises.append((msg, later))
        return later

    @handles(Keep)
    def keep(self, msg: Keep) -> int:
        self.world.start(msg)
        if self.promises:
            promised, later = self.promises.pop(0)
            if not later.abandoned:
                later.set(self.world.complete(promised))
        return self.world.complete(msg)


async def function_target(inbox: Inbox[Protocol], world: World) -> None:
    """The same as a function."""
    promises: list[tuple[Message, Later[int]]] = []
    async for msg in inbox:
        if isinstance(msg, Aside) and world.take(msg) and put_aside(inbox.context, world, msg):
            continue
        world.start(msg)
        if isinstance(msg, (Slow, CrashingSlowly)):
            await trio.sleep(1)
        if isinstance(msg, (Crashing, CrashingSlowly)):
            raise Crash
        if isinstance(msg, Promise):
            later = inbox.later(msg)
            if later.abandoned:
                world.complete(msg)
            promises.append((msg, later))
            continue
        if isinstance(msg, Unstash):
            inbox.context.unstash_all()
        if isinstance(msg, Keep) and promises:
            promised, kept = promises.pop(0)
            if not kept.abandoned:
                kept.set(world.complete(promised))
        inbox.reply(msg, world.complete(msg))
