"""An actor that greets."""

from __future__ import annotations

import trio

from actors import Inbox, open_system


async def greeter(inbox: Inbox[str]) -> None:
    async for name in inbox:
        print(f"Hello, {name}!")


async def main() -> None:
    async with open_system(name="hello") as system:
        ref = await system.spawn(greeter)
        ref.tell("world")
    print(system.report)


if __name__ == "__main__":
    trio.run(main)
