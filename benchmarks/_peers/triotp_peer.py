"""triotp: a `gen_server` on Trio. Its callbacks are a module's functions; here an object stands for one."""

from __future__ import annotations

from importlib.metadata import version
from types import SimpleNamespace

import trio
from _worker import BURST, Message, Watch, goals, main
from triotp import gen_server, mailbox


class Server(SimpleNamespace):
    """The callbacks of one server, and the state that the bench looks at."""

    __name__ = "tally"

    def __init__(self) -> None:
        super().__init__(count=0, goal=0, reached=trio.Event(), up=trio.Event(), down=trio.Event())

    async def init(self, _: object) -> int:
        self.up.set()
        return 0

    async def terminate(self, reason: object, state: object) -> None:
        self.down.set()

    async def handle_call(self, msg: Message, caller: object, state: int) -> object:
        state += msg.amount
        return gen_server.Reply(payload=state), state

    async def handle_cast(self, msg: object, state: int) -> object:
        if msg == "stop":
            return gen_server.Stop(), state
        self.count += 1
        if self.count == self.goal:
            self.reached.set()
        return gen_server.NoReply(), state


async def _start(nursery: trio.Nursery, server: Server, name: str) -> None:
    nursery.start_soon(gen_server.start, server, None, name)
    await server.up.wait()


async def _stop(server: Server, name: str) -> None:
    await gen_server.cast(name, "stop")
    await server.down.wait()


async def _tell(watch: Watch, n: int) -> int:
    mailbox._init()
    server = Server()
    batch = [Message(number, "label") for number in range(BURST)]
    goal = 0
    async with trio.open_nursery() as nursery:
        await _start(nursery, server, "tally")
        with watch:
            for goal in goals(n):
                server.goal, server.reached = goal, trio.Event()
                for msg in batch:
                    await gen_server.cast("tally", msg)
                await server.reached.wait()
        await _stop(server, "tally")
    return goal


async def _ask(watch: Watch, n: int) -> None:
    mailbox._init()
    server = Server()
    msg = Message(1, "label")
    async with trio.open_nursery() as nursery:
        await _start(nursery, server, "tally")
        with watch:
            for _ in range(n):
                await gen_server.call("tally", msg)
        await _stop(server, "tally")


async def _spawn_stop(watch: Watch, n: int) -> None:
    mailbox._init()
    async with trio.open_nursery() as nursery:
        with watch:
            for number in range(n):
                server = Server()
                await _start(nursery, server, f"tally-{number}")
                await _stop(server, f"tally-{number}")


def tell(watch: Watch, n: int) -> int:
    return trio.run(_tell, watch, n)


def ask(watch: Watch, n: int) -> None:
    trio.run(_ask, watch, n)


def spawn_stop(watch: Watch, n: int) -> None:
    trio.run(_spawn_stop, watch, n)


if __name__ == "__main__":
    main(version("triotp"), {"tell": tell, "ask": ask, "spawn_stop": spawn_stop})
