"""The checkpoint: what has been counted, on disk.

A file of two lines of JSON. The first says what it is: the format's number, and length and checksum of the second.
The second holds the files, each with what it was when it was counted. A new one replaces the old one in one step, so
that whatever happens there is a whole one.
"""

from __future__ import annotations

import json
import os
import stat
import zlib
from typing import TYPE_CHECKING, Any

import attrs

from ._counts import Counts
from ._errors import CheckpointRefused, CheckpointUnwritable
from ._files import File, reason_of
from ._messages import Counted

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 1
"""The number of the format that this version writes, and the newest that it reads."""

_NAME = "tenure-demo-checkpoint"
_LONGEST_HEAD = 1000


@attrs.frozen
class Checkpoint:
    """A moment of a run."""

    root: str
    """The directory that is counted."""
    finished: bool = False
    """Whether every file had been counted or had failed."""
    counted: dict[str, Counted] = attrs.field(factory=dict[str, Counted])
    """By path, so that recording a file twice is recording it once."""
    failed: dict[str, str] = attrs.field(factory=dict[str, str])
    """What could not be counted, with the reason; a further run tries again."""


def load(path: Path) -> Checkpoint | None:
    """The checkpoint at `path`; None if there is none. Blocking.

    Raises `CheckpointRefused` for what is damaged, of a newer format, or no checkpoint at all.
    """
    try:
        return _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointRefused(path, f"cannot be read ({reason_of(error)}): name another file") from error


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Put the checkpoint on disk and return when it is there to stay. Blocking. Raises `CheckpointUnwritable`."""
    body = json.dumps(_to_data(checkpoint), separators=(",", ":")).encode() + b"\n"
    head = json.dumps({"name": _NAME, "format": FORMAT, "length": len(body), "crc32": zlib.crc32(body)}).encode()
    try:
        _replace(path, head + b"\n" + body)
    except OSError as error:
        raise CheckpointUnwritable(path, reason_of(error)) from error


def _replace(path: Path, data: bytes) -> None:
    # With the process's number in its name: another run must not write into the same file.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    # The new name is safe only when the directory is on disk too.
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _read(path: Path) -> Checkpoint | None:
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise CheckpointRefused(path, "is no file: name another one")
    with open(path, "rb") as file:
        head, body = file.readline(_LONGEST_HEAD), file.read()
    try:
        about: dict[str, Any] = json.loads(head)
        if about["name"] != _NAME:
            raise _damaged(path)
        if about["format"] > FORMAT:
            raise CheckpointRefused(
                path,
                f"has format {about['format']}, and this version reads up to {FORMAT}: use the newer version, or name "
                "another file",
            )
        if about["format"] != FORMAT or about["length"] != len(body) or about["crc32"] != zlib.crc32(body):
            raise _damaged(path)
        return _from_data(json.loads(body))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> CheckpointRefused:
    return CheckpointRefused(path, "is damaged, or no checkpoint: delete it to count afresh, or name another file")


def _to_data(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "root": checkpoint.root,
        "finished": checkpoint.finished,
        "counted": [
            [*attrs.astuple(counted.file), counted.kind, *attrs.astuple(counted.counts, recurse=False)]
            for counted in checkpoint.counted.values()
        ],
        "failed": checkpoint.failed,
    }


def _from_data(data: dict[str, Any]) -> Checkpoint:
    counted = [
        Counted(File(path, size, mtime_ns), kind, Counts(lines, words, functions, tokens))
        for path, size, mtime_ns, kind, lines, words, functions, tokens in data["counted"]
    ]
    return Checkpoint(data["root"], data["finished"], {each.file.path: each for each in counted}, data["failed"])
