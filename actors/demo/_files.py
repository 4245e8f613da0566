"""The input: which files a directory holds, and how one of them is read. All of it blocks, so it runs in threads."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs

from ._errors import FileChanged, NotAFile

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = 128 * 1024
"""Bytes that are counted in one go: they keep the event loop busy for some hundredths of a second."""

LONGEST_LINE = 1024 * 1024
"""A longer line is counted in parts."""

LEFT_OUT = frozenset({"__pycache__", "site-packages", "dist-packages", "node_modules"})
"""Directories that are not looked into, besides those whose names begin with a dot."""

KINDS = {
    ".py": "python", ".pyi": "python",
    ".txt": "text", ".rst": "text", ".md": "text",
    ".log": "log",
    ".json": "data", ".toml": "data", ".cfg": "data", ".ini": "data", ".xml": "data", ".csv": "data", ".yaml": "data",
}  # fmt: skip


@attrs.frozen
class File:
    """A file as it was at one moment. One that has another size or time since is another file, to be counted anew."""

    path: str
    """Relative to the directory that is counted."""
    size: int
    mtime_ns: int

    @property
    def kind(self) -> str:
        """What it is by its name."""
        return KINDS.get(os.path.splitext(self.path)[1].lower(), "other")


@attrs.frozen
class Listing:
    """What a directory holds: its files by path, and what could not be looked at, with the reason."""

    files: dict[str, File]
    unseen: dict[str, str]


def list_files(root: Path, limit: int | None = None) -> Listing:
    """The regular files below `root`, sorted by path, the first `limit` of them."""
    files: list[File] = []
    unseen: dict[str, str] = {}

    def note(error: OSError) -> None:
        unseen[os.path.relpath(error.filename, root)] = reason_of(error)

    for place, directories, names in os.walk(root, onerror=note):
        directories[:] = [name for name in directories if not name.startswith(".") and name not in LEFT_OUT]
        for name in names:
            full = os.path.join(place, name)
            try:
                status = os.stat(full)
            except OSError as error:
                note(error)
            else:
                if stat.S_ISREG(status.st_mode):
                    files.append(_file(os.path.relpath(full, root), status))
    files.sort(key=lambda file: file.path)
    return Listing({file.path: file for file in files[:limit]}, unseen)


def open_file(root: Path, path: str) -> tuple[File, bytes]:
    """The file as it is now, and its first block. Raises `OSError`, `FileError`."""
    with _opened(root, path) as fd:
        file = _file(path, os.fstat(fd))
        return file, _read_block(fd, file, 0)


def read_block(root: Path, file: File, start: int) -> bytes:
    """The lines of the file that begin at the byte `start`, about as many as fit into a block.

    Opens the file anew, so that nothing is left open when nobody waits for the answer any more. Raises `FileChanged` if
    it is not what it was, before or after the block was read.
    """
    with _opened(root, file.path) as fd:
        return _read_block(fd, file, start)


@contextmanager
def _opened(root: Path, path: str) -> Generator[int, None, None]:
    # Not blocking, since a pipe may have taken the place of the file; for a file it changes nothing.
    fd = os.open(root / path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NotAFile
        yield fd
    finally:
        os.close(fd)


def _read_block(fd: int, file: File, start: int) -> bytes:
    unchanged = _file(file.path, os.fstat(fd)) == file
    data = b""
    wanted = BLOCK
    while unchanged and len(data) < min(wanted, file.size - start):
        more = os.pread(fd, wanted - len(data), start + len(data))
        data += more
        unchanged = bool(more) and _file(file.path, os.fstat(fd)) == file
        if len(data) == wanted and b"\n" not in data:
            wanted = LONGEST_LINE
    if not unchanged:
        raise FileChanged
    at_end = start + len(data) == file.size
    return data if at_end else data[: data.rfind(b"\n") + 1] or data


def reason_of(error: OSError) -> str:
    """The error without the path, which stands beside it already."""
    return error.strerror or str(error)


def _file(path: str, status: os.stat_result) -> File:
    return File(path, status.st_size, status.st_mtime_ns)
