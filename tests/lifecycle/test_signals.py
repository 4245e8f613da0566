"""Real signals and the real end of a process, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from textwrap import dedent

import pytest
import trio

from lifecycle import ServiceLifecycle, ShutdownReport, SignalsUnavailable, open_runtime
from lifecycle._signals import SignalPolicy

ROOT = Path(__file__).parents[2]

PROGRAM = """
import logging, sys, threading, time
import trio
from lifecycle import Runtime, RuntimeConfig, ServiceContext, ShutdownReport

def say(*words):
    print(*words, flush=True)

async def drains(context, seconds):
    await context.stopping.wait()
    say("stopping")
    await trio.sleep(seconds)
    say("drained")

async def cleans(context):
    try:
        await trio.sleep_forever()
    finally:
        with context.cleanup():
            say("cleaning")
            await trio.sleep_forever()

async def deaf():
    with trio.CancelScope(shield=True):
        await trio.sleep(60)

def blocks():
    time.sleep(60)

def run(main, **options):
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    report = Runtime.plan(RuntimeConfig(name="shop", **options)).build().run(main)
    say("json", report.to_json())
"""


class Child:
    """The program above with a main of the test's own, in a process of its own."""

    def __init__(self, body: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM + dedent(body)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def expect(self, line: str) -> None:
        assert self.process.stdout is not None
        found = self.process.stdout.readline().rstrip("\n")
        assert found == line, found or self.process.communicate()[1]

    def send(self, signum: signal.Signals) -> None:
        os.kill(self.process.pid, signum)

    def finish(self) -> tuple[int, str, str]:
        try:
            out, err = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"the process did not end: {out}\n{err}") from None
        return self.process.returncode, out, err

    def report(self) -> ShutdownReport:
        status, out, err = self.finish()
        assert status == 0, err
        (line,) = [line for line in out.splitlines() if line.startswith("json ")]
        return ShutdownReport.from_json(line.removeprefix("json "))


@pytest.mark.row("runtime:R128")
def test_the_first_signal_drains_and_each_further_one_ends_at_once() -> None:
    policy = SignalPolicy()
    assert [policy.receive() for _ in range(3)] == ["drain", "now", "now"]


@pytest.mark.row("runtime:R128")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_first_signal_drains_the_tree_and_run_returns_the_report(signum: signal.Signals) -> None:
    child = Child(
        """
        async def main(context):
            context.group.spawn_service(drains, context, 0.1)
            say("ready")
            await trio.sleep_forever()
        run(main)
        """
    )
    child.expect("ready")
    child.send(signum)
    child.expect("stopping")
    child.expect("drained")
    report = child.report()
    assert report.reason == "signal"
    assert report.is_healthy()
    assert report.totals().cancelled == 1


@pytest.mark.row("runtime:R128")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_draining_and_cleanup_at_once(signum: signal.Signals) -> None:
    child = Child(
        """
        async def main(context):
            context.group.spawn_service(drains, context, 60)
            context.group.spawn_cancellable(cleans, context)
            say("ready")
            await trio.sleep_forever()
        run(main, shutdown_within=60)
        """
    )
    child.expect("ready")
    child.send(signum)
    assert child.process.stdout is not None
    assert {child.process.stdout.readline(), child.process.stdout.readline()} == {"stopping\n", "cleaning\n"}
    began = time.monotonic()
    child.send(signum)
    report = child.report()
    assert time.monotonic() - began < 5
    assert report.reason == "signal"
    assert report.totals().leaked == 0
    assert report.totals().timed_out >= 1


@pytest.mark.parametrize("status", [70, 3])
def test_an_overrun_publishes_the_report_and_ends_the_process_with_its_status(status: int, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    child = Child(
        f"""
        async def main(context):
            context.component("part").group.spawn_service(deaf)
            context.component("lane").group.spawn_service(trio.to_thread.run_sync, blocks, name="blocked")
            await trio.sleep(0.05)
            print("not flushed by the program")
        def sink(report):
            open({str(target)!r}, "w").write(report.to_json())
        run(main, shutdown_within=0.3, overrun_status={status}, report_sink=sink)
        """
    )
    began = time.monotonic()
    found, out, err = child.finish()
    assert found == status
    assert time.monotonic() - began < 20
    assert out == "not flushed by the program\n"
    assert "shutdown of shop: NOT HEALTHY, overrun" in err
    assert "/part/deaf" in err
    assert "in thread 'blocks from" in err
    report = ShutdownReport.from_json(target.read_text())
    assert report.totals().leaked == 2
    assert sorted(task.path for task in report.still_running()) == ["/lane/blocked", "/part/deaf"]
    assert json.loads(target.read_text())["healthy"] is False


def test_a_second_signal_ends_a_process_whose_task_is_deaf() -> None:
    child = Child(
        """
        async def main(context):
            context.group.spawn_service(deaf)
            say("ready")
            await trio.sleep_forever()
        run(main, shutdown_within=60)
        """
    )
    child.expect("ready")
    child.send(signal.SIGTERM)
    time.sleep(0.2)
    child.send(signal.SIGTERM)
    status, out, err = child.finish()
    assert status == 70
    assert out == ""
    assert "/deaf" in err


@pytest.mark.row("runtime:R128")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("taken", [True, False])
def test_a_service_that_waits_for_a_signal_gets_the_request_that_it_is(signum: signal.Signals, taken: bool) -> None:
    child = Child(
        f"""
        from lifecycle import ServiceLifecycle
        async def main(context):
            service = ServiceLifecycle()
            await service.start(context)
            service.mark_ready()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(after, service)
                say("ready")
                request = await service.wait_for_shutdown_signal()
                say(request.reason, service.is_ready)
        async def after(service):
            await trio.testing.wait_all_tasks_blocked()
            say("waiting")
        import trio.testing
        run(main, signals={taken})
        """
    )
    child.expect("ready")
    child.expect("waiting")
    child.send(signum)
    child.expect("signal False")
    report = child.report()
    assert (report.reason, report.is_healthy()) == ("signal", True)


@pytest.mark.row("runtime:R128")
def test_a_wait_for_a_signal_takes_signals_only_while_it_lasts() -> None:
    child = Child(
        """
        import signal
        from lifecycle import ServiceLifecycle
        async def main(context):
            service = ServiceLifecycle()
            before = signal.getsignal(signal.SIGTERM)
            with trio.move_on_after(0.01):
                await service.wait_for_shutdown_signal()
            say(service.state, signal.getsignal(signal.SIGTERM) is before)
        run(main, signals=False)
        """
    )
    child.expect("starting True")
    assert child.report().reason == "finished"


@pytest.mark.row("runtime:R128")
def test_a_wait_for_a_signal_that_cannot_come_is_a_typed_error_and_no_request() -> None:
    raised: list[BaseException] = []
    requests: list[object] = []

    async def main() -> None:
        service = ServiceLifecycle()
        async with open_runtime() as context:
            await service.start(context)
            with pytest.raises(SignalsUnavailable) as refused:
                await service.wait_for_shutdown_signal()
            raised.append(refused.value)
            requests.append(service.shutdown_request)

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    (error,) = raised
    assert isinstance(error.__cause__, RuntimeError)
    assert requests == [None]


def test_without_signals_an_interrupt_leaves_run_as_itself_after_the_shutdown() -> None:
    child = Child(
        """
        async def main(context):
            context.group.spawn_service(cleans, context)
            await trio.sleep(0.05)
            say("ready")
            await trio.sleep_forever()
        try:
            run(main, signals=False, shutdown_within=0.5)
        except KeyboardInterrupt as exc:
            say("interrupted", exc.report.reason, exc.report.totals().leaked)
        """
    )
    child.expect("ready")
    child.send(signal.SIGINT)
    child.expect("cleaning")
    child.expect("interrupted failed 0")
    assert child.finish()[0] == 0
