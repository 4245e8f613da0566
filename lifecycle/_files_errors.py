"""The errors of durable files. They name files and steps, never what a file holds."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Literal

from ._errors import OperationalError

PersistStep = Literal[
    "resolve",
    "create_parent",
    "create_temporary",
    "write_temporary",
    "sync_temporary",
    "replace_target",
    "sync_parent",
]
"""The steps of `persist`, in order. Up to the end of *replace_target* the target is as it was."""

Committed = Literal["no", "unknown"]
"""Whether a write that failed may have changed its target."""


class PersistFailed(OperationalError):
    """A file was not replaced, or it is not known whether it was. The OSError is the `__cause__`.

    `target` is the file as it was asked for and `step` where it ended. `committed` is *no*: the target is as it was,
    for good; or *unknown*: it holds the old content or the new, whole, and a power cut may still change which.
    """

    def __init__(self, target: Path, step: PersistStep, committed: Committed) -> None:
        super().__init__(target, step, committed)
        self.target = target
        self.step: PersistStep = step
        self.committed: Committed = committed

    @property
    def disk_full(self) -> bool:
        """Whether there was no room: the disk is full, or the quota is used up."""
        cause = self.__cause__
        return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)

    def __str__(self) -> str:
        cause = self.__cause__
        why = f" ({cause.strerror})" if isinstance(cause, OSError) and cause.strerror else ""
        if self.committed == "no":
            return (
                f"{str(self.target)!r} was not replaced, step {self.step} failed{why}: it is as it was; "
                "mend the cause, then write it again"
            )
        return (
            f"whether {str(self.target)!r} was replaced is unknown, step {self.step} failed{why}: "
            "it holds the old content or the new; write it again, or read it with settle=True"
        )


class EnvelopeMissing(OperationalError):
    """There is no file at `target`. Raised from the FileNotFoundError."""

    def __init__(self, target: Path) -> None:
        super().__init__(target)
        self.target = target

    def __str__(self) -> str:
        return f"there is no file {str(self.target)!r}: it was never written, or is elsewhere"


class EnvelopeUnreadable(OperationalError):
    """The file at `target` could not be read, which says nothing about its content. Raised from the OSError."""

    def __init__(self, target: Path) -> None:
        super().__init__(target)
        self.target = target

    def __str__(self) -> str:
        cause = self.__cause__
        why = f" ({cause.strerror})" if isinstance(cause, OSError) and cause.strerror else ""
        return f"{str(self.target)!r} could not be read{why}: mend the cause, then read it again"


class EnvelopeCorrupt(OperationalError):
    """The file at `target` is not one that was sealed, or not any more. `problem` says what is wrong with it."""

    def __init__(self, target: Path, problem: str) -> None:
        super().__init__(target, problem)
        self.target = target
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"{str(self.target)!r} is damaged, {self.problem}: put a good copy in its place; "
            "no write by atomic replacement leaves this, so look at the disk too"
        )


class DirectoryInUse(OperationalError):
    """Another owner has the directory. `holder` is what it says of itself, a process id, or None."""

    def __init__(self, directory: Path, holder: int | None) -> None:
        super().__init__(directory, holder)
        self.directory = directory
        self.holder = holder

    def __str__(self) -> str:
        who = "somebody else" if self.holder is None else f"process {self.holder}"
        return f"the directory {str(self.directory)!r} is in use by {who}: end that first, or use another directory"
