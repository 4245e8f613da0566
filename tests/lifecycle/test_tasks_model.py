"""Whatever is started, cancelled and stopped in whatever order: each accepted task is in exactly one count, always."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Literal

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from lifecycle import (
    GroupClosed,
    GroupPoisoned,
    Operation,
    OperationBound,
    OperationClosed,
    RuntimeConfig,
    TaskDidNotComplete,
    open_runtime,
)

if TYPE_CHECKING:
    from lifecycle import ServiceContext, TaskGroup, TaskHandle, TaskKind

Style = Literal["soon", "plain", "service", "cancellable", "operation", "draining"]
Body = Literal["at once", "one turn", "sleeps", "until stopping", "deaf", "swallows", "raises", "cleans up badly"]
Act = Literal[
    "component", "wait", "cancel task", "abort", "cancel group", "close", "kill", "shutdown", "shutdown now",
    "cancel operation", "tighten", "close operation", "wait operation",
]  # fmt: skip
Step = tuple[Literal["start"], Style, Body, int] | tuple[Literal["act"], Act, int]

STYLES: tuple[Style, ...] = ("soon", "plain", "service", "cancellable", "operation", "draining")
BODIES: tuple[Body, ...] = (
    "at once", "one turn", "sleeps", "until stopping", "deaf", "swallows", "raises", "cleans up badly",
)  # fmt: skip
ACTS: tuple[Act, ...] = (
    "component", "wait", "cancel task", "abort", "cancel group", "close", "kill", "shutdown", "shutdown now",
    "cancel operation", "tighten", "close operation", "wait operation",
)  # fmt: skip

steps = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.sampled_from(STYLES), st.sampled_from(BODIES), st.integers(0, 7)),
        st.tuples(st.just("act"), st.sampled_from(ACTS), st.integers(0, 7)),
    ),
    max_size=40,
)


async def run_body(body: Body, number: int, group: TaskGroup) -> int:
    if body == "one turn":
        await trio.lowlevel.checkpoint()
    elif body == "sleeps":
        await trio.sleep(number)
    elif body == "until stopping":
        await group.stopping.wait()
    elif body == "deaf":
        with trio.CancelScope(shield=True):
            await trio.sleep(number)
    elif body == "swallows":
        with trio.move_on_after(number):
            try:
                await trio.sleep_forever()
            except trio.Cancelled:  # noqa: ASYNC103 (what tasks must not do, and do)
                return number  # noqa: ASYNC104
    elif body == "raises":
        raise ValueError("planted")
    elif body == "cleans up badly":
        try:
            await trio.sleep(number)
        finally:
            raise ValueError("planted")
    return number


class Model:
    """The runtime under test beside what is known of it from outside."""

    def __init__(self, nursery: trio.Nursery, context: ServiceContext) -> None:
        self.nursery = nursery
        self.contexts = [context, context.component("first")]
        self.operations: list[Operation] = []
        self.handles: list[TaskHandle[int]] = []
        self.accepted = 0
        self.accepted_by: dict[int, int] = {}
        self.observed: dict[int, int] = {}
        for _ in range(3):
            self.add_operation()

    def add_operation(self) -> None:
        number = len(self.operations)

        def observe(_: TaskKind, outcome: str) -> None:
            self.observed[number] += 1
            assert outcome in {field.name for field in attrs.fields(type(operation.outcomes))}
            assert operation.outcomes.total == self.observed[number]

        operation = Operation(trio.current_time() + 5 + number)
        operation.observe(observe)
        self.accepted_by[number] = self.observed[number] = 0
        self.operations.append(operation)

    def start(self, style: Style, body: Body, number: int) -> None:
        group = self.contexts[number % len(self.contexts)].group
        which = number % len(self.operations)
        operation = self.operations[which]
        args = (body, number, group)
        try:
            if style == "soon":
                group.start_soon(run_body, *args)
            elif style == "plain":
                self.handles.append(group.spawn(run_body, *args))
            elif style == "service":
                self.handles.append(group.spawn_service(run_body, *args))
            elif style == "cancellable":
                self.handles.append(group.spawn_cancellable(run_body, *args))
            else:
                spawn = group.spawn_operation if style == "operation" else group.spawn_draining_operation
                self.handles.append(spawn(operation, run_body, *args))
                self.accepted_by[which] += 1
            self.accepted += 1
        except (GroupClosed, GroupPoisoned, OperationBound, OperationClosed):
            pass

    async def act(self, act: Act, number: int) -> None:
        context = self.contexts[number % len(self.contexts)]
        operation = self.operations[number % len(self.operations)]
        handle = self.handles[number % len(self.handles)] if self.handles else None
        if act == "component":
            self.contexts.append(context.component("part"))
        elif act == "wait":
            await trio.sleep(number / 2)
        elif act == "cancel task" and handle is not None:
            handle.cancel()
        elif act == "abort" and handle is not None:
            ended = handle.ended
            assert handle.group.contains(handle) is not ended
            assert await handle.group.abort_and_wait(handle, number) is (not ended and handle.ended)
        elif act == "cancel group":
            context.group.cancel()
        elif act == "close":
            context.group.close()
        elif act == "kill" and len(self.contexts) > 1:
            self.contexts[-1].group.close("kill")
        elif act == "shutdown" and len(self.contexts) > 1:
            self.nursery.start_soon(self.contexts[-1].group.shutdown, float(number))
        elif act == "shutdown now" and len(self.contexts) > 1:
            self.contexts[-1].group.shutdown_now()
        elif act == "cancel operation":
            operation.cancel()
        elif act == "tighten":
            operation.tighten(trio.current_time() + number)
        elif act == "close operation":
            operation.close_admission()
        elif act == "wait operation":
            owner = next((task.group for task in self.handles if task.kind == "operation"), context.group)
            self.nursery.start_soon(self.wait_for, operation, owner, number)

    async def wait_for(self, operation: Operation, owner: TaskGroup, number: int) -> None:
        try:
            begun = trio.current_time()
            done = await operation.wait(owner, number)
            assert trio.current_time() <= begun + number + 1
            assert done is (operation.active == 0)
        except OperationBound:
            pass

    def check(self) -> None:
        """What holds between any two steps."""
        for number, operation in enumerate(self.operations):
            assert operation.outcomes.total + operation.active == self.accepted_by[number]
        root = self.contexts[0].group
        report = root.report()
        assert report.totals().total == self.accepted
        running = sum(group.task_count for group in root.walk())
        assert report.totals().leaked == running
        for handle in self.handles:
            assert handle.group.contains(handle) is (handle.outcome is None)


async def joined(handle: TaskHandle[int]) -> str:
    try:
        await handle.join()
    except ValueError:
        return "raised"
    except TaskDidNotComplete as error:
        assert error.outcome == handle.outcome
        return "nothing"
    return "value"


async def simulated(program: list[Step], within: int, host: int | None) -> None:
    config = RuntimeConfig(signals=False, on_poison="degrade", shutdown_within=within)
    model: Model | None = None
    try:
        with trio.CancelScope() as around:
            if host is not None:
                around.deadline = trio.current_time() + host
            async with open_runtime(config) as context, trio.open_nursery() as nursery:
                model = Model(nursery, context)
                for step in program:
                    if step[0] == "start":
                        model.start(step[1], step[2], step[3])
                    else:
                        await model.act(step[1], step[2])
                    model.check()
    except* ValueError as group:
        assert {str(error) for error in group.exceptions} == {"planted"}
    assert model is not None
    model.check()
    root = model.contexts[0].group
    assert (root.state, root.task_count, root.component_count) == ("completed", 0, 0)
    assert root.outcomes.total == model.accepted
    assert all(operation.active == 0 for operation in model.operations)
    counts = {"completed": 0, "cancelled": 0, "aborted": 0, "panicked": 0}
    for handle in model.handles:
        assert handle.outcome is not None
        counts[handle.outcome] += 1
        end = await joined(handle)
        if handle.outcome == "completed":
            assert end == "value"
        elif handle.outcome == "panicked":
            assert end == "raised"
        else:
            assert end != "raised"
    soon = root.outcomes.total - len(model.handles)
    for name, count in counts.items():
        assert count <= getattr(root.outcomes, name) <= count + soon
    report = model.contexts[0].runtime.report
    assert report is not None
    assert report.totals().total == model.accepted


GENTLE: tuple[Act, ...] = ("component", "wait", "cancel task", "abort", "wait operation")


def random_program(rng: random.Random) -> list[Step]:
    """A long one, with more starts than ends."""
    program: list[Step] = []
    for _ in range(rng.randrange(80)):
        if rng.random() < 0.6:
            program.append(("start", rng.choice(STYLES), rng.choice(BODIES), rng.randrange(8)))
        else:
            program.append(("act", rng.choice(GENTLE if rng.random() < 0.7 else ACTS), rng.randrange(8)))
    return program


@pytest.mark.row("runtime:R17")
@pytest.mark.row("runtime:R46")
@pytest.mark.parametrize("seed", range(40))
def test_in_long_programs_each_accepted_task_is_in_one_count_at_every_step(seed: int) -> None:
    rng = random.Random(seed)
    program = random_program(rng)
    host = rng.choice([None, None, rng.randrange(12)])
    trio.run(simulated, program, rng.randrange(13), host, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.row("runtime:R17")
@pytest.mark.row("runtime:R46")
@settings(max_examples=150)
@given(steps, st.integers(0, 12), st.one_of(st.none(), st.integers(0, 12)))
def test_each_accepted_task_is_in_one_count_at_every_step(program: list[Step], within: int, host: int | None) -> None:
    trio.run(simulated, program, within, host, clock=trio.testing.MockClock(autojump_threshold=0))
