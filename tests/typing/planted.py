"""Mistakes that the types must catch. Each marked place is an error for either type checker, and no other place is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from actors import Actor, Child, Group, Inbox, Later, Mailbox, Ref, Request, Topic, handles, one_for_one, open_system
from actors.testing import FaultPlan, open_probe
from tests.typing.surface import (
    Account,
    Close,
    Deposit,
    Door,
    Note,
    Price,
    Shelf,
    Take,
    desk,
    meter,
    prices,
    simulation,
)  # fmt: skip

if TYPE_CHECKING:
    from actors import AnyRef, DeadLetter, Lagged, Pool, Router, Supervision, System, Terminated


@attrs.frozen
class Foreign(Request[int]):
    pass


# ---------------------------------------------------------------- refs


async def telling(account: Ref[Deposit | Close], pool: Pool[Deposit], router: Router[Deposit], any_ref: AnyRef) -> None:
    account.tell(Foreign())  # BAD: a message that the actor does not take
    account.tell(Deposit)  # BAD: the class, not a message
    await account.send(Foreign())  # BAD
    await account.ask(Foreign())  # BAD
    await account.ask(Close())  # BAD: has no reply
    text: str = await account.ask(Deposit(1))  # BAD: the reply is an int
    pool.tell(Close())  # BAD
    await pool.send(Close())  # BAD
    await pool.ask(Foreign())  # BAD
    pool.broadcast(Close())  # BAD
    router.tell(Close())  # BAD
    await router.send(Close())  # BAD
    await router.ask(Close())  # BAD
    reply: str = await router.ask(Deposit(1))  # BAD
    any_ref.tell(Close())  # BAD: nobody knows what it takes
    print(text, reply)


async def widening(deposits: Ref[Deposit], any_ref: AnyRef) -> None:
    wider: Ref[Deposit | Close] = deposits  # BAD: it does not take Close
    other: Ref[Close] = deposits  # BAD
    known: Ref[Deposit] = any_ref  # BAD
    print(wider, other, known)


# ---------------------------------------------------------------- spawning


async def spawning(system: System) -> None:
    await system.spawn(Account, "x")  # BAD: a wrong argument
    await system.spawn(Account, 1, 2)  # BAD: one too many
    await system.spawn(Account(1), 2)  # BAD: an object takes none
    await system.spawn(meter, "x")  # BAD
    await system.spawn(meter)  # BAD: one is missing
    await system.spawn(Door, "me")  # BAD: keyword only
    await system.spawn(lambda: Door(owner=1))  # BAD
    await system.spawn(int)  # BAD: no body
    await system.spawn(Account, name=1)  # BAD
    await system.spawn(Account, needs=[Account])  # BAD: a class, not a ref
    await system.spawn(Account, mailbox=10)  # BAD
    wrong: Ref[Foreign] = await system.spawn(Account)  # BAD: not what an Account takes
    await system.pool(meter, "x", size=2)  # BAD
    await system.pool(meter, 0)  # BAD: without a size
    print(wrong)


def finding(system: System, supervision: Supervision) -> None:
    wrong: Ref[Foreign] = system.find("/alice", Account)  # BAD
    system.find("/alice")  # BAD: without a specimen
    system.find("/alice", int)  # BAD
    also: Ref[Close] = system.find("/meter", meter)  # BAD
    child: Ref[Foreign] = supervision.child("till", Account)  # BAD
    supervision.child("till", int)  # BAD
    print(wrong, also, child)


async def supervising(system: System, supervision: Supervision) -> None:
    Child(Account, "x")  # BAD
    Child(meter)  # BAD
    Child(meter, "x")  # BAD
    Child(int)  # BAD
    Child(Account, restart="sometimes")  # BAD
    Child(Account, shutdown="1 s")  # BAD
    await system.supervise(Child(Account))  # BAD: without a strategy
    await system.supervise(one_for_one(), Account)  # BAD: not a Child
    wrong: Ref[Foreign] = await supervision.start(Child(Account))  # BAD
    one_for_one(on={KeyError: "retry"})  # BAD
    one_for_one(on={"KeyError": "stop"})  # BAD
    one_for_one(backoff=0.1)  # BAD
    print(wrong)


async def settings() -> None:
    Mailbox(policy="sometimes")  # BAD
    Mailbox(limit="10")  # BAD
    async with open_system(slices="never"):  # BAD
        pass
    async with open_system(tracer=Mailbox()):  # BAD
        pass


# ---------------------------------------------------------------- handlers


class Handlers(Actor[Deposit | Close | Take | Note]):
    @handles(Deposit)  # BAD: the reply is an int
    def deposit(self, msg: Deposit) -> str:
        return ""

    @handles(Deposit)  # BAD
    async def deposit_async(self, msg: Deposit) -> str:
        return ""

    @handles(Deposit)  # BAD
    def deposit_none(self, msg: Deposit) -> None: ...

    @handles(Take)  # BAD: a Later of another type
    def take(self, msg: Take) -> Later[int]:
        raise NotImplementedError

    @handles(Take)  # BAD
    async def take_async(self, msg: Take) -> Later[int]:
        raise NotImplementedError

    @handles(Take)
    def take_later(self, msg: Take) -> Later[int]:  # BAD
        raise NotImplementedError

    @handles(Close)  # BAD: another message
    def close(self, msg: Deposit) -> None: ...

    @handles(Close)  # BAD
    async def close_async(self, msg: Deposit) -> None: ...

    @handles(Close)  # BAD: what it returns goes nowhere
    def close_int(self, msg: Close) -> int:
        return 1

    @handles(Close)  # BAD: no message
    def close_nothing(self) -> None: ...

    @handles(Close)  # BAD: one argument too many
    def close_more(self, msg: Close, more: int) -> None: ...

    @handles(Deposit | Close)  # BAD: a class at a time
    def both(self, msg: Deposit | Close) -> None: ...

    @handles(Note)
    def note(self, msg: Note) -> None:
        self.context.later(msg).set("x")  # BAD: a Later[None]
        self.context.later(Close())  # BAD: has no reply
        self.context.become(Shelf())  # BAD: takes other messages


async def replying(inbox: Inbox[Deposit | Close]) -> None:
    async for msg in inbox:
        if isinstance(msg, Deposit):
            inbox.reply(msg, "x")  # BAD: the reply is an int
            inbox.later(msg).set(None)  # BAD
        else:
            inbox.reply(msg, None)  # BAD: has no reply
            inbox.fail(msg, KeyError())  # BAD
        inbox.context.ref.tell(Foreign())  # BAD


# ---------------------------------------------------------------- the context


class Watcher(Actor[Deposit]):
    def __init__(self, other: Ref[Close]) -> None:
        self.other = other

    async def started(self) -> None:
        self.context.watch(self.other)  # BAD: Terminated is not among its messages
        self.context.watch(self.other, as_=Close())  # BAD
        self.context.watch(Account)  # BAD
        self.context.send_after(1, Foreign())  # BAD
        self.context.send_after("1 s", Deposit(1))  # BAD
        self.context.send_after(1, Deposit(1), to=self.other)  # BAD
        self.context.send_every(1, Foreign())  # BAD
        self.context.send_every(1, Deposit(1), mode="now and then")  # BAD
        self.context.send_every(1, Foreign(), to=self.other)  # BAD
        await self.context.spawn(meter)  # BAD
        self.context.start_soon(meter)  # BAD

    @handles(Deposit)
    def deposit(self, msg: Deposit) -> int:
        sender = self.context.sender
        if sender is not None:
            sender.tell(Close())  # BAD
        return 0


def ended(msg: Terminated, letter: DeadLetter) -> None:
    msg.ref.tell(Close())  # BAD
    letter.recipient.tell(Close())  # BAD: a path


# ---------------------------------------------------------------- many


async def publishing(system: System, takes_close: Ref[Close], takes_price: Ref[Price]) -> None:
    topic = Topic[Price]("prices")
    topic.publish(Close())  # BAD
    topic.subscribe(takes_close)  # BAD
    topic.subscribe_lagged(takes_price)  # BAD: it does not take Lagged
    lagged: Ref[Lagged] = await system.spawn(prices)
    topic.subscribe(lagged)  # BAD


def grouping(takes_close: Ref[Close]) -> None:
    group = Group[Deposit]("tills")
    group.join(takes_close)  # BAD
    group.broadcast(Close())  # BAD
    group.round_robin().tell(Close())  # BAD
    group.hash_by(lambda msg: msg.nothing)  # BAD
    wider: Ref[Deposit | Close] = group.members[0]  # BAD
    print(wider)


async def testing(system: System, account: Ref[Deposit | Close]) -> None:
    probe = await open_probe(system, Deposit, Price)
    probe.ref.tell(Close())  # BAD
    await probe.expect(Close())  # BAD: a message that it cannot get
    probe.reply(Price(1.0), 1)  # BAD: has no reply
    probe.reply(Deposit(1), "x")  # BAD
    await probe.fish_for(lambda msg: msg.nothing)  # BAD
    probe.context.watch(account)  # BAD: Terminated is not among its messages
    Child(FaultPlan(1).wrap(Account), "x")  # BAD
    simulation(None, 1)  # BAD: the system is given
    simulation("1")  # BAD


def listening(system: System, account: Ref[Deposit | Close]) -> None:
    system.dead_letters.subscribe(account)  # BAD: it does not take DeadLetter
    print(desk)
