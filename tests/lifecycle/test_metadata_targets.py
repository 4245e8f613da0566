"""The metadata writer: which resource may have which file, and how it is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from lifecycle import (
    Durable,
    FailedBeforeCommit,
    FileStore,
    LoadedMetadata,
    LocalFiles,
    MetadataClosed,
    MetadataFenced,
    MetadataReceipt,
    MetadataTargets,
    MetadataTargetsFull,
    MetadataTargetTaken,
    MetadataWrite,
    Settled,
    TargetConflict,
    read_envelope,
)

from ._metadata import (
    Store,
    accepted,
    at_once,
    commit_unknown,
    disk_full,
    running,
    target,
    write,
    writer,
)


@pytest.mark.row("runtime:R114")
async def test_another_target_for_a_resource_is_a_conflict_that_gives_the_request_back(tmp_path: Path) -> None:
    store = Store()
    store.hold("a")
    one = writer(store)
    async with running(one):
        accepted(one.submit(write("a", 1)))
        await store.until_begun("a", 1)
        request = write("a", 2, at=target("elsewhere"))
        answer = one.submit(request)
        assert isinstance(answer, TargetConflict)
        assert answer.request is request
        assert (answer.resource, answer.why) == ("a", "the resource has another target")
        request = write("b", 1, at=target("a"))
        answer = one.submit(request)
        assert isinstance(answer, TargetConflict)
        assert answer.request is request
        assert answer.why == "the target belongs to another resource"
        answer = one.submit_next("b", target("a"), b"data")
        assert isinstance(answer, TargetConflict)
        assert (answer.request.resource, answer.request.data) == ("b", b"data")
        assert one.snapshot().pending_operations == 1
        store.let_go()
        # Also when it is durable and nothing is pending.
        await accepted(one.submit(write("a", 1))).durable()
        assert isinstance(one.submit(write("a", 2, at=target("elsewhere"))), TargetConflict)


@pytest.mark.row("runtime:R114")
async def test_targets_are_bound_across_the_writers_of_a_registry() -> None:
    store = Store()
    store.hold("a")
    targets = MetadataTargets()
    one, other = writer(store, targets, name="one"), writer(store, targets, name="other")
    async with running(one, other):
        accepted(one.submit(write("a", 1)))
        await store.until_begun("a", 1)
        for request, why in (
            (write("a", 2), "another writer holds it"),
            (write("b", 1, at=target("a")), "the target belongs to another resource"),
            (write("a", 2, at=target("elsewhere")), "the resource has another target"),
        ):
            answer = other.submit(request)
            assert isinstance(answer, TargetConflict)
            assert answer.request is request
            assert answer.why == why
        assert other.snapshot().pending_operations == 0
        # A writer that is closed keeps its target as long as it works, and a successor goes on where it stopped.
        one.stop_admission()
        assert isinstance(other.submit(write("a", 2)), TargetConflict)
        store.let_go()
        await one.shutdown()
        assert accepted(other.submit(write("a", 1))).outcome == Durable(1)
        assert await accepted(other.submit(write("a", 2))).durable() == 2
        assert store.begun == [("a", 1), ("a", 2)]


async def test_two_names_of_one_file_are_one_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    one = writer(FileStore())
    async with running(one):
        await accepted(one.submit(MetadataWrite("a", 1, tmp_path / "link", b"one"))).durable()
        answer = one.submit(MetadataWrite("b", 1, tmp_path / "real", b"two"))
        assert isinstance(answer, TargetConflict)
        # And one resource may say it either way.
        assert await accepted(one.submit(MetadataWrite("a", 2, tmp_path / "real", b"two"))).durable() == 2
        assert await accepted(one.submit(MetadataWrite("a", 3, tmp_path / "x" / ".." / "real", b"3"))).durable() == 3
    assert (tmp_path / "link").is_symlink()
    assert read_envelope(LocalFiles(), tmp_path / "real").generation == 3


# -- retirement


@pytest.mark.row("runtime:R121")
async def test_a_resource_is_retired_only_when_closed_idle_unfenced_and_unchanged() -> None:
    store = Store()
    store.hold("a")
    targets = MetadataTargets()
    one, other = writer(store, targets, name="one"), writer(store, targets, name="other")
    async with running(one, other):
        assert one.retire("a") == "not_found"
        receipt = accepted(one.submit(write("a", 1)))
        assert one.retire("a") == "admission_open"
        await store.until_begun("a", 1)
        one.stop_admission()
        assert one.retire("a") == "work_in_progress"
        store.failures[("a", 1)] = commit_unknown
        store.let_go()
        await receipt.observe()
        assert one.retire("a") == "reconciliation_required"
        del store.failures[("a", 1)]
        store.files[target("a")] = LoadedMetadata(1, b"a 1")
        assert await one.clear_fence("a") == 1
        # A successor has taken it over: what the first one knew is no longer all.
        await accepted(other.submit(write("a", 2))).durable()
        assert one.retire("a") == "history_changed"
        assert other.retire("a") == "admission_open"
        other.stop_admission()
        assert (other.retire("a"), other.retire("a")) == ("retired", "not_found")
        assert one.retire("a") == "not_found"
        assert targets.confirmed("a") is None


@pytest.mark.row("runtime:R121")
async def test_a_registry_for_one_serves_many_identities_and_old_receipts_go_on_to_answer() -> None:
    store = Store()
    targets = MetadataTargets(capacity=1)
    receipts: list[MetadataReceipt] = []
    for n in range(1024):
        one = writer(store, targets, run_blocking=at_once)
        async with running(one):
            receipt = accepted(one.submit(write(f"r{n}", n + 1)))
            if n % 7 == 0:
                store.failures[(f"r{n}", n + 2)] = disk_full
                await receipt.durable()
                receipts.append(accepted(one.submit(write(f"r{n}", n + 2))))
                await receipts[-1].observe()
            receipts.append(receipt)
            with pytest.raises(MetadataTargetsFull) as full:
                one.submit(write("one more", 1))
            assert full.value.capacity == 1
            one.stop_admission()
            await one.shutdown()
            assert one.retire(f"r{n}") == "retired"
            assert targets.stats().retained == 0
    for receipt in receipts:
        failed = (receipt.resource, receipt.generation) in store.failures
        observed = await receipt.observe()
        assert isinstance(observed, Settled)
        if failed:
            assert observed.outcome == FailedBeforeCommit(receipt.generation, "write_temporary")
        else:
            assert observed.outcome == Durable(receipt.generation)
            assert await receipt.durable() == receipt.generation


async def test_a_writer_that_lives_on_can_close_and_retire_single_resources() -> None:
    store = Store()
    targets = MetadataTargets(capacity=1)
    one = writer(store, targets)
    async with running(one):
        assert not one.close_resource("a")
        for n in range(1, 6):
            await accepted(one.submit(write(f"r{n}", 1))).durable()
            assert one.close_resource(f"r{n}")
            with pytest.raises(MetadataClosed):
                one.submit(write(f"r{n}", 2))
            assert one.retire(f"r{n}") == "retired"
        assert one.snapshot().resources == ()
        # The name and the file are free for another identity, which begins at the beginning.
        assert await accepted(one.submit(write("another", 1, at=target("r1")))).durable() == 1


async def test_a_resource_that_is_closed_for_one_writer_can_be_taken_over_by_another() -> None:
    store = Store()
    targets = MetadataTargets()
    one, other = writer(store, targets, name="one"), writer(store, targets, name="other")
    async with running(one, other):
        await accepted(one.submit(write("a", 1))).durable()
        assert isinstance(other.submit(write("a", 2)), TargetConflict)
        one.close_resource("a")
        assert await accepted(other.submit(write("a", 2))).durable() == 2
        with pytest.raises(MetadataClosed):
            one.submit(write("a", 3))
        assert one.snapshot().resources == ()
        assert one.retire("a") == "history_changed"
        # It has let go of it for good, and meets the other one.
        assert isinstance(one.submit(write("a", 3)), TargetConflict)


async def test_a_successor_takes_a_fence_over_and_can_clear_it() -> None:
    store = Store()
    targets = MetadataTargets()
    store.failures[("a", 1)] = commit_unknown
    one, other = writer(store, targets, name="one"), writer(store, targets, name="other")
    async with running(one, other):
        await accepted(one.submit(write("a", 1))).observe()
        with pytest.raises(MetadataTargetTaken):
            await other.clear_fence("a")
        one.stop_admission()
        with pytest.raises(MetadataFenced):
            other.submit(write("a", 2))
        assert await other.clear_fence("a") is None
        assert await accepted(other.submit(write("a", 2))).durable() == 2
        assert one.retire("a") == "history_changed"


async def test_names_that_never_become_durable_do_not_pile_up() -> None:
    class Broken:
        def write(self, path: Path, generation: int, data: bytes) -> None:
            raise disk_full(path)

    targets = MetadataTargets(capacity=2)
    one = writer(Broken(), targets, run_blocking=at_once)
    async with running(one):
        for n in range(100):
            assert isinstance((await accepted(one.submit(write(f"r{n}", 1))).observe()).outcome, FailedBeforeCommit)
        assert targets.stats().retained == 0
        assert one.snapshot().resources == ()
        assert one._queue.known == {}


async def test_the_statistics_of_a_registry_tell_live_from_idle() -> None:
    store = Store()
    targets = MetadataTargets(capacity=5)
    one, other = writer(store, targets, name="one"), writer(store, targets, name="other")
    store.failures[("d", 1)] = commit_unknown
    async with running(one, other):
        for each, name in ((one, "a"), (one, "b"), (other, "c"), (other, "d")):
            await accepted(each.submit(write(name, 1))).observe()
        one.stop_admission()
        stats = targets.stats()
    assert (stats.capacity, stats.retained, stats.live, stats.idle) == (5, 4, 2, 2)
    assert (stats.fenced, stats.remaining) == (1, 1)
