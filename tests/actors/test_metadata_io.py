"""`MetadataIo`: the metadata writer under a supervisor."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors import ActorCrashed, Backoff, Child, Ref, System, one_for_one, open_system
from actors.metadata_io import AwaitDurable, GetSnapshot, MetadataIo, Submit, SubmitNext
from actors.testing import FaultPlan, eventually
from lifecycle import (
    CommitOutcomeUnknown,
    Durable,
    FailedBeforeCommit,
    FileStore,
    LocalFiles,
    MetadataClosed,
    MetadataCommitUnknown,
    MetadataQueueFull,
    MetadataReceipt,
    MetadataTargets,
    MetadataWaitersFull,
    MetadataWrite,
    MetadataWriteFailed,
    MetadataWriter,
    TargetConflict,
    read_envelope,
)
from tests.lifecycle._metadata import Store, accepted, commit_unknown, disk_full, target, write, writer

from ._systems import outcome_of


async def supervised(system: System, one: MetadataWriter, body: Any = MetadataIo, **strategy: Any) -> Ref[Any]:
    supervision = await system.supervise(one_for_one(**strategy), Child(body, one, name="metadata"))
    return supervision.child("metadata", MetadataIo)


async def submit(ref: Ref[Any], *args: Any, **options: Any) -> MetadataReceipt:
    return accepted(await ref.ask(Submit(write(*args, **options))))


async def test_a_content_is_accepted_and_later_durable(actor_system: System, tmp_path: Path) -> None:
    one = MetadataWriter("metadata", MetadataTargets(), store=FileStore())
    ref = await supervised(actor_system, one)
    path = tmp_path / "state"
    receipt = accepted(await ref.ask(Submit(MetadataWrite("state", 1, path, b"one"))))
    assert await ref.ask(AwaitDurable(receipt)) == 1
    assert read_envelope(LocalFiles(), path) == (1, b"one")
    receipt = accepted(await ref.ask(SubmitNext("state", path, b"two")))
    assert await receipt.durable() == await ref.ask(AwaitDurable(receipt)) == receipt.generation > 1
    answer = await ref.ask(SubmitNext("other", path, b""))
    assert isinstance(answer, TargetConflict)
    snapshot = await ref.ask(GetSnapshot())
    assert [(view.resource, view.durable) for view in snapshot.resources] == [("state", receipt.generation)]


async def test_accepted_is_not_durable_and_a_wait_does_not_keep_the_actor() -> None:
    store = Store()
    store.hold("a")
    async with open_system() as system:
        ref = await supervised(system, writer(store))
        receipt = await submit(ref, "a", 1)
        await store.until_begun("a", 1)
        answers: list[int] = []

        async def wait() -> None:
            answers.append(await ref.ask(AwaitDurable(receipt)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            assert (await ref.ask(GetSnapshot())).waiters == 1
            assert (await submit(ref, "a", 2)).outcome is None
            assert answers == []
            store.let_go()
        assert answers == [1]


async def test_a_refusal_is_answered_and_crashes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    store.hold("a")
    async with open_system() as system:
        ref = await supervised(system, writer(store, max_operations=1, max_waiters=1))
        receipt = await submit(ref, "a", 1)
        await store.until_begun("a", 1)
        for request in (Submit(write("b", 1)), SubmitNext("b", target("b"), b"")):
            with pytest.raises(MetadataQueueFull):
                await ref.ask(request)
        with caplog.at_level(logging.WARNING):
            ref.tell(Submit(write("b", 1, b"secret")))
            await wait_all_tasks_blocked()
        (record,) = caplog.records
        assert "refused b" in record.message
        assert "secret" not in record.message
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.ask, AwaitDurable(receipt))
            await wait_all_tasks_blocked()
            with pytest.raises(MetadataWaitersFull):
                await ref.ask(AwaitDurable(receipt))
            nursery.cancel_scope.cancel()
        # The place of an asker that has gone is given to the next one.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.ask, AwaitDurable(receipt))
            await wait_all_tasks_blocked()
            store.let_go()
        assert ref.generation == 1
        assert (await ref.ask(GetSnapshot())).waiters == 0


async def test_a_failure_is_the_answer_of_the_wait(actor_system: System) -> None:
    store = Store()
    store.failures = {("a", 1): disk_full, ("b", 1): commit_unknown}
    ref = await supervised(actor_system, writer(store))
    for name, error, cause in (("a", MetadataWriteFailed, "no"), ("b", MetadataCommitUnknown, "unknown")):
        receipt = await submit(ref, name, 1)
        with pytest.raises(error) as failed:
            await ref.ask(AwaitDurable(receipt))
        assert failed.value.__cause__.committed == cause
        with pytest.raises(error):  # it is settled now
            await ref.ask(AwaitDurable(receipt))
    assert ref.generation == 1


async def test_waits_whose_askers_have_gone_do_not_pile_up() -> None:
    store = Store()
    store.hold("a")
    async with open_system() as system:
        one = writer(store)
        ref = await supervised(system, one)
        receipt = await submit(ref, "a", 1)
        for _ in range(500):
            with trio.move_on_after(0):
                await ref.send(AwaitDurable(receipt))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ref.ask, AwaitDurable(receipt))
                await wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        assert one.snapshot().waiters <= 128
        store.let_go()


# -- restarts


async def test_a_crash_loses_nothing_that_was_accepted(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    store.hold("a")
    plan = FaultPlan(1, crash=1.0, only=(GetSnapshot,), limit=1)
    one = writer(store)
    async with open_system() as system:
        ref = await supervised(system, one, plan.wrap(MetadataIo))
        receipts = [await submit(ref, name, 1) for name in "abc"]
        await store.until_begun("a", 1)
        receipts += [await submit(ref, "a", 2), await submit(ref, "a", 3)]
        answers: list[Any] = []

        async def wait(receipt: MetadataReceipt) -> None:
            answers.append(await outcome_of(ref.ask, AwaitDurable(receipt)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, receipts[0])
            await wait_all_tasks_blocked()
            assert isinstance(await outcome_of(ref.ask, GetSnapshot()), ActorCrashed)
            await eventually(lambda: ref.generation == 2)
        # Who waited through the actor is told of the crash; the receipts are open, and no place is lost.
        (told,) = answers
        assert isinstance(told, Exception)
        assert [receipt.outcome for receipt in receipts] == [None] * 5
        snapshot = await ref.ask(GetSnapshot())
        assert (snapshot.accepting, snapshot.pending_operations, snapshot.waiters) == (True, 4, 0)
        # The thread of the first life goes on, and no second one begins beside it.
        await wait_all_tasks_blocked()
        assert store.begun == [("a", 1)]
        receipts.append(await submit(ref, "d", 1))
        store.let_go()
        assert [await ref.ask(AwaitDurable(receipt)) for receipt in receipts] == [1, 1, 1, 3, 3, 1]
    assert sorted(store.begun) == [("a", 1), ("a", 3), ("b", 1), ("c", 1), ("d", 1)]
    assert store.most_of_one == 1
    assert system.report is not None
    assert system.report.is_healthy()


async def test_a_write_that_ends_between_two_lives_is_settled_as_it_ended() -> None:
    store = Store()
    store.hold("a", "b")
    store.failures[("b", 1)] = commit_unknown
    plan = FaultPlan(1, crash=1.0, only=(GetSnapshot,), limit=1)
    one = writer(store, max_concurrent_writes=2)
    async with open_system() as system:
        ref = await supervised(system, one, plan.wrap(MetadataIo), backoff=Backoff(0.5, jitter=0))
        receipts = [await submit(ref, name, 1) for name in "ab"]
        await eventually(lambda: len(store.begun) == 2)
        assert isinstance(await outcome_of(ref.ask, GetSnapshot()), ActorCrashed)
        store.let_go()
        await eventually(lambda: all(receipt.outcome is not None for receipt in receipts))
        assert ref.generation == 1  # nobody runs it yet
        assert receipts[0].outcome == Durable(1)
        assert receipts[1].outcome == CommitOutcomeUnknown(1, "sync_parent")
        await eventually(lambda: ref.generation == 2)
        assert await one.clear_fence("b") is None
        assert await ref.ask(AwaitDurable(await submit(ref, "c", 1))) == 1


async def test_a_writer_that_breaks_is_a_crash_of_its_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    one = writer(store)
    take, calls = one._queue.take, 0

    def broken() -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise ZeroDivisionError("planted")
        return take()

    monkeypatch.setattr(one._queue, "take", broken)
    async with open_system() as system:
        ref = await supervised(system, one)
        await wait_all_tasks_blocked()
        receipt = await submit(ref, "a", 1)
        await eventually(lambda: ref.generation == 2)
        assert await receipt.durable() == 1


# -- the end


async def test_the_end_of_the_system_writes_what_was_accepted() -> None:
    store = Store()
    store.hold("a")
    one = writer(store)
    async with open_system() as system:
        ref = await supervised(system, one)
        receipts = [await submit(ref, name, 1) for name in "ab"]
        await store.until_begun("a", 1)
        receipts.append(await submit(ref, "a", 2))
        system.stop()
        await wait_all_tasks_blocked()
        with pytest.raises(MetadataClosed):
            one.submit(write("c", 1))
        store.let_go()
    assert [receipt.outcome for receipt in receipts] == [Durable(1), Durable(1), Durable(2)]
    assert store.begun == [("a", 1), ("b", 1), ("a", 2)]
    assert system.report is not None
    assert system.report.is_healthy()


async def test_what_is_not_written_by_the_deadline_is_said(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    store.hold("a")
    one = writer(store)
    async with open_system(shutdown_within=0.3) as system:
        ref = await supervised(system, one)
        receipts = [await submit(ref, name, 1) for name in "ab"]
        await store.until_begun("a", 1)
    assert [receipt.outcome for receipt in receipts] == [None, FailedBeforeCommit(1, "never begun")]
    (record,) = [record for record in caplog.records if record.name == "tenure.actors.metadata_io"]
    assert "1 writes had not begun and failed, 1 still run and are open" in record.message
    assert one.snapshot().pending_operations == 1
    store.let_go()
    assert await receipts[0].durable() == 1
