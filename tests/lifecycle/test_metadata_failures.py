"""The metadata writer: what a failed write means, and how a fence is cleared."""

from __future__ import annotations

import errno
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from actors.testing import FailingFiles, eventually
from lifecycle import (
    CommitOutcomeUnknown,
    Durable,
    EnvelopeCorrupt,
    EnvelopeUnreadable,
    FailedBeforeCommit,
    FenceStands,
    FileStore,
    FormatTooNew,
    LoadedMetadata,
    LocalFiles,
    MetadataCommitUnknown,
    MetadataFenced,
    MetadataWrite,
    MetadataWriteFailed,
    PersistFailed,
    Settled,
    read_envelope,
)

from ._metadata import (
    SteppedFiles,
    Store,
    accepted,
    commit_unknown,
    disk_full,
    names_in,
    running,
    target,
    write,
    writer,
)


@pytest.mark.row("runtime:R115")
@pytest.mark.parametrize(
    ("operation", "code", "step"),
    [
        ("write", errno.EIO, "write_temporary"),
        ("rename", errno.EACCES, "replace_target"),
        ("write", errno.ENOSPC, "write_temporary"),
        ("sync", errno.EIO, "sync_temporary"),
    ],
    ids=["write", "rename", "disk full", "sync"],
)
async def test_a_write_that_fails_before_its_commit_is_not_durable(
    tmp_path: Path, operation: Any, code: int, step: str
) -> None:
    layer = FailingFiles(at=1, errno=code, only={operation})
    one = writer(FileStore(layer))
    path = tmp_path / "state"
    async with running(one):
        receipt = accepted(one.submit(MetadataWrite("state", 1, path, b"secret")))
        with pytest.raises(MetadataWriteFailed) as failed:
            await receipt.durable()
        assert (failed.value.resource, failed.value.generation, failed.value.step) == ("state", 1, step)
        cause = failed.value.__cause__
        assert isinstance(cause, PersistFailed)
        assert isinstance(cause.__cause__, OSError)
        assert cause.__cause__.errno == code
        assert "secret" not in str(failed.value)
        assert receipt.outcome == FailedBeforeCommit(1, step)
        assert one.confirmed("state") is None
        snapshot = one.snapshot()
        assert (snapshot.pending_operations, snapshot.pending_bytes, snapshot.failed) == (0, 0, 1)
        # Nothing is remembered of it: the resource may have another target now, and the disk can be mended.
        assert snapshot.resources == ()
        assert one.targets.stats().retained == 0
        again = accepted(one.submit(MetadataWrite("state", 1, tmp_path / "elsewhere", b"other")))
        assert await again.durable() == 1
    assert names_in(tmp_path) == ["elsewhere"]


@pytest.mark.row("runtime:R115")
async def test_a_directory_that_cannot_be_synced_leaves_the_commit_unknown_and_fences_the_resource(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state"
    layer = SteppedFiles()
    one = writer(FileStore(layer))
    async with running(one):
        assert await accepted(one.submit(MetadataWrite("state", 1, path, b"one"))).durable() == 1
        layer.broken.add("sync_directory")
        receipt = accepted(one.submit(MetadataWrite("state", 2, path, b"two")))
        with pytest.raises(MetadataCommitUnknown) as unknown:
            await receipt.durable()
        assert (unknown.value.generation, unknown.value.step) == (2, "sync_parent")
        assert isinstance(unknown.value.__cause__, PersistFailed)
        assert receipt.outcome == CommitOutcomeUnknown(2, "sync_parent")
        assert one.confirmed("state") == 1
        assert one.snapshot().resources[0].fenced == 2
        for generation in (2, 3):
            with pytest.raises(MetadataFenced) as fenced:
                one.submit(MetadataWrite("state", generation, path, b"three"))
            assert fenced.value.generation == 2
        with pytest.raises(MetadataFenced):
            one.submit_next("state", path, b"three")
        # What is known goes on to be answered, and other resources are not concerned.
        layer.broken.clear()
        assert accepted(one.submit(MetadataWrite("state", 1, path, b"one"))).outcome == Durable(1)
        assert await accepted(one.submit(MetadataWrite("other", 1, tmp_path / "other", b""))).durable() == 1
        # The fence goes with a re-read after a sync that worked, and with nothing less.
        layer.broken.add("sync_directory")
        with pytest.raises(EnvelopeUnreadable):
            await one.clear_fence("state")
        with pytest.raises(MetadataFenced):
            one.submit(MetadataWrite("state", 3, path, b"three"))
        layer.broken.clear()
        assert await one.clear_fence("state") == 2
        assert (one.confirmed("state"), one.snapshot().resources[1].fenced) == (2, None)
        assert await accepted(one.submit(MetadataWrite("state", 3, path, b"three"))).durable() == 3
        assert receipt.outcome == CommitOutcomeUnknown(2, "sync_parent")
    assert read_envelope(LocalFiles(), path) == (3, b"three")


async def fenced_writer(store: Store, nursery: trio.Nursery, durable: bool = True) -> Any:
    """A writer whose resource `a` is durable at 1, if at all, and of which nobody knows whether 2 was committed."""
    one = writer(store)
    nursery.start_soon(one.run)
    store.failures[("a", 2)] = commit_unknown
    if durable:
        await accepted(one.submit(write("a", 1))).durable()
    assert (await accepted(one.submit(write("a", 2))).observe()).requires_reconciliation
    return one


async def test_a_reread_that_finds_the_old_content_clears_the_fence_at_the_old_generation() -> None:
    async with trio.open_nursery() as nursery:
        store = Store()
        one = await fenced_writer(store, nursery)
        assert await one.clear_fence("a") == 1
        assert one.confirmed("a") == 1
        del store.failures[("a", 2)]
        assert await accepted(one.submit(write("a", 2, b"another two"))).durable() == 2
        one.stop_admission()


async def test_a_reread_that_finds_no_file_where_none_was_clears_the_fence() -> None:
    async with trio.open_nursery() as nursery:
        store = Store()
        one = await fenced_writer(store, nursery, durable=False)
        assert one.snapshot().resources[0].fenced == 2
        assert await one.clear_fence("a") is None
        assert one.snapshot().resources == ()
        one.stop_admission()


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "missing"),
        (LoadedMetadata(2, b"not what was written"), "unexpected"),
        (LoadedMetadata(7, b"a 2"), "unexpected"),
        (LoadedMetadata(1, b"not what was written"), "unexpected"),
        (EnvelopeCorrupt(target("a"), "planted"), "corrupt"),
    ],
)
async def test_a_reread_that_settles_nothing_leaves_the_fence(found: Any, why: str) -> None:
    async with trio.open_nursery() as nursery:
        store = Store()
        one = await fenced_writer(store, nursery)
        if isinstance(found, Exception):
            store.damaged = found
        elif found is None:
            store.files.clear()
        else:
            store.files[target("a")] = found
        with pytest.raises(FenceStands) as stands:
            await one.clear_fence("a")
        assert stands.value.why == why
        assert stands.value.found == (found.generation if isinstance(found, LoadedMetadata) else None)
        with pytest.raises(MetadataFenced):
            one.submit(write("a", 3))
        store.damaged = None
        store.files[target("a")] = LoadedMetadata(2, b"a 2")
        assert await one.clear_fence("a") == 2
        one.stop_admission()


async def test_a_reread_that_fails_otherwise_says_so_and_leaves_the_fence() -> None:
    async with trio.open_nursery() as nursery:
        store = Store()
        one = await fenced_writer(store, nursery)
        store.damaged = FormatTooNew("file", 2, 1)
        with pytest.raises(FormatTooNew):
            await one.clear_fence("a")
        with pytest.raises(MetadataFenced):
            one.submit(write("a", 3))
        one.stop_admission()


async def test_clearing_no_fence_changes_nothing() -> None:
    store = Store()
    one = writer(store)
    async with running(one):
        assert await one.clear_fence("a") is None
        await accepted(one.submit(write("a", 1))).durable()
        assert await one.clear_fence("a") == 1
    assert store.reads == 0


async def test_what_was_queued_before_the_fence_is_written_and_clears_it() -> None:
    store = Store()
    store.hold("a")
    store.failures[("a", 1)] = commit_unknown
    one = writer(store)
    async with running(one):
        first = accepted(one.submit(write("a", 1)))
        await store.until_begun("a", 1)
        second = accepted(one.submit(write("a", 2)))
        seen: list[Any] = []
        first.notify(lambda outcome: seen.append((outcome, one.snapshot().resources[0].fenced, second.outcome)))
        store.let_go()
        assert await second.durable() == 2
        assert seen == [(CommitOutcomeUnknown(1, "sync_parent"), 1, None)]
        assert first.outcome == CommitOutcomeUnknown(1, "sync_parent")
        assert one.snapshot().resources[0].fenced is None
        assert await accepted(one.submit(write("a", 3))).durable() == 3


async def test_a_fence_with_work_behind_it_is_not_cleared_by_a_reread() -> None:
    store = Store()
    store.hold("a", "b")
    store.failures[("a", 1)] = commit_unknown
    store.failures[("a", 2)] = disk_full
    one = writer(store)
    async with running(one):
        accepted(one.submit(write("a", 1)))
        await store.until_begun("a", 1)
        second = accepted(one.submit(write("a", 2)))
        accepted(one.submit(write("b", 1)))
        store.let_go("a")
        await store.until_begun("b", 1)
        with pytest.raises(FenceStands) as stands:
            await one.clear_fence("a")
        assert stands.value.why == "work in progress"
        with pytest.raises(MetadataFenced):
            one.submit(write("a", 3))
        store.let_go("b")
        assert isinstance((await second.observe()).outcome, FailedBeforeCommit)
        # The later one failed for sure, and settles nothing.
        assert one.snapshot().resources[0].fenced == 1
        assert await one.clear_fence("a") is None


async def test_a_store_that_breaks_in_an_unforeseen_way_leaves_an_unknown_outcome_and_a_working_writer() -> None:
    store = Store()
    store.failures[("a", 1)] = lambda _: ZeroDivisionError("planted")
    store.failures[("b", 1)] = lambda _: KeyboardInterrupt("planted")
    one = writer(store)
    async with running(one):
        for name, kind in (("a", ZeroDivisionError), ("b", KeyboardInterrupt)):
            with pytest.raises(MetadataCommitUnknown) as unknown:
                await accepted(one.submit(write(name, 1))).durable()
            assert isinstance(unknown.value.__cause__, kind)
        assert (one.snapshot().pending_operations, one.snapshot().pending_bytes) == (0, 0)
        assert await accepted(one.submit(write("c", 1))).durable() == 1


async def test_a_lane_that_refuses_fails_the_write_before_it_began() -> None:
    class Busy(Exception):
        pass

    async def refuse(fn: Callable[..., Any], *args: Any) -> Any:
        await trio.lowlevel.checkpoint()
        raise Busy

    store = Store()
    one = writer(store, run_blocking=refuse)
    async with running(one):
        with pytest.raises(MetadataWriteFailed) as failed:
            await accepted(one.submit(write("a", 1))).durable()
        assert isinstance(failed.value.__cause__, Busy)
        assert failed.value.step == "never begun"
    assert store.begun == []


async def test_an_older_generation_does_not_fail_with_a_newer_one_while_another_write_may_help_it() -> None:
    store = Store()
    store.hold("a")
    store.failures[("a", 3)] = disk_full
    one = writer(store)
    async with running(one):
        third = accepted(one.submit(write("a", 3)))
        await store.until_begun("a", 3)
        second = accepted(one.submit(write("a", 2)))
        fourth = accepted(one.submit(write("a", 4)))
        store.let_go()
        assert await fourth.durable() == 4
        assert third.outcome == FailedBeforeCommit(3, "write_temporary")
        assert second.outcome == Durable(4)


async def test_an_older_generation_fails_with_a_newer_one_when_nothing_else_can_help_it() -> None:
    store = Store()
    store.hold("a")
    store.failures[("a", 3)] = disk_full
    one = writer(store)
    async with running(one):
        accepted(one.submit(write("a", 3)))
        await store.until_begun("a", 3)
        second = accepted(one.submit(write("a", 2)))
        store.let_go()
        assert (await second.observe()) == Settled(2, FailedBeforeCommit(3, "write_temporary"))
        assert not (await second.observe()).requires_reconciliation


async def test_a_disk_that_stays_broken_does_not_keep_the_receipts_of_a_hot_resource_open() -> None:
    store = Store()
    one = writer(store)
    receipts: list[Any] = []
    async with running(one):
        for round_ in range(1, 40, 2):
            for generation in (round_, round_ + 1):
                store.failures[("a", generation)] = disk_full
                receipts.append(accepted(one.submit(write("a", generation))))
            await trio.lowlevel.checkpoint()
        await eventually(lambda: one.snapshot().pending_operations == 0)
        assert all(isinstance(receipt.outcome, FailedBeforeCommit) for receipt in receipts)


async def test_content_is_not_kept_by_receipts_nor_by_their_errors() -> None:
    seen: list[Any] = []

    class Watched:
        """A local of a frame that the traceback of the failure holds."""

    class Layer:
        def write(self, target: Path, generation: int, data: bytes) -> None:
            watched = Watched()
            seen.append(weakref.ref(watched))
            raise disk_full(target)

    one = writer(Layer())
    async with running(one):
        receipt = accepted(one.submit(write("a", 1)))
        outcome = (await receipt.observe()).outcome
        assert outcome.cause.__traceback__ is not None
        gc.collect()
        assert seen[0]() is None
