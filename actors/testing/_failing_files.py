"""A `FileLayer` whose calls fail at a number: a full disk, a broken one, a process that dies in the middle."""

from __future__ import annotations

import errno as _errno
import os
from typing import TYPE_CHECKING, Literal, TypeVar, final

import attrs

from actors import InvalidSetting
from lifecycle import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from lifecycle import FileData, FileLayer, FileStatus, OpenFile

T = TypeVar("T")

FileOperation = Literal[
    "create",
    "open",
    "status",
    "names",
    "resolve",
    "rename",
    "remove",
    "make_directory",
    "remove_directory",
    "sync_directory",
    "read",
    "write",
    "truncate",
    "preallocate",
    "sync",
    "set_mode",
    "set_owner",
    "lock",
]
"""The calls of a `FileLayer` and of its open files that are counted. An append is a *write*."""

_READS: frozenset[FileOperation] = frozenset({"status", "names", "resolve", "read"})
_WHEN = ("before", "torn", "after")


@attrs.frozen
class FileCall:
    """One call on a `FailingFiles`."""

    number: int
    """From 1; only calls that count have one."""
    operation: FileOperation
    path: Path


@final
class FailingFiles:
    """Counts the calls on another `FileLayer`, and fails the one with number `at`, and the `times` - 1 after it.

    A failing call raises OSError with `errno` (a full disk, unless told otherwise); or, with `action`, it does that
    instead (ends the process, raises something else) and, if that returns, goes on as if nothing were wrong.

    `when` says how far it gets: *before* nothing is done, *torn* half of the data of a write is written and anything
    else not done, *after* all is done. `only` names the operations that count; by default all but those that only look.
    `at` None counts and never fails. `times` None fails for ever. Use it in one thread at a time.

    It goes over a `PowerCut`'s layer, not under it, and over `LocalFiles` by default. Raises `InvalidSetting`.
    """

    def __init__(
        self,
        layer: FileLayer | None = None,
        at: int | None = None,
        *,
        errno: int = _errno.ENOSPC,
        times: int | None = 1,
        when: Literal["before", "torn", "after"] = "before",
        only: Collection[FileOperation] | None = None,
        action: Callable[[FileCall], object] | None = None,
    ) -> None:
        if (at is not None and at < 1) or (times is not None and times < 1):
            raise InvalidSetting("calls are counted from 1, and fail at least once")
        if when not in _WHEN:
            raise InvalidSetting(f"a call fails 'before', 'torn' or 'after', not {when!r}")
        self._layer: FileLayer = LocalFiles() if layer is None else layer
        self._counter = _Counter(at, errno, times, when, only, action)

    def __repr__(self) -> str:
        return f"<FailingFiles at={self._counter.at}, {len(self._counter.calls)} calls>"

    @property
    def calls(self) -> tuple[FileCall, ...]:
        """All calls that counted, in order, also those that failed."""
        return tuple(self._counter.calls)

    def create(self, path: Path, mode: int = 0o666) -> OpenFile:
        """See `FileLayer`; so do the others."""
        return self._call("create", path, lambda: self._wrap(self._layer.create(path, mode)))

    def open(self, path: Path, *, write: bool = False) -> OpenFile:
        """See `FileLayer`."""
        return self._call("open", path, lambda: self._wrap(self._layer.open(path, write=write)))

    def status(self, path: Path) -> FileStatus | None:
        """See `FileLayer`."""
        return self._call("status", path, lambda: self._layer.status(path))

    def names(self, directory: Path) -> tuple[str, ...]:
        """See `FileLayer`."""
        return self._call("names", directory, lambda: self._layer.names(directory))

    def resolve(self, path: Path) -> Path:
        """See `FileLayer`."""
        return self._call("resolve", path, lambda: self._layer.resolve(path))

    def rename(self, source: Path, target: Path) -> None:
        """See `FileLayer`."""
        self._call("rename", target, lambda: self._layer.rename(source, target))

    def remove(self, path: Path) -> None:
        """See `FileLayer`."""
        self._call("remove", path, lambda: self._layer.remove(path))

    def make_directory(self, path: Path) -> None:
        """See `FileLayer`."""
        self._call("make_directory", path, lambda: self._layer.make_directory(path))

    def remove_directory(self, path: Path) -> None:
        """See `FileLayer`."""
        self._call("remove_directory", path, lambda: self._layer.remove_directory(path))

    def sync_directory(self, path: Path) -> None:
        """See `FileLayer`."""
        self._call("sync_directory", path, lambda: self._layer.sync_directory(path))

    def _wrap(self, file: OpenFile) -> OpenFile:
        return _FailingFile(self._counter, file)

    def _call(self, operation: FileOperation, path: Path, perform: Callable[[], T]) -> T:
        return self._counter.call(operation, path, perform, None)


@attrs.define(eq=False)
class _Counter:
    at: int | None
    errno: int
    times: int | None
    when: Literal["before", "torn", "after"]
    only: Collection[FileOperation] | None
    action: Callable[[FileCall], object] | None
    calls: list[FileCall] = attrs.field(factory=list)

    def call(
        self, operation: FileOperation, path: Path, perform: Callable[[], T], tear: Callable[[], object] | None
    ) -> T:
        if operation in _READS if self.only is None else operation not in self.only:
            return perform()
        call = FileCall(len(self.calls) + 1, operation, path)
        self.calls.append(call)
        if not self._fails(call.number):
            return perform()
        if self.when == "after":
            result = perform()
            try:
                self._fail(call)
            except BaseException:
                if isinstance(result, _FailingFile):
                    result.close()
                raise
            return result
        if self.when == "torn" and tear is not None:
            tear()
        self._fail(call)
        return perform()

    def _fails(self, number: int) -> bool:
        return self.at is not None and self.at <= number and (self.times is None or number < self.at + self.times)

    def _fail(self, call: FileCall) -> None:
        if self.action is None:
            raise OSError(self.errno, os.strerror(self.errno), str(call.path))
        self.action(call)


class _FailingFile:
    def __init__(self, counter: _Counter, file: OpenFile) -> None:
        self._counter = counter
        self._file = file

    @property
    def path(self) -> Path:
        return self._file.path

    def read(self, size: int, offset: int) -> bytes:
        return self._call("read", lambda: self._file.read(size, offset))

    def write(self, data: FileData, offset: int) -> None:
        half = bytes(data)[: len(data) // 2]
        self._call("write", lambda: self._file.write(data, offset), lambda: self._file.write(half, offset))

    def append(self, data: FileData) -> int:
        end = self._file.status().size
        self.write(data, end)
        return end

    def truncate(self, size: int) -> None:
        self._call("truncate", lambda: self._file.truncate(size))

    def preallocate(self, size: int) -> None:
        self._call("preallocate", lambda: self._file.preallocate(size))

    def sync(self, *, data_only: bool = False) -> None:
        self._call("sync", lambda: self._file.sync(data_only=data_only))

    def status(self) -> FileStatus:
        return self._call("status", self._file.status)

    def set_mode(self, mode: int) -> None:
        self._call("set_mode", lambda: self._file.set_mode(mode))

    def set_owner(self, user: int, group: int) -> None:
        self._call("set_owner", lambda: self._file.set_owner(user, group))

    def lock(self) -> bool:
        return self._call("lock", self._file.lock)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, operation: FileOperation, perform: Callable[[], T], tear: Callable[[], object] | None = None) -> T:
        return self._counter.call(operation, self._file.path, perform, tear)
