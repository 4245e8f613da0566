"""The changes that files in memory tell of. Files and directories have numbers, which stay when names change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

if TYPE_CHECKING:
    from lifecycle import FileKind

ROOT: Final = 0


@attrs.frozen
class Wrote:
    """Also what a size has become: `data` is None for a truncation, and `offset` is the new size then."""

    node: int
    offset: int
    data: bytes | None


@attrs.frozen
class ModeSet:
    """A file got other permission bits."""

    node: int
    mode: int


@attrs.frozen
class Named:
    """A node was created, renamed or removed. A place is a directory and a name; None where there is none."""

    node: int
    source: tuple[int, str] | None
    target: tuple[int, str] | None
    made: FileKind | None = None
    """What it is, if it is new."""
    mode: int = 0
    """Of a new file."""


@attrs.frozen
class Synced:
    """A file (or a directory) was synced."""

    node: int
    data_only: bool = False


Change: TypeAlias = Wrote | ModeSet | Named | Synced
