"""What an owner does with its directory on start: lock it, remove what a dead process left, settle what is there."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, final

import attrs

from ._files_errors import DirectoryInUse
from ._files_persist import TEMPORARY_SUFFIX, ensure_directory

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from ._files import FileLayer, OpenFile

LOCK_NAME: Final = ".tenure-lock"
_TEMPORARY: Final = re.compile(rf"\..*\.[0-9]+-[0-9a-f]{{16}}{re.escape(TEMPORARY_SUFFIX)}", re.DOTALL)
_ATTEMPTS: Final = 8


@attrs.frozen
class SweptTemporaries:
    """What `sweep_temporaries` found: names of files."""

    removed: tuple[str, ...]
    """Nobody had them any more."""
    kept: tuple[str, ...]
    """Somebody writes them now, or it could not be found out, or not be removed."""


def sweep_temporaries(layer: FileLayer, directory: Path) -> SweptTemporaries:
    """Remove the temporary files that `persist` left in `directory` when its process died, and sync the directory.

    Call it on start, before anything of the directory is read: what is seen there afterwards stays after a power cut,
    also what the process before had renamed and not yet synced. A file that another writer, of this process or of any
    other, still has open is never removed: its lock says so. Only files are removed whose names are those of `persist`.
    Missing directories are made. Blocking. Raises OSError if the directory cannot be read, made or synced.
    """
    ensure_directory(layer, directory)
    removed: list[str] = []
    kept: list[str] = []
    for name in layer.names(directory):
        if _TEMPORARY.fullmatch(name):
            gone = _remove_stale(layer, directory / name)
            (removed if gone else kept).append(name)
    place = layer.resolve(directory)
    layer.sync_directory(place)
    if place.parent != place:
        _sync_if_allowed(layer, place.parent)
    return SweptTemporaries(tuple(removed), tuple(kept))


def _remove_stale(layer: FileLayer, path: Path) -> bool:
    try:
        found = layer.status(path)
        if found is None or found.kind != "file":
            return False
        with layer.open(path, write=True) as file:
            # Its writer holds the lock from its creation until it has the name of its target. With the lock in hand the
            # file is nobody's: a writer that comes too late for it takes another one.
            if file.status().identity != found.identity or not file.lock():
                return False
            layer.remove(path)
    except OSError:
        return False
    return True


def _sync_if_allowed(layer: FileLayer, directory: Path) -> None:
    """The directory above names this one. It need not be ours to open; then somebody else has made this one."""
    try:
        layer.sync_directory(directory)
    except PermissionError:
        pass


@final
class DirectoryLock:
    """The sole ownership of a directory, until `release`, the end of a `with` block, or the end of the process."""

    def __init__(self, directory: Path, file: OpenFile) -> None:
        self._directory = directory
        self._file = file

    @property
    def directory(self) -> Path:
        """The directory, without links."""
        return self._directory

    def release(self) -> None:
        """Let others have it. Harmless when done already."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def lock_directory(layer: FileLayer, directory: Path) -> DirectoryLock:
    """Become the sole owner of `directory` among all who call this, in this process and in others of the machine.

    It is an advisory lock on a file `.tenure-lock` in it, which stays there: it keeps out nobody who does not ask.
    Missing directories are made. Blocking, but does not wait for the lock. Raises `DirectoryInUse`, and OSError where
    the file system has no locks.
    """
    ensure_directory(layer, directory)
    place = layer.resolve(directory)
    path = place / LOCK_NAME
    for _ in range(_ATTEMPTS):
        file = _open_or_create(layer, path)
        try:
            if not file.lock():
                raise DirectoryInUse(directory, _holder(file))
            found = layer.status(path)
            if found is not None and found.identity == file.status().identity:
                file.truncate(0)
                file.write(b"%d\n" % os.getpid(), 0)
                return DirectoryLock(place, file)
        except BaseException:
            file.close()
            raise
        # Somebody has removed the file under us, which is not done: what we have locked is not what others find.
        file.close()
    raise DirectoryInUse(directory, None)


def _open_or_create(layer: FileLayer, path: Path) -> OpenFile:
    try:
        return layer.create(path, 0o644)
    except FileExistsError:
        return layer.open(path, write=True)


def _holder(file: OpenFile) -> int | None:
    text = file.read(32, 0).strip()
    return int(text) if text.isdigit() else None
