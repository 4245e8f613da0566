"""Guarantees: timers."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import pytest
import trio
import trio.testing

from actors import Actor, ActorStopped, Mailbox, Ref, System, Timer, TimerInvalid, TooManyTimers, handles

from ._systems import Do, Doer, DoNow, Hold, Note, Recorder, cell_of, outcome_of, supervised
from ._trees import calls, crash, settled, small_system, virtual


@attrs.frozen
class Tick:
    """A tick of a timer; the handler takes so long."""

    takes: float = 0.0


@attrs.frozen
class Beat(Tick):
    """A tick that goes ahead of data."""

    control: ClassVar[bool] = True


class Clock(Actor[Tick | Do | DoNow]):
    """Notes when it was told."""

    def __init__(self, times: list[float]) -> None:
        self.times = times

    @handles(Tick)
    async def tick(self, msg: Tick) -> None:
        self.times.append(trio.current_time())
        await trio.sleep(msg.takes)

    @handles(DoNow)
    def do_now(self, msg: DoNow) -> Any:
        return msg.fn(self)

    @handles(Do)
    async def do(self, msg: Do) -> Any:
        return await msg.fn(self)


async def ticking(ref: Ref[Any], *args: Any, **options: Any) -> Timer:
    timer: Timer = await ref.ask(calls(lambda actor: actor.context.send_every(*args, **options)))
    return timer


async def test_send_after_sends_once(actor_system: System) -> None:
    times: list[float] = []
    ref = await actor_system.spawn(Clock, times)
    timer: Timer = await ref.ask(calls(lambda actor: actor.context.send_after(2.5, Tick())))
    assert timer.active
    await settled(10)
    assert times == [2.5]
    assert not timer.active
    assert not timer.cancel()


async def test_timers_fire_in_the_order_of_their_times(actor_system: System) -> None:
    log: list[int] = []
    ref = await actor_system.spawn(Recorder, log)
    doer = await actor_system.spawn(Doer)
    for n, delay in ((3, 2), (1, 1), (4, 2), (2, 1), (0, 0)):
        await doer.ask(calls(lambda actor, n=n, delay=delay: actor.context.send_after(delay, Note(n), to=ref) and None))
    await settled(3)
    assert log == [0, 1, 2, 3, 4]


async def test_fixed_delay_counts_from_the_last_tick(actor_system: System) -> None:
    times: list[float] = []
    ref = await actor_system.spawn(Clock, times)
    await ticking(ref, 2, Tick(), first=0.5)
    await settled(9)
    assert times == [0.5, 2.5, 4.5, 6.5, 8.5]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("fixed_delay", [1, 5.25, 6.25, 7.25]), ("fixed_rate", [1, 5.25, 6, 7])],
)
@virtual
async def test_fixed_rate_stays_on_the_grid(mode: Any, expected: list[float]) -> None:
    """Also when the whole thread was held up: then ticks are left out and counted, and the others are not moved."""
    times: list[float] = []
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    async with small_system() as system:
        ref = await system.spawn(Clock, times)
        timer = await ticking(ref, 1, Tick(), mode=mode)
        await settled(1)
        clock.jump(4.25)  # nothing ran meanwhile
        await settled(2)
    assert times == expected
    assert timer.missed == (3 if mode == "fixed_rate" else 0)


@pytest.mark.parametrize("tick", [Tick(takes=2.5), Beat(takes=2.5)])
async def test_at_most_one_tick_is_unread(actor_system: System, tick: Tick) -> None:
    times: list[float] = []
    ref = await actor_system.spawn(Clock, times)
    timer = await ticking(ref, 1, tick)
    await settled(8.75)
    assert times == [1, 3.5, 6, 8.5]
    assert ref.depth == 0
    assert timer.missed == 4
    await ref.kill()


async def test_a_cancelled_timer_sends_nothing(actor_system: System) -> None:
    times: list[float] = []
    ref = await actor_system.spawn(Clock, times)
    timer = await ticking(ref, 1, Tick())
    await settled(2.5)
    assert timer.cancel()
    assert not timer.cancel()
    await settled(10)
    assert times == [1, 2]
    assert len(actor_system.timers) == 0


async def test_timers_end_with_their_actor(actor_system: System) -> None:
    times: list[float] = []
    owner = await actor_system.spawn(Doer)
    clock = await actor_system.spawn(Clock, times)
    timer = await ticking(owner, 1, Tick(), to=clock)
    await settled(2.5)
    await owner.stop()
    await settled(10)
    assert (times, timer.active, len(actor_system.timers)) == ([1, 2], False, 0)
    context = cell_of(owner).context
    with pytest.raises(ActorStopped):
        context.send_after(1, Tick(), to=clock)


async def test_timers_end_with_a_life(actor_system: System) -> None:
    times: list[float] = []
    ref = await supervised(actor_system, Clock, times)
    await ticking(ref, 1, Tick())
    await settled(1.5)
    await crash(ref)
    await settled(10)
    assert (ref.generation, times, len(actor_system.timers)) == (2, [1], 0)


async def test_a_tick_that_is_queued_outlives_its_timer(actor_system: System) -> None:
    log: list[int] = []
    ref = await actor_system.spawn(Recorder, log)
    doer = await actor_system.spawn(Doer)
    free = trio.Event()
    ref.tell(Hold(free))
    timer = await ticking(doer, 1, Note(1), to=ref)
    await settled(1.5)
    timer.cancel()
    free.set()
    await settled()
    assert log == [1]


async def test_a_tick_that_finds_no_room_is_a_dead_letter(actor_system: System) -> None:
    ref = await actor_system.spawn(Recorder, [], name="full", mailbox=Mailbox(limit=1))
    doer = await actor_system.spawn(Doer, name="owner")
    free = trio.Event()
    ref.tell(Hold(free))
    await settled()
    ref.tell(Note(0))
    await doer.ask(calls(lambda actor: actor.context.send_after(1, Note(1), to=ref) and None))
    await settled(2)
    (letter,) = actor_system.dead_letters.recent
    assert (letter.message, letter.recipient, letter.reason) == (Note(1), "/full", "full")
    assert letter.sender is doer
    free.set()


async def test_a_timer_to_an_actor_that_has_ended_ends(actor_system: System) -> None:
    ref = await actor_system.spawn(Recorder, [], name="gone")
    doer = await actor_system.spawn(Doer)
    timer = await ticking(doer, 1, Note(1), to=ref)
    await ref.stop()
    await settled(5)
    assert not timer.active
    assert [letter.recipient for letter in actor_system.dead_letters.recent] == ["/gone"]


async def test_a_timer_that_cannot_work_is_refused(actor_system: System) -> None:
    ref = await actor_system.spawn(Doer)

    async def tries(actor: Doer) -> list[object]:
        context: Any = actor.context

        async def call(fn: Any, *args: Any, **options: Any) -> None:
            fn(*args, **options)

        return [
            await outcome_of(call, context.send_after, -1, Note(1)),
            await outcome_of(call, context.send_after, float("nan"), Note(1)),
            await outcome_of(call, context.send_every, 0, Note(1)),
            await outcome_of(lambda: call(context.send_every, 1, Note(1), mode="sometimes")),
            await outcome_of(lambda: call(context.send_every, 1, Note(1), first=-1)),
        ]

    assert [type(error) for error in await ref.ask(Do(tries))] == [TimerInvalid] * 5

    def floods(actor: Doer) -> int:
        for n in range(20_000):
            try:
                actor.context.send_after(60, calls(lambda _: None))
            except TooManyTimers:
                return n
        return -1

    assert await ref.ask(calls(floods)) == 10_000
