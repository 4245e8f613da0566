"""Guarantees: what leaves the block of a system, and the system in a runtime of somebody else."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest
import trio

from actors import ActorCrashed, Child, Exit, System, SystemStopped, one_for_one, open_system
from lifecycle import Runtime, RuntimeConfig, ServiceContext, ShutdownReport, open_runtime
from tests.conformance import ROOT

from ._systems import Crash, Do, Doer, cell_of
from ._trees import Member, calls, crash, deaf, kinds, raises, settled, sleeps, small_system, virtual


class AtTheEnd(Doer):
    """Fails at its end."""

    async def stopping(self, reason: Exit) -> None:
        raise Crash("at the end")


@virtual
async def test_a_failure_cancels_the_block_and_leaves_it_in_a_group() -> None:
    journal: list[str] = []
    error = Crash()
    with pytest.raises(ExceptionGroup) as raised:
        async with small_system() as system:
            await system.spawn(Member, journal, name="other")
            failing = await system.spawn(Doer)
            failing.tell(raises(error))
            await trio.sleep_forever()
    assert raised.value.exceptions == (error,)
    assert trio.current_time() == 0
    assert journal == ["started other", "killed other"]
    assert raised.value.report is system.report  # type: ignore[attr-defined]
    assert system.report.reason == "failed"
    assert kinds(system) == {"cancelled": 1, "panicked": 1}


@virtual
async def test_failures_while_the_block_ends_leave_it_too() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with small_system() as system:
            for _ in range(2):
                await system.spawn(AtTheEnd)
    assert [error.args for error in raised.value.exceptions] == [("at the end",)] * 2


@virtual
async def test_nothing_that_the_body_raises_is_lost() -> None:
    for late in (False, True):
        with pytest.raises(ExceptionGroup) as raised:
            async with small_system() as system:
                await system.spawn(AtTheEnd)
                if late:
                    failing = await system.spawn(Doer)
                    failing.tell(raises())
                    with trio.CancelScope(shield=True):
                        await settled()
                raise KeyError("body")
        assert [type(error) for error in raised.value.exceptions] == [KeyError, *[Crash] * (1 + late)]


@virtual
async def test_an_ask_that_crashed_a_bare_actor_leaves_with_its_cause() -> None:
    for inline in (True, False):
        with pytest.raises(ExceptionGroup) as raised:
            async with small_system(inline=inline) as system:
                failing = await system.spawn(Doer)
                await failing.ask(raises())
        assert [type(error) for error in raised.value.exceptions] == [ActorCrashed, Crash]


@virtual
async def test_failures_are_not_lost_when_the_block_is_cancelled() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        with trio.move_on_after(1) as scope:
            async with small_system() as system:
                await system.spawn(AtTheEnd)
                await trio.sleep_forever()
    assert scope.cancelled_caught
    (error,) = _leaves(raised.value)
    assert error.args == ("at the end",)


def _leaves(group: BaseException) -> list[BaseException]:
    parts: Any = getattr(group, "exceptions", None)
    return [group] if parts is None else [leaf for part in parts for leaf in _leaves(part)]


@virtual
async def test_a_failure_beside_a_cancellation_is_not_lost() -> None:
    """A nursery in a handler raises both in one group when the host cancels everything."""

    async def both(_: Doer) -> None:
        async def fails_late() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise Crash("late")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails_late)
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as raised:
        with trio.move_on_after(1):
            async with small_system() as system:
                ref = await system.spawn(Doer)
                ref.tell(Do(both))
                await trio.sleep_forever()
    assert [error.args for error in _leaves(raised.value)] == [("late",)]
    assert cell_of(ref).exit.failed


@virtual
async def test_keyboard_interrupt_ends_the_tree_and_leaves_the_block() -> None:
    journal: list[str] = []

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        async with small_system() as system:
            await system.spawn(Member, journal, name="other")
            ref = await system.spawn(Doer)
            ref.tell(calls(interrupt))
            await trio.sleep_forever()
    assert journal == ["started other", "killed other"]


@virtual
async def test_a_system_hangs_in_the_context_that_it_is_given() -> None:
    async with open_runtime(RuntimeConfig(name="host", shutdown_within=60, signals=False)) as root:
        service = root.component("shop")
        async with small_system(service, name="till") as system:
            assert system.service.path == "/shop/till"
            ref = await system.spawn(Doer, name="a")
            ref.tell(sleeps(100))
            await settled()
            system.drain()
            assert (system.deadline.work, system.deadline.end) == (9, 10)
            assert root.runtime.deadline.end == float("inf")
        assert trio.current_time() == 9
        assert kinds(system) == {"timed_out": 1, "aborted": 1}
        assert root.group.state == "open"
        with pytest.raises(SystemStopped):
            await system.spawn(Doer)


@virtual
async def test_a_body_in_a_given_context_is_cancelled_at_w_too() -> None:
    async with open_runtime(RuntimeConfig(shutdown_within=60, signals=False)) as root:
        async with small_system(root) as system:
            ref = await system.spawn(Doer)
            ref.tell(deaf(20))
            await settled()
            system.stop()
            try:
                await trio.sleep_forever()
            finally:
                assert trio.current_time() == 9
        assert trio.current_time() == 20
        assert system.report.still_running()[0].path == "/system/Doer-1"


@virtual
async def test_the_shares_of_a_given_context_follow_the_systems_own_deadline() -> None:
    times: list[float] = []

    class Timed(Doer):
        async def stopping(self, reason: Exit) -> None:
            times.append(trio.current_time())

    config = RuntimeConfig(shutdown_within=600, signals=False)
    async with open_runtime(config) as root, small_system(root) as system:
        supervision = await system.supervise(one_for_one(), Child(Timed, name="a"), Child(Timed, name="b"))
        supervision.child("b", Timed).tell(sleeps(100))
        await settled()
        system.stop()
        await trio.sleep_forever()
    assert times == [4.5, 9]


@virtual
async def test_the_shutdown_of_the_host_ends_the_system() -> None:
    journal: list[str] = []
    reports: list[ShutdownReport | None] = []
    config = RuntimeConfig(shutdown_within=5, signals=False)
    async with open_runtime(config) as root, trio.open_nursery() as nursery:

        async def service() -> None:
            try:
                async with small_system(root, shutdown_within=60) as system:
                    ref = await system.spawn(Member, journal, name="a")
                    ref.tell(sleeps(1))
                    await trio.sleep_forever()
            finally:
                reports.append(system.report)

        nursery.start_soon(service)
        await trio.sleep(0.5)
        root.runtime.request_shutdown("deploy")
        await trio.sleep_forever()
    (report,) = reports
    assert report is not None
    assert (report.reason, report.is_healthy()) == ("deploy", True)
    assert journal == ["started a", "drained a"]
    assert trio.current_time() == 1


@virtual
async def test_a_failure_in_a_given_context_leaves_the_block_and_not_the_host() -> None:
    async with open_runtime(RuntimeConfig(signals=False)) as root:
        with pytest.raises(ExceptionGroup) as raised:
            async with small_system(root) as system:
                await crash(await system.spawn(Doer))
                await trio.sleep_forever()
        assert [type(error) for error in raised.value.exceptions] == [Crash]
        assert raised.value.report is system.report  # type: ignore[attr-defined]
        assert root.group.state == "open"


PROGRAM = """
import trio
from actors import Inbox, open_system
from lifecycle import Runtime

class Job: pass

async def worker(inbox: Inbox[Job]) -> None:
    async for job in inbox:
        print("began", flush=True)
        await trio.sleep({seconds})
        print("finished", flush=True)

async def main(context) -> None:
    async with open_system(context, shutdown_within={within}) as system:
        ref = await system.spawn(worker, name="worker")
        ref.tell(Job())
        await system.wait_stopped()

report = Runtime.plan().build().run(main)
print(report.reason, report.is_healthy(), report.totals().nonzero(), flush=True)
"""


@pytest.mark.parametrize(
    ("seconds", "within", "signals", "lines"),
    [
        (0.5, 30, 1, ["finished", "signal True {'completed': 1}"]),
        (60, 0.3, 1, ["signal False {'timed_out': 1, 'aborted': 1}"]),
        (60, 30, 2, ["signal False {'timed_out': 2, 'aborted': 2}"]),  # the block is the other
    ],
)
def test_a_signal_drains_and_a_second_one_ends(seconds: float, within: float, signals: int, lines: list[str]) -> None:
    program = PROGRAM.format(seconds=seconds, within=within)
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        for _ in range(signals):
            process.send_signal(signal.SIGTERM)
            if signals > 1:
                _wait_until_taken(process)
        assert process.stdout.read().splitlines() == lines
        assert process.wait(timeout=60) == 0


def _wait_until_taken(process: subprocess.Popen[str]) -> None:
    """Two signals that are pending at once would be one."""
    while signal.SIGTERM.value in _pending(process.pid):
        pass


def _pending(pid: int) -> set[int]:
    with open(f"/proc/{pid}/status") as status:
        masks = [int(line.split()[1], 16) for line in status if line.startswith(("SigPnd", "ShdPnd"))]
    return {number for number in range(1, 65) for mask in masks if mask >> (number - 1) & 1}


def test_run_returns_the_report_of_a_system_in_its_runtime() -> None:
    async def main(context: ServiceContext) -> None:
        async with open_system(context, name="till") as system:
            await system.spawn(Doer, name="a")

    report = Runtime.plan(RuntimeConfig(signals=False)).build().run(main)
    assert report.totals().nonzero() == {"completed": 1}


class SlowToStart(Member):
    async def started(self) -> None:
        await trio.sleep(1)
        await super().started()


@pytest.mark.parametrize("how", ["spawn", "pool", "supervise", "nursery"])
@virtual
async def test_a_body_that_spawns_in_a_system_told_to_end_leaves_the_block_like_any_other(how: str) -> None:
    journal: list[str] = []
    async with small_system() as system:
        system.timers.call_after(0.5, system.drain)
        if how == "pool":
            await system.pool(SlowToStart, journal, size=2)
        elif how == "supervise":
            await system.supervise(one_for_one(), *(Child(SlowToStart, journal, name=name) for name in "ab"))
        elif how == "nursery":
            async with trio.open_nursery() as nursery:  # noqa: ASYNC112 (the refusal leaves it in a group)
                nursery.start_soon(spawn_two, system, journal)
        else:
            await spawn_two(system, journal)
        pytest.fail("it was not refused")
    # An actor finishes its start; a supervisor starts no more children.
    assert trio.current_time() == (0.5 if how in ("pool", "supervise") else 1)
    assert system.report.is_healthy()


async def spawn_two(system: System, journal: list[str]) -> None:
    for _ in range(2):
        await system.spawn(SlowToStart, journal)


def test_a_signal_during_set_up_is_no_failure() -> None:
    async def main(context: ServiceContext) -> None:
        async with open_system(context, name="service") as system:
            context.runtime.request_shutdown("signal")
            await system.spawn(Doer)

    report = Runtime.plan(RuntimeConfig(signals=False)).build().run(main)
    assert report.is_healthy()
    assert report.reason == "signal"


@virtual
async def test_another_systems_refusal_is_an_error_like_any_other() -> None:
    async with small_system() as first:
        pass
    with pytest.raises(SystemStopped):
        async with open_system(name="second"):
            await first.spawn(Doer)
