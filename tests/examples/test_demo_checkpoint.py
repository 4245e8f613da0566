"""The checkpoint of `tenure demo`: whole or not there, and never overwritten where it is not understood."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import pytest

from actors.demo import CheckpointRefused, CheckpointUnwritable
from actors.demo._checkpoint import FORMAT, Checkpoint, load, save
from actors.demo._counts import Counts
from actors.demo._files import File
from actors.demo._messages import Counted
from tests.examples.programs import demo, plant
from tests.examples.test_demo import assert_refused

CHECKPOINT = Checkpoint(
    root="/somewhere",
    counted={
        "a/b.py": Counted(File("a/b.py", 12, 1_700_000_000_123_456_789), "python", Counts(3, 7, 1, {"self": 2})),
        "caf\udce9.txt": Counted(File("caf\udce9.txt", 0, 0), "text", Counts(0, 0, 0, {})),
    },
    failed={"c.log": "changed while it was read"},
)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "c"
    assert load(file) is None
    save(file, CHECKPOINT)
    assert load(file) == CHECKPOINT
    save(file, Checkpoint("/elsewhere", finished=True))
    assert load(file) == Checkpoint("/elsewhere", finished=True)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_every_damage_is_found(tmp_path: Path) -> None:
    file = tmp_path / "c"
    save(file, CHECKPOINT)
    whole = file.read_bytes()
    for place in range(len(whole)):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            file.write_bytes(damaged)
            with pytest.raises(CheckpointRefused):
                load(file)


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_a_save_that_fails_leaves_the_old_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    file = tmp_path / "c"
    save(file, CHECKPOINT)
    with monkeypatch.context() as patch:
        patch.setattr("builtins.open" if step == "open" else f"os.{step}", fail)
        with pytest.raises(CheckpointUnwritable, match=r"No space left on device.*make room"):
            save(file, Checkpoint("/elsewhere"))
    assert load(file) == CHECKPOINT
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_file_and_directory_are_synced_around_the_replacement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(fd: int) -> None:
        steps.append("directory" if os.path.isdir(f"/proc/self/fd/{fd}") else "file")
        fsync(fd)

    def note_replace(old: Path, new: Path) -> None:
        steps.append("replace")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    save(tmp_path / "c", CHECKPOINT)
    assert steps == ["file", "replace", "directory"]


# ---------------------------------------------------------------- as the program says it


def newer() -> bytes:
    text = json.dumps({"name": "tenure-demo-checkpoint", "format": FORMAT + 1, "by": "means unknown"})
    return text.encode() + b"\n\xff\xfe\n"


def of_another_directory() -> bytes:
    text = json.dumps({"root": "/elsewhere", "finished": False, "counted": [], "failed": {}}).encode() + b"\n"
    head = {"name": "tenure-demo-checkpoint", "format": FORMAT, "length": len(text), "crc32": zlib.crc32(text)}
    return json.dumps(head).encode() + b"\n" + text


@pytest.mark.parametrize("fresh", [(), ("--fresh",)], ids=["", "fresh"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is damaged, or no checkpoint"),
        (b"Dear diary,\n", "is damaged, or no checkpoint"),
        (b"{}\n{}\n", "is damaged, or no checkpoint"),
        (b"[" * 999, "is damaged, or no checkpoint"),
        (of_another_directory()[:-9], "is damaged, or no checkpoint"),
        (newer(), f"has format {FORMAT + 1}, and this version reads up to {FORMAT}"),
    ],
    ids=["empty", "text", "JSON", "nested", "torn", "newer"],
)
def test_a_file_that_is_not_understood_is_refused_and_left_as_it_is(
    tmp_path: Path, content: bytes, words: str, fresh: tuple[str, ...]
) -> None:
    root = plant(tmp_path / "root", {"a.txt": "word\n"})
    file = tmp_path / "c"
    file.write_bytes(content)
    assert_refused(demo(root, "--checkpoint", file, *fresh), str(file), words, "it is left as it is")
    assert file.read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "root"]


def test_a_checkpoint_of_another_directory_is_replaced_only_if_that_is_wanted(tmp_path: Path) -> None:
    root = plant(tmp_path / "root", {"a.txt": "word\n"})
    file = tmp_path / "c"
    file.write_bytes(of_another_directory())
    assert_refused(demo(root, "--checkpoint", file), "is of a run over /elsewhere", "--fresh")
    assert file.read_bytes() == of_another_directory()
    assert demo(root, "--checkpoint", file, "--fresh")[0] == 0


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    root = plant(tmp_path / "root", {"a.txt": "word\n"})
    os.mkfifo(tmp_path / "pipe")
    assert_refused(demo(root, "--checkpoint", tmp_path), "is no file")
    assert_refused(demo(root, "--checkpoint", tmp_path / "pipe"), "is no file")
    assert_refused(demo(root, "--checkpoint", root / "a.txt" / "c"), "Not a directory")
