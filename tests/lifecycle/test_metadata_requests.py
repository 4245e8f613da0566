"""The metadata writer: generations, requests that break a rule, deadlines, settings."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from lifecycle import (
    LAST_GENERATION,
    ConfigInvalid,
    Durable,
    GenerationConflict,
    GenerationsExhausted,
    LoadedMetadata,
    MetadataDeadlineExceeded,
    MetadataRequestInvalid,
    MetadataSettings,
    MetadataTargets,
    MetadataWrite,
)

from ._metadata import (
    Store,
    accepted,
    running,
    target,
    write,
    writer,
)


@pytest.mark.row("runtime:R120")
async def test_an_equal_generation_with_other_bytes_is_refused_and_not_joined() -> None:
    store = Store()
    store.hold("a")
    one = writer(store, max_operations=2)
    async with running(one):
        first = accepted(one.submit(write("a", 1, b"one")))
        with pytest.raises(GenerationConflict) as conflict:  # queued
            one.submit(write("a", 1, b"eno"))
        assert (conflict.value.resource, conflict.value.generation) == ("a", 1)
        assert "eno" not in str(conflict.value)
        await store.until_begun("a", 1)
        with pytest.raises(GenerationConflict):  # in flight
            one.submit(write("a", 1, b"eno"))
        accepted(one.submit(write("a", 2, b"two")))
        with pytest.raises(GenerationConflict):  # in flight, with a newer one behind it
            one.submit(write("a", 1, b"eno"))
        with pytest.raises(GenerationConflict):  # queued behind
            one.submit(write("a", 2, b"owt"))
        same = [accepted(one.submit(write("a", n, data))) for n, data in ((1, b"one"), (2, b"two"))]
        store.let_go()
        assert [await receipt.durable() for receipt in (first, *same)] == [1, 1, 2]
        with pytest.raises(GenerationConflict):  # durable
            one.submit(write("a", 2, b"owt"))
        assert accepted(one.submit(write("a", 2, b"two"))).outcome == Durable(2)
    assert store.begun == [("a", 1), ("a", 2)]
    assert store.content("a") == LoadedMetadata(2, b"two")


async def test_submit_next_gives_generations_that_nobody_else_has_had() -> None:
    store = Store()
    targets = MetadataTargets()
    one, other = writer(store, targets, name="one"), writer(store, targets, name="other")
    async with running(one, other):
        given = [
            accepted(each.submit_next(name, target(name), b"")).generation
            for each, name in ((one, "a"), (other, "b"), (one, "a"), (other, "c"))
        ]
        assert given == sorted(set(given))
        accepted(one.submit(write("a", 100)))
        assert accepted(one.submit_next("a", target("a"), b"newest")).generation > 100
        await accepted(one.submit(write("a", 1))).durable()
    assert store.files[target("a")].data == b"newest"


async def test_generations_end_and_do_not_wrap() -> None:
    one = writer(Store())
    accepted(one.submit(write("a", LAST_GENERATION - 1)))
    assert accepted(one.submit_next("a", target("a"), b"last")).generation == LAST_GENERATION
    for _ in range(2):
        with pytest.raises(GenerationsExhausted):
            one.submit_next("a", target("a"), b"one more")
    assert one.snapshot().resources[0].queued == LAST_GENERATION


@pytest.mark.parametrize(
    "request_",
    [
        MetadataWrite("a", 0, target("a"), b""),
        MetadataWrite("a", -1, target("a"), b""),
        MetadataWrite("a", LAST_GENERATION + 1, target("a"), b""),
        MetadataWrite("a", 1, target("a"), bytearray(b"changes")),  # type: ignore[arg-type]
        MetadataWrite("a", 2, target("a"), "text"),  # type: ignore[arg-type]
    ],
    ids=["zero", "negative", "too large", "bytearray", "text"],
)
@pytest.mark.parametrize("known", [False, True])
async def test_a_request_that_breaks_a_rule_is_refused_without_a_trace(request_: MetadataWrite, known: bool) -> None:
    one = writer(Store())
    if known:
        accepted(one.submit(write("a", 1)))
    before = one.snapshot()
    with pytest.raises(MetadataRequestInvalid):
        one.submit(request_)
    assert one.snapshot() == before
    assert one.targets.stats().retained == known


async def test_a_deadline_that_has_passed_refuses_without_effect(autojump_clock: trio.testing.MockClock) -> None:
    store = Store()
    one = writer(store)
    deadline = trio.current_time() + 1
    accepted(one.submit(write("b", 1), deadline=deadline))
    await trio.sleep(1)
    before = one.snapshot()
    with pytest.raises(MetadataDeadlineExceeded) as exceeded:
        one.submit(write("a", 1), deadline=deadline)
    assert exceeded.value.operation == "submit"
    with pytest.raises(MetadataDeadlineExceeded):
        one.submit_next("a", target("a"), b"", deadline=deadline)
    # It is looked at before anything else.
    one.stop_admission()
    with pytest.raises(MetadataDeadlineExceeded):
        one.submit(write("a", 1), deadline=deadline)
    assert one.snapshot().resources == before.resources
    assert (one.targets.last_generation, one.targets.stats().retained) == (0, 1)


def test_settings_name_every_mistake() -> None:
    with pytest.raises(ConfigInvalid) as invalid:
        MetadataSettings(max_operations=0, max_bytes=0, max_concurrent_writes=0, max_waiters=0, file_mode=0o1777)
    assert [mistake.partition(" ")[0] for mistake in invalid.value.mistakes] == [
        "max_operations", "max_bytes", "max_concurrent_writes", "max_waiters", "file_mode",
    ]  # fmt: skip
    with pytest.raises(ConfigInvalid):
        MetadataSettings(max_bytes=True)
    with pytest.raises(ConfigInvalid):
        MetadataTargets(0)
    assert MetadataSettings(max_operations=5).waiters == 20
    assert MetadataSettings(max_operations=1, max_bytes=1, max_concurrent_writes=1, max_waiters=1).waiters == 1
