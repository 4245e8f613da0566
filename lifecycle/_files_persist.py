"""The one way in which a whole file is replaced: temporary file, sync, rename, sync of the directory."""

from __future__ import annotations

import errno
import os
import secrets
from typing import TYPE_CHECKING, Final

from ._files_errors import Committed, PersistFailed, PersistStep

if TYPE_CHECKING:
    from pathlib import Path

    from ._files import FileData, FileLayer, FileStatus, OpenFile

# Two sweeps that meet the same file in the moment between its creation and its lock are rare; so many are not there.
_ATTEMPTS: Final = 8
TEMPORARY_SUFFIX: Final = ".tenure-tmp"


def persist(layer: FileLayer, target: Path, data: FileData, *, mode: int | None = None) -> None:
    """Make `data` the whole content of the file `target`; when this returns, a power cut does not undo it.

    At every moment the target is the old file or the new one, whole. Missing directories are made, and are durable too.
    A target that exists keeps its permission bits, and its owner where the process may give files away; a new one gets
    `mode`, or what the umask leaves of 0o666. Other attributes (ACLs, other hard links) stay with the old file. If the
    target is a link, the file that it leads to is replaced and the link stays, also when there is no such file yet; a
    circle of links and what is no regular file are refused.

    Blocking: run it in a lane. Calls for one target must follow one another; the last one wins. Raises `PersistFailed`,
    which says whether the target may have changed; the temporary file is removed then, if that can be done. A process
    that dies leaves it, for `sweep_temporaries`.
    """
    write = _Write(target)
    try:
        write.run(layer, data, mode)
    except OSError as error:
        raise PersistFailed(target, write.step, write.committed) from error


class _Write:
    """One replacement. Knows at each moment what a failure would mean."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.step: PersistStep = "resolve"
        self.committed: Committed = "no"

    def run(self, layer: FileLayer, data: FileData, mode: int | None) -> None:
        target = layer.resolve(self.target)
        old = layer.status(target)
        if old is not None and old.kind != "file":
            raise _not_a_file(target, old)
        self.step = "create_parent"
        ensure_directory(layer, target.parent)
        self.step = "create_temporary"
        # Until it is to be like its target, nobody else may read it.
        private = old is not None or mode is not None
        temporary = create_temporary(layer, target, 0o600 if private else 0o666)
        # It is open, and with that locked, until it is the target: no sweep takes it for stale.
        with temporary:
            try:
                self._fill(temporary, data, old, mode)
                self.step = "replace_target"
                layer.rename(temporary.path, target)
            except BaseException:
                self._undo(layer, temporary)
                raise
            self.step, self.committed = "sync_parent", "unknown"
            layer.sync_directory(target.parent)

    def _fill(self, temporary: OpenFile, data: FileData, old: FileStatus | None, mode: int | None) -> None:
        _dress(temporary, old, mode)
        self.step = "write_temporary"
        temporary.write(data, 0)
        self.step = "sync_temporary"
        temporary.sync()

    def _undo(self, layer: FileLayer, temporary: OpenFile) -> None:
        try:
            if self.step == "replace_target" and layer.status(temporary.path) is None:
                # A rename that reports a failure has still been done: network file systems do that.
                self.committed = "unknown"
                return
            layer.remove(temporary.path)
        except OSError:
            # The first error is the one that matters; the next sweep removes the file. A rename is done or not done:
            # if that cannot be seen, it is not known.
            if self.step == "replace_target" and not _is_there(layer, temporary):
                self.committed = "unknown"


def create_temporary(layer: FileLayer, target: Path, mode: int) -> OpenFile:
    """A new, locked file beside `target` under a name that tells `sweep_temporaries` what it is."""
    for _ in range(_ATTEMPTS):
        name = f".{target.name[:40]}.{os.getpid()}-{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
        file = layer.create(target.parent / name, mode)
        try:
            if _claim(layer, file):
                return file
        except BaseException:
            _discard(layer, file)
            raise
        file.close()
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(target.parent))


def _discard(layer: FileLayer, file: OpenFile) -> None:
    try:
        layer.remove(file.path)
    except OSError:
        # The error that led here is the one that matters; the next sweep removes the file.
        pass
    file.close()


def _claim(layer: FileLayer, file: OpenFile) -> bool:
    """Lock a file that was just created; False if a sweep was there first, which will have removed it."""
    try:
        if not file.lock():
            return False
    except OSError:
        # No locks on this file system: then a sweep cannot take them either, and leaves every file alone.
        return True
    found = layer.status(file.path)
    return found is not None and found.identity == file.status().identity


def _dress(file: OpenFile, old: FileStatus | None, mode: int | None) -> None:
    if old is not None:
        new = file.status()
        if (new.user, new.group) != (old.user, old.group):
            try:
                file.set_owner(old.user, old.group)
            except PermissionError:
                # Only root can; the file is ours then, with the bits that it had.
                pass
        file.set_mode(old.mode)
    elif mode is not None:
        file.set_mode(mode)


def _is_there(layer: FileLayer, temporary: OpenFile) -> bool:
    try:
        return layer.status(temporary.path) is not None
    except OSError:
        return False


def _not_a_file(target: Path, found: FileStatus) -> OSError:
    code = {"directory": errno.EISDIR, "link": errno.ELOOP}.get(found.kind, errno.EINVAL)
    return OSError(code, os.strerror(code), str(target))


def ensure_directory(layer: FileLayer, directory: Path) -> None:
    """Make `directory` and what is missing above it, so that they are there after a power cut.

    Nothing is synced if it is there already: an owner does that once, on start, by `sweep_temporaries`. Raises OSError;
    a directory that could not be made durable is removed again, as far as that can be done. Blocking.
    """
    missing: list[Path] = []
    place = directory
    while layer.status(place) is None:
        missing.append(place)
        place = place.parent
    if missing and place.parent != place:
        # Whoever made it may have died before it was durable.
        layer.sync_directory(place.parent)
    for path in reversed(missing):
        _make_directory(layer, path)


def _make_directory(layer: FileLayer, path: Path) -> None:
    try:
        layer.make_directory(path)
    except FileExistsError:
        # Somebody else makes it at the same time, and may not have synced it yet.
        layer.sync_directory(path.parent)
        return
    try:
        layer.sync_directory(path.parent)
    except BaseException:
        try:
            layer.remove_directory(path)
        except OSError:
            pass
        raise
