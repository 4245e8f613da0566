"""A `FileLayer` in memory, which tells all changes that are made. What `PowerCut` records on and recovers to."""

from __future__ import annotations

import errno
import os
import posixpath
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs

from lifecycle import FileStatus

from ._memory_changes import ROOT, ModeSet, Named, Synced, Wrote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from lifecycle import FileData, OpenFile

    from ._memory_changes import Change


@attrs.define(eq=False)
class _File:
    node: int
    mode: int
    content: bytearray
    user: int = attrs.field(factory=os.getuid)
    group: int = attrs.field(factory=os.getgid)
    holder: _MemoryFile | None = None


@attrs.define(eq=False)
class _Directory:
    node: int
    names: dict[str, _File | _Directory] = attrs.field(factory=dict)


_Node: TypeAlias = _File | _Directory


class MemoryFiles:
    """A tree of files in memory. `tell` is called with each change and with what was called, under the tree's lock."""

    def __init__(
        self,
        files: Mapping[Path, tuple[bytes, int]],
        directories: tuple[Path, ...],
        tell: Callable[[Change, str], object] = lambda change, call: None,
    ) -> None:
        self.lock = threading.RLock()
        self._nodes = ROOT
        self.life = 0
        self.tell: Callable[[Change, str], object] = lambda change, call: None
        self._root = _Directory(ROOT)
        for directory in directories:
            self._make_all(directory)
        for path, (content, mode) in files.items():
            self._make_all(path.parent).names[path.name] = _File(self._number(), mode, bytearray(content))
        self.tell = tell

    def __repr__(self) -> str:
        return "<files in memory>"

    def kill(self) -> None:
        """Ends all who have files open: what they hold is closed, no lock is held any more. The files stay."""
        with self.lock:
            self.life += 1

    def nodes(self) -> tuple[dict[int, tuple[bytes, int]], dict[int, dict[str, int]]]:
        """Content and mode of each file, entries of each directory, by number."""
        files: dict[int, tuple[bytes, int]] = {}
        directories: dict[int, dict[str, int]] = {}
        todo = [self._root]
        while todo:
            place = todo.pop()
            directories[place.node] = {name: node.node for name, node in place.names.items()}
            for node in place.names.values():
                if isinstance(node, _Directory):
                    todo.append(node)
                else:
                    files[node.node] = (bytes(node.content), node.mode)
        return files, directories

    # -- the calls of a FileLayer

    def create(self, path: Path, mode: int = 0o666) -> OpenFile:
        with self.lock:
            place, name = self._place(path)
            if name in place.names:
                raise _error(errno.EEXIST, path)
            file = place.names[name] = _File(self._number(), mode & ~0o022, bytearray())
            self.tell(Named(file.node, None, (place.node, name), "file", file.mode), f"create {path}")
            return _MemoryFile(self, path, file, self.life, True)

    def open(self, path: Path, *, write: bool = False) -> OpenFile:
        with self.lock:
            node = self._find(path)
            if isinstance(node, _Directory):
                raise _error(errno.EISDIR, path)
            return _MemoryFile(self, path, node, self.life, write)

    def status(self, path: Path) -> FileStatus | None:
        with self.lock:
            try:
                return _status(self._find(path))
            except FileNotFoundError:
                return None

    def names(self, directory: Path) -> tuple[str, ...]:
        with self.lock:
            return tuple(sorted(self._directory(directory).names))

    def resolve(self, path: Path) -> Path:
        return Path(posixpath.normpath(posixpath.join("/", path)))

    def rename(self, source: Path, target: Path) -> None:
        with self.lock:
            (old, old_name), (new, new_name) = self._place(source), self._place(target)
            node = old.names.get(old_name)
            if node is None:
                raise _error(errno.ENOENT, source)
            there = new.names.get(new_name)
            if there is node:
                return
            self._may_replace(node, there, source, target)
            del old.names[old_name]
            new.names[new_name] = node
            self.tell(Named(node.node, (old.node, old_name), (new.node, new_name)), f"rename {source} to {target}")

    def remove(self, path: Path) -> None:
        with self.lock:
            if isinstance(self._find(path), _Directory):
                raise _error(errno.EISDIR, path)
            self._unname(path)

    def make_directory(self, path: Path) -> None:
        with self.lock:
            place, name = self._place(path)
            if name in place.names:
                raise _error(errno.EEXIST, path)
            node = place.names[name] = _Directory(self._number())
            self.tell(Named(node.node, None, (place.node, name), "directory"), f"make directory {path}")

    def remove_directory(self, path: Path) -> None:
        with self.lock:
            if self._directory(path).names:
                raise _error(errno.ENOTEMPTY, path)
            self._unname(path)

    def sync_directory(self, path: Path) -> None:
        with self.lock:
            self.tell(Synced(self._directory(path).node), f"sync directory {path}")

    # -- inside

    def _number(self) -> int:
        self._nodes += 1
        return self._nodes

    def _unname(self, path: Path) -> None:
        place, name = self._place(path)
        node = place.names.pop(name)
        self.tell(Named(node.node, (place.node, name), None), f"remove {path}")

    def _find(self, path: Path) -> _Node:
        node: _Node = self._root
        for name in self.resolve(path).parts[1:]:
            if isinstance(node, _File):
                raise _error(errno.ENOTDIR, path)
            if name not in node.names:
                raise _error(errno.ENOENT, path)
            node = node.names[name]
        return node

    def _directory(self, path: Path) -> _Directory:
        node = self._find(path)
        if isinstance(node, _File):
            raise _error(errno.ENOTDIR, path)
        return node

    def _place(self, path: Path) -> tuple[_Directory, str]:
        path = self.resolve(path)
        return self._directory(path.parent), path.name

    def _make_all(self, directory: Path) -> _Directory:
        node = self._root
        for name in self.resolve(directory).parts[1:]:
            child = node.names.setdefault(name, _Directory(self._number()))
            if isinstance(child, _File):
                raise _error(errno.ENOTDIR, directory)
            node = child
        return node

    def _may_replace(self, node: _Node, there: _Node | None, source: Path, target: Path) -> None:
        if isinstance(node, _Directory) and self.resolve(source) in self.resolve(target).parents:
            raise _error(errno.EINVAL, target)
        if isinstance(there, _Directory):
            if isinstance(node, _File):
                raise _error(errno.EISDIR, target)
            if there.names:
                raise _error(errno.ENOTEMPTY, target)
        elif there is not None and isinstance(node, _Directory):
            raise _error(errno.ENOTDIR, target)


class _MemoryFile:
    def __init__(self, tree: MemoryFiles, path: Path, file: _File, life: int, writable: bool) -> None:
        self._tree = tree
        self._path = path
        self._file = file
        self._life: int | None = life
        self._writable = writable

    @property
    def path(self) -> Path:
        return self._path

    def read(self, size: int, offset: int) -> bytes:
        with self._tree.lock:
            return bytes(self._held().content[offset : offset + size])

    def write(self, data: FileData, offset: int) -> None:
        with self._tree.lock:
            file = self._held(write=True)
            new = bytes(data)
            if not new:
                return
            content = file.content
            if len(content) < offset:
                content.extend(bytes(offset - len(content)))
            content[offset : offset + len(new)] = new
            self._tell(Wrote(file.node, offset, new), f"write {len(new)} bytes at {offset} of")

    def append(self, data: FileData) -> int:
        with self._tree.lock:
            end = len(self._held(write=True).content)
            self.write(data, end)
            return end

    def truncate(self, size: int) -> None:
        with self._tree.lock:
            file = self._held(write=True)
            if size < 0:
                raise _error(errno.EINVAL, self._path)
            del file.content[size:]
            file.content.extend(bytes(size - len(file.content)))
            self._tell(Wrote(file.node, size, None), f"set size {size} of")

    def preallocate(self, size: int) -> None:
        with self._tree.lock:
            if len(self._held(write=True).content) < size:
                self.truncate(size)

    def sync(self, *, data_only: bool = False) -> None:
        with self._tree.lock:
            self._tell(Synced(self._held().node, data_only), "sync")

    def status(self) -> FileStatus:
        with self._tree.lock:
            return _status(self._held())

    def set_mode(self, mode: int) -> None:
        with self._tree.lock:
            file = self._held()
            file.mode = mode
            self._tell(ModeSet(file.node, mode), f"set mode {mode:o} of")

    def set_owner(self, user: int, group: int) -> None:
        with self._tree.lock:
            file = self._held()
            file.user, file.group = user, group

    def lock(self) -> bool:
        with self._tree.lock:
            file = self._held()
            holder = file.holder
            if holder is None or not holder.alive():
                file.holder = self
            return file.holder is self

    def alive(self) -> bool:
        return self._life == self._tree.life

    def close(self) -> None:
        with self._tree.lock:
            self._life = None
            if self._file.holder is self:
                self._file.holder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _held(self, *, write: bool = False) -> _File:
        if not self.alive() or (write and not self._writable):
            raise _error(errno.EBADF, self._path)
        return self._file

    def _tell(self, change: Change, call: str) -> None:
        self._tree.tell(change, f"{call} {self._path}")


def _status(node: _Node) -> FileStatus:
    if isinstance(node, _Directory):
        return FileStatus("directory", 0, 0o755, os.getuid(), os.getgid(), (0, node.node))
    return FileStatus("file", len(node.content), node.mode, node.user, node.group, (0, node.node))


def _error(code: int, path: Path) -> OSError:
    return OSError(code, os.strerror(code), str(path))
