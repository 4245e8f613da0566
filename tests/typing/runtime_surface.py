"""The public surface of `lifecycle`, used as an application uses it: neither type checker may find anything here."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

from lifecycle import (
    Budget,
    BudgetedItem,
    BudgetedQueue,
    FixedRate,
    LaneSettings,
    MemoryPolicy,
    MetadataReceipt,
    MetadataWriter,
    Operation,
    OperationEnd,
    OperationOutcome,
    Outcome,
    Permit,
    Rejected,
    RuntimeConfig,
    Schedule,
    ServiceContext,
    ShutdownReport,
    SpawnedTask,
    StopToken,
    TargetConflict,
    TaskHandle,
    TaskKind,
    bounded_catch_up,
)


async def count(first: int, second: str) -> float:
    return first + len(second)


def measure(first: int, second: str) -> float:
    return first + len(second)


async def tasks(context: ServiceContext) -> None:
    group = context.group
    handle = group.spawn(count, 1, "x")
    assert_type(handle, TaskHandle[float])
    assert_type(await handle.join(), float)
    assert_type(await group.spawn_cancellable(count, 1, "x", name="n").join(), float)
    operation = Operation(5.0)
    assert_type(group.spawn_operation(operation, count, 1, "x"), TaskHandle[float])
    assert_type(group.spawn_draining_operation(operation, count, 1, "x"), TaskHandle[float])
    assert_type(context.spawner.spawn(count, 1, "x"), SpawnedTask[float])
    assert_type(await operation.close_and_wait(group, 1.0, 2.0), OperationEnd)
    assert_type(await group.shutdown(1.0), ShutdownReport)
    group.start_soon(count, 1, "x", kind="worker")
    assert_type(await handle.wait(), Outcome)
    assert_type(group.abort(handle), bool)
    assert_type(await group.abort_and_wait(handle, within=1), bool)
    assert_type(context.spawner.spawn_operation(operation, count, 1, "x"), SpawnedTask[float])
    assert_type(await context.spawner.spawn(count, 1, "x").join(), float)
    assert_type(context.spawner.token(), StopToken)
    operation.with_kind("worker").observe(heard)
    assert_type(await operation.cancel_and_wait(group, within=1), bool)


def heard(kind: TaskKind, outcome: OperationOutcome) -> None:
    print(kind, outcome == "owner_cancelled")


async def lanes(context: ServiceContext) -> None:
    assert_type(await context.lanes.storage_io.run(measure, 1, "x"), float)
    assert_type(await context.lanes.cpu.drain_lease(5.0, 1).run(measure, 1, "x"), float)


async def budgets(process: Budget) -> None:
    assert_type(process.reserve(10), Permit)
    assert_type(process.try_reserve(10), Permit | None)
    queue = BudgetedQueue[str](process.child("queue", count=10), policy="reject", size=len)
    if isinstance(refused := queue.try_push("x"), Rejected):
        assert_type(refused.item, str)
    assert_type(queue.try_recv(), str | None)
    assert_type(await queue.recv(), str | None)
    assert_type(await queue.recv_budgeted(), BudgetedItem[str] | None)
    async for item in queue:
        assert_type(item, str)


def settings() -> RuntimeConfig:
    return RuntimeConfig(lanes=LaneSettings.for_parallelism(2), memory=MemoryPolicy.fraction(1, 2), on_poison="degrade")


def schedules(context: ServiceContext) -> None:
    async def job() -> None: ...

    context.schedules("jobs").add(Schedule("job", job, FixedRate(1), missed=bounded_catch_up(3)))


async def metadata(context: ServiceContext, target: Path) -> None:
    writer = MetadataWriter.of(context, "metadata")
    answer = writer.submit_next("resource", target, b"content")
    if isinstance(answer, TargetConflict):
        return
    assert_type(answer, MetadataReceipt)
    assert_type(await answer.durable(), int)
