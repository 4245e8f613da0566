"""The process lane: work that is killed when its time is up."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from actors.testing import eventually
from lifecycle import (
    AnswerTooLarge,
    LaneClosed,
    LaneFull,
    LaneMisused,
    LanePolicy,
    LaneQueueTimedOut,
    LaneSettingsInvalid,
    LaneTaskTimedOut,
    ProcessLane,
    RuntimeConfig,
    ServiceContext,
    WorkerDied,
    WorkFailed,
    WorkNotPortable,
    open_runtime,
)
from tests.lifecycle import _lane_work as work

LONG = 60.0
ONE = LanePolicy(max_concurrency=1, max_queue=1, queue_timeout=LONG, task_timeout=LONG)
CONFIG = RuntimeConfig(signals=False, memory_limit=1 << 20, shutdown_within=LONG)


@asynccontextmanager
async def runtime(policy: LanePolicy = ONE) -> AsyncGenerator[tuple[ServiceContext, ProcessLane, trio.Nursery], None]:
    async with open_runtime(CONFIG) as context:
        part = context.component("part")
        lane = part.lanes.processes("work", policy, max_bytes=100_000)
        async with trio.open_nursery() as nursery:
            yield part, lane, nursery
        pids = lane.pids
        part.group.close()
        await eventually(lambda: part.group.over, within=LONG)
        assert not any(map(exists, pids))
        assert lane.pids == ()


def exists(pid: int) -> bool:
    """Whether there is such a process, that has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def hanging(folder: Path) -> tuple[int, int]:
    """The ids of the process that hangs and of the one that it has started."""
    file = folder / "pids"
    await eventually(file.exists, within=LONG)
    one, two = map(int, file.read_text().split())
    assert exists(one)
    assert exists(two)
    return one, two


async def test_work_runs_in_another_process_that_is_kept_for_the_next() -> None:
    async with runtime() as (_, lane, _):
        assert lane.pids == ()  # none is started before it is needed
        pid = await lane.run(work.pid)
        assert pid != os.getpid()
        assert lane.pids == (pid,)
        assert await lane.run(work.pid) == pid
        assert await lane.run(work.Counter.double, 21) == 42
        assert await lane.run(work.length, b"x" * 50_000) == 50_000
        assert (lane.snapshot().completed, lane.snapshot().lane_running) == (4, 0)


async def test_what_the_work_raises_comes_back_with_its_traceback() -> None:
    async with runtime() as (_, lane, _):
        pid = await lane.run(work.pid)
        with pytest.raises(ValueError, match="planted") as caught:
            await lane.run(work.fail, "planted")
        assert "_lane_work.py" in str(caught.value.__cause__)
        for fn, kind in ((work.fail_oddly, "Odd"), (work.leave, "SystemExit")):
            with pytest.raises(WorkFailed) as failed:
                await lane.run(fn)
            assert failed.value.kind == kind
            assert "_lane_work.py" in failed.value.text
        assert await lane.run(work.pid) == pid
        assert lane.snapshot().failed == 3


async def test_a_time_out_kills_the_process_and_what_it_has_started(tmp_path: Path) -> None:
    async with runtime() as (_, lane, nursery):
        ended: list[LaneTaskTimedOut] = []

        async def call() -> None:
            scope_ends = trio.current_time() + LONG
            with pytest.raises(LaneTaskTimedOut) as caught:
                await lane.run(work.hang, str(tmp_path), deadline=scope_ends, task_timeout=1)
            ended.append(caught.value)

        nursery.start_soon(call)
        pids = await hanging(tmp_path)
        (record,) = lane.pool.records()
        assert record.stack == (f"in process {pids[0]}",)
        await eventually(lambda: len(ended) == 1, within=LONG)
        await eventually(lambda: not any(map(exists, pids)), within=LONG)
        await eventually(lambda: lane.snapshot().lane_running == 0, within=LONG)
        assert not ended[0].by_deadline
        assert await lane.run(work.pid) not in pids  # the slot is free, and there is another process


async def test_a_cancelled_caller_kills_the_process_and_its_slot_is_free_when_that_has_ended(tmp_path: Path) -> None:
    async with runtime() as (context, lane, nursery):
        scope = trio.CancelScope()

        async def call() -> None:
            with scope:
                await lane.run(work.hang, str(tmp_path))

        nursery.start_soon(call)
        pids = await hanging(tmp_path)
        assert [task.lane for task in context.lanes.shared.running_closures()] == ["work"]
        scope.cancel()
        await eventually(lambda: lane.snapshot().lane_running == 0, within=LONG)
        assert not exists(pids[0])
        await eventually(lambda: not exists(pids[1]), within=LONG)
        assert scope.cancelled_caught
        assert context.lanes.shared.running_closures() == ()


async def test_a_process_that_ends_without_an_answer_is_reported_and_replaced() -> None:
    async with runtime() as (_, lane, _):
        with pytest.raises(WorkerDied) as caught:
            await lane.run(work.die, 5)
        assert caught.value.status == 5
        pid = await lane.run(work.pid)
        os.kill(pid, 9)  # while it is idle
        await eventually(lambda: not exists(pid), within=LONG)
        assert await lane.run(work.pid) != pid


async def test_the_end_of_the_scope_kills_what_runs(tmp_path: Path) -> None:
    async with open_runtime(CONFIG) as context:
        part = context.component("part")
        lane = part.lanes.processes("work", ONE)
        part.group.spawn(lane.run, work.hang, str(tmp_path))
        pids = await hanging(tmp_path)
        part.group.close()
        with pytest.raises(LaneClosed):
            await lane.run(work.pid)
        assert exists(pids[0])  # told to stop, it goes on until the work deadline
        part.group.close("kill")
        await eventually(lambda: part.group.over, within=LONG)
        assert not exists(pids[0])
        assert lane.pids == ()


async def test_a_shutdown_waits_and_then_kills(tmp_path: Path) -> None:
    async with runtime() as (_, lane, nursery):
        died: list[WorkerDied] = []

        async def call() -> None:
            with pytest.raises(WorkerDied) as caught:
                await lane.run(work.hang, str(tmp_path))
            died.append(caught.value)

        nursery.start_soon(call)
        pids = await hanging(tmp_path)
        first = await lane.shutdown(trio.current_time())
        assert (first.completed, first.pending) == (False, 1)
        await eventually(lambda: len(died) == 1, within=LONG)
        assert died[0].status == -9
        again = await lane.shutdown(trio.current_time() + LONG)
        assert (again.completed, again.pending) == (True, 0)
        assert not exists(pids[0])
        with pytest.raises(LaneClosed):
            await lane.run(work.pid)


async def test_it_is_bounded_like_any_lane(tmp_path: Path) -> None:
    async with runtime() as (_, lane, nursery):
        scope = trio.CancelScope()

        async def call() -> None:
            with scope:
                await lane.run(work.hang, str(tmp_path))

        nursery.start_soon(call)
        await hanging(tmp_path)
        with pytest.raises(LaneQueueTimedOut):
            await lane.run(work.pid, queue_timeout=0.01)
        nursery.start_soon(lane.run, work.pid)
        await eventually(lambda: lane.snapshot().queued == 1, within=LONG)
        with pytest.raises(LaneFull):
            await lane.run(work.pid)
        scope.cancel()


async def test_a_result_that_is_too_large_is_refused() -> None:
    async with runtime() as (_, lane, _):
        with pytest.raises(AnswerTooLarge) as caught:
            await lane.run(work.make, 200_000)
        assert caught.value.size > caught.value.limit == 100_000
        assert await lane.run(work.length, b"") == 0


async def test_what_cannot_be_sent_is_refused_before_anything_runs() -> None:
    def local() -> None:
        pass

    async with runtime() as (_, lane, _):
        for refused in (lambda: 0, local, b"abc".hex, work.Counter()):
            with pytest.raises(WorkNotPortable):
                await lane.run(refused)  # type: ignore[arg-type]
        with pytest.raises(WorkNotPortable) as caught:
            await lane.run(id, lambda: 0)
        assert caught.value.__cause__ is not None
        with pytest.raises(WorkNotPortable, match="limit"):
            await lane.run(work.length, b"x" * 200_000)
        assert (lane.pids, lane.snapshot().tasks) == ((), ())


async def test_its_settings_and_its_place_are_checked() -> None:
    async with open_runtime(CONFIG) as context:
        with pytest.raises(LaneSettingsInvalid):
            context.lanes.processes("work", LanePolicy(max_concurrency=0))
        with pytest.raises(LaneMisused):
            context.lanes.processes("work", ONE, max_bytes=0)
        assert context.group.task_count == 0
        lane = context.lanes.processes("work", ONE)

        async def elsewhere() -> None:
            await lane.run(work.pid)

        with pytest.raises(LaneMisused):
            await trio.to_thread.run_sync(trio.run, elsewhere)
