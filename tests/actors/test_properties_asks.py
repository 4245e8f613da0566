"""Property test: actors that ask each other at random, at a time and one in another, never wait for themselves."""

from __future__ import annotations

from typing import Any

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import AskCycle, Mailbox, open_system
from actors.testing import run_virtual

from ._systems import Do, Doer, DoNow, cell_of, outcome_of

ACTORS = 4


@attrs.frozen
class Call:
    """Ask an actor, that then makes further calls: one after the other, or at a time."""

    target: int
    then: list[Call]
    at_a_time: bool
    pause: float
    patience: float | None


TARGET = st.integers(0, ACTORS - 1)
PAUSE = st.sampled_from([0, 0, 0.5, 1])
PATIENCE = st.sampled_from([*[None] * 8, 0.7, 1.5])
LEAF = st.builds(Call, TARGET, st.just([]), st.just(False), PAUSE, PATIENCE)
LINK = st.builds(Call, TARGET, st.lists(LEAF, max_size=2), st.booleans(), PAUSE, PATIENCE)


def nest(links: list[Call]) -> Call:
    """Each link asks the next one, besides what else it asks."""
    call = links[-1]
    for link in reversed(links[:-1]):
        call = attrs.evolve(link, then=[*link.then, call])
    return call


CALLS = st.lists(LINK, min_size=1, max_size=6).map(nest) | st.lists(LINK, min_size=4, max_size=6).map(nest)


@settings(max_examples=300)
@given(st.lists(CALLS, min_size=1, max_size=6), st.integers(1, 2), st.booleans(), st.integers(0, 3))
def test_asks_among_actors_never_hang(roots: list[Call], limit: int, inline: bool, seed: int) -> None:
    run_virtual(lambda: follow(roots, limit, inline), seed=seed)


async def follow(roots: list[Call], limit: int, inline: bool) -> None:
    with trio.fail_after(1000):
        async with open_system(inline=inline, slices="count") as system:
            refs = [await system.spawn(Doer, mailbox=Mailbox(limit=limit)) for _ in range(ACTORS)]

            async def call(what: Call) -> None:
                if what.then or what.pause:
                    message: Any = Do(lambda _: run(what))
                else:
                    message = DoNow(lambda _: None)
                with trio.move_on_after(float("inf") if what.patience is None else what.patience):
                    outcome = await outcome_of(refs[what.target].ask, message)
                    assert outcome is None or isinstance(outcome, AskCycle)

            async def run(what: Call) -> None:
                await trio.sleep(what.pause)
                if what.at_a_time:
                    async with trio.open_nursery() as nursery:
                        for further in what.then:
                            nursery.start_soon(call, further)
                else:
                    for further in what.then:
                        await call(further)

            async with trio.open_nursery() as nursery:
                for root in roots:
                    nursery.start_soon(call, root)
        for ref in refs:
            asks = cell_of(ref).asks
            assert asks is None or asks.targets() == []
            assert ref.generation == 1
