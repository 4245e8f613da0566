"""Ends in combination: what is spawned while a nursery closes, what leaves the report sink, what outlives its scope."""

from __future__ import annotations

import threading
from math import inf
from typing import TYPE_CHECKING, Literal

import pytest
import trio
import trio.testing

from actors.testing import eventually
from lifecycle import (
    LanePolicy,
    MetadataReceipt,
    MetadataWriteFailed,
    MetadataWriter,
    Runtime,
    RuntimeConfig,
    ServiceContext,
    ShutdownReport,
    open_runtime,
)

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = RuntimeConfig(signals=False, shutdown_within=10, memory_limit=1 << 20)


@pytest.mark.parametrize("style", ["spawn", "start_soon"])
@pytest.mark.parametrize("_", range(8))  # the order within a turn is random
async def test_a_task_spawned_while_the_host_closes_the_nursery_is_followed_to_its_end(style: str, _: int) -> None:
    ran: list[int] = []

    async def late() -> None:
        ran.append(1)

    with trio.CancelScope() as host:
        async with open_runtime(CONFIG) as context:
            group = context.component("part").group
            done = trio.Event()

            async def job() -> None:
                try:
                    await trio.sleep_forever()
                finally:
                    done.set()

            getattr(group, style)(job)
            await trio.testing.wait_all_tasks_blocked()
            host.cancel()
            with trio.CancelScope(shield=True):
                await done.wait()
                getattr(group, style)(late)
    assert ran == [1]
    assert group.over
    assert group.task_count == 0


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_exit_out_of_the_report_sink_leaves_the_runtime(kind: type[BaseException]) -> None:
    def sink(report: ShutdownReport) -> None:
        raise kind

    async def main(context: ServiceContext) -> None:
        pass

    config = RuntimeConfig(signals=False, report_sink=sink)
    with pytest.raises(BaseException) as left:
        Runtime.plan(config).build().run(main)
    found = left.value
    assert isinstance(found, kind) or (isinstance(found, BaseExceptionGroup) and found.subgroup(kind) is not None)


async def test_a_late_call_of_a_lease_is_awaited_also_when_its_isolated_lane_had_been_looked_at() -> None:
    gate = threading.Event()
    reports: list[ShutdownReport] = []
    async with open_runtime(RuntimeConfig(signals=False, shutdown_within=60, report_sink=reports.append)) as context:
        part = context.component("part")
        lane = part.lanes.isolated("own", LanePolicy(max_concurrency=1))
        lease = lane.drain_lease(inf, 1)
        part.group.cancel()
        shared = context.lanes.shared
        assert shared.snapshot().blocking_still_running == 0  # stopped and empty: it is dropped
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                try:
                    nursery.start_soon(lease.run, gate.wait)
                    await eventually(lambda: shared.blocking_still_running == 1, within=30)
                    scope.cancel()  # nobody waits for it any more
                except BaseException:
                    gate.set()
                    raise
        try:
            (call,) = shared.running_closures()
            assert (call.lane, call.state) == ("own", "timed_out_still_running")
        finally:
            gate.set()
    assert reports[0].is_healthy()


@pytest.mark.row("runtime:R117")
@pytest.mark.parametrize("how", ["cancel", "kill"])
async def test_a_writer_that_ends_before_its_first_step_fails_what_it_accepted(
    tmp_path: Path, how: Literal["cancel", "kill"]
) -> None:
    async with open_runtime(CONFIG) as context:
        part = context.component("part")
        writer = MetadataWriter.of(part, "writer")
        task = writer.start(part.group)
        receipt = writer.submit_next("a", tmp_path / "a", b"x")
        assert isinstance(receipt, MetadataReceipt)
        if how == "cancel":
            task.cancel()
        else:
            part.group.close("kill")
        await task.wait()
        with trio.fail_after(10), pytest.raises(MetadataWriteFailed):
            await receipt.durable()
        assert not writer.accepting
    assert not (tmp_path / "a").exists()


async def test_a_callback_that_another_one_has_taken_back_is_not_called() -> None:
    called: list[str] = []
    async with open_runtime(CONFIG) as context:
        group = context.component("part").group
        group.at_stop(lambda: take_back())
        take_back = group.at_stop(lambda: called.append("taken back"))
        group.at_stop(lambda: called.append("last"))
        group.close()
    assert called == ["last"]
