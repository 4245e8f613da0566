"""All that may be found on a disk after a power cut at one moment: every state, or some of them by seed."""

from __future__ import annotations

import math
import random
from itertools import chain, combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from ._memory_changes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._power_cut_disk import Disk, Entries, Options

V = TypeVar("V")

_LAYOUTS: Final = 10  # with more names in doubt than this, their combinations are counted and not looked at


@attrs.frozen
class Image:
    """One tree of files that may be found."""

    files: tuple[tuple[Path, bytes, int], ...]
    """Path, content and mode."""
    directories: tuple[Path, ...]
    lost: tuple[str, ...]
    """What is missing of what was done."""


@attrs.frozen
class _Layout:
    """Where everything is, for one choice of lost names."""

    files: tuple[tuple[Path, int], ...]
    directories: tuple[Path, ...]
    lost: tuple[str, ...]


@attrs.frozen
class _Found:
    """One version of a file."""

    content: bytes
    mode: int
    newest: bool


class Moment:
    """A disk at the moment of a cut. Must be done with before the disk is told more."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._versions: dict[int, tuple[list[_Found], list[list[_Found]]]] = {}

    def count(self) -> int:
        """How many states there are: exact for few names in doubt, at most so many for more. Doubles are counted."""
        names = self._disk.optional()
        if len(names) <= _LAYOUTS:
            return sum(self._ways([node for _, node in layout.files]) for layout in self._layouts())
        everything = self._ways(list(self._disk.unsettled()))
        return everything << len(names)

    def _ways(self, nodes: list[int]) -> int:
        each = [self._disk.options(node) for node in nodes]
        whole = math.prod(options.count for options in each)
        torn = ((options, number) for options in each for number, _ in options.torn)
        return whole + sum(whole // len(options.blocks[number]) for options, number in torn)

    # -- every state

    def every(self) -> Iterator[Image]:
        """All states, each at least once. At most one block in a state is torn."""
        for layout in self._layouts():
            nodes = [node for _, node in layout.files]
            whole = [self._all_versions(node)[0] for node in nodes]
            for found in product(*whole):
                yield _image(layout, found)
            for place, node in enumerate(nodes):
                for torn in self._all_versions(node)[1]:
                    for found in product(*whole[:place], torn, *whole[place + 1 :]):
                        yield _image(layout, found)

    def _layouts(self) -> Iterator[_Layout]:
        names = self._disk.optional()
        seen: set[tuple[tuple[Path, int], ...]] = set()
        for lost in chain.from_iterable(combinations(names, size) for size in range(len(names) + 1)):
            layout = self._layout(lost)
            key = (*layout.files, *((path, ROOT) for path in layout.directories))
            if key not in seen:
                seen.add(key)
                yield layout

    def _layout(self, lost: tuple[int, ...]) -> _Layout:
        files, directories = _walk(self._disk, self._disk.entries(frozenset(lost)))
        # By number: names of temporary files differ from run to run, and the choice by seed must not.
        files.sort(key=lambda file: file[1])
        return _Layout(tuple(files), tuple(directories), tuple(map(self._disk.call, lost)))

    def _all_versions(self, node: int) -> tuple[list[_Found], list[list[_Found]]]:
        """Those with no block torn, and for each block torn in some way those with that."""
        if node not in self._versions:
            options = self._disk.options(node)
            whole = list(_choose(options, {}))
            torn = [list(_choose(options, {number: version})) for number, version in options.torn]
            self._versions[node] = (whole, torn)
        return self._versions[node]

    # -- some states

    def some(self, number: int, dice: random.Random) -> Iterator[Image]:
        """So many: first those at the edges (nothing lost, all lost, one thing lost), then by the dice."""
        names = self._disk.optional()
        edges = [(lost, oldest) for lost in ((), tuple(names)) for oldest in (False, True)]
        single: list[tuple[tuple[int, ...], bool]] = [((name,), oldest) for name in names for oldest in (False, True)]
        single += [(tuple(other for other in names if other != name), False) for name in names]
        dice.shuffle(single)
        left = number
        for lost, oldest in [*edges, *single][: max(4, number // 2)]:
            layout = self._layout(lost)
            yield _image(layout, tuple(_edge(self._disk.options(node), oldest) for _, node in layout.files))
            left -= 1
        for _ in range(left):
            yield self._one(names, dice)

    def _one(self, names: list[int], dice: random.Random) -> Image:
        odds = dice.choice((0.0, 0.1, 0.5, 0.9))
        layout = self._layout(tuple(name for name in names if dice.random() < odds))
        age = dice.choice((0.1, 0.5, 0.9))
        found: list[_Found] = []
        tear = dice.random() < 0.3
        for _, node in layout.files:
            options = self._disk.options(node)
            blocks = {place: _pick(versions, age, dice) for place, versions in options.blocks.items()}
            if tear and options.torn:
                place, half = dice.choice(options.torn)
                blocks[place] = half
                tear = False
            found.append(_found(options, _pick(options.sizes, age, dice), _pick(options.modes, age, dice), blocks))
        return _image(layout, tuple(found))


def _walk(disk: Disk, entries: Entries) -> tuple[list[tuple[Path, int]], list[Path]]:
    files: list[tuple[Path, int]] = []
    directories: list[Path] = []
    todo = [(Path("/"), ROOT)]
    while todo:
        place, directory = todo.pop()
        for name, node in entries[directory].items():
            if disk.is_file(node):
                files.append((place / name, node))
            else:
                directories.append(place / name)
                todo.append((place / name, node))
    return files, directories


def _choose(options: Options, fixed: dict[int, bytes]) -> Iterator[_Found]:
    free = [number for number in options.blocks if number not in fixed]
    for size, mode, *versions in product(options.sizes, options.modes, *(options.blocks[number] for number in free)):
        assert isinstance(size, int)
        assert isinstance(mode, int)
        chosen = {number: version for number, version in zip(free, versions, strict=True) if isinstance(version, bytes)}
        yield _found(options, size, mode, {**chosen, **fixed})


def _edge(options: Options, oldest: bool) -> _Found:
    end = 0 if oldest else -1
    blocks = {number: versions[end] for number, versions in options.blocks.items()}
    return _found(options, options.sizes[end], options.modes[end], blocks)


def _found(options: Options, size: int, mode: int, blocks: dict[int, bytes]) -> _Found:
    content = options.build(size, blocks)
    return _Found(content, mode, content == options.content and mode == options.modes[-1])


def _pick(versions: tuple[V, ...], age: float, dice: random.Random) -> V:
    return versions[-1] if dice.random() >= age else dice.choice(versions)


def _image(layout: _Layout, found: tuple[_Found, ...]) -> Image:
    pairs = [(path, each) for (path, _), each in zip(layout.files, found, strict=True)]
    files = tuple((path, each.content, each.mode) for path, each in pairs)
    old = tuple(f"part of what was done to {path}" for path, each in pairs if not each.newest)
    return Image(files, layout.directories, layout.lost + old)
