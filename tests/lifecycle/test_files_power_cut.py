"""The protocol of durable files, with the power cut at every moment. And that its mistakes would be found."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from actors.testing import CutState, FailingFiles, FileCall, PowerCut, PowerCutFailed
from lifecycle import (
    EnvelopeMissing,
    FileLayer,
    PersistFailed,
    lock_directory,
    persist,
    read_envelope,
    seal_envelope,
    sweep_temporaries,
)
from tests.lifecycle._layers import without

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET = Path("/data/owner/meta")
DATA = b"some content, " * 60  # more than a block


def recover(layer: FileLayer) -> int | None:
    """What an owner does on start."""
    with lock_directory(layer, TARGET.parent):
        sweep_temporaries(layer, TARGET.parent)
        assert [name for name in layer.names(TARGET.parent) if name.endswith("-tmp")] == []
        try:
            found = read_envelope(layer, TARGET, settle=True)
        except EnvelopeMissing:
            return None
        assert found.data == DATA * found.generation
        return found.generation


def write(cut: PowerCut, replace: Callable[[FileLayer, Path, bytes], object], generations: range) -> None:
    for generation in generations:
        cut.begin(generation)
        replace(cut.layer(), TARGET, seal_envelope(generation, DATA * generation))
        cut.acknowledge(generation)


@pytest.mark.row("runtime:R119")
def test_no_power_cut_takes_back_what_was_acknowledged_or_leaves_a_mixture() -> None:
    cut = PowerCut()
    write(cut, persist, range(1, 4))
    report = cut.check(recover, limit=100_000)
    assert report.exhaustive
    assert report.states > 500


@pytest.mark.row("runtime:R119")
def test_a_power_cut_in_the_recovery_takes_nothing_back_either() -> None:
    cut = PowerCut(block=4096)
    write(cut, persist, range(1, 3))
    report = cut.check(recover, again=200)
    assert report.exhaustive
    assert report.states > 200


@pytest.mark.row("runtime:R119")
def test_what_is_read_after_a_kill_stays_after_a_power_cut() -> None:
    """A process dies between the rename and the sync: the next one sees the new file, and acts on it."""
    cut = PowerCut()
    write(cut, persist, range(1, 2))
    cut.begin(2)
    layer = FailingFiles(cut.layer(), 1, only={"sync_directory"})
    with pytest.raises(PersistFailed) as caught:
        persist(layer, TARGET, seal_envelope(2, DATA * 2))
    assert caught.value.committed == "unknown"
    cut.kill()
    assert recover(cut.layer()) == 2
    cut.acknowledge(2)
    assert cut.check(recover).exhaustive


@pytest.mark.row("runtime:R119")
@pytest.mark.parametrize("number", range(1, 6))
def test_directories_that_the_dead_have_half_made_are_durable_for_the_next_owner(number: int) -> None:
    def die(call: FileCall) -> None:
        raise KeyboardInterrupt

    cut = PowerCut()
    layer = FailingFiles(cut.layer(), number, only={"make_directory", "sync_directory"}, action=die)
    stuck = FailingFiles(layer, 1, only={"remove_directory"}, times=None, action=die)
    with pytest.raises(KeyboardInterrupt):
        persist(stuck, TARGET.parent / "a" / "b", b"")
    cut.kill()
    recover(cut.layer())
    write(cut, persist, range(1, 3))
    assert cut.check(recover, limit=20_000).exhaustive


@pytest.mark.row("runtime:R115")
@pytest.mark.parametrize("when", ["before", "torn", "after"])
def test_a_write_that_failed_before_its_commit_is_found_after_no_power_cut(
    when: Literal["before", "torn", "after"],
) -> None:
    def rule(state: CutState, found: int | None) -> bool:
        return found in ((1,) if "failed" in state.begun else state.possible)

    seen: set[str] = set()
    for number in range(1, 20):
        cut = PowerCut()
        write(cut, persist, range(1, 2))
        cut.begin(2)
        layer = FailingFiles(cut.layer(), number, when=when)
        try:
            persist(layer, TARGET, seal_envelope(2, DATA * 2))
        except PersistFailed as error:
            seen.add(error.committed)
            if error.committed == "no":
                cut.begin("failed")
        else:
            cut.acknowledge(2)
        assert cut.check(recover, rule).exhaustive
        if number > len(layer.calls):
            assert seen == {"no", "unknown"}
            return
    raise AssertionError("a replacement has less than twenty calls")


# -- planted mistakes


def no_file_sync(layer: FileLayer, target: Path, data: bytes) -> None:
    persist(without(layer, "sync"), target, data)


def no_directory_sync(layer: FileLayer, target: Path, data: bytes) -> None:
    persist(without(layer, "sync_directory"), target, data)


def rename_before_sync(layer: FileLayer, target: Path, data: bytes) -> None:
    temporary = target.parent / "temporary"
    with layer.create(temporary) as file:
        file.write(data, 0)
        layer.rename(temporary, target)
        file.sync()
    layer.sync_directory(target.parent)


def in_place(layer: FileLayer, target: Path, data: bytes) -> None:
    file = layer.create(target) if layer.status(target) is None else layer.open(target, write=True)
    with file:
        file.write(data, 0)
        file.truncate(len(data))
        file.sync()
    layer.sync_directory(target.parent)


def remove_first(layer: FileLayer, target: Path, data: bytes) -> None:
    if layer.status(target) is not None:
        layer.remove(target)
    persist(layer, target, data)


def from_another_directory(layer: FileLayer, target: Path, data: bytes) -> None:
    temporary = target.parent.parent / "temporary"
    with layer.create(temporary) as file:
        file.write(data, 0)
        file.sync()
    layer.rename(temporary, target)
    layer.sync_directory(target.parent)


@pytest.mark.row("runtime:R119")
@pytest.mark.parametrize(
    "replace", [no_file_sync, no_directory_sync, rename_before_sync, in_place, remove_first, from_another_directory]
)
def test_a_planted_mistake_in_the_protocol_is_found(replace: Callable[[FileLayer, Path, bytes], object]) -> None:
    cut = PowerCut()
    cut.layer().make_directory(TARGET.parent)
    cut.layer().sync_directory(TARGET.parent.parent)
    write(cut, replace, range(1, 3))
    assert recover(cut.layer()) == 2  # without a power cut all is well
    with pytest.raises(PowerCutFailed):
        cut.check(recover)


@pytest.mark.row("runtime:R119")
@pytest.mark.parametrize("operation", ["write", "sync", "rename", "sync_directory"])
def test_an_acknowledgement_before_the_last_sync_is_found(operation: str) -> None:
    cut = PowerCut()
    write(cut, persist, range(1, 2))
    cut.begin(2)
    early = FailingFiles(cut.layer(), 1, only={operation}, action=lambda call: cut.acknowledge(2))
    persist(early, TARGET, seal_envelope(2, DATA * 2))
    with pytest.raises(PowerCutFailed) as caught:
        cut.check(recover)
    assert "which is none of (2,)" in caught.value.problem


@pytest.mark.row("runtime:R119")
def test_a_new_directory_that_is_not_synced_into_its_parent_is_found() -> None:
    cut = PowerCut()
    cut.layer().make_directory(TARGET.parent)
    write(cut, persist, range(1, 2))
    with pytest.raises(PowerCutFailed):
        cut.check(recover)


def test_an_owner_that_trusts_what_it_reads_after_a_kill_is_found() -> None:
    def trusting(layer: FileLayer) -> int | None:
        if layer.status(TARGET) is None:
            return None
        return read_envelope(layer, TARGET).generation

    cut = PowerCut()
    write(cut, persist, range(1, 2))
    with pytest.raises(PersistFailed):
        persist(FailingFiles(cut.layer(), 1, only={"sync_directory"}), TARGET, seal_envelope(2, DATA * 2))
    cut.kill()
    found = trusting(cut.layer())
    cut.acknowledge(found)
    with pytest.raises(PowerCutFailed):
        cut.check(trusting)


# -- an append-only log on the same layer, with segments whose room is taken in advance

SEGMENT, HEAD = 256, struct.Struct("<II")


class Log:
    """As small as it can be: records with length and checksum, one after another, in segments."""

    def __init__(self, layer: FileLayer, directory: Path) -> None:
        self.layer = layer
        self.directory = directory
        self.number = 0
        self.end = SEGMENT

    def append(self, values: list[bytes]) -> None:
        """A group, made durable together."""
        for value in values:
            record = HEAD.pack(len(value), zlib.crc32(value)) + value
            if self.end + len(record) > SEGMENT:
                self.next_segment()
            self.file.write(record, self.end)
            self.end += len(record)
        self.file.sync(data_only=True)

    def next_segment(self) -> None:
        if self.number:
            self.file.sync(data_only=True)
            self.file.close()
        self.number += 1
        self.end = 0
        self.file = self.layer.create(self.directory / f"log.{self.number}")
        self.file.preallocate(SEGMENT)
        self.file.sync()
        self.layer.sync_directory(self.directory)


def replay(layer: FileLayer, *, checked: bool = True) -> list[bytes]:
    values: list[bytes] = []
    for name in sorted(layer.names(Path("/data")), key=lambda name: int(name.partition(".")[2])):
        with layer.open(Path("/data") / name) as file:
            content = file.read(SEGMENT, 0).ljust(SEGMENT, b"\0")
        place = 0
        while place + HEAD.size <= SEGMENT:
            length, checksum = HEAD.unpack_from(content, place)
            value = content[place + HEAD.size : place + HEAD.size + length]
            if not length or (checked and zlib.crc32(value) != checksum):
                break
            values.append(value)
            place += HEAD.size + length
    return values


def append_all(cut: PowerCut, layer: FileLayer, *, early: bool = False) -> None:
    log = Log(layer, Path("/data"))
    for group in range(8):
        values = [b"%d-%d " % (group, number) * 5 for number in range(2)]
        for value in values:
            cut.begin(value)
            if early:
                cut.acknowledge(value)
        log.append(values)
        for value in values:
            cut.acknowledge(value)


def test_a_log_loses_nothing_that_was_acknowledged() -> None:
    cut = PowerCut(block=16)
    append_all(cut, cut.layer())
    report = cut.check(replay, "log", limit=4000)
    assert replay(cut.layer()) == [b"%d-%d " % (group, number) * 5 for group in range(8) for number in range(2)]
    assert report.states > 1000


@pytest.mark.parametrize("mistake", ["no file sync", "no directory sync", "early", "no checksum"])
def test_a_planted_mistake_in_a_log_is_found(mistake: str) -> None:
    cut = PowerCut(block=16)
    match mistake:
        case "no file sync":
            append_all(cut, without(cut.layer(), "sync"))
        case "no directory sync":
            append_all(cut, without(cut.layer(), "sync_directory"))
        case _:
            append_all(cut, cut.layer(), early=mistake == "early")
    with pytest.raises(PowerCutFailed):
        cut.check(lambda layer: replay(layer, checked=mistake != "no checksum"), "log", limit=4000)
