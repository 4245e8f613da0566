"""What is on a disk, and what may be: the contents that were synced, and each change that was not.

Fed with the changes of a `MemoryFiles`, in order. Knows nothing of cuts: it answers what could be found right now.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import attrs

from ._memory_changes import ModeSet, Named, Synced, Wrote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ._memory_changes import Change

V = TypeVar("V")

Entries = dict[int, dict[str, int]]  # of each directory, by number


@attrs.frozen
class Options:
    """What may be found of one file: each list from the oldest, synced version to the newest."""

    sizes: tuple[int, ...]
    modes: tuple[int, ...]
    blocks: Mapping[int, tuple[bytes, ...]]
    """Versions of each block that has more than one, by its number; each is as long as a block."""
    torn: tuple[tuple[int, bytes], ...]
    """Versions of a block that end halfway, with its number."""
    content: bytes
    """The newest."""
    block: int

    @property
    def count(self) -> int:
        """In how many ways the file may be found with no block torn."""
        return math.prod((len(self.sizes), len(self.modes), *(len(versions) for versions in self.blocks.values())))

    def build(self, size: int, blocks: Mapping[int, bytes]) -> bytes:
        """The content of that size with the given versions of blocks; the others have only one."""
        if not blocks:
            # All that was written is there, and only zeros can have been cut off or added.
            return self.content if size == len(self.content) else self.content[:size].ljust(size, b"\0")
        longest = max(size, len(self.content), (max(blocks) + 1) * self.block)
        content = bytearray(self.content.ljust(longest, b"\0"))
        for number, version in blocks.items():
            content[number * self.block : (number + 1) * self.block] = version
        return bytes(content[:size])


class _FileOnDisk:
    def __init__(self, content: bytes, mode: int, block: int) -> None:
        self.content = content
        self.mode = mode
        self.block = block
        self.pending: list[Wrote | ModeSet] = []
        self._options: Options | None = None

    def apply(self, change: Wrote | ModeSet) -> None:
        self.pending.append(change)
        self._options = None

    def sync(self, data_only: bool) -> None:
        options = self.options()
        self.content = options.content
        kept: list[Wrote | ModeSet] = []
        if data_only:
            kept += [change for change in self.pending if isinstance(change, ModeSet)]
        else:
            self.mode = options.modes[-1]
        self.pending = kept
        self._options = None

    def options(self) -> Options:
        if self._options is None:
            self._options = self._all_options()
        return self._options

    def _all_options(self) -> Options:
        content = bytearray(self.content)
        sizes, modes = [len(content)], [self.mode]
        blocks: dict[int, list[bytes]] = {}
        for change in self.pending:
            if isinstance(change, ModeSet):
                modes.append(change.mode)
                continue
            touched = self._touched(change, len(content))
            for number in touched:
                blocks.setdefault(number, [self._version(content, number)])
            _carry_out(content, change)
            sizes.append(len(content))
            for number in touched:
                blocks[number].append(self._version(content, number))
        several = {number: versions for number, each in blocks.items() if len(versions := _distinct(each)) > 1}
        torn = [
            (number, half)
            for number, versions in several.items()
            for half in _distinct([half for old, new in pairwise(versions) for half in _torn(old, new)])
            if half not in versions
        ]
        newest = bytes(content)
        return Options(_distinct(sizes), _distinct(modes), several, tuple(torn), newest, self.block)

    def _touched(self, change: Wrote, size: int) -> range:
        start, end = change.offset, size
        if change.data is not None:
            end = start + len(change.data)
        return range(start // self.block, -(-end // self.block))

    def _version(self, content: bytearray, number: int) -> bytes:
        return bytes(content[number * self.block : (number + 1) * self.block]).ljust(self.block, b"\0")


class Disk:
    """The disk of a power cut's tree."""

    def __init__(self, files: Mapping[int, tuple[bytes, int]], directories: Entries, block: int) -> None:
        self._block = block
        self._files = {node: _FileOnDisk(content, mode, block) for node, (content, mode) in files.items()}
        self._directories = {node: dict(names) for node, names in directories.items()}
        # The changes of names from the oldest that may be lost; with the directories that must be synced for each.
        self._changes: list[tuple[Named, str, set[int]]] = []

    def apply(self, change: Change, call: str) -> None:
        """Take in the next change, by this call."""
        if isinstance(change, Named):
            if change.made == "file":
                self._files[change.node] = _FileOnDisk(b"", change.mode, self._block)
            elif change.made == "directory":
                self._directories[change.node] = {}
            places = {place[0] for place in (change.source, change.target) if place}
            self._changes.append((change, call, places))
        elif not isinstance(change, Synced):
            self._files[change.node].apply(change)
        elif change.node in self._files:
            self._files[change.node].sync(change.data_only)
        else:
            self._sync_directory(change.node)

    def _sync_directory(self, directory: int) -> None:
        for _, _, unsynced in self._changes:
            unsynced.discard(directory)
        while self._changes and not self._changes[0][2]:
            carry_out_name(self._directories, self._changes.pop(0)[0])

    def optional(self) -> list[int]:
        """The changes of names that may be lost, by their numbers for `entries`."""
        return [number for number, (_, _, unsynced) in enumerate(self._changes) if unsynced]

    def call(self, number: int) -> str:
        """The call that changed a name, by the number of the change."""
        return self._changes[number][1]

    def entries(self, lost: frozenset[int]) -> Entries:
        """What the directories hold without the changes that are lost."""
        entries = {node: dict(names) for node, names in self._directories.items()}
        for number, (change, _, _) in enumerate(self._changes):
            if number not in lost:
                carry_out_name(entries, change)
        return entries

    def options(self, node: int) -> Options:
        """What may be found of a file."""
        return self._files[node].options()

    def is_file(self, node: int) -> bool:
        """Whether it is one, and no directory."""
        return node in self._files

    def unsettled(self) -> Iterator[int]:
        """The files of which more than one version may be found."""
        return (node for node, file in self._files.items() if file.pending)


def carry_out_name(entries: Entries, change: Named) -> None:
    """Change a name. A node has one name at most: wherever it is, it leaves that place."""
    for names in entries.values():
        for name in [name for name, node in names.items() if node == change.node]:
            del names[name]
    if change.target is not None:
        directory, name = change.target
        entries[directory][name] = change.node


def _carry_out(content: bytearray, change: Wrote) -> None:
    if change.data is None:
        del content[change.offset :]
        content.extend(bytes(change.offset - len(content)))
        return
    content.extend(bytes(max(0, change.offset - len(content))))
    content[change.offset : change.offset + len(change.data)] = change.data


def _torn(old: bytes, new: bytes) -> Iterator[bytes]:
    """The new version up to some byte, then the old one."""
    different = [place for place, (one, other) in enumerate(zip(old, new, strict=True)) if one != other]
    first, last = different[0], different[-1]
    for place in {first + 1, (first + last + 1) // 2, last}:
        if first < place <= last:
            yield new[:place] + old[place:]


def _distinct(values: Iterable[V]) -> tuple[V, ...]:
    return tuple(dict.fromkeys(values))
