"""A service that keeps something in order: compaction that overruns, a slow disk, an overload, durable metadata.

    python -m examples.maintenance            until Ctrl-C, which drains: the report at the end is healthy
    python -m examples.maintenance --stuck    one closure never returns: the report says which, and where it stands

`--seconds N` presses Ctrl-C by itself.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path

import attrs
import trio

from lifecycle import (
    Budget,
    BudgetedQueue,
    FixedRate,
    LaneClosed,
    LanePolicy,
    LaneSettings,
    LaneTimedOut,
    MetadataReceipt,
    MetadataWriter,
    Rejected,
    Reserve,
    Runtime,
    RuntimeConfig,
    Schedule,
    ScheduleSnapshot,
    ServiceContext,
    bounded_catch_up,
)

PERIOD = 0.1
"""Seconds between two compactions, each of which takes more than three times as long."""

LANES = attrs.evolve(
    LaneSettings.for_parallelism(1),
    storage_io=LanePolicy(max_concurrency=2, max_queue=4, queue_timeout=0.2, task_timeout=0.1),
)


# ---------------------------------------------------------------- compaction that overruns


def plan_compaction(context: ServiceContext) -> list[Schedule]:
    """The same slow job under the three policies for ticks that come while it runs."""

    async def compact() -> None:
        await trio.sleep(3.4 * PERIOD)

    trigger = FixedRate(PERIOD)
    schedules = [
        Schedule("skip", compact, trigger, missed="skip"),
        Schedule("coalesce", compact, trigger, missed="coalesce_latest"),
        Schedule("catch up", compact, trigger, missed=bounded_catch_up(3)),
    ]
    registry = context.schedules("compaction")
    for schedule in schedules:
        registry.add(schedule)
    return schedules


def show_schedule(counts: ScheduleSnapshot) -> str:
    return f"  {counts.name:<9} {counts.runs:>3} runs, {counts.skips:>3} ticks left out, {counts.pending} waiting"


# ---------------------------------------------------------------- a slow disk


class Disk:
    """A disk whose every second call takes three times as long as anybody waits for."""

    def __init__(self, stuck: bool) -> None:
        self.calls = 0
        self.gave_up = 0
        self.never = threading.Event() if stuck else None

    def read(self) -> None:
        self.calls += 1
        if self.never is not None and self.calls == 3:
            self.never.wait()  # a mount that has gone away
        time.sleep(0.3 if self.calls % 2 else 0.02)


async def keep_reading(context: ServiceContext, disk: Disk) -> None:
    """A caller that is tired of waiting frees no slot: the thread is still in the disk's hands."""
    lane = context.lanes.storage_io
    while not context.stopping.is_set():
        try:
            await lane.run(disk.read, name="read")
        except LaneTimedOut:
            disk.gave_up += 1
        except LaneClosed:
            break  # this part of the service was told to stop while the call waited for a slot
        await trio.sleep(0.02)


# ---------------------------------------------------------------- an overload


class Inbox:
    """Twice as many requests as are answered. A control message gets in all the same."""

    def __init__(self, process: Budget) -> None:
        budget = process.child("requests", count=20, bytes=20 * 1024, control_reserve=Reserve(count=4, bytes=4 * 1024))
        self.queue = BudgetedQueue[str](budget, policy="reject", size=len)
        self.rejected = 0
        self.answered = 0
        self.controls = 0

    def offer(self, request: str, control: bool = False) -> None:
        if isinstance(self.queue.try_push(request, control=control), Rejected):
            self.rejected += 1

    async def answer(self) -> None:
        async for request in self.queue:
            self.controls += request == "flush"
            self.answered += 1
            await trio.sleep(0.01)


async def overload(context: ServiceContext, inbox: Inbox) -> None:
    tick = 0
    while not context.stopping.is_set():
        inbox.offer(f"request {tick}")
        if tick % 20 == 19:
            inbox.offer("flush", control=True)
        tick += 1
        await trio.sleep(0.005)
    inbox.queue.close()


# ---------------------------------------------------------------- durable metadata


class Ledger:
    """A counter on disk. Every step is accepted at once; what is durable is another question."""

    def __init__(self, context: ServiceContext, target: Path) -> None:
        self.target = target
        self.steps = 0
        self.newest: MetadataReceipt | None = None
        self.writer = MetadataWriter.of(context, "ledger")
        self.writer.start(context.group)

    async def keep(self, context: ServiceContext) -> None:
        while not context.stopping.is_set():
            self.steps += 1
            receipt = self.writer.submit_next("steps", self.target, b"%d" % self.steps)
            assert isinstance(receipt, MetadataReceipt), receipt
            self.newest = receipt
            await trio.sleep(0.005)
        # The gate is closed, what was accepted is still written: this waits for the proof of it.
        if self.newest is not None:
            await self.newest.durable()


# ---------------------------------------------------------------- the service


def show(what: object) -> None:
    print(what, flush=True)


async def serve(context: ServiceContext, options: argparse.Namespace, folder: Path) -> None:
    schedules = plan_compaction(context)
    disk, inbox = Disk(options.stuck), Inbox(context.budget)
    storage, front, state = (context.component(name) for name in ("storage", "front", "state"))
    ledger = Ledger(state, folder / "steps")
    for number in range(2):
        storage.group.spawn_service(keep_reading, storage, disk, name=f"reader-{number}")
    front.group.spawn_service(inbox.answer, name="answer")
    front.group.spawn_service(overload, front, inbox)
    state.group.spawn_service(ledger.keep, state)

    show(f"keeping {folder} in order; Ctrl-C ends it")
    with trio.move_on_after(options.seconds):
        while not context.stopping.is_set():
            with trio.move_on_after(0.5):
                await context.stopping.wait()
            done = sum(schedule.snapshot().runs for schedule in schedules)
            print(
                f"  {done} compactions, {disk.gave_up} readers gave up, {inbox.rejected} requests rejected", flush=True
            )
    context.runtime.request_shutdown("asked")

    print("a compaction that takes 3.4 periods, by policy:")
    print("\n".join(show_schedule(schedule.snapshot()) for schedule in schedules))
    lane = context.lanes.storage_io.snapshot()
    print(f"the disk: {disk.calls} calls, {disk.gave_up} callers gave up, {lane.timed_out_still_running} still in it")
    print(f"the queue: {inbox.answered} answered, {inbox.rejected} rejected, {inbox.controls} controls got in")
    await state.group.wait_over()
    durable = ledger.writer.confirmed("steps")
    show(f"the ledger: {ledger.steps} steps accepted, generation {durable} durable")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.maintenance", description="Keep something in order.")
    parser.add_argument("--stuck", action="store_true", help="one blocking call never returns")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end by itself")
    options = parser.parse_args()

    config = RuntimeConfig(name="maintenance", shutdown_within=3, lanes=LANES, report_sink=show)
    with tempfile.TemporaryDirectory(prefix="tenure-") as folder:
        report = Runtime.plan(config).build().run(serve, options, Path(folder))
    return 0 if report.is_healthy() else 1


if __name__ == "__main__":
    sys.exit(main())
