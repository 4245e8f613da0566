"""The envelope of small durable files: checked when read, never guessed."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.testing import FailingFiles
from lifecycle import (
    ENVELOPE_FORMAT,
    Envelope,
    EnvelopeCorrupt,
    EnvelopeMissing,
    EnvelopeUnreadable,
    FormatTooNew,
    LocalFiles,
    read_envelope,
    seal_envelope,
)
from tests.conformance import ROOT

LAYER = LocalFiles()
GENERATIONS = st.integers(0, 2**64 - 1)


def read(tmp_path: Path, sealed: bytes) -> Envelope:
    target = tmp_path / "meta"
    target.write_bytes(sealed)
    return read_envelope(LAYER, target)


@given(GENERATIONS, st.binary(max_size=300))
def test_what_was_sealed_is_read_back(tmp_path_factory: pytest.TempPathFactory, generation: int, data: bytes) -> None:
    place = tmp_path_factory.getbasetemp()
    assert read(place, seal_envelope(generation, data)) == (generation, data)


@given(GENERATIONS, st.binary(max_size=60), st.data())
def test_no_changed_bit_and_no_cut_goes_unseen(
    tmp_path_factory: pytest.TempPathFactory, generation: int, data: bytes, draw: st.DataObject
) -> None:
    place = tmp_path_factory.getbasetemp()
    sealed = seal_envelope(generation, data)
    bit = draw.draw(st.integers(0, len(sealed) * 8 - 1))
    changed = bytearray(sealed)
    changed[bit // 8] ^= 1 << bit % 8
    cut = draw.draw(st.integers(0, len(sealed) - 1))
    for damaged in (bytes(changed), sealed[:cut], sealed + b"\0", sealed[:cut].ljust(len(sealed), b"\0")):
        if damaged != sealed:
            with pytest.raises((EnvelopeCorrupt, FormatTooNew)):
                read(place, damaged)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it is empty"),
        (b"{}", "does not begin as a sealed file does"),
        (b"tenure 0 1 1 x\n", "does not begin as a sealed file does"),
        (b"tenure 1 01 1 " + b"0" * 32 + b"\n.", "its first line is not that of a sealed file"),
        (seal_envelope(1, b"abc")[:-1], "it has 2 bytes of content and should have 3"),
        (seal_envelope(1, b"abc").replace(b"abc", b"abd"), "its checksum is not that of its content"),
        (seal_envelope(1, b"abc").replace(b"tenure 1 1", b"tenure 1 2"), "its checksum is not that of its content"),
    ],
)
def test_damage_is_told_without_the_content(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(EnvelopeCorrupt) as caught:
        read(tmp_path, content)
    assert caught.value.target == tmp_path / "meta"
    assert problem in caught.value.problem
    assert "abc" not in str(caught.value)
    assert str(tmp_path / "meta") in str(caught.value)
    assert (tmp_path / "meta").read_bytes() == content


def test_a_later_format_is_refused_with_both_numbers(tmp_path: Path) -> None:
    with pytest.raises(FormatTooNew) as caught:
        read(tmp_path, b"tenure 2 anything at all")
    assert (caught.value.found, caught.value.supported) == (2, ENVELOPE_FORMAT)
    assert (tmp_path / "meta").read_bytes() == b"tenure 2 anything at all"


def test_a_file_of_the_first_format_is_read() -> None:
    found = read_envelope(LAYER, ROOT / "tests" / "formats" / "envelope-1")
    assert found == Envelope(42, b"one line\nand another\n")


def test_a_missing_file_and_an_unreadable_one_are_no_damage(tmp_path: Path) -> None:
    with pytest.raises(EnvelopeMissing) as missing:
        read_envelope(LAYER, tmp_path / "absent")
    assert isinstance(missing.value.__cause__, FileNotFoundError)
    (tmp_path / "meta").write_bytes(seal_envelope(1, b""))
    failing = FailingFiles(LAYER, 1, errno=errno.EIO, only={"read"})
    with pytest.raises(EnvelopeUnreadable) as unreadable:
        read_envelope(failing, tmp_path / "meta")
    assert isinstance(unreadable.value.__cause__, OSError)
    with pytest.raises(EnvelopeUnreadable):
        read_envelope(LAYER, tmp_path)


def test_settling_syncs_file_and_directory_before_it_reads(tmp_path: Path) -> None:
    (tmp_path / "meta").write_bytes(seal_envelope(7, b"seven"))
    (tmp_path / "link").symlink_to(tmp_path / "meta")
    layer = FailingFiles(LAYER, only={"sync", "sync_directory", "read"})
    assert read_envelope(layer, tmp_path / "link", settle=True) == (7, b"seven")
    assert [(call.operation, call.path.name) for call in layer.calls] == [
        ("sync", "meta"),
        ("sync_directory", tmp_path.name),
        ("read", "meta"),
    ]
    failing = FailingFiles(LAYER, 1, errno=errno.EIO, only={"sync_directory"})
    with pytest.raises(EnvelopeUnreadable):
        read_envelope(failing, tmp_path / "meta", settle=True)


@pytest.mark.parametrize("generation", [-1, 2**64])
def test_a_generation_has_64_bits(generation: int) -> None:
    with pytest.raises(ValueError, match="from 0 to 2\\*\\*64 - 1"):
        seal_envelope(generation, b"")
