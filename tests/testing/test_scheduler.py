"""Runs that repeat: the same seed gives the same order of events, another seed another one."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest
import trio
import trio._core._run as trio_run
import trio.testing

from actors import Actor, Child, Ref, Request, System, handles, one_for_one
from actors.testing import Deadlocked, open_test_system, run_virtual, seeded_scheduler

SEEDS = range(12)


async def shuffled() -> tuple[int, ...]:
    """The order in which tasks that are ready together run."""
    order: list[int] = []

    async def note(number: int) -> None:
        for _ in range(3):
            await trio.lowlevel.checkpoint()
            order.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(note, number)
    return tuple(order)


@attrs.frozen
class Pass(Request[int]):
    hops: int


class Player(Actor[Pass]):
    """Passes a ball on to a random other, by way of sleep and ask."""

    def __init__(self, log: list[tuple[float, str, int]]) -> None:
        self.log = log

    @handles(Pass)
    async def take(self, msg: Pass) -> int:
        system = self.context.system
        self.log.append((trio.current_time(), self.context.name, msg.hops))
        await trio.sleep(system.random.random())
        others = [name for name in "abcde" if name != self.context.name]
        if msg.hops > 0:
            system.find(f"/{system.random.choice(others)}", Player).tell(Pass(msg.hops - 1))
        return msg.hops


def play(seed: int, inline: bool = True) -> tuple[tuple[float, str, int], ...]:
    log: list[tuple[float, str, int]] = []

    async def main() -> None:
        async with open_test_system(seed=seed, inline=inline) as system:
            children = [Child(Player, log, name=name) for name in "abcde"]
            supervision = await system.supervise(one_for_one(), *children)
            refs: list[Ref[Any]] = list(supervision.children())
            for ref in refs:
                ref.tell(Pass(5))
            await trio.sleep(30)

    run_virtual(main, seed=seed)
    return tuple(log)


def test_the_same_seed_gives_the_same_order() -> None:
    for seed in SEEDS:
        assert run_virtual(shuffled, seed=seed) == run_virtual(shuffled, seed=seed)


def test_different_seeds_give_different_orders() -> None:
    assert len({run_virtual(shuffled, seed=seed) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("inline", [True, False])
def test_a_topology_repeats_with_its_seed_down_to_the_times(inline: bool) -> None:
    logs = [play(seed, inline) for seed in SEEDS]
    assert logs == [play(seed, inline) for seed in SEEDS]
    assert len(set(logs)) == len(SEEDS)
    assert all(len(log) == 30 for log in logs)


def test_the_scheduler_is_put_back_as_it_was() -> None:
    generator: random.Random = trio_run._r
    flag = trio_run._ALLOW_DETERMINISTIC_SCHEDULING
    state = generator.getstate()
    with seeded_scheduler(5):
        trio.run(shuffled)
        assert generator.getstate() != state
    assert generator.getstate() == state
    assert trio_run._ALLOW_DETERMINISTIC_SCHEDULING is flag


def test_it_is_put_back_when_the_run_fails() -> None:
    state = trio_run._r.getstate()

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError

    with pytest.raises(KeyError):
        run_virtual(fail)
    assert trio_run._r.getstate() == state


def test_a_trio_that_cannot_be_seeded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(trio_run, "_r")
    with pytest.raises(RuntimeError, match="cannot be made to repeat"), seeded_scheduler(1):
        pass


def test_the_virtual_clock_starts_at_0_and_takes_no_time() -> None:
    async def main() -> tuple[float, float]:
        start = trio.current_time()
        await trio.sleep(86_400)
        return start, trio.current_time()

    assert run_virtual(main) == (0, 86_400)


def test_a_clock_that_is_given_is_used() -> None:
    clock = trio.testing.MockClock(rate=1000)

    async def main() -> trio.abc.Clock:
        await trio.sleep(1)
        return trio.lowlevel.current_clock()

    assert run_virtual(main, clock=clock) is clock


async def waiting(_: System) -> None:
    await trio.sleep_forever()


def test_a_deadlock_on_the_virtual_clock_ends_and_shows_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.testing._watchdog.GRACE", 0.01)

    async def main() -> None:
        async with open_test_system() as system:
            await waiting(system)

    with pytest.raises(Deadlocked, match=r"waiting \(.*test_scheduler\.py:\d+\)") as caught:
        run_virtual(main)
    assert any("waiting" in task for task in caught.value.tasks)


def test_a_thread_at_work_is_no_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.testing._watchdog.GRACE", 0.01)
    released = trio.run(_thread_at_work)
    assert released
    assert run_virtual(_thread_at_work)


async def _thread_at_work() -> bool:
    import time

    await trio.to_thread.run_sync(time.sleep, 0.2)
    return True
