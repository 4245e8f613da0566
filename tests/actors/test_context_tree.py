"""Guarantees: context variables, and what a context gives to the actor."""

from __future__ import annotations

from contextvars import ContextVar

import pytest
import trio

from actors import ActorStopped, System, open_system
from lifecycle import ServiceContext

from ._systems import Do, Doer, cell_of, supervised
from ._trees import calls, crash, settled, small_system, spawns, virtual

request: ContextVar[str] = ContextVar("request", default="none")


def now(_: object) -> str:
    return request.get()


def put(value: str) -> object:
    return calls(lambda _: request.set(value) and None)


async def test_an_actor_has_the_context_variables_of_its_spawner(actor_system_both: System) -> None:
    request.set("outer")
    ref = await actor_system_both.spawn(Doer)
    request.set("later")
    assert await ref.ask(calls(now)) == "outer"
    await ref.ask(put("inner"))
    assert await ref.ask(calls(now)) == "inner"
    assert request.get() == "later"
    child = await ref.ask(spawns(Doer))
    assert await child.ask(calls(now)) == "inner"


@virtual
async def test_those_that_are_spawned_at_once_have_their_own() -> None:
    """Also the first of a parent, which wait for its nursery."""
    async with small_system() as system:
        parent = await system.spawn(Doer)
        context = (await parent.ask(calls(lambda actor: [actor.context])))[0]
        seen: list[str] = []

        async def spawn(value: str) -> None:
            request.set(value)
            child = await context.spawn(Doer)
            seen.append(await child.ask(calls(now)))

        async with trio.open_nursery() as nursery:
            for value in "abc":
                nursery.start_soon(spawn, value)
    assert sorted(seen) == ["a", "b", "c"]


async def test_an_inline_handler_sees_its_actors_variables(actor_system_both: System) -> None:
    request.set("actor")
    ref = await actor_system_both.spawn(Doer)
    request.set("asker")
    assert await ref.ask(calls(now)) == "actor"


async def test_context_variables_outlive_a_restart(actor_system: System) -> None:
    ref = await supervised(actor_system, Doer)
    await ref.ask(put("kept"))
    await crash(ref)
    assert await ref.ask(calls(now)) == "kept"


async def test_a_helper_has_the_variables_of_its_actor(actor_system: System) -> None:
    seen: list[str] = []

    async def helper() -> None:
        seen.append(request.get())

    ref = await actor_system.spawn(Doer)
    await ref.ask(put("actor"))
    await ref.ask(calls(lambda actor: actor.context.start_soon(helper) and None))
    await settled()
    assert seen == ["actor"]


@virtual
async def test_actors_of_two_systems_may_ask_each_other() -> None:
    async with small_system(name="one") as one, open_system(name="two") as two:
        there = await two.spawn(Doer, name="there")
        here = await one.spawn(Doer, name="here")

        async def asks(_: Doer) -> object:
            return await there.ask(calls(lambda actor: (actor.context.system.name, actor.context.sender)))

        assert await here.ask(Do(asks)) == ("two", here)


async def test_components_below_an_actor_end_with_its_life(actor_system: System) -> None:
    ended: list[str] = []

    async def serve(component: ServiceContext) -> None:
        try:
            await component.stopping.wait()
            await trio.lowlevel.checkpoint()
            ended.append(f"{component.path} told to stop")
        except trio.Cancelled:
            ended.append(f"{component.path} cancelled")
            raise

    def hangs(actor: Doer) -> None:
        component = actor.context.service.component("cache")
        component.group.spawn_service(serve, component)

    ref = await supervised(actor_system, Doer)
    await ref.ask(calls(hangs))
    await settled()
    await crash(ref)
    await settled()
    assert [text.split("/")[-1] for text in ended] == ["cache cancelled"]
    await ref.ask(calls(hangs))
    await settled()
    await ref.stop()
    assert [text.split("/")[-1] for text in ended] == ["cache cancelled", "cache told to stop"]
    context = cell_of(ref).context
    with pytest.raises(ActorStopped):
        _ = context.service
