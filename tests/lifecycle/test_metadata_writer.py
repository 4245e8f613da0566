"""The metadata writer: accepted and durable, coalescing, bounds, turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from actors.testing import eventually
from lifecycle import (
    Budget,
    BudgetClosed,
    BudgetExhausted,
    Durable,
    FileStore,
    LoadedMetadata,
    LocalFiles,
    MetadataBytesExceeded,
    MetadataQueueFull,
    MetadataTargets,
    MetadataWaitersFull,
    MetadataWrite,
    MetadataWriteFailed,
    Reserve,
    read_envelope,
)

from ._metadata import (
    SteppedFiles,
    Store,
    accepted,
    disk_full,
    names_in,
    running,
    target,
    write,
    writer,
)

# -- accepted and durable


@pytest.mark.row("runtime:R108")
async def test_a_receipt_is_given_before_the_file_changes_and_is_durable_after_the_directory_was_synced(
    tmp_path: Path,
) -> None:
    layer = SteppedFiles()
    one = writer(FileStore(layer))
    path = tmp_path / "state"
    async with running(one):
        assert await accepted(one.submit(MetadataWrite("state", 1, path, b"old"))).durable() == 1
        layer.armed = True
        receipt = accepted(one.submit(MetadataWrite("state", 2, path, b"new")))
        assert receipt.outcome is None
        await eventually(lambda: layer.reached == ["rename"])
        assert read_envelope(LocalFiles(), path).data == b"old"
        assert (receipt.outcome, one.confirmed("state")) == (None, 1)
        layer.steps["rename"].set()
        await eventually(lambda: layer.reached == ["rename", "sync_directory"])
        assert read_envelope(LocalFiles(), path).data == b"new"
        assert (receipt.outcome, one.confirmed("state")) == (None, 1)
        layer.steps["sync_directory"].set()
        assert await receipt.durable() == 2
        assert (receipt.outcome, one.confirmed("state")) == (Durable(2), 2)
        assert names_in(tmp_path) == ["state"]


async def test_submit_does_not_wait_and_needs_no_running_writer() -> None:
    store = Store()
    one = writer(store)
    receipts = [accepted(one.submit(write("a", n))) for n in range(1, 4)]
    assert [receipt.outcome for receipt in receipts] == [None] * 3
    assert store.begun == []
    async with running(one):
        assert [await receipt.durable() for receipt in receipts] == [3, 3, 3]
    assert store.begun == [("a", 3)]


@pytest.mark.row("runtime:R109")
async def test_queued_generations_coalesce_and_all_who_wait_are_served() -> None:
    store = Store()
    store.hold("a")
    one = writer(store)
    async with running(one):
        first = accepted(one.submit(write("a", 1)))
        await store.until_begun("a", 1)
        second = accepted(one.submit(write("a", 2)))
        third = accepted(one.submit(write("a", 3)))
        assert (one.snapshot().pending_operations, one.snapshot().coalesced) == (2, 1)
        answers: dict[str, int] = {}

        async def wait(name: str, receipt: Any) -> None:
            answers[name] = await receipt.durable()

        async with trio.open_nursery() as nursery:
            for name, receipt in {"first": first, "second": second, "third": third}.items():
                nursery.start_soon(wait, name, receipt)
            await wait_all_tasks_blocked()
            assert answers == {}
            store.let_go("a")
        assert answers == {"first": 1, "second": 3, "third": 3}
        assert store.begun == [("a", 1), ("a", 3)]
        late = accepted(one.submit(write("a", 2, b"anything")))
        assert late.outcome == Durable(3)
        assert await late.durable() == 3
    assert store.begun == [("a", 1), ("a", 3)]


@pytest.mark.row("runtime:R110")
async def test_an_older_generation_does_not_overwrite_a_newer_one_in_flight() -> None:
    store = Store()
    store.hold("a")
    one = writer(store)
    async with running(one):
        accepted(one.submit(write("a", 3)))
        await store.until_begun("a", 3)
        older = accepted(one.submit(write("a", 2)))
        assert one.snapshot().pending_operations == 1
        store.let_go("a")
        assert await older.durable() == 3
    assert store.begun == [("a", 3)]
    assert store.content("a") == LoadedMetadata(3, b"a 3")


# -- bounds


@pytest.mark.row("runtime:R111")
async def test_operations_and_bytes_are_bounded_apart_and_a_replacement_never_finds_the_queue_full() -> None:
    store = Store()
    store.hold("a")
    one = writer(store, max_operations=2, max_bytes=10)
    async with running(one):
        accepted(one.submit(write("a", 1, b"1111")))
        await store.until_begun("a", 1)
        accepted(one.submit(write("a", 2, b"22")))
        # What is in flight counts too.
        with pytest.raises(MetadataQueueFull) as full:
            one.submit(write("b", 1, b""))
        assert full.value.limit == 2
        # A replacement takes no further operation, and its bytes count without those of the replaced one.
        accepted(one.submit(write("a", 3, b"333333")))
        assert (one.snapshot().pending_operations, one.snapshot().pending_bytes) == (2, 10)
        with pytest.raises(MetadataBytesExceeded) as bytes_:
            one.submit(write("a", 4, b"4444444"))
        assert (bytes_.value.requested, bytes_.value.limit) == (11, 10)
        snapshot = one.snapshot()
        assert (snapshot.pending_operations, snapshot.pending_bytes, snapshot.resources[0].queued) == (2, 10, 3)
        store.let_go("a")
        assert await accepted(one.submit(write("a", 3, b"333333"))).durable() == 3
        with pytest.raises(MetadataBytesExceeded):
            one.submit(write("b", 1, b"x" * 11))
        assert one.snapshot().pending_bytes == 0
        assert [view.resource for view in one.snapshot().resources] == ["a"]
    assert store.content("a") == LoadedMetadata(3, b"333333")


@pytest.mark.row("runtime:R111")
async def test_the_process_budget_is_charged_for_what_is_queued_and_for_what_is_in_flight() -> None:
    store = Store()
    store.hold("a")
    root = Budget.root("process", count=3, bytes=10)
    budget = root.child("metadata")
    targets = MetadataTargets()
    one, other = (writer(store, targets, name=name, budget=budget) for name in ("one", "other"))

    def charged() -> tuple[int, int]:
        held = root.snapshot()
        return held.current_count, held.current_bytes

    async with running(one, other):
        accepted(one.submit(write("a", 1, b"111")))
        assert charged() == (1, 3)
        await store.until_begun("a", 1)
        assert charged() == (1, 3)
        accepted(one.submit(write("a", 2, b"22")))
        assert charged() == (2, 5)
        accepted(one.submit(write("a", 3, b"3333333")))
        assert charged() == (2, 10)
        with pytest.raises(BudgetExhausted):
            one.submit(write("a", 4, b"44444444"))
        with pytest.raises(BudgetExhausted) as refused:
            other.submit(write("b", 1, b"1"))
        assert refused.value.dimension == "bytes"
        assert charged() == (2, 10)
        assert one.snapshot().resources[0].queued == 3
        assert other.snapshot().resources == ()
        accepted(one.submit(write("a", 5, b"5")))
        assert charged() == (2, 4)
        accepted(other.submit(write("b", 1, b"1")))
        with pytest.raises(BudgetExhausted) as refused:
            other.submit(write("c", 1, b"1"))
        assert refused.value.dimension == "count"
        store.let_go("a")
        await accepted(one.submit(write("a", 5, b"5"))).durable()
        await eventually(lambda: charged() == (0, 0))
    assert store.done[-1] == ("a", 5) or ("a", 5) in store.done


async def test_a_queued_content_grows_only_into_what_its_budget_leaves_to_it() -> None:
    root = Budget.root("process", bytes=10, control_reserve=Reserve(bytes=4))
    key = root.key("metadata")
    one = writer(Store(), budget=key.budget)
    accepted(one.submit(write("a", 1, b"1")))
    with pytest.raises(BudgetExhausted):  # the reserve is for control work
        one.submit(write("a", 2, b"7777777"))
    with root.reserve(8, control=True):
        accepted(one.submit(write("a", 2, b"22")))
        with pytest.raises(BudgetExhausted) as refused:
            one.submit(write("a", 3, b"333"))
        assert refused.value.dimension == "bytes"
        assert (root.snapshot().current_bytes, one.snapshot().pending_bytes) == (10, 2)
        assert root.snapshot().control_bytes == 8
    key.close()
    with pytest.raises(BudgetClosed):
        one.submit(write("a", 3, b"333"))
    accepted(one.submit(write("a", 3, b"3")))
    assert root.snapshot().current_bytes == 1
    one.give_up()
    assert (root.snapshot().current_count, root.snapshot().current_bytes) == (0, 0)


async def test_a_write_that_fails_gives_its_budget_back() -> None:
    store = Store()
    store.failures[("a", 1)] = disk_full
    root = Budget.root("process", count=1, bytes=10)
    one = writer(store, budget=root)
    async with running(one):
        with pytest.raises(MetadataWriteFailed):
            await accepted(one.submit(write("a", 1))).durable()
        assert (root.snapshot().current_count, root.snapshot().current_bytes) == (0, 0)


async def test_waits_are_bounded_and_receipts_are_not() -> None:
    store = Store()
    store.hold("a")
    one = writer(store, max_operations=1)
    async with running(one) as nursery:
        accepted(one.submit(write("a", 9)))
        await store.until_begun("a", 9)
        receipts = [accepted(one.submit(write("a", n))) for n in range(1, 9)]
        assert one.snapshot().waiters == 0
        for receipt in receipts[:4]:
            nursery.start_soon(receipt.durable)
        await wait_all_tasks_blocked()
        assert (one.snapshot().waiters, one.snapshot().resources[0].waiters) == (4, 4)
        with pytest.raises(MetadataWaitersFull) as full:
            await receipts[4].durable()
        assert full.value.limit == 4
        with pytest.raises(MetadataWaitersFull):
            await receipts[4].observe()
        store.let_go("a")
        await eventually(lambda: one.snapshot().waiters == 0)
        assert [receipt.outcome for receipt in receipts] == [Durable(9)] * 8


async def test_a_wait_that_is_cancelled_gives_its_place_back() -> None:
    one = writer(Store(), max_waiters=1)
    receipt = accepted(one.submit(write("a", 1)))
    for _ in range(3):
        with trio.move_on_after(0):
            await receipt.durable()
        assert one.snapshot().waiters == 0


# -- turns


@pytest.mark.row("runtime:R112")
async def test_a_hot_resource_lets_the_others_through() -> None:
    store = Store()
    store.hold("hot")
    one = writer(store)
    async with running(one):
        accepted(one.submit(write("hot", 1)))
        await store.until_begun("hot", 1)
        accepted(one.submit(write("hot", 2)))
        accepted(one.submit(write("other", 1)))
        store.let_go()
    assert store.begun == [("hot", 1), ("other", 1), ("hot", 2)]
    assert store.most_at_once == 1


@pytest.mark.row("runtime:R113")
async def test_resources_are_written_side_by_side_and_generations_one_after_the_other() -> None:
    store = Store()
    store.hold("slow")
    one = writer(store, max_concurrent_writes=2)
    async with running(one):
        slow = accepted(one.submit(write("slow", 1)))
        await store.until_begun("slow", 1)
        newer = accepted(one.submit(write("slow", 2)))
        for n in range(1, 6):
            assert await accepted(one.submit(write("quick", n))).durable() == n
        assert (slow.outcome, newer.outcome) == (None, None)
        store.let_go()
        assert await newer.durable() == 2
        assert slow.outcome == Durable(1)
    assert [entry for entry in store.begun if entry[0] == "slow"] == [("slow", 1), ("slow", 2)]
    assert (store.most_at_once, store.most_of_one) == (2, 1)


async def test_no_more_resources_are_written_at_a_time_than_allowed() -> None:
    store = Store()
    store.hold("a", "b", "c")
    one = writer(store, max_concurrent_writes=2)
    async with running(one):
        for name in "abc":
            accepted(one.submit(write(name, 1)))
        await eventually(lambda: len(store.begun) == 2)
        await wait_all_tasks_blocked()
        assert sorted(store.begun) == [("a", 1), ("b", 1)]
        store.let_go()
    assert store.most_at_once == 2
    assert len(store.done) == 3


# -- what is shown


async def test_a_snapshot_shows_the_resources_in_the_order_of_their_names() -> None:
    store = Store()
    store.hold("b")
    one = writer(store, max_operations=8, max_bytes=100)
    async with running(one) as nursery:
        await accepted(one.submit(write("c", 4))).durable()
        accepted(one.submit(write("b", 1, b"1")))
        await store.until_begun("b", 1)
        nursery.start_soon(accepted(one.submit(write("b", 2, b"22"))).durable)
        accepted(one.submit(write("a", 1, b"333")))
        await wait_all_tasks_blocked()
        snapshot = one.snapshot()
        assert [
            (view.resource, view.target, view.durable, view.in_flight, view.queued, view.waiters, view.fenced)
            for view in snapshot.resources
        ] == [
            ("a", target("a"), None, None, 1, 0, None),
            ("b", target("b"), None, 1, 2, 1, None),
            ("c", target("c"), 4, None, None, 0, None),
        ]
        assert (snapshot.name, snapshot.accepting, snapshot.pending_operations) == ("writer", True, 3)
        assert (snapshot.pending_bytes, snapshot.waiters) == (6, 1)
        assert (snapshot.max_operations, snapshot.max_bytes) == (8, 100)
        assert (snapshot.submitted, snapshot.written, snapshot.failed, snapshot.coalesced) == (4, 1, 0, 0)
        store.let_go()
    assert not one.snapshot().accepting


async def test_what_people_see_names_the_thing_and_shows_no_content() -> None:
    one = writer(Store())
    receipt = accepted(one.submit(write("a", 1, b"secret")))
    assert repr(one) == "<MetadataWriter writer open, 1 pending>"
    assert repr(receipt) == "<MetadataReceipt a 1 accepted>"
    assert repr(one.targets) == "<MetadataTargets 1 of 4096>"
    assert "secret" not in repr(write("a", 1, b"secret"))
    assert "secret" not in repr(LoadedMetadata(1, b"secret"))
