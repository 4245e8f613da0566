"""What the metadata writer has called durable outlives a power cut at any moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from actors.testing import FailingFiles, PowerCut, PowerCutFailed
from lifecycle import (
    CommitOutcomeUnknown,
    Durable,
    FileLayer,
    FileStore,
    LoadedMetadata,
    MetadataReceipt,
    MetadataWrite,
    MetadataWriter,
)

from ._metadata import accepted, at_once, running, writer

TARGET = Path("/data/state")


def recover(layer: FileLayer) -> int | None:
    """The generation that a new process would go on with; `read` makes it durable."""
    found = FileStore(layer).read(TARGET)
    if found is None:
        return None
    assert found.data == content(found.generation)
    return found.generation


def content(generation: int) -> bytes:
    return b"%d" % generation * 300


class Recorded:
    """Submits, and tells the cut what was begun and what was called durable."""

    def __init__(self, cut: PowerCut, one: MetadataWriter) -> None:
        self.cut = cut
        self.one = one

    def submit(self, generation: int) -> MetadataReceipt:
        self.cut.begin(generation)
        receipt = accepted(self.one.submit(MetadataWrite("state", generation, TARGET, content(generation))))
        receipt.notify(self.settled)
        return receipt

    def settled(self, outcome: Any) -> None:
        if isinstance(outcome, Durable):
            self.cut.acknowledge(outcome.generation)


async def run(cut: PowerCut, store: Any) -> None:
    one = writer(store, run_blocking=at_once)
    recorded = Recorded(cut, one)
    async with running(one):
        for generation in range(1, 8):
            receipt = recorded.submit(generation)
            if generation % 3 == 0:
                await receipt.durable()


async def test_what_was_called_durable_is_there_after_a_power_cut_at_any_moment() -> None:
    cut = PowerCut()
    await run(cut, FileStore(cut.layer()))
    report = cut.check(recover, again=3)
    assert report.states > 20


async def test_a_store_that_says_durable_too_early_is_caught() -> None:
    cut = PowerCut()
    files = FileStore(cut.layer())
    layer = files._layer

    class NoDirectorySync:
        def __getattr__(self, name: str) -> Any:
            return getattr(layer, name)

        def sync_directory(self, path: Path) -> None:
            pass

    await run(cut, FileStore(NoDirectorySync()))  # type: ignore[arg-type]
    with pytest.raises(PowerCutFailed):
        cut.check(recover)


@pytest.mark.parametrize("at", range(1, 11))
async def test_what_a_cleared_fence_calls_durable_is_there_after_a_power_cut(at: int) -> None:
    cut = PowerCut()
    # The directory cannot be synced for two calls from some call on: at a write, a sweep, or the re-read itself.
    one = writer(FileStore(FailingFiles(cut.layer(), at, times=2, only={"sync_directory"})), run_blocking=at_once)
    recorded = Recorded(cut, one)
    fenced = 0
    async with running(one):
        for generation in range(1, 8):
            outcome = (await recorded.submit(generation).observe()).outcome  # type: ignore[union-attr]
            if isinstance(outcome, CommitOutcomeUnknown):
                fenced += 1
                while True:
                    try:
                        durable = await one.clear_fence("state")
                        break
                    except Exception:
                        await trio.lowlevel.checkpoint()
                assert durable == generation
                cut.acknowledge(durable)
    assert cut.check(recover).states > 5
    assert fenced == (at <= 9)


async def test_loading_makes_what_was_read_durable_before_it_counts() -> None:
    """The process before died between the rename and the sync of the directory."""
    cut = PowerCut()

    class Dies(Exception):
        pass

    def die(_: object) -> None:
        raise Dies

    first = writer(FileStore(FailingFiles(cut.layer(), 3, only={"sync_directory"}, action=die)), run_blocking=at_once)
    recorded = Recorded(cut, first)
    async with running(first):
        await recorded.submit(1).observe()
    cut.kill()
    second = writer(FileStore(cut.layer()), run_blocking=at_once)
    loaded = await second.load("state", TARGET)
    assert loaded == LoadedMetadata(1, content(1))
    assert accepted(second.submit(MetadataWrite("state", 1, TARGET, content(1)))).outcome == Durable(1)
    cut.acknowledge(1)
    cut.check(recover)
