"""Guarantees: names."""

from __future__ import annotations

from typing import Any

import pytest

from actors import (
    Child,
    Inbox,
    NameInvalid,
    NameTaken,
    NoSuchActor,
    Supervisor,
    System,
    WrongSpecimen,
    one_for_one,
)

from ._systems import Doer, Note, Recorder, cell_of
from ._trees import Member, calls, crash, deaf, settled, spawns, supervises


async def listener(inbox: Inbox[Note]) -> None:
    async for _ in inbox:
        pass


async def test_find_takes_a_path_and_a_specimen(actor_system: System) -> None:
    doer = await actor_system.spawn(Doer, name="doer")
    child = await doer.ask(spawns(listener, name="ear"))
    assert actor_system.find("/doer", Doer) is doer
    assert actor_system.find("/doer/ear", listener) is child
    assert actor_system.find("doer/ear", listener) is child
    assert await doer.ask(calls(lambda actor: actor.context.find("ear", listener))) is child
    assert await doer.ask(calls(lambda actor: actor.context.find("/doer", Doer))) is doer


async def test_a_base_class_is_a_specimen_too(actor_system: System) -> None:
    ref = await actor_system.spawn(Member, [], name="member")
    assert actor_system.find("/member", Doer) is ref


async def test_a_lookup_of_another_body_raises(actor_system: System) -> None:
    await actor_system.spawn(Doer, name="doer")
    find: Any = actor_system.find
    for specimen in (Recorder, Member, listener):
        with pytest.raises(WrongSpecimen) as raised:
            find("/doer", specimen)
        assert raised.value.path == "/doer"


async def test_a_lookup_of_nothing_raises(actor_system: System) -> None:
    ref = await actor_system.spawn(Doer, name="doer")
    for path in ("/nobody", "/doer/nobody", "/doer/x/y", "", "/"):
        with pytest.raises(NoSuchActor):
            actor_system.find(path, Doer)
    await ref.stop()
    with pytest.raises(NoSuchActor):
        actor_system.find("/doer", Doer)


async def test_a_name_is_taken_once_below_a_parent(actor_system: System) -> None:
    doer = await actor_system.spawn(Doer, name="x")
    with pytest.raises(NameTaken) as raised:
        await actor_system.spawn(Doer, name="x")
    assert (raised.value.name, raised.value.parent) == ("x", "/")
    assert (await doer.ask(spawns(Doer, name="x"))).path == "/x/x"
    with pytest.raises(NameTaken):
        await actor_system.supervise(one_for_one(), Child(Doer), name="x")


async def test_a_name_is_free_when_its_actor_has_ended(actor_system: System) -> None:
    for _ in range(3):
        ref = await actor_system.spawn(Doer, name="x")
        ref.tell(deaf(1))
        await settled()
        cell_of(ref).end("kill")
        with pytest.raises(NameTaken):
            await actor_system.spawn(Doer, name="x")  # it has not ended yet
        await ref.wait_stopped()


async def test_names_without_a_wish_are_never_used_again(actor_system: System) -> None:
    names: list[str] = []
    for _ in range(3):
        ref = await actor_system.spawn(Doer)
        names.append(ref.name)
        await ref.stop()
    assert names == ["Doer-1", "Doer-2", "Doer-3"]
    await actor_system.spawn(Doer, name="Doer-4")
    assert (await actor_system.spawn(Doer)).name == "Doer-5"
    assert (await actor_system.spawn(lambda: Doer())).name == "actor-6"


@pytest.mark.parametrize("name", ["", " ", "a/b", "/", "x" * 201, "a\nb", "\x00", 7])
async def test_a_name_that_cannot_be_one_is_refused(actor_system: System, name: Any) -> None:
    with pytest.raises(NameInvalid):
        await actor_system.spawn(Doer, name=name)
    with pytest.raises(NameInvalid):
        Child(Doer, name=name)
    with pytest.raises(NameInvalid):
        await actor_system.supervise(one_for_one(), Child(Doer), name=name)
    assert actor_system.dump().actors == ()


async def test_a_supervisor_without_a_name_adds_no_level(actor_system: System) -> None:
    supervision = await actor_system.supervise(one_for_one(), Child(Doer, name="till"))
    till = supervision.child("till", Doer)
    assert till.path == "/till"
    assert actor_system.find("/till", Doer) is till
    with pytest.raises(NameTaken):
        await actor_system.spawn(Doer, name="till")
    nested = Child(Supervisor, one_for_one(), Child(Doer, name="deep"))
    await till.ask(supervises(one_for_one(), nested))
    assert actor_system.find("/till/deep", Doer).path == "/till/deep"
    await supervision.stop()
    await actor_system.spawn(Doer, name="till")


async def test_a_supervisor_with_a_name_is_a_level(actor_system: System) -> None:
    supervision = await actor_system.supervise(one_for_one(), Child(Doer, name="till"), name="shop")
    assert supervision.child("till", Doer).path == "/shop/till"
    assert actor_system.find("/shop/till", Doer).alive
    await actor_system.spawn(Doer, name="till")


async def test_a_restart_keeps_the_name(actor_system: System) -> None:
    supervision = await actor_system.supervise(one_for_one(), Child(Doer))
    (ref,) = supervision.children()
    path = ref.path
    await crash(actor_system.find(path, Doer))
    assert actor_system.find(path, Doer) is ref
    assert cell_of(ref).generation == 2
