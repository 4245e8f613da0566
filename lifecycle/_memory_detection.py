"""Finding out how much memory this process may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._machine import LocalMachine
from ._machine_cgroup import MEMBERSHIP, cgroup_places
from ._memory import MemoryLimit
from ._memory_errors import MEMORY_VARIABLE, MemoryUndetected, MemoryVariableInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._machine import MachineView
    from ._memory import MemorySource

# The kernel writes the largest multiple of its page size for "no limit" in version 1; pages have up to 64 KiB.
_UNLIMITED_V1 = 0x7FFF_FFFF_FFFF_0000

_MOST_DIGITS = 19
"""Digits of the largest number of bytes that a kernel counts to."""


def detect_memory_limit(*, machine: MachineView | None = None) -> MemoryLimit:
    """How much memory this process may use, and who says so.

    `TENURE_PROCESS_MEMORY_LIMIT_BYTES` if it is set. Otherwise the smallest of the limits of its control groups, those
    of the groups above included, and of the machine's memory. `memory.high` slows a process down and is no limit.

    A file that is not there sets no limit. Raises `MemoryVariableInvalid` for a variable that is not a number of
    bytes, and `MemoryUndetected` for a file that exists and cannot be read or understood, or if nothing says anything.
    Reads a few files of the kernel; no checkpoint.
    """
    machine = LocalMachine() if machine is None else machine
    configured = machine.variable(MEMORY_VARIABLE)
    if configured is not None:
        return MemoryLimit(_bytes_of_variable(configured), "environment")
    found = list(_cgroup_limits(machine))
    physical = machine.physical_memory()
    if physical is not None:
        found.append((physical, "physical"))
    if not found:
        raise MemoryUndetected(None, "does not say how much memory it has")
    size, source = min(found, key=lambda limit: limit[0])  # of equal ones the first: the group says it more exactly
    return MemoryLimit(size, source)


def _bytes_of_variable(text: str) -> int:
    if not _is_number(text) or int(text) < 1:
        raise MemoryVariableInvalid(MEMORY_VARIABLE)
    return int(text)


def _cgroup_limits(machine: MachineView) -> Iterator[tuple[int, MemorySource]]:
    try:
        places = cgroup_places(machine, "memory")
    except OSError as exc:
        raise MemoryUndetected(str(exc.filename or MEMBERSHIP), "exists and cannot be read") from exc
    for directory in places.v2:
        limit = _limit(machine, f"{directory}/memory.max", unlimited="max")
        if limit is not None:
            yield limit, "cgroup_v2"
    for directory in places.v1:
        limit = _limit(machine, f"{directory}/memory.limit_in_bytes", unlimited="-1")
        if limit is not None and limit < _UNLIMITED_V1:
            yield limit, "cgroup_v1"


def _limit(machine: MachineView, path: str, unlimited: str) -> int | None:
    try:
        text = machine.read_file(path)
    except OSError as exc:
        raise MemoryUndetected(path, "exists and cannot be read") from exc
    if text is None or text.strip() == unlimited:
        return None
    if not _is_number(text.strip()) or int(text) < 1:
        raise MemoryUndetected(path, "does not hold a number of bytes of at least 1")
    return int(text)


def _is_number(text: str) -> bool:
    return len(text) <= _MOST_DIGITS and text.isascii() and text.isdecimal()
