"""What can go wrong. A `DemoError` ends the run; a `FileError` costs one file, which is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from pathlib import Path


class DemoError(Exception):
    """The demo cannot be run, or not to its end. The message is one line and says what to do."""


@attrs.define(eq=False)
class PathUnusable(DemoError):
    """There is nothing to count at this path."""

    path: Path
    why: str

    def __str__(self) -> str:
        return f"{shown(self.path)} {self.why}: give a directory with text or log files"


@attrs.define(eq=False)
class CheckpointRefused(DemoError):
    """The file is there and cannot be resumed. It is left as it is."""

    path: Path
    why: str

    def __str__(self) -> str:
        return f"the checkpoint {shown(self.path)} {self.why}; it is left as it is"


@attrs.define(eq=False)
class CheckpointUnwritable(DemoError):
    """The disk does not take the checkpoint."""

    path: Path
    why: str

    def __str__(self) -> str:
        return (
            f"the checkpoint {shown(self.path)} cannot be written ({self.why}): make room for it, or name another file "
            "with --checkpoint; the next run goes on from the last one that was written"
        )


class FileError(Exception):
    """One file cannot be counted. The message is what is wrong with it."""


class NotAFile(FileError):
    def __str__(self) -> str:
        return "no longer a regular file"


class FileChanged(FileError):
    def __str__(self) -> str:
        return "changed while it was read"


@attrs.define(eq=False)
class WorkersCrashed(FileError):
    """Every try to count a part of it has crashed the worker."""

    tries: int
    cause: BaseException
    """What the last one failed with."""

    def __str__(self) -> str:
        return f"crashed its worker {self.tries} times ({type(self.cause).__name__}: {self.cause})"


def shown(path: object) -> str:
    """A path for people: a name may hold bytes that are no text, or that would steer the terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(path))
