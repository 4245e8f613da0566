"""mode: a `Service` has no mailbox. What its users write is an `asyncio.Queue` drained by a `@Service.task`, with a
future for a reply. Such a loop does not yield while there is an item, so it is fast and fair to nobody.
"""

from __future__ import annotations

import asyncio
import logging
from importlib.metadata import version

from _worker import BURST, Message, Watch, goals, main
from mode import Service

logging.disable(logging.CRITICAL)


class Tally(Service):  # type: ignore[misc]
    def __init__(self) -> None:
        self.count = 0
        self.goal = 0
        self.reached = asyncio.Event()
        self.queue: asyncio.Queue[tuple[Message, asyncio.Future[int] | None]] = asyncio.Queue()
        super().__init__(loop=asyncio.get_running_loop())

    def tell(self, msg: Message) -> None:
        self.queue.put_nowait((msg, None))

    async def ask(self, msg: Message) -> int:
        reply: asyncio.Future[int] = self.loop.create_future()
        self.queue.put_nowait((msg, reply))
        return await reply

    @Service.task
    async def _drain(self) -> None:
        while not self.should_stop:
            msg, reply = await self.queue.get()
            result = await self.handle(msg)
            if reply is not None:
                reply.set_result(result)

    async def handle(self, msg: Message) -> int:
        self.count += 1
        if self.count == self.goal:
            self.reached.set()
        return self.count


async def _tell(watch: Watch, n: int) -> int:
    batch = [Message(number, "label") for number in range(BURST)]
    goal = 0
    async with Tally() as service:
        with watch:
            for goal in goals(n):
                service.goal = goal
                service.reached.clear()
                for msg in batch:
                    service.tell(msg)
                await service.reached.wait()
    return goal


async def _ask(watch: Watch, n: int) -> None:
    msg = Message(1, "label")
    async with Tally() as service:
        with watch:
            for _ in range(n):
                await service.ask(msg)


async def _spawn_stop(watch: Watch, n: int) -> None:
    with watch:
        for _ in range(n):
            service = Tally()
            await service.start()
            await service.stop()


def tell(watch: Watch, n: int) -> int:
    return asyncio.run(_tell(watch, n))


def ask(watch: Watch, n: int) -> None:
    asyncio.run(_ask(watch, n))


def spawn_stop(watch: Watch, n: int) -> None:
    asyncio.run(_spawn_stop(watch, n))


if __name__ == "__main__":
    main(version("mode-streaming"), {"tell": tell, "ask": ask, "spawn_stop": spawn_stop})
