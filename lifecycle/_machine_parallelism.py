"""How much of the machine's processors this process may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._machine import LocalMachine
from ._machine_cgroup import cgroup_places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._machine import MachineView

UNKNOWN_PARALLELISM = 4
"""What is assumed where the number of processors cannot be asked."""


def available_parallelism(*, machine: MachineView | None = None) -> int:
    """How many processors' worth of time this process may use: at least 1.

    The smaller of its affinity and of the smallest processor quota of its control groups and of those above them,
    rounded down. A quota that cannot be read is taken for none: too many threads are slow, and not wrong. Reads a few
    files of the kernel; no checkpoint.
    """
    machine = LocalMachine() if machine is None else machine
    usable = machine.usable_cpus() or UNKNOWN_PARALLELISM
    return max(1, min([usable, *_quotas(machine)]))


def _quotas(machine: MachineView) -> Iterator[int]:
    try:
        places = cgroup_places(machine, "cpu")
    except OSError:
        return
    for directory in places.v2:
        quota, _, period = _text(machine, f"{directory}/cpu.max").partition(" ")
        yield from _whole(quota, period)
    for directory in places.v1:
        quota = _text(machine, f"{directory}/cpu.cfs_quota_us")
        period = _text(machine, f"{directory}/cpu.cfs_period_us")
        yield from _whole(quota, period)


def _text(machine: MachineView, path: str) -> str:
    try:
        return (machine.read_file(path) or "").strip()
    except OSError:
        return ""


def _whole(quota: str, period: str) -> Iterator[int]:
    """The whole processors of a quota in microseconds each period; nothing for `max`, -1 and what is no number."""
    if quota.isdecimal() and period.isdecimal() and int(period) > 0:
        yield int(quota) // int(period)
