"""Guarantees: when an ask runs the handler on the asker's stack, and that nothing else differs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import Actor, ActorCrashed, Inbox, Later, NoReply, Ref, System, handles, open_system

from ._systems import Ask, AskSlowly, Break, Crash, DoNow, Note, Recorder, Said, busy, cell_of, outcome_of, supervised


@pytest.fixture
def system(actor_system: System) -> System:
    return actor_system


class Where(Actor[Ask | AskSlowly | Note]):
    """Answers whether it runs on the stack of the asker."""

    @handles(Ask)
    def ask(self, msg: Ask) -> int:
        return int(trio.lowlevel.current_task() is not cell_of(self.context.ref).task)

    @handles(AskSlowly)
    async def ask_slowly(self, msg: AskSlowly) -> int:
        return int(trio.lowlevel.current_task() is not cell_of(self.context.ref).task)

    @handles(Note)
    def note(self, msg: Note) -> None:
        pass


async def is_inline(ref: Ref[Any]) -> bool:
    return bool(await ref.ask(Ask(0)))


async def test_an_idle_actor_answers_on_the_askers_stack(system: System) -> None:
    target = await system.spawn(Where)
    assert not await is_inline(target)  # it is ready, and has not taken its first step
    await wait_all_tasks_blocked()
    assert await is_inline(target)
    target.tell(Note(1))
    assert not await is_inline(target)  # there is a message before it
    await wait_all_tasks_blocked()
    assert await is_inline(target)


async def test_a_busy_actor_is_never_run_inline(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.ask, AskSlowly(1))
        await wait_all_tasks_blocked()
        assert await target.ask(Ask(2)) == 2
        assert trio.current_time() == 1
    assert log == [1, -1, 2]


async def test_an_async_handler_is_never_run_inline(system: System) -> None:
    target = await system.spawn(Where)
    assert await target.ask(AskSlowly(1)) == 0


async def test_an_actor_that_reads_its_own_inbox_is_never_run_inline(system: System) -> None:
    class Own(Actor[Ask]):
        @handles(Ask)
        def ask(self, msg: Ask) -> int:
            raise AssertionError

        async def __call__(self, inbox: Inbox[Ask], /) -> None:
            async for msg in inbox:
                inbox.reply(msg, 10 + msg.n)

    class Wrapped(Where):
        async def __call__(self, inbox: Inbox[Ask | AskSlowly | Note], /) -> None:
            async for _ in inbox:
                break
            await super().__call__(inbox)

    own = await system.spawn(Own)
    for n in range(3):
        assert await own.ask(Ask(n)) == 10 + n
    wrapped = await system.spawn(Wrapped)
    wrapped.tell(Note(1))
    await wait_all_tasks_blocked()
    assert await is_inline(wrapped)


async def test_inline_dispatch_can_be_switched_off_at_each_level(system: System) -> None:
    class Never(Where):
        inline = False

    for ref in (await system.spawn(Where, inline=False), await system.spawn(Never)):
        assert not await is_inline(ref)
        await wait_all_tasks_blocked()
        assert not await is_inline(ref)
    async with open_system(inline=False, slices="count", name="queued") as queued:
        assert not await is_inline(await queued.spawn(Where))
        assert not await is_inline(await queued.spawn(Where, inline=True))


VARIABLE: ContextVar[str] = ContextVar("VARIABLE", default="none")


async def test_an_inline_handler_runs_in_the_actors_context(system: System) -> None:
    class Keeper(Actor[DoNow]):
        async def started(self) -> None:
            VARIABLE.set("actor")

        @handles(DoNow)
        def do(self, msg: DoNow) -> Any:
            return msg.fn(self)

    target = await system.spawn(Keeper)
    VARIABLE.set("asker")
    assert await target.ask(DoNow(lambda _: VARIABLE.get())) == "actor"
    await target.ask(DoNow(lambda _: VARIABLE.set("changed")))
    assert VARIABLE.get() == "asker"
    assert await target.ask(DoNow(lambda _: VARIABLE.get())) == "changed"


async def test_an_inline_crash_is_dealt_with_before_the_next_message(system: System) -> None:
    log: list[int] = []
    target = await supervised(system, Recorder, log)
    for n in range(5):
        error = await outcome_of(target.ask, Break(n))
        assert isinstance(error, ActorCrashed)
        assert isinstance(error.cause, Crash)
        assert await target.ask(Ask(10 + n)) == 10 + n
        assert target.generation == n + 2
    assert log == [0, 10, 1, 11, 2, 12, 3, 13, 4, 14]
    assert system.crashes == 5
    assert system.dead_letters.count == 0


async def test_an_actor_that_has_crashed_inline_is_not_run_inline(system: System) -> None:
    log: list[int] = []
    target = await supervised(system, Recorder, log)
    await outcome_of(target.ask, Break(0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.ask, Ask(1))
        assert target.generation == 1
    assert target.generation == 2


async def test_an_inline_handler_that_ran_always_answers(system: System) -> None:
    log: list[int] = []
    target = await system.spawn(Recorder, log)
    with trio.CancelScope() as scope:
        scope.cancel()
        await target.ask(Ask(1))
    assert log == []  # the cancel point is before it

    class Canceller(Actor[Ask]):
        @handles(Ask)
        def ask(self, msg: Ask) -> int:
            scope.cancel()
            return msg.n

    canceller = await system.spawn(Canceller)
    await wait_all_tasks_blocked()
    with trio.CancelScope() as scope:
        assert await canceller.ask(Ask(2)) == 2
        log.append(2)
    assert log == [2]


async def test_a_message_put_aside_inline_is_answered_later(system: System) -> None:
    class Putter(Actor[Ask | Note]):
        def __init__(self) -> None:
            self.laters: list[Later[int]] = []
            self.is_open = False

        @handles(Ask)
        def ask(self, msg: Ask) -> int | Later[int]:
            if msg.n % 2:
                self.laters.append(self.context.later(msg))
                return self.laters[-1]
            if not self.is_open:
                self.context.stash()
            return msg.n

        @handles(Note)
        def note(self, msg: Note) -> None:
            self.is_open = True
            self.context.unstash_all()
            for later in self.laters:
                later.set(msg.n)

    target = await system.spawn(Putter)
    answers: dict[int, int] = {}

    async def ask(n: int) -> None:
        answers[n] = await target.ask(Ask(n))

    async with trio.open_nursery() as nursery:
        for n in range(4):
            nursery.start_soon(ask, n)
            await wait_all_tasks_blocked()
        assert answers == {}
        target.tell(Note(9))
    assert answers == {0: 0, 1: 9, 2: 2, 3: 9}


async def test_a_promise_that_an_inline_handler_lets_go_raises_no_reply(system: System) -> None:
    class Careless(Actor[Ask]):
        @handles(Ask)
        def ask(self, msg: Ask) -> Later[int]:
            return self.context.later(msg)

    target = await system.spawn(Careless)
    assert isinstance(await outcome_of(target.ask, Ask(1)), NoReply)
    target.tell(Ask(1))
    assert isinstance(await outcome_of(target.ask, Ask(1)), NoReply)


async def test_a_resumed_actor_is_run_inline_again(system: System) -> None:
    class Fragile(Where):
        @handles(Note)
        def note(self, msg: Note) -> None:
            raise Crash

    target = await supervised(system, Fragile, on={Crash: "resume"})
    target.tell(Note(1))
    await wait_all_tasks_blocked()
    assert await is_inline(target)
    assert target.generation == 1


async def test_an_interrupted_actor_is_run_inline_again(system: System) -> None:
    target = await system.spawn(Recorder, [])
    with trio.move_on_after(0.5):
        await target.ask(AskSlowly(1))
    await wait_all_tasks_blocked()
    assert cell_of(target).box.inline is cell_of(target).plain


async def test_an_actor_that_is_told_to_end_is_not_run_inline(system: System) -> None:
    target = await system.spawn(Recorder, [])
    release = await busy(target)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.drain)
        await wait_all_tasks_blocked()
        assert cell_of(target).box.inline == {}
        release.set()


async def script(ref: Ref[Said], log: list[int]) -> list[object]:
    """A bit of everything, one after the other."""
    outcomes: list[object] = []
    for n in range(40):
        match n % 8:
            case 0:
                ref.tell(Note(n))
            case 1 | 2 | 3:
                outcomes.append(await ref.ask(Ask(n)))
            case 4:
                outcomes.append(await ref.ask(AskSlowly(n)))
            case 5:
                outcomes.append(type(await outcome_of(ref.ask, Break(n))))
            case 6:
                ref.tell(Break(n))
            case _:
                await ref.send(Note(n))
    return outcomes


async def test_inline_and_queued_asks_do_the_same(autojump_clock: trio.testing.MockClock) -> None:
    seen: list[Any] = []
    for inline in (True, False):
        log: list[int] = []
        async with open_system(inline=inline, slices="count", seed=0) as system:
            ref = await supervised(system, Recorder, log)
            outcomes = await script(ref, log)
            await wait_all_tasks_blocked()
            counters = ref.generation, cell_of(ref).handled, system.crashes, system.dead_letters.by_reason
            seen.append((log, outcomes, counters))
    assert seen[0] == seen[1]


async def test_what_is_no_exception_leaves_through_the_asker(system: System) -> None:
    class Abort(BaseException):
        pass

    class Fatal(Actor[Ask]):
        @handles(Ask)
        def ask(self, msg: Ask) -> int:
            if msg.n == 0:
                raise Abort
            return msg.n

    target = await system.spawn(Fatal)
    await wait_all_tasks_blocked()
    with pytest.raises(Abort):
        await target.ask(Ask(0))
    assert cell_of(target).in_hand is None
    assert await target.ask(Ask(1)) == 1
    assert target.generation == 1
