"""What the tests of the runtime run: tasks that do not end by themselves, and a closure that is held."""

from __future__ import annotations

import threading

import trio

from actors.testing import eventually

LONG = 60.0
"""Seconds after which a test gives up waiting for a thread."""


async def forever() -> None:
    await trio.sleep_forever()


async def deaf(seconds: float) -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)


class Gate:
    """A closure that says that it has begun and then waits to be let go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go = threading.Event()
        self.runs = 0

    def __call__(self, *args: object) -> str:
        self.runs += 1
        self.began.set()
        assert self.go.wait(LONG), "nobody opened the gate"
        return "done"

    async def until_began(self) -> None:
        await eventually(self.began.is_set, within=LONG)
