"""The metadata writer: what was written before, and what a dead process left."""

from __future__ import annotations

from pathlib import Path

import pytest

from lifecycle import (
    Durable,
    EnvelopeCorrupt,
    FileStore,
    GenerationConflict,
    LoadedMetadata,
    MetadataClosed,
    MetadataTargetTaken,
    MetadataWrite,
)

from ._metadata import (
    Store,
    accepted,
    names_in,
    running,
    target,
    write,
    writer,
)


async def test_a_load_takes_over_the_generation_that_the_file_has(tmp_path: Path) -> None:
    path = tmp_path / "state"
    one = writer(FileStore())
    async with running(one):
        assert await one.load("state", path) is None
        assert one.targets.stats().retained == 0
        await accepted(one.submit(MetadataWrite("state", 7, path, b"seven"))).durable()
    two = writer(FileStore())
    async with running(two):
        assert await two.load("state", path) == LoadedMetadata(7, b"seven")
        assert two.confirmed("state") == 7
        # What is not newer needs no write, and the next generation goes on.
        assert accepted(two.submit(MetadataWrite("state", 6, path, b"six"))).outcome == Durable(7)
        assert accepted(two.submit(MetadataWrite("state", 7, path, b"seven"))).outcome == Durable(7)
        with pytest.raises(GenerationConflict):
            two.submit(MetadataWrite("state", 7, path, b"other"))
        assert await accepted(two.submit_next("state", path, b"eight")).durable() == 8
        with pytest.raises(MetadataTargetTaken):
            await two.load("other", path)
        with pytest.raises(MetadataTargetTaken):
            await two.load("state", tmp_path / "other")


async def test_a_load_beside_pending_work_only_reads() -> None:
    store = Store()
    store.files[target("a")] = LoadedMetadata(500, b"of a life before")
    one = writer(store)
    receipt = accepted(one.submit(write("a", 1)))
    assert await one.load("a", target("a")) == LoadedMetadata(500, b"of a life before")
    assert one.confirmed("a") is None
    async with running(one):
        assert await receipt.durable() == 1


async def test_a_load_of_a_damaged_file_says_so_and_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"no envelope")
    one = writer(FileStore())
    with pytest.raises(EnvelopeCorrupt):
        await one.load("state", tmp_path / "state")
    assert one.targets.stats().retained == 0
    one.stop_admission()
    with pytest.raises(MetadataClosed):
        await one.load("state", tmp_path / "state")


async def test_a_load_that_makes_nothing_and_a_write_that_makes_directories(tmp_path: Path) -> None:
    one = writer(FileStore(file_mode=0o640))
    path = tmp_path / "deep" / "er" / "state"
    assert await one.load("state", path) is None
    assert names_in(tmp_path) == []
    async with running(one):
        await accepted(one.submit(MetadataWrite("state", 1, path, b""))).durable()
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.row("runtime:R119")
@pytest.mark.parametrize("first", ["load", "submit"])
async def test_stale_temporaries_are_swept_before_a_directory_is_first_used(tmp_path: Path, first: str) -> None:
    stale = tmp_path / ".state.1234-0123456789abcdef.tenure-tmp"
    other = tmp_path / ".state.of-mine"
    for path in (stale, other):
        path.write_bytes(b"half")
    one = writer(FileStore())
    async with running(one):
        if first == "load":
            assert await one.load("state", tmp_path / "state") is None
        else:
            await accepted(one.submit(MetadataWrite("state", 1, tmp_path / "state", b""))).durable()
        assert not stale.exists()
        assert other.exists()
