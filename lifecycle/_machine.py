"""What this package reads of the machine, behind one narrow view that a test can stand in for."""

from __future__ import annotations

import errno
import os
from typing import Protocol, final

# The file is not there; or it was that of a cgroup which went away between its opening and its reading.
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV})


class MachineView(Protocol):
    """The machine, as detection sees it. All calls are sync and quick: they read memory of the kernel, no disk."""

    def variable(self, name: str) -> str | None:
        """The environment variable `name`; None if it is not set."""
        ...

    def read_file(self, path: str) -> str | None:
        """The text of a file; None if there is none. Raises `OSError` for a file that cannot be read."""
        ...

    def physical_memory(self) -> int | None:
        """Bytes of memory of the machine; None where that cannot be asked."""
        ...

    def usable_cpus(self) -> int | None:
        """How many processors this process may run on; None where that cannot be asked."""
        ...


@final
class LocalMachine:
    """The machine that this process runs on."""

    __slots__ = ()

    def variable(self, name: str) -> str | None:
        """See `MachineView`."""
        return os.environ.get(name)

    def read_file(self, path: str) -> str | None:
        """See `MachineView`."""
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as exc:
            if exc.errno in _MISSING:
                return None
            raise
        return os.fsdecode(data)  # names of cgroups and mount points may be any bytes

    def physical_memory(self) -> int | None:
        """See `MachineView`."""
        try:
            size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, OSError, ValueError):
            return None
        return size if size > 0 else None

    def usable_cpus(self) -> int | None:
        """See `MachineView`. Follows the affinity of this process where the system has one."""
        try:
            return len(os.sched_getaffinity(0))
        except (AttributeError, OSError):
            return os.cpu_count()
