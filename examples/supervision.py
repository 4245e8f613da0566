"""Crashes, and what comes of them: restarts with back-off, a choice by type of error, escalation."""

from __future__ import annotations

import logging
import time

import attrs
import trio

from actors import (
    Actor,
    ActorCrashed,
    Backoff,
    Child,
    Inbox,
    Ref,
    Request,
    RestartLimitExceeded,
    Supervisor,
    System,
    Terminated,
    handles,
    one_for_all,
    one_for_one,
    open_system,
)

BEGAN = time.monotonic()


class Jammed(Exception):
    """Starting again helps."""


class Stolen(Exception):
    """Starting again does not."""


@attrs.frozen
class Coin(Request[int]):
    """Answered with the number of coins."""

    kind: str = "good"


class Till(Actor[Coin]):
    """Counts coins, and fails on bad ones."""

    def __init__(self) -> None:
        self.coins = 0

    async def started(self) -> None:
        say(f"{self.context.path} starts with no coins")

    @handles(Coin)
    def take(self, msg: Coin) -> int:
        if msg.kind == "bent":
            raise Jammed("a bent coin")
        if msg.kind == "last":
            raise Stolen("somebody took the till")
        self.coins += 1
        return self.coins


async def restarts(system: System) -> None:
    print("A crash costs the message in hand and the state; the ref stays good. Each restart in a row waits longer:")
    patient = one_for_one(max_restarts=5, within=5, backoff=Backoff(0.1, factor=2))
    await system.supervise(patient, Child(Till, name="till"))
    till = system.find("/till", Till)
    say(f"coins: {await till.ask(Coin())}, {await till.ask(Coin())}")
    for _ in range(3):
        await crash(till, "bent")
    say(f"coins: {await till.ask(Coin())}, in life number {till.generation}")


async def choices(system: System) -> None:
    print("A supervisor chooses by the type of the error. This one does not start the actor again:")
    await system.supervise(one_for_one(on={Stolen: "stop"}), Child(Till, name="kiosk"))
    kiosk = system.find("/kiosk", Till)
    guard = await system.spawn(watcher, kiosk, name="guard")
    await crash(kiosk, "last")
    await guard.wait_stopped()


async def crash(till: Ref[Coin], kind: str) -> None:
    try:
        await till.ask(Coin(kind))
    except ActorCrashed as error:
        say(f"the asker is told: {error.cause!r}")


async def watcher(inbox: Inbox[Terminated], watched: Ref[Coin]) -> None:
    inbox.context.watch(watched)
    async for msg in inbox:
        say(f"{inbox.context.path} is told: {msg.ref.path} {msg.reason.kind}, {msg.reason.cause!r}")
        return


async def escalation(system: System) -> None:
    print(
        "A supervisor that has restarted too often fails too. Its own supervisor starts it again, with all that it had:"
    )
    stall = (Child(Till, name="till"), Child(thief, name="thief"))
    market = Child(Supervisor, one_for_all(max_restarts=1), *stall, name="stall")
    await system.supervise(one_for_one(max_restarts=1), market, name="market")
    await system.wait_stopped()


async def thief(inbox: Inbox[Coin]) -> None:
    till = inbox.context.system.find("/market/stall/till", Till)
    inbox.context.send_after(0.1, Coin("last"), to=till)
    async for msg in inbox:
        inbox.reply(msg, 0)


async def main() -> None:
    try:
        async with open_system(name="supervision") as system:
            await restarts(system)
            await choices(system)
            await escalation(system)
    except RestartLimitExceeded as error:
        print("The topmost one has nobody above it. Its failure leaves the block, with all the causes:")
        for cause in error.exceptions:
            say(f"{cause!r}")
        print(error.report)


def say(text: str) -> None:
    print(f"  {time.monotonic() - BEGAN:5.2f} s  {text}")


if __name__ == "__main__":
    logging.disable(logging.ERROR)  # every crash is logged, and a report that is not healthy
    trio.run(main)
