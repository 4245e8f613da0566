"""The runtime's own cases, and the floors of plain Trio that they are measured against."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

import trio
import trio.testing

from benchmarks._harness import Case, Watch, trio_case
from benchmarks._raw import BURST, Meter, bursts
from lifecycle import Budget, BudgetedQueue, MetadataTargets, MetadataWriter, open_runtime

#: Tasks that are started before the starter waits for their end.
CROWD = 100
CONTENT = b"x" * 1024


# ---------------------------------------------------------------- spawn


async def _nothing() -> None:
    pass


async def _nursery_spawn(watch: Watch, n: int) -> int:
    """Tasks that do nothing, in a bare nursery."""
    with watch:
        for _ in range(max(1, n // CROWD)):
            async with trio.open_nursery() as nursery:
                for _ in range(CROWD):
                    nursery.start_soon(_nothing)
    return max(1, n // CROWD) * CROWD


async def _nursery_spawn_scope(watch: Watch, n: int) -> int:
    """The same, each under a scope of its own, as it must be to be cancelled singly."""

    async def scoped(scope: trio.CancelScope) -> None:
        with scope:
            await _nothing()

    with watch:
        for _ in range(max(1, n // CROWD)):
            async with trio.open_nursery() as nursery:
                for _ in range(CROWD):
                    nursery.start_soon(scoped, trio.CancelScope())
    return max(1, n // CROWD) * CROWD


async def _group_spawn(watch: Watch, n: int, *, handles: bool = False) -> int:
    """The same in a task group, with every guarantee on; with `handles`, each can be cancelled singly and joined."""
    async with open_runtime() as context:
        group = context.component("part").group
        start = group.spawn if handles else group.start_soon
        with watch:
            for _ in range(max(1, n // CROWD)):
                for _ in range(CROWD):
                    start(_nothing)
                while group.task_count:  # noqa: ASYNC110 (an event would be one more thing to pay for)
                    await trio.lowlevel.checkpoint()
    return max(1, n // CROWD) * CROWD


# ---------------------------------------------------------------- budgets


async def _permit(watch: Watch, n: int) -> None:
    """Reserve and release, three levels deep, by count and bytes."""
    root = Budget.root("process", count=1_000_000, bytes=1 << 40)
    leaf = root.child("tenant", count=10_000, bytes=1 << 30).child("requests", count=1000, bytes=1 << 20)
    with watch:
        for _ in range(n):
            leaf.reserve(100).release()


async def _queue_burst(watch: Watch, n: int) -> int:
    """`push` without a wait in bursts, received in another task, until that has caught up; as with the channel."""
    queue = BudgetedQueue[int](Budget.root("queue", count=1000))
    meter = Meter()
    batch = list(range(BURST))

    async def receive() -> None:
        async for _ in queue:
            meter.count += 1
            if meter.count == meter.goal:
                meter.reached.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        push = queue.try_push
        with watch:
            for _ in range(bursts(n)):
                meter.expect(BURST)
                for item in batch:
                    push(item)
                await meter.reached.wait()
        queue.close()
    return bursts(n) * BURST


# ---------------------------------------------------------------- metadata


def _replace(target: Path, data: bytes) -> None:
    """Write, sync, replace, sync the directory: what a careful program does for each content by itself."""
    fresh = target.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


async def _naive_writes(watch: Watch, n: int) -> None:
    """One content after the other, each durable before the next."""
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
        target = Path(folder) / "state"
        with watch:
            for _ in range(n):
                await trio.to_thread.run_sync(_replace, target, CONTENT)


async def _metadata_writes(watch: Watch, n: int) -> None:
    """As many contents of one hot resource handed to the writer, timed until the last is durable."""
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
        target = Path(folder) / "state"
        writer = MetadataWriter("bench", MetadataTargets())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            await trio.testing.wait_all_tasks_blocked()
            with watch:
                for number in range(n):
                    receipt = writer.submit_next("state", target, CONTENT)
                    if number % CROWD == 0:
                        await trio.lowlevel.checkpoint()
                await receipt.durable()  # type: ignore[union-attr]  # the target is the resource's own
            writer.stop_admission()


# ---------------------------------------------------------------- lanes


async def _to_thread(watch: Watch, n: int) -> None:
    """A call in a thread, one after the other."""
    await trio.to_thread.run_sync(_blocking)
    with watch:
        for _ in range(n):
            await trio.to_thread.run_sync(_blocking)


async def _lane_call(watch: Watch, n: int) -> None:
    """The same through a lane: admitted, recorded, with both of its time limits."""
    async with open_runtime() as context:
        run = context.lanes.storage_io.run
        await run(_blocking)
        with watch:
            for _ in range(n):
                await run(_blocking)


def _blocking() -> None:
    pass


def cases() -> list[Case]:
    """Each with its floor, in one family."""
    return [
        trio_case("raw.nursery_spawn", "spawn", 30_000, _nursery_spawn),
        trio_case("raw.nursery_spawn_scope", "spawn", 30_000, _nursery_spawn_scope),
        trio_case("tenure.group_spawn", "spawn", 30_000, _group_spawn),
        trio_case("tenure.group_spawn_handle", "spawn", 30_000, partial(_group_spawn, handles=True)),
        trio_case("tenure.permit", "channel", 60_000, _permit),
        trio_case("tenure.queue_burst", "channel", 60_000, _queue_burst),
        trio_case("raw.naive_writes", "metadata", 150, _naive_writes),
        trio_case("tenure.metadata_writes", "metadata", 15_000, _metadata_writes),
        trio_case("raw.to_thread", "lane", 5_000, _to_thread),
        trio_case("tenure.lane_call", "lane", 5_000, _lane_call),
    ]
