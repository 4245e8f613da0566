"""The public surface of `actors`, used as an application uses it: neither type checker may find anything here."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar, assert_type

import attrs
import trio

from actors import (
    Actor,
    ActorContext,
    ActorError,
    ActorStopped,
    AnyChild,
    AnyRef,
    Backoff,
    Child,
    DeadLetter,
    Exit,
    Group,
    Inbox,
    Lagged,
    Later,
    Mailbox,
    Pool,
    Ref,
    Request,
    RestartLimitExceeded,
    Router,
    Supervision,
    Supervisor,
    System,
    Terminated,
    Timer,
    Topic,
    TracedAsk,
    Tracer,
    TreeDump,
    coalesce,
    drop_stale,
    handles,
    one_for_all,
    one_for_one,
    open_system,
    rest_for_one,
)
from actors.testing import FaultPlan, Probe, eventually, open_probe, simulated

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from lifecycle import ServiceContext, ShutdownReport

T = TypeVar("T")

# ---------------------------------------------------------------- messages


@attrs.frozen
class Deposit(Request[int]):
    amount: int


@attrs.frozen
class Close:
    pass


@attrs.frozen
class Take(Request[bytes]):
    shield: ClassVar[bool] = True
    control: ClassVar[bool] = True


@attrs.frozen
class Note(Request[None]):
    text: str


@attrs.frozen
class Price:
    value: float


# ---------------------------------------------------------------- bodies


class Account(Actor[Deposit | Close]):
    mailbox = Mailbox(limit=10, policy="reject")
    cancel_abandoned = False

    def __init__(self, opening: int = 0) -> None:
        self.balance = opening

    async def started(self) -> None:
        assert_type(self.context, ActorContext[Deposit | Close])
        assert_type(self.context.ref, Ref[Deposit | Close])
        self.context.send_after(60, Close())
        self.context.send_every(60, Deposit(0), mode="fixed_rate", first=30)

    async def stopping(self, reason: Exit) -> None:
        assert_type(reason.kind, Literal["finished", "stopped", "drained", "killed", "failed"])

    async def restarting(self, cause: BaseException) -> None:
        self.balance = 0

    @handles(Deposit)
    def deposit(self, msg: Deposit) -> int:
        self.balance += msg.amount
        return self.balance

    @handles(Close)
    async def close(self, msg: Close) -> None:
        self.context.stop()


class Savings(Account):
    @handles(Deposit)
    def deposit(self, msg: Deposit) -> int:
        return assert_type(super().deposit(msg), int) + 1


class Shelf(Actor[Take | Note]):
    """Answers at once, later, or one of the two; from plain and async handlers."""

    waiting: Later[bytes]

    @handles(Take)
    def take(self, msg: Take) -> Later[bytes]:
        self.waiting = self.context.later(msg)
        return self.waiting

    @handles(Note)
    async def note(self, msg: Note) -> None:
        if not self.waiting.abandoned:
            self.waiting.set(msg.text.encode())


class Mixed(Actor[Take | Deposit]):
    @handles(Take)
    def take(self, msg: Take) -> bytes | Later[bytes]:
        return b"" if msg.control else self.context.later(msg)

    @handles(Deposit)
    async def deposit(self, msg: Deposit) -> int | Later[int]:
        return msg.amount if msg.amount else self.context.later(msg)


class Door(Actor[Close | Note]):
    def __init__(self, *, owner: str = "nobody") -> None:
        self.owner = owner

    @handles(Close)
    def close(self, msg: Close) -> None:
        self.context.stash()
        self.context.become(Shut())

    @handles(Note)
    def note(self, msg: Note) -> None:
        sender: AnyRef | None = self.context.sender
        assert_type(self.context.deadline, float)
        if sender is not None and sender.alive:
            self.owner = sender.path


class Shut(Actor[Close | Note]):
    @handles(Close)
    def close(self, msg: Close) -> None:
        self.context.unstash_all()
        self.context.unbecome()

    @handles(Note)
    def note(self, msg: Note) -> None: ...


class Keeper(Actor[Terminated | Close | DeadLetter]):
    def __init__(self, kept: AnyRef, other: Ref[Close]) -> None:
        self.kept = kept
        self.other = other

    async def started(self) -> None:
        self.context.watch(self.kept)
        self.context.watch(self.other, as_=Close())
        self.context.unwatch(self.other)
        self.context.system.dead_letters.subscribe(self.context.ref)
        timer: Timer = self.context.send_after(60, Close(), to=self.other)
        assert_type(timer.cancel(), bool)
        child = await self.context.spawn(meter, 0, name="meter")
        assert_type(child, Ref[Deposit])
        self.context.start_soon(helper, child, 3)

    @handles(Terminated)
    def terminated(self, msg: Terminated) -> None:
        assert_type(msg.reason, Exit)
        if msg.ref is self.kept or msg.ref is self.other:
            self.context.drain()

    @handles(Close)
    def close(self, msg: Close) -> None: ...

    @handles(DeadLetter)
    def dead(self, msg: DeadLetter) -> None:
        assert_type(msg.message, object)


async def helper(ref: Ref[Deposit], amount: int) -> None:
    ref.tell(Deposit(amount))


async def meter(inbox: Inbox[Deposit], start: int) -> None:
    async for msg in inbox:
        assert_type(msg, Deposit)
        inbox.reply(msg, start + msg.amount)


async def desk(inbox: Inbox[Deposit | Note | Close | Terminated], *names: str) -> None:
    assert_type(inbox.context, ActorContext[Deposit | Note | Close | Terminated])
    async for msg in inbox:
        match msg:
            case Deposit(amount):
                later = inbox.later(msg)
                assert_type(later, Later[int])
                later.set(amount)
            case Note(text):
                if text in names:
                    inbox.reply(msg, None)
                else:
                    inbox.fail(msg, KeyError(text))
            case Close():
                inbox.context.stop()
            case Terminated(ref):
                assert_type(ref, AnyRef)
    with inbox.context.cleanup(within=1):
        await trio.lowlevel.checkpoint()


async def prices(inbox: Inbox[Price | Lagged]) -> None:
    async for msg in inbox:
        if isinstance(msg, Lagged):
            assert_type(msg.missed, int)
        else:
            assert_type(msg, Price)


# ---------------------------------------------------------------- refs


def takes_deposits(ref: Ref[Deposit]) -> None:
    ref.tell(Deposit(1))


async def messages(account: Ref[Deposit | Close], shelf: Ref[Take | Note]) -> None:
    takes_deposits(account)
    narrower: Ref[Close] = account
    any_ref: AnyRef = account
    assert_type(any_ref.path, str)
    assert_type(account.tell(Deposit(1)), None)
    await account.send(Close())
    assert_type(await account.ask(Deposit(1)), int)
    assert_type(await shelf.ask(Take()), bytes)
    await shelf.ask(Note("x"))
    assert_type(await narrower.stop(), Exit)
    assert_type(await any_ref.wait_stopped(), Exit)
    known: dict[AnyRef, int] = {account: 1, shelf: 2}
    known.pop(narrower, None)


# ---------------------------------------------------------------- the tree


async def spawning(system: System) -> None:
    account = await system.spawn(Account, 100, name="alice")
    assert_type(account, Ref[Deposit | Close])
    assert_type(await system.spawn(Account), Ref[Deposit | Close])
    assert_type(await system.spawn(Savings, 3, inline=False), Ref[Deposit | Close])
    assert_type(await system.spawn(Account(5)), Ref[Deposit | Close])
    assert_type(await system.spawn(meter, 0, mailbox=Mailbox(policy=coalesce(lambda m: id(m)))), Ref[Deposit])
    assert_type(await system.spawn(desk, "a", "b", needs=[account]), Ref[Deposit | Note | Close | Terminated])
    assert_type(await system.spawn(lambda: Door(owner="me"), mailbox=Mailbox(policy=drop_stale(1))), Ref[Close | Note])
    assert_type(system.find("/alice", Account), Ref[Deposit | Close])
    assert_type(system.find("/meter-1", meter), Ref[Deposit])


async def supervising(system: System) -> None:
    several: list[AnyChild] = [Child(Account), Child(meter, 0)]
    await system.supervise(one_for_all(), *several)
    till = Child(Account, 0, name="till", restart="transient", shutdown=1)
    assert_type(till, Child[Deposit | Close])
    assert_type(Child(meter, 0, restart="temporary"), Child[Deposit])
    assert_type(Child(lambda: Door(owner="me")), Child[Close | Note])
    supervision = await system.supervise(
        one_for_one(max_restarts=3, within=5, backoff=Backoff(0.1, max=5, jitter=0.2), on={KeyError: "resume"}),
        till,
        Child(meter, 1, name="meter"),
        Child(Supervisor, one_for_all(), Child(Account, 1), Child(desk, "x"), name="db"),
    )
    assert_type(supervision, Supervision)
    assert_type(supervision.ref, AnyRef)
    assert_type(supervision.children(), tuple[AnyRef, ...])
    assert_type(supervision.child("till", Account), Ref[Deposit | Close])
    assert_type(supervision.child("meter", meter), Ref[Deposit])
    assert_type(await supervision.start(Child(Shelf)), Ref[Take | Note])
    assert_type(await supervision.stop(), Exit)


async def routing(system: System, account: Ref[Deposit | Close]) -> None:
    pool = await system.pool(meter, 0, size=2, name="meters", strategy=rest_for_one())
    assert_type(pool, Pool[Deposit])
    assert_type(await system.pool(Account, size=2), Pool[Deposit | Close])
    pool.tell(Deposit(1))
    await pool.send(Deposit(1))
    assert_type(await pool.ask(Deposit(1)), int)
    pool.router = pool.group.hash_by(lambda msg: msg.amount)
    group = Group[Deposit]("tills")
    group.join(account)
    assert_type(group.members, tuple[Ref[Deposit], ...])
    assert_type(group.broadcast(Deposit(1)), int)
    router = group.round_robin()
    assert_type(router, Router[Deposit])
    assert_type(await router.ask(Deposit(1)), int)
    group.least_loaded().tell(Deposit(1))
    await group.at_random(random.Random(1)).send(Deposit(1))


async def publishing(system: System, wide: Ref[Price | Close]) -> None:
    topic = Topic[Price]("prices")
    topic.subscribe(wide)
    topic.subscribe_lagged(await system.spawn(prices))
    assert_type(topic.publish(Price(1.0)), int)
    assert_type(topic.unsubscribe(wide), bool)


async def testing(system: System) -> None:
    probe = await open_probe(system, Deposit, Price)
    assert_type(probe, Probe[Deposit | Price])
    assert_type(probe.ref, Ref[Deposit | Price])
    request = await probe.expect(Deposit)
    assert_type(request, Deposit)
    probe.reply(request, 1)
    assert_type(await probe.expect(Price(1.0), within=1), Deposit | Price)
    await probe.expect_none()
    assert_type(await probe.fish_for(Price), Price)
    assert_type(probe.sender, AnyRef | None)
    probe.context.watch(await system.spawn(meter, 0), as_=Price(0.0))
    assert_type(await eventually(lambda: len(probe.unread)), int)
    child = Child(FaultPlan(1, crash=0.1).wrap(Account), 3)
    assert_type(child, Child[Deposit | Close])


@simulated(seed=1)
async def simulation(system: System, amount: int) -> None:
    await system.spawn(Account, amount)


async def errors(ref: Ref[Deposit]) -> None:
    try:
        await ref.ask(Deposit(1))
    except ActorStopped as stopped:
        assert_type(stopped.exit, Exit | None)
    except RestartLimitExceeded as limit:
        assert_type(limit.exceptions, tuple[Exception | ExceptionGroup[Exception], ...])
    except ActorError:
        pass


class Spans:
    """A tracer needs no base class."""

    async def traced(self, ask: TracedAsk, answer: Awaitable[T], /) -> T:
        assert_type(ask.asker, str | None)
        return await answer

    def handling(self, ask: TracedAsk, /) -> AbstractContextManager[None]:
        return nullcontext()


async def block(context: ServiceContext) -> None:
    tracer: Tracer = Spans()
    async with open_system(context, name="bank", shutdown_within=5, slices="count", tracer=tracer, seed=1) as system:
        assert_type(system, System)
        assert_type(system.dump(), TreeDump)
        system.drain()
    report: ShutdownReport | None = system.report
    assert report is not None


async def narrowing(system: System, supervision: Supervision) -> None:
    a: Ref[Deposit] = await system.spawn(Account)
    b: Ref[Lagged] = await system.spawn(prices)
    c: Ref[Deposit] = system.find("/alice", Account)
    d: Ref[Lagged] = system.find("/prices", prices)
    e: Ref[Deposit] = await supervision.start(Child(Account))
    f: Child[Lagged] = Child(prices)
    g: Pool[Lagged] = await system.pool(prices, size=1)
    h: Ref[Lagged] = supervision.child("prices", prices)
    print(a, b, c, d, e, f, g, h)
