"""Guarantees: which calls are checkpoints, how long an actor runs at a time, and what a cancellation cannot lose."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import trio
from trio.testing import assert_checkpoints, assert_no_checkpoints, wait_all_tasks_blocked

from actors import Inbox, Mailbox, System

from ._systems import Ask, AskSlowly, Note, Recorder, cell_of, outcome_of

SLICE = 64


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


async def numbers(inbox: Inbox[Note | Ask], log: list[int]) -> None:
    async for msg in inbox:
        log.append(msg.n)
        if isinstance(msg, Ask):
            inbox.reply(msg, msg.n)


BODIES: list[Any] = [Recorder, numbers]


async def cancelled(call: Any, *args: Any) -> bool:
    """Whether a call in a cancelled scope is cancelled."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await call(*args)
    return scope.cancelled_caught


async def test_send_is_a_cancel_point_and_suspends_only_for_room(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(limit=5))
    for n in range(5):
        with NoSchedulePoint():
            await target.send(Note(n))
    assert log == []
    with assert_checkpoints():
        await target.send(Note(5))
    assert await cancelled(target.send, Note(6))
    await wait_all_tasks_blocked()
    assert log == list(range(6))


class NoSchedulePoint:
    """The block is not a schedule point."""

    def __enter__(self) -> None:
        self._before = trio.lowlevel.current_task()._schedule_points

    def __exit__(self, *_: object) -> None:
        assert trio.lowlevel.current_task()._schedule_points == self._before


async def test_tell_is_no_checkpoint(system: System) -> None:
    target = await system.spawn(Recorder, [])
    with assert_no_checkpoints():
        for n in range(100):
            target.tell(Note(n))


async def test_ask_is_a_cancel_point_before_the_message_is_handled(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    for message in (Ask(1), AskSlowly(2)):
        assert await cancelled(target.ask, message)
    await wait_all_tasks_blocked()
    assert log == []


async def test_ask_is_a_schedule_point_once_per_slice(system: System) -> None:
    target = await system.spawn(Recorder, [])
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        for n in range(10 * SLICE):
            await target.ask(Ask(n))
        assert turns >= 8
        nursery.cancel_scope.cancel()


class Steps(trio.abc.Instrument):
    """Counts the turns that tasks get from the scheduler."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.mark.parametrize("body", BODIES)
async def test_a_busy_actor_lets_others_run_after_a_slice(system: System, body: Any, steps: Steps) -> None:
    turns: Counter[int] = Counter()

    class Noting(list[int]):
        def append(self, n: int) -> None:
            turns[steps.count] += 1

    target = await system.spawn(body, Noting())
    for n in range(10 * SLICE):
        target.tell(Note(n))
    trio.lowlevel.add_instrument(steps)
    await wait_all_tasks_blocked()
    trio.lowlevel.remove_instrument(steps)
    assert set(turns.values()) == {SLICE}


@pytest.mark.parametrize("body", BODIES)
async def test_busy_actors_take_turns(system: System, body: Any) -> None:
    logs: list[list[int]] = [[] for _ in range(5)]
    targets = [await system.spawn(body, log) for log in logs]
    for n in range(10 * SLICE):
        for target in targets:
            target.tell(Note(n))
    while min(map(len, logs)) < 10 * SLICE:
        await trio.lowlevel.checkpoint()
        assert max(map(len, logs)) - min(map(len, logs)) <= SLICE


@pytest.mark.parametrize("body", BODIES)
async def test_a_slice_is_bounded_in_time_too(system: System, body: Any, steps: Steps) -> None:
    now = 0.0
    turns: Counter[int] = Counter()

    class Slow(list[int]):
        def append(self, n: int) -> None:
            nonlocal now
            turns[steps.count] += 1
            now += 20e-6

    system.slice.clock = lambda: now
    system.slice.seconds = 50e-6
    target = await system.spawn(body, Slow())
    for n in range(30):
        target.tell(Note(n))
    trio.lowlevel.add_instrument(steps)
    await wait_all_tasks_blocked()
    trio.lowlevel.remove_instrument(steps)
    assert list(turns.values()) == [3] * 10  # the message that passes 50 microseconds is the last


@pytest.mark.parametrize("body", BODIES)
async def test_a_cancellation_loses_no_message(system: System, body: Any) -> None:
    log: list[int] = []
    target = await system.spawn(body, log, name="target")
    await wait_all_tasks_blocked()
    errors: list[Any] = []

    async def ask(n: int) -> None:
        errors.append(await outcome_of(target.ask, Ask(n)))

    async with trio.open_nursery() as nursery:
        for n in range(5 * SLICE):
            target.tell(Note(n))
        nursery.start_soon(ask, 999)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        await target.kill()
    assert 0 < len(log) < 5 * SLICE
    assert len(log) % SLICE == 0
    left = [letter.message.n for letter in system.dead_letters.recent]  # type: ignore[attr-defined]
    assert system.dead_letters.by_reason == {"killed": 5 * SLICE - len(log)}
    assert left == list(range(5 * SLICE))[-len(left) :]
    assert len(errors) == 1


async def test_an_idle_actor_is_parked(system: System) -> None:
    target = await system.spawn(Recorder, [])
    await target.ask(Ask(1))
    await wait_all_tasks_blocked()
    assert cell_of(target).box.waiter is cell_of(target).task


async def test_a_second_reader_of_an_inbox_is_refused(system: System) -> None:
    errors: list[object] = []

    async def two(inbox: Inbox[Note]) -> None:
        async def read() -> None:
            async for _ in inbox:
                pass

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await wait_all_tasks_blocked()
            errors.append(await outcome_of(inbox.__anext__))
            inbox.context.stop()

    target = await system.spawn(two)
    await target.wait_stopped()
    assert [type(error) for error in errors] == [trio.BusyResourceError]
