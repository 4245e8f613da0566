"""xoscar: client and actor in the same pool's process, its nearest to a local actor (other pools are processes)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from importlib.metadata import version

import xoscar
from _worker import BURST, Message, Watch, free_port, goals, main

logging.disable(logging.CRITICAL)


class Tally(xoscar.StatelessActor):  # type: ignore[misc]
    """Stateless only so that `wait` may run while `add` goes on: xoscar's other actors take one call at a time."""

    def __init__(self) -> None:
        self.count = 0
        self.goal = 0
        self.reached = asyncio.Event()

    async def add(self, msg: Message) -> int:
        self.count += 1
        if self.count == self.goal:
            self.reached.set()
        return self.count

    async def wait(self, goal: int) -> None:
        if self.count < goal:
            self.goal = goal
            self.reached.clear()
            await self.reached.wait()


@contextlib.asynccontextmanager
async def pool() -> AsyncIterator[str]:
    running = await xoscar.create_actor_pool(address=f"127.0.0.1:{free_port()}", n_process=0)
    async with running:
        yield running.external_address


async def _tell(watch: Watch, n: int) -> int:
    batch = [Message(number, "label") for number in range(BURST)]
    goal = 0
    async with pool() as address:
        ref = await xoscar.create_actor(Tally, address=address, uid="tally")
        with watch:
            for goal in goals(n):
                for msg in batch:
                    await ref.add.tell(msg)
                await ref.wait(goal)
    return goal


async def _ask(watch: Watch, n: int) -> None:
    msg = Message(1, "label")
    async with pool() as address:
        ref = await xoscar.create_actor(Tally, address=address, uid="tally")
        await ref.add(msg)
        with watch:
            for _ in range(n):
                await ref.add(msg)


async def _spawn_stop(watch: Watch, n: int) -> None:
    async with pool() as address:
        with watch:
            for number in range(n):
                ref = await xoscar.create_actor(Tally, address=address, uid=f"tally-{number}")
                await xoscar.destroy_actor(ref)


def tell(watch: Watch, n: int) -> int:
    return asyncio.run(_tell(watch, n))


def ask(watch: Watch, n: int) -> None:
    asyncio.run(_ask(watch, n))


def spawn_stop(watch: Watch, n: int) -> None:
    asyncio.run(_spawn_stop(watch, n))


if __name__ == "__main__":
    main(version("xoscar"), {"tell": tell, "ask": ask, "spawn_stop": spawn_stop})
