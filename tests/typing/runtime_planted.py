"""Mistakes that the types of `lifecycle` must catch. Each marked place is an error for either type checker, and no
other place is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle import BudgetedQueue, FixedRate, Operation, RuntimeConfig, Schedule
from tests.typing.runtime_surface import count, measure

if TYPE_CHECKING:
    from lifecycle import Budget, ServiceContext, TaskHandle


async def tasks(context: ServiceContext) -> None:
    group = context.group
    group.spawn(count, 1)  # BAD: an argument is missing
    group.spawn(count, "x", 1)  # BAD
    group.start_soon(measure, 1, "x")  # BAD: not async
    group.spawn(count, 1, "x", kind="hobby")  # BAD
    text: str = await group.spawn(count, 1, "x").join()  # BAD: it returns a float
    group.spawn_operation(5.0, count, 1, "x")  # BAD: no operation
    Operation("soon")  # BAD
    wrong: TaskHandle[str] = group.spawn(count, 1, "x")  # BAD
    narrow: TaskHandle[float] = context.spawner.spawn(count, 1, "x")  # BAD: no way to the group
    name: str = await context.spawner.spawn_cancellable(count, 1, "x").join()  # BAD
    await group.wait_task("count", 1)  # BAD: no task
    await group.start_soon(count, 1, "x").join()  # BAD: it has no handle
    context.spawner.close()  # BAD: no right to that
    print(text, wrong, narrow, name)


async def operations(context: ServiceContext, operation: Operation) -> None:
    context.group.spawn_draining_operation(operation, count, "x", 1)  # BAD
    context.spawner.spawn_operation(operation, count)  # BAD
    await operation.wait(1.0)  # BAD: whose
    await operation.close_and_wait(context, 1.0, 2.0)  # BAD: a context, not a group
    operation.observe(lambda outcome: None)  # BAD: the kind comes first
    operation.with_kind("hobby")  # BAD
    if (await operation.close_and_wait(context.group, 1.0, 2.0)).status == "aborted":  # BAD: no such status
        operation.cancel()


async def lanes(context: ServiceContext) -> None:
    await context.lanes.storage_io.run(measure, 1)  # BAD
    await context.lanes.storage_io.run(measure, 1, "x", kind="any")  # BAD
    text: str = await context.lanes.cpu.run(measure, 1, "x")  # BAD
    print(text)


async def budgets(process: Budget) -> None:
    process.reserve("10")  # BAD
    queue = BudgetedQueue[str](process, policy="panic")  # BAD
    queue.try_push(1)  # BAD
    number: int | None = await queue.recv()  # BAD
    print(number)


def settings() -> None:
    RuntimeConfig(on_poison="ignore")  # BAD
    RuntimeConfig(lanes=4)  # BAD


def schedules(context: ServiceContext) -> None:
    def job() -> None: ...

    Schedule("job", job, FixedRate(1))  # BAD: not async
    context.schedules(1)  # BAD
