"""casty: a Rust core under asyncio. Messages are serialized even inside one process; an actor lives by its key."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from importlib.metadata import version

from _worker import BURST, Watch, goals, main
from casty import ActorSystem, Askable, Context, actor


@dataclass(frozen=True)
class Add:
    amount: int
    label: str


@dataclass(frozen=True)
class Count(Askable[int]):
    pass


@actor(initial=0)
async def tally(ctx: Context[int, Add | Count]) -> None:
    count = 0
    async for msg in ctx.inbox:
        match msg:
            case Add():
                count += 1
            case Count():
                msg.reply_to.tell(count)


async def _tell(watch: Watch, n: int) -> int:
    batch = [Add(number, "label") for number in range(BURST)]
    goal = 0
    async with ActorSystem() as system:
        ref = system.ref(tally, "a")
        await ref.ask(Count())
        with watch:
            for goal in goals(n):
                for msg in batch:
                    ref.tell(msg)
                while await ref.ask(Count()) != goal:
                    pass
    return goal


async def _ask(watch: Watch, n: int) -> None:
    async with ActorSystem() as system:
        ref = system.ref(tally, "a")
        await ref.ask(Count())
        with watch:
            for _ in range(n):
                await ref.ask(Count())


async def _spawn_stop(watch: Watch, n: int) -> None:
    """The first ask starts an actor, `release` ends it."""
    async with ActorSystem() as system:
        with watch:
            for number in range(n):
                await system.ref(tally, f"k{number}").ask(Count())
                await system.release(tally, f"k{number}")


def tell(watch: Watch, n: int) -> int:
    return asyncio.run(_tell(watch, n))


def ask(watch: Watch, n: int) -> None:
    asyncio.run(_ask(watch, n))


def spawn_stop(watch: Watch, n: int) -> None:
    asyncio.run(_spawn_stop(watch, n))


if __name__ == "__main__":
    main(version("casty"), {"tell": tell, "ask": ask, "spawn_stop": spawn_stop})
