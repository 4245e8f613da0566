"""`open_test_system`: what makes a system unclean, and what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from actors import Actor, ActorCrashed, Child, Inbox, Request, RestartLimitExceeded, System, handles, one_for_one
from actors.testing import UncleanSystem, open_probe, open_test_system, run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@attrs.frozen
class Add(Request[int]):
    amount: int


@attrs.frozen
class Break:
    pass


class Counter(Actor[Add | Break]):
    def __init__(self) -> None:
        self.total = 0

    @handles(Add)
    def add(self, msg: Add) -> int:
        self.total += msg.amount
        return self.total

    @handles(Break)
    def crash(self, msg: Break) -> None:
        raise ValueError("broken")


async def shielded(inbox: Inbox[Break]) -> None:
    async for _ in inbox:
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()


async def slow(inbox: Inbox[Break]) -> None:
    async for _ in inbox:
        await trio.sleep(60)


async def temporary(system: System) -> None:
    """A child that will not be restarted, and its crash."""
    supervision = await system.supervise(one_for_one(), Child(Counter, name="one", restart="temporary"))
    supervision.child("one", Counter).tell(Break())
    await trio.sleep(1)


def run(body: Callable[[System], Awaitable[None]], **options: bool) -> float:
    """Runs the body in a system of the kit and returns how long the whole took, on the virtual clock."""

    async def main() -> float:
        async with open_test_system(**options) as system:
            await body(system)
        return trio.current_time()

    return run_virtual(main)


def test_a_clean_system_says_nothing() -> None:
    async def body(system: System) -> None:
        counter = await system.spawn(Counter)
        assert await counter.ask(Add(2)) == 2
        await trio.sleep(3600)

    assert run(body) == 3600


def test_a_leaked_task_fails_the_test_and_does_not_hang_it() -> None:
    async def body(system: System) -> None:
        (await system.spawn(shielded, name="deaf")).tell(Break())
        await trio.sleep(1)

    with pytest.raises(UncleanSystem, match="tasks have leaked") as caught:
        run(body)
    assert caught.value.report is not None
    assert caught.value.report.totals().leaked == 1
    assert "/deaf" in str(caught.value)
    assert "in shielded" in str(caught.value)


def test_a_task_that_leaks_in_a_nursery_of_its_actor_is_ended_too() -> None:
    async def sleeper() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()

    async def parent(inbox: Inbox[Break]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleeper)
            async for _ in inbox:
                pass

    async def body(system: System) -> None:
        await system.spawn(parent)

    with pytest.raises(UncleanSystem, match="tasks have leaked"):
        run(body)


def test_an_actor_that_runs_into_the_deadline_makes_the_report_unhealthy() -> None:
    async def body(system: System) -> None:
        (await system.spawn(slow)).tell(Break())
        await trio.sleep(1)

    with pytest.raises(UncleanSystem, match="the shutdown report is unhealthy") as caught:
        run(body)
    assert caught.value.report is not None
    assert caught.value.report.totals().timed_out == 1
    run(body, unhealthy=True)


def test_a_supervised_failure_that_nobody_is_told_of_fails_the_test() -> None:
    with pytest.raises(UncleanSystem, match="/one failed for good with ValueError") as caught:
        run(temporary)
    ((path, cause),) = caught.value.unread
    assert path == "/one"
    assert isinstance(cause, ValueError)
    assert caught.value.report is None


def test_an_unread_failure_can_be_allowed() -> None:
    run(temporary, unread_failures=True)


def test_a_choice_to_stop_is_a_failure_for_good() -> None:
    async def body(system: System) -> None:
        strategy = one_for_one(on={ValueError: "stop"})
        supervision = await system.supervise(strategy, Child(Counter, name="one"))
        supervision.child("one", Counter).tell(Break())
        await trio.sleep(1)

    with pytest.raises(UncleanSystem, match="/one failed for good"):
        run(body)


def test_a_failure_is_read_by_who_watches() -> None:
    async def body(system: System) -> None:
        probe = await open_probe(system, Add)
        supervision = await system.supervise(one_for_one(), Child(Counter, name="one", restart="temporary"))
        counter = supervision.child("one", Counter)
        probe.watch(counter)
        counter.tell(Break())
        assert (await probe.expect_terminated(counter)).failed

    run(body)


def test_a_failure_is_read_by_who_waits_for_the_end() -> None:
    async def body(system: System) -> None:
        supervision = await system.supervise(one_for_one(), Child(Counter, name="one", restart="temporary"))
        counter = supervision.child("one", Counter)
        counter.tell(Break())
        assert (await counter.wait_stopped()).failed

    run(body)


def test_a_crash_that_is_restarted_is_no_failure_for_good() -> None:
    async def body(system: System) -> None:
        supervision = await system.supervise(one_for_one(), Child(Counter, name="one"))
        counter = supervision.child("one", Counter)
        for _ in range(2):
            counter.tell(Break())
            assert await counter.ask(Add(1)) == 1
        assert counter.generation == 3

    run(body)


def test_a_failure_that_the_supervisor_passes_on_leaves_the_block_as_it_is() -> None:
    async def body(system: System) -> None:
        supervision = await system.supervise(one_for_one(max_restarts=0), Child(Counter, name="one"))
        supervision.child("one", Counter).tell(Break())
        await trio.sleep(1)

    with pytest.raises(RestartLimitExceeded):
        run(body)


def test_an_unsupervised_failure_leaves_the_block_as_it_is() -> None:
    async def body(system: System) -> None:
        (await system.spawn(Counter)).tell(Break())
        await trio.sleep(1)

    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="broken")):
        run(body)


def test_what_the_block_raises_leaves_as_itself() -> None:
    async def body(system: System) -> None:
        await system.spawn(Counter)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(body)


@pytest.mark.parametrize("inline", [True, False])
def test_inline_dispatch_can_be_switched_off(inline: bool) -> None:
    async def body(system: System) -> None:
        assert system.inline is inline
        supervision = await system.supervise(one_for_one(), Child(Counter, name="one"))
        assert await supervision.child("one", Counter).ask(Add(1)) == 1

    run(body, inline=inline)


def test_an_asker_that_learns_of_a_crash_has_not_been_told_of_the_end() -> None:
    async def body(system: System) -> None:
        supervision = await system.supervise(one_for_one(), Child(Fragile, name="one", restart="temporary"))
        fragile = supervision.child("one", Fragile)
        with pytest.raises(ActorCrashed):
            await fragile.ask(Add(1))
        await trio.sleep(1)

    with pytest.raises(UncleanSystem, match="/one failed for good"):
        run(body)


class Fragile(Actor[Add]):
    @handles(Add)
    def add(self, msg: Add) -> int:
        raise ValueError("broken")
