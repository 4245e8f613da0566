"""Dedicated threads: told to stop, joined, bounded, and reported when they do not end."""

from __future__ import annotations

import socket
import threading

import attrs
import pytest
import trio

from actors.testing import eventually
from lifecycle import (
    DedicatedThread,
    DedicatedThreadsExhausted,
    GroupClosed,
    LaneSettings,
    RuntimeConfig,
    ServiceContext,
    ThreadStop,
    open_runtime,
)

LONG = 60.0
SETTINGS = LaneSettings(dedicated_threads=2)
CONFIG = RuntimeConfig(signals=False, lanes=SETTINGS, memory_limit=1 << 20, shutdown_within=LONG)


def until_stopped(stop: ThreadStop) -> str:
    assert stop.wait(LONG), "nobody asked the thread to stop"
    return "clean"


def start(context: ServiceContext, name: str = "loop") -> DedicatedThread[str]:
    return context.lanes.start_thread(until_stopped, name=name)


async def begun(thread: DedicatedThread[str]) -> None:
    """From its first step a task of this kind is in its thread, or about to start it."""
    await eventually(lambda: thread.task is not None)


async def test_a_thread_is_told_of_its_owners_stop_and_joined() -> None:
    async with open_runtime(CONFIG) as context:
        part = context.component("part")
        thread = start(part)
        assert thread.path == "/part/loop"
        assert not thread.stop.requested
        part.group.close()
        assert thread.stop.requested
        assert await thread.join() == "clean"
        assert await thread.wait() == "cancelled"  # as a service that was asked to stop
        await eventually(lambda: part.group.over)
        assert context.lanes.shared.dedicated_threads == 0
    report = context.runtime.report
    assert report is not None
    assert report.is_healthy()


async def test_a_thread_ends_when_it_likes_and_alone_when_it_is_asked_to() -> None:
    async with open_runtime(CONFIG) as context:
        short = context.lanes.start_thread(lambda stop: stop.requested, name="short")
        assert await short.join() is False
        assert short.outcome == "completed"
        one, two = start(context), start(context)
        await begun(one)
        one.cancel()
        assert await one.join() == "clean"
        assert not two.stop.requested


async def test_it_runs_beside_the_lanes_and_in_a_thread_of_its_own() -> None:
    async with open_runtime(CONFIG) as context:
        idents = [threading.get_ident()]

        def loop(stop: ThreadStop) -> None:
            idents.append(threading.get_ident())
            stop.wait()

        thread = context.lanes.start_thread(loop, name="loop")
        await eventually(lambda: len(idents) == 2)
        assert idents[0] != idents[1]
        assert context.lanes.shared.snapshot().running == 0
        assert context.lanes.shared.snapshot().dedicated_threads == 1
        assert [task.name for task in context.group.records()] == ["loop"]
        assert thread.kind == "blocking"


async def test_what_it_raises_is_its_owners_failure() -> None:
    def fail(stop: ThreadStop) -> None:
        raise ValueError("planted")

    with pytest.raises(ExceptionGroup) as caught:
        async with open_runtime(CONFIG) as context:
            thread = context.lanes.start_thread(fail, name="fails")
            with pytest.raises(ValueError, match="planted"):
                await thread.join()
            assert thread.outcome == "panicked"
            assert context.lanes.shared.dedicated_threads == 0
    assert caught.group_contains(ValueError, match="planted")


async def test_the_wake_up_gets_a_thread_out_of_a_call_that_blocks() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def read(stop: ThreadStop) -> bytes:
            return theirs.recv(10)

        async with open_runtime(CONFIG) as context:
            thread = context.lanes.start_thread(read, name="reader", wake=lambda: theirs.shutdown(socket.SHUT_RDWR))
            context.runtime.request_shutdown("asked")
            with trio.CancelScope(shield=True), trio.fail_after(LONG):
                assert await thread.join() == b""


async def test_a_wake_up_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def wake() -> None:
        raise ValueError("planted")

    async with open_runtime(CONFIG) as context:
        thread = context.lanes.start_thread(until_stopped, name="loop", wake=wake)
        await begun(thread)
        thread.cancel()
        assert await thread.join() == "clean"
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "the wake-up of dedicated thread /loop failed"
    ]


async def test_no_more_than_so_many_run_at_once() -> None:
    async with open_runtime(CONFIG) as context:
        one, _ = start(context), start(context)
        with pytest.raises(DedicatedThreadsExhausted) as caught:
            start(context.component("other"), "third")
        assert (caught.value.thread, caught.value.limit) == ("third", 2)
        one.cancel()
        await one.wait()
        start(context)


async def test_a_closed_scope_starts_none_and_one_that_is_cancelled_before_its_first_step_never_runs() -> None:
    began: list[str] = []
    async with open_runtime(CONFIG) as context:
        part = context.component("part")
        thread = part.lanes.start_thread(lambda stop: began.append("never"), name="never")
        part.group.close("kill")
        with pytest.raises(GroupClosed):
            start(part)
        await thread.wait()
        assert context.lanes.shared.dedicated_threads == 0
        told = context.component("told")
        told.group.cancel()  # and its gate is open
        late = start(told)
        assert late.stop.requested
        assert await late.join() == "clean"
    assert began == []


async def test_one_that_does_not_end_is_in_the_report_with_its_stack() -> None:
    go = threading.Event()

    def deaf(stop: ThreadStop) -> None:
        assert go.wait(LONG)

    async with open_runtime(CONFIG) as context:
        part = context.component("part")
        began = threading.Event()

        def run(stop: ThreadStop) -> None:
            began.set()
            deaf(stop)

        part.lanes.start_thread(run, name="deaf")
        await eventually(began.is_set, within=LONG)
        report = await part.group.shutdown(0.02)
        assert not report.is_healthy()
        (task,) = report.remaining
        assert (task.path, task.detail) == ("/part/deaf", "a dedicated thread, asked to stop")
        assert any(line.endswith("deaf") for line in task.stack), task.stack
        go.set()
        await eventually(lambda: part.group.over, within=LONG)


def test_the_limit_may_be_none_at_all() -> None:
    assert attrs.evolve(SETTINGS, dedicated_threads=0).mistakes() == ()
