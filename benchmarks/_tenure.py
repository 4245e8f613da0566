"""Tenure's own cases: the same work as the floors of `_raw.py`, done by actors with every guarantee on."""

from __future__ import annotations

import attrs

from actors import Actor, Request, handles, open_system
from benchmarks._harness import Case, Watch, trio_case
from benchmarks._raw import BURST, Meter, bursts


@attrs.frozen
class Add:
    """A message of two fields, told."""

    amount: int
    label: str


@attrs.frozen
class Take(Request[int]):
    """A message that is asked."""

    amount: int


class Tally(Actor[Add | Take]):
    """Counts on a meter what it is told, and adds up what it is asked."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.total = 0

    @handles(Add)
    def add(self, msg: Add) -> None:
        meter = self.meter
        meter.count += 1
        if meter.count == meter.goal:
            meter.reached.set()

    @handles(Take)
    def take(self, msg: Take) -> int:
        self.total += msg.amount
        return self.total


async def _tell(watch: Watch, n: int) -> int:
    """The messages are there beforehand."""
    meter = Meter()
    batch = [Add(number, "label") for number in range(BURST)]
    async with open_system(name="bench") as system:
        tell = (await system.spawn(Tally, meter)).tell
        with watch:
            for _ in range(bursts(n)):
                meter.expect(BURST)
                for msg in batch:
                    tell(msg)
                await meter.reached.wait()
    return bursts(n) * BURST


async def _tell_built(watch: Watch, n: int) -> int:
    """A message is built for every tell."""
    meter = Meter()
    numbers = range(BURST)
    async with open_system(name="bench") as system:
        tell = (await system.spawn(Tally, meter)).tell
        with watch:
            for _ in range(bursts(n)):
                meter.expect(BURST)
                for number in numbers:
                    tell(Add(number, "label"))
                await meter.reached.wait()
    return bursts(n) * BURST


async def _ask_inline(watch: Watch, n: int) -> None:
    """The target is idle and its handler a plain `def`: run on the caller's stack."""
    async with open_system(name="bench") as system:
        ask = (await system.spawn(Tally, Meter())).ask
        msg = Take(1)
        with watch:
            for _ in range(n):
                await ask(msg)


async def _ask_queued(watch: Watch, n: int) -> None:
    """The same with inline dispatch switched off: by the mailbox and the actor's own task."""
    async with open_system(name="bench") as system:
        ask = (await system.spawn(Tally, Meter(), inline=False)).ask
        msg = Take(1)
        with watch:
            for _ in range(n):
                await ask(msg)


async def _spawn_stop(watch: Watch, n: int) -> None:
    """Spawn until ready, stop until gone; one by one."""
    meter = Meter()
    async with open_system(name="bench") as system:
        with watch:
            for _ in range(n):
                ref = await system.spawn(Tally, meter)
                await ref.stop()


def cases() -> list[Case]:
    """Tenure's rows, each in the family of its floor and of the peers' rows."""
    return [
        trio_case("tenure.tell", "tell", 400_000, _tell),
        trio_case("tenure.tell_built", "tell", 200_000, _tell_built),
        trio_case("tenure.ask_inline", "ask", 300_000, _ask_inline),
        trio_case("tenure.ask_queued", "ask", 30_000, _ask_queued),
        trio_case("tenure.spawn_stop", "spawn_stop", 6_000, _spawn_stop),
    ]
