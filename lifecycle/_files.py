"""The file layer: the few operations that everything durable is made of, and the real ones, on this machine's files.

All that must outlive a power cut goes through a `FileLayer`, so that tests can put a disk that is full, a disk that
fails or a disk that loses its power under it (`FailingFiles` and `PowerCut` in `actors.testing`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, final

import attrs

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

FileData: TypeAlias = bytes | bytearray | memoryview
"""What can be written: bytes, or a view of them."""

FileKind = Literal["file", "directory", "link", "other"]
"""What a `FileStatus` is of. A *link* is a symbolic one."""

# macOS: fsync leaves the data in the cache of the drive, this call does not.
_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
# Without O_NONBLOCK the opening of a pipe would wait for its other end.
_READ, _WRITE = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK


@attrs.frozen
class FileStatus:
    """What a path, or an open file, is at the moment."""

    kind: FileKind
    size: int
    """Bytes; only of a file."""
    mode: int
    """Permission bits, 0 to 0o7777."""
    user: int
    group: int
    identity: tuple[int, int]
    """The same for two paths or open files if and only if they are the same file."""


class OpenFile(Protocol):
    """A file that is open. A context manager that closes it. Every method blocks; any may raise OSError.

    Offsets and sizes are bytes. Nothing that is written outlives a power cut before `sync` has returned, and then only
    if the directory that names the file has been synced too.
    """

    @property
    def path(self) -> Path:
        """Where it was opened; not where it was renamed to."""
        ...

    def read(self, size: int, offset: int) -> bytes:
        """The bytes from `offset`: fewer than `size` only at the end of the file."""
        ...

    def write(self, data: FileData, offset: int) -> None:
        """Write all of `data` at `offset`; the file grows as needed. When it raises, some of it may be written."""
        ...

    def append(self, data: FileData) -> int:
        """Write all of `data` at the end, and return where that was. One owner at a time: it is no atomic append."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size`, or extend it by zeros that take no room on the disk yet."""
        ...

    def preallocate(self, size: int) -> None:
        """Take the room for `size` bytes: the file is as long as that from now on, new bytes are zeros. Never shrinks.

        Later writes inside it need no room. Raises OSError (ENOSPC) if the disk has not got that much.
        """
        ...

    def sync(self, *, data_only: bool = False) -> None:
        """Return when content, size and mode are on the disk; with `data_only`, perhaps not the mode.

        After it has raised, nobody knows what of the file is on the disk, and a second call that returns proves
        nothing: write the content to another file.
        """
        ...

    def status(self) -> FileStatus:
        """What the file is now."""
        ...

    def set_mode(self, mode: int) -> None:
        """Give it exactly these permission bits."""
        ...

    def set_owner(self, user: int, group: int) -> None:
        """Give it to somebody; may take permission bits away, so do it before `set_mode`. Raises PermissionError."""
        ...

    def lock(self) -> bool:
        """Try to take the file's advisory lock and say whether that worked; it is kept until `close`.

        It keeps out everyone else who asks for it: other processes and other `OpenFile`s of this one.
        """
        ...

    def close(self) -> None:
        """Give it back. Harmless when done already; does not sync. What closing itself may raise is not reported."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class FileLayer(Protocol):
    """The operations on files that durable things are made of.

    Every method is an ordinary blocking call: run it in a lane or another thread, never in Trio's own. Each may raise
    OSError. Calls for different files may run in several threads at once. Changes of names (`create`, `rename`,
    `remove`, `make_directory`) outlive a power cut only once `sync_directory` of the directory has returned.
    """

    def create(self, path: Path, mode: int = 0o666) -> OpenFile:
        """A new, empty file, open for reading and writing; `mode` is subject to the umask.

        Raises FileExistsError if there is anything of that name, even a link to nowhere.
        """
        ...

    def open(self, path: Path, *, write: bool = False) -> OpenFile:
        """A regular file that is there; links are followed. Raises FileNotFoundError, OSError (EINVAL) for a pipe."""
        ...

    def status(self, path: Path) -> FileStatus | None:
        """What is there, None for nothing. Links are not followed."""
        ...

    def names(self, directory: Path) -> tuple[str, ...]:
        """The names of all that is in it, sorted."""
        ...

    def resolve(self, path: Path) -> Path:
        """The absolute path without links. What is not there yet stays as it is; so does a link in a circle."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Rename, in one step: whoever looks finds the old target or the new one. Links are not followed."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file or a link. Raises FileNotFoundError."""
        ...

    def make_directory(self, path: Path) -> None:
        """Make one directory. Raises FileExistsError, and FileNotFoundError without the one above it."""
        ...

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Return when the names in it are on the disk. What the files hold is their own `sync`."""
        ...


@final
class LocalFiles:
    """The `FileLayer` of this machine. Keeps nothing between calls: one may serve all, or each have its own."""

    def __repr__(self) -> str:
        return "LocalFiles()"

    def create(self, path: Path, mode: int = 0o666) -> OpenFile:
        """See `FileLayer.create`."""
        return _LocalFile(path, os.open(path, _WRITE | os.O_CREAT | os.O_EXCL, mode))

    def open(self, path: Path, *, write: bool = False) -> OpenFile:
        """See `FileLayer.open`."""
        descriptor = os.open(path, _WRITE if write else _READ)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
            raise OSError(code, os.strerror(code), str(path))
        return _LocalFile(path, descriptor)

    def status(self, path: Path) -> FileStatus | None:
        """See `FileLayer.status`."""
        try:
            return _status(os.lstat(path))
        except FileNotFoundError:
            return None

    def names(self, directory: Path) -> tuple[str, ...]:
        """See `FileLayer.names`."""
        return tuple(sorted(os.listdir(directory)))

    def resolve(self, path: Path) -> Path:
        """See `FileLayer.resolve`."""
        return Path(os.path.realpath(path))

    def rename(self, source: Path, target: Path) -> None:
        """See `FileLayer.rename`."""
        os.rename(source, target)

    def remove(self, path: Path) -> None:
        """See `FileLayer.remove`."""
        os.unlink(path)

    def make_directory(self, path: Path) -> None:
        """See `FileLayer.make_directory`."""
        os.mkdir(path)

    def remove_directory(self, path: Path) -> None:
        """See `FileLayer.remove_directory`."""
        os.rmdir(path)

    def sync_directory(self, path: Path) -> None:
        """See `FileLayer.sync_directory`. Raises OSError (EINVAL) on a file system that cannot do it."""
        descriptor = os.open(path, _READ | os.O_DIRECTORY)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)


class _LocalFile:
    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def __repr__(self) -> str:
        return f"<open file {str(self._path)!r}>" if self._descriptor >= 0 else f"<closed file {str(self._path)!r}>"

    @property
    def path(self) -> Path:
        return self._path

    def read(self, size: int, offset: int) -> bytes:
        parts: list[bytes] = []
        while size > 0 and (part := os.pread(self._descriptor, size, offset)):
            parts.append(part)
            size -= len(part)
            offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def write(self, data: FileData, offset: int) -> None:
        written = os.pwrite(self._descriptor, data, offset)
        if written == len(data) and not isinstance(data, memoryview):
            return
        rest = memoryview(data).cast("B")[written:]
        while rest:
            offset += written
            written = os.pwrite(self._descriptor, rest, offset)
            rest = rest[written:]

    def append(self, data: FileData) -> int:
        end = os.fstat(self._descriptor).st_size
        self.write(data, end)
        return end

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def preallocate(self, size: int) -> None:
        if size > 0:
            os.posix_fallocate(self._descriptor, 0, size)

    def sync(self, *, data_only: bool = False) -> None:
        _sync(self._descriptor, data_only=data_only)

    def status(self) -> FileStatus:
        return _status(os.fstat(self._descriptor))

    def set_mode(self, mode: int) -> None:
        os.fchmod(self._descriptor, mode)

    def set_owner(self, user: int, group: int) -> None:
        os.fchown(self._descriptor, user, group)

    def lock(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            os.close(descriptor)
        except OSError as error:
            # The descriptor is gone all the same, and what was to be durable has been synced before.
            if error.errno == errno.EBADF:
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _sync(descriptor: int, *, data_only: bool = False) -> None:
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    elif data_only:
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def _status(found: os.stat_result) -> FileStatus:
    mode = found.st_mode
    kind: FileKind = "other"
    if stat.S_ISREG(mode):
        kind = "file"
    elif stat.S_ISDIR(mode):
        kind = "directory"
    elif stat.S_ISLNK(mode):
        kind = "link"
    return FileStatus(
        kind=kind,
        size=found.st_size if kind == "file" else 0,
        mode=stat.S_IMODE(mode),
        user=found.st_uid,
        group=found.st_gid,
        identity=(found.st_dev, found.st_ino),
    )
