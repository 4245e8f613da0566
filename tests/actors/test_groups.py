"""Guarantees: groups, routers and pools while their members come and go."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import Backoff, Group, Mailbox, NoMembers, Ref, System, Topic, one_for_one

from ._systems import Ask, AskSlowly, Break, Doer, DoNow, Note, Recorder, Said, busy, outcome_of, supervised


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


async def members(system: System, count: int, **options: Any) -> tuple[Group[Said], list[Ref[Said]], list[list[int]]]:
    """A group of recorders."""
    group: Group[Said] = Group("workers")
    logs: list[list[int]] = [[] for _ in range(count)]
    refs: list[Ref[Said]] = [await system.spawn(Recorder, log, **options) for log in logs]
    for ref in refs:
        group.join(ref)
    return group, refs, logs


async def test_a_group_keeps_its_members_in_the_order_in_which_they_joined(system: System) -> None:
    group, refs, _ = await members(system, 4)
    group.join(refs[0])  # twice is once
    assert group.members == tuple(refs)
    assert group.leave(refs[1])
    assert not group.leave(refs[1])
    group.join(refs[1])
    assert group.members == (refs[0], refs[2], refs[3], refs[1])


@pytest.mark.parametrize("mode", ["stop", "drain", "kill"])
async def test_a_member_leaves_as_soon_as_it_is_told_to_end(system: System, mode: str) -> None:
    group, refs, _ = await members(system, 2)
    other: Group[Said] = Group("others")
    other.join(refs[0])
    release = await busy(refs[0])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(getattr(refs[0], mode))
        await wait_all_tasks_blocked()
        assert group.members == (refs[1],)
        assert other.members == ()
        release.set()
    group.join(refs[0])  # it has ended
    assert group.members == (refs[1],)


async def test_a_member_that_fails_for_good_leaves(system: System) -> None:
    group: Group[Said] = Group("workers")
    ref = await supervised(system, Recorder, [], restart="temporary")
    group.join(ref)
    await outcome_of(ref.ask, Break())
    await ref.wait_stopped()
    assert group.members == ()


async def test_a_member_stays_over_a_restart(system: System) -> None:
    group: Group[Said] = Group("workers")
    ref = await supervised(system, Recorder, [])
    group.join(ref)
    await outcome_of(ref.ask, Break())
    await wait_all_tasks_blocked()
    assert ref.generation == 2
    assert group.members == (ref,)


async def test_a_member_that_stops_itself_and_is_started_again_stays(system: System) -> None:
    group: Group[Any] = Group("doers")
    ref = await supervised(system, Doer, backoff=Backoff(1))
    other = await system.spawn(Doer)
    topic: Topic[Any] = Topic("work")
    for member in (ref, other):
        group.join(member)
        topic.subscribe(member)
    router = group.round_robin()
    await ref.ask(DoNow(lambda actor: actor.context.stop()))
    group.join(ref)
    assert group.members == (ref, other)
    assert [router.pick(None) for _ in range(4)] == [other] * 4
    assert group.broadcast(DoNow(lambda _: None)) == topic.publish(DoNow(lambda _: None)) == 1
    await trio.sleep(2)
    assert ref.generation == 2
    assert {router.pick(None) for _ in range(2)} == {ref, other}
    assert group.broadcast(DoNow(lambda _: None)) == topic.publish(DoNow(lambda _: None)) == 2


async def test_broadcast_tells_every_member_and_counts_those_that_accept(system: System) -> None:
    group, refs, logs = await members(system, 3, mailbox=Mailbox(limit=1))
    releases = [await busy(ref) for ref in refs]
    refs[1].tell(Note(0))
    assert group.broadcast(Note(1)) == 2
    for release in releases:
        release.set()
    await wait_all_tasks_blocked()
    assert logs == [[1], [0], [1]]


@pytest.mark.parametrize("policy", ["wait", "reject", "drop_newest", "drop_oldest"])
async def test_a_message_that_the_mailbox_drops_at_once_is_not_accepted(system: System, policy: Any) -> None:
    group, refs, _ = await members(system, 1, mailbox=Mailbox(limit=1, policy=policy))
    release = await busy(refs[0])
    assert group.broadcast(Note(1)) == 1
    assert group.broadcast(Note(2)) == (1 if policy == "drop_oldest" else 0)
    release.set()


async def test_round_robin_takes_each_member_in_turn(system: System) -> None:
    group, refs, logs = await members(system, 3)
    router = group.round_robin()
    for n in range(6):
        router.tell(Note(n))
    await router.send(Note(6))
    assert await router.ask(Ask(7)) == 7
    await wait_all_tasks_blocked()
    assert logs == [[0, 3, 6], [1, 4, 7], [2, 5]]
    await refs[0].stop()
    assert {router.pick(None) for _ in range(2)} == {refs[1], refs[2]}


async def test_least_loaded_takes_the_member_with_the_fewest_messages(system: System) -> None:
    group, refs, _ = await members(system, 3)
    router = group.least_loaded()
    release = await busy(refs[0])  # one in hand
    refs[1].tell(AskSlowly(1))
    refs[1].tell(Note(2))
    assert router.pick(None) is refs[2]
    refs[2].tell(Note(1))
    refs[2].tell(Note(2))
    assert router.pick(None) is refs[0]
    release.set()
    await trio.sleep(2)
    assert {router.pick(None) for _ in range(3)} == set(refs)  # equally loaded: each in turn


async def test_least_loaded_prefers_members_that_are_running(system: System) -> None:
    group, (running,), _ = await members(system, 1)
    waiting = await supervised(system, Recorder, [], backoff=Backoff(10))
    group.join(waiting)
    await outcome_of(waiting.ask, Break())
    await wait_all_tasks_blocked()
    router = group.least_loaded()
    assert [router.pick(None) for _ in range(4)] == [running] * 4


async def test_hash_by_sends_a_key_to_the_same_member_as_long_as_it_is_one(system: System) -> None:
    group, refs, _ = await members(system, 4)
    router = group.hash_by(lambda msg: msg.n)  # type: ignore[union-attr]
    before = {n: router.pick(Note(n)) for n in range(100)}
    assert len(set(before.values())) == 4
    assert {n: router.pick(Ask(n)) for n in range(100)} == before
    await refs[2].stop()
    after = {n: router.pick(Note(n)) for n in range(100)}
    assert {n: ref for n, ref in before.items() if ref is not refs[2]} == {
        n: ref for n, ref in after.items() if before[n] is not refs[2]
    }


async def test_at_random_gives_each_member_the_same_chance(system: System) -> None:
    group, refs, _ = await members(system, 4)
    router = group.at_random(random.Random(1))
    picked = Counter(router.pick(None) for _ in range(400))
    assert set(picked) == set(refs)
    assert min(picked.values()) > 70


async def test_a_router_over_nobody_raises_no_members(system: System) -> None:
    group: Group[Said] = Group("workers")
    for router in (
        group.round_robin(),
        group.least_loaded(),
        group.hash_by(lambda _: 1),
        group.at_random(random.Random(1)),
    ):
        for call in (router.send, router.ask):
            error = await outcome_of(call, Ask(1))
            assert isinstance(error, NoMembers)
            assert error.name == "workers"
        with pytest.raises(NoMembers):
            router.tell(Note(1))
    assert group.broadcast(Note(1)) == 0


async def test_a_router_loses_nothing_while_members_end(system: System) -> None:
    group, refs, logs = await members(system, 4)
    router = group.round_robin()

    async def end() -> None:
        for ref in refs[:-1]:
            await trio.sleep(1)
            await ref.drain()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end)
        for n in range(400):
            router.tell(Note(n))
            await trio.sleep(0.01)
    await wait_all_tasks_blocked()
    assert sorted(n for log in logs for n in log) == list(range(400))
    assert system.dead_letters.count == 0


async def test_a_pool_routes_over_members_that_it_restarts(system: System) -> None:
    log: list[int] = []
    pool = await system.pool(Recorder, log, size=3, name="pool", strategy=one_for_one(max_restarts=10))
    assert [ref.path for ref in pool.members] == ["/pool/1", "/pool/2", "/pool/3"]
    for n in range(3):
        assert await outcome_of(pool.ask, Break(n))
    await wait_all_tasks_blocked()
    assert len(pool.members) == 3
    assert pool.broadcast(Note(9)) == 3
    await pool.send(Note(10))
    pool.tell(Note(11))
    assert await pool.ask(Ask(12)) == 12
    await wait_all_tasks_blocked()
    assert sorted(log) == [0, 1, 2, 9, 9, 9, 10, 11, 12]
    await pool.stop()
    with pytest.raises(NoMembers):
        pool.tell(Note(1))
