"""Service contexts: the tree of components, and clean-up that itself ends."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from lifecycle import (
    ContractViolation,
    GroupClosed,
    GroupPoisoned,
    NameBlank,
    Outcomes,
    RuntimeConfig,
    ServiceContext,
    open_runtime,
)


async def until_stopping(context: ServiceContext) -> None:
    await context.stopping.wait()


async def test_a_context_knows_its_name_and_its_path() -> None:
    async with open_runtime(RuntimeConfig(name="shop", signals=False)) as root:
        till = root.component("back").component("till")
        assert (root.name, root.path) == ("shop", "/")
        assert (till.name, till.path) == ("till", "/back/till")
        assert till.runtime is root.runtime
        assert till.group.path == "/back/till"
        assert not till.stopping.is_set()
    assert till.stopping.is_set()


@pytest.mark.row("runtime:R16")
@pytest.mark.parametrize("name", ["", "  ", "\t\n"])
async def test_a_blank_name_is_refused(name: str) -> None:
    async with open_runtime() as root:
        for ask in (root.component, root.try_component):
            with pytest.raises(NameBlank) as caught:
                ask(name)
            assert isinstance(caught.value, ContractViolation)
        assert root.group.component_count == 0


@pytest.mark.row("runtime:R15")
async def test_two_children_of_one_name_are_two_components() -> None:
    async with open_runtime() as root:
        one, two = root.component("x"), root.component("x")
        assert one.group.id != two.group.id
        one.group.spawn_service(until_stopping, one)
        running = two.group.spawn_service(until_stopping, two)
        report = await one.group.shutdown(1)
        assert report.totals() == Outcomes(cancelled=1)
        assert two.group.state == "open"
        assert running.outcome is None
        assert not two.stopping.is_set()


@pytest.mark.row("runtime:R12")
async def test_a_component_of_a_closed_parent_is_closed_itself_and_the_request_is_counted() -> None:
    async with open_runtime() as root:
        part = root.component("part")
        await part.group.shutdown(1)
        assert root.group.tree.closed_component_requests == 0
        late = part.component("late")
        assert root.group.tree.closed_component_requests == 1
        assert late.stopping.is_set()
        with pytest.raises(GroupClosed) as caught:
            late.group.spawn_service(trio.sleep, 0)
        assert caught.value.group == "/part/late"
        with pytest.raises(GroupClosed):
            part.try_component("later")
        assert root.group.tree.closed_component_requests == 1
        assert part.group.component_count == 0
    report = root.runtime.report
    assert report is not None
    assert any(note.startswith("1 components were asked of parents") for note in report.annotations)


async def test_a_component_of_a_poisoned_parent_is_closed_itself() -> None:
    async def fail() -> None:
        raise ValueError("planted")

    with pytest.RaisesGroup(ValueError):
        async with open_runtime(RuntimeConfig(signals=False, on_poison="degrade")) as root:
            part = root.component("part")
            await part.group.spawn_service(fail).wait()
            with pytest.raises(GroupPoisoned):
                part.try_component("late")
            late = part.component("late")
            with pytest.raises(GroupClosed):
                late.group.spawn_service(trio.sleep, 0)


async def test_the_end_of_a_child_touches_neither_parent_nor_sibling() -> None:
    async with open_runtime() as root:
        one, two = root.component("one"), root.component("two")
        await one.group.shutdown(1)
        assert root.group.state == two.group.state == "open"
        assert not root.stopping.is_set()
        assert root.deadline.end == two.deadline.end == float("inf")


async def test_the_end_of_a_parent_ends_everything_below_it_before_it_returns() -> None:
    ended: list[str] = []

    async def body(context: ServiceContext) -> None:
        await context.stopping.wait()
        ended.append(context.path)

    async with open_runtime() as root:
        part = root.component("part")
        for context in (part, part.component("a"), part.component("a").component("b")):
            context.group.spawn_service(body, context)
        await part.group.shutdown(1)
        assert sorted(ended) == ["/part", "/part/a", "/part/a/b"]


def test_a_context_cannot_be_made_by_hand() -> None:
    with pytest.raises(TypeError):
        ServiceContext("group", "runtime")  # type: ignore[arg-type]


# -- clean-up


async def test_cleanup_runs_on_after_the_work_deadline_and_is_cancelled_at_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[tuple[str, float]] = []

    async def body(context: ServiceContext, seconds: float) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with context.cleanup() as scope:
                await trio.sleep(seconds)  # noqa: ASYNC102 (the scope is one that ends)
            seen.append(("cut" if scope.cancelled_caught else "done", trio.current_time()))

    async with open_runtime(RuntimeConfig(signals=False, shutdown_within=10)) as root:
        root.group.spawn_service(body, root, 0.5)
        root.group.spawn_service(body, root, 30)
        await trio.sleep(5)
    assert seen == [("done", 14.5), ("cut", 15.0)]
    report = root.runtime.report
    assert report is not None
    assert report.totals() == Outcomes(aborted=2, timed_out=2)
    assert report.elapsed == 10


async def test_cleanup_under_way_is_cut_at_an_end_that_is_fixed_meanwhile(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def body(context: ServiceContext) -> None:
        with context.cleanup():
            await trio.sleep_forever()
        seen.append(trio.current_time())

    seen: list[float] = []
    async with open_runtime() as root:
        root.group.spawn_service(body, root)
        await trio.sleep(1)
        root.runtime.request_shutdown(within=5)
    assert seen == [6.0]


async def test_cleanup_ends_by_itself_when_no_shutdown_was_asked_for(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime(RuntimeConfig(signals=False, shutdown_within=7)) as root:
        with root.cleanup() as scope:
            await trio.sleep_forever()
        assert scope.cancelled_caught
        assert trio.current_time() == 7
        with root.component("part").cleanup(within=2):
            await trio.sleep_forever()
        assert trio.current_time() == 9


async def test_cleanup_under_way_is_cut_at_the_deadline_that_its_part_gets_meanwhile(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def body(context: ServiceContext) -> None:
        with context.cleanup():
            await trio.sleep_forever()
        seen.append(trio.current_time())

    seen: list[float] = []
    async with open_runtime() as root:
        part, other = root.component("part"), root.component("other")
        part.group.spawn_service(body, part)
        other.group.spawn_service(body, other)
        await trio.sleep(1)
        await part.group.shutdown(5)
        assert seen == [6.0]
        await other.group.shutdown(2)
    assert seen == [6.0, 8.0]
