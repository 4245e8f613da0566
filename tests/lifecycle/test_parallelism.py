"""How many processors' worth of time a process may use."""

from __future__ import annotations

import os
from errno import EACCES

import pytest

from lifecycle import available_parallelism

from ._machine import Machine, grouped, mount

BOTH = mount("cgroup2", "/v2") + mount("cgroup", "/v1", options="rw,cpu,cpuacct")


@pytest.mark.parametrize(("cpus", "expected"), [(1, 1), (8, 8), (None, 4), (0, 4)])
def test_without_quotas_it_is_the_affinity(cpus: int | None, expected: int) -> None:
    assert available_parallelism(machine=Machine(cpus=cpus)) == expected


@pytest.mark.parametrize(
    ("own", "parent", "expected"),
    [
        ("max 100000", "max 100000", 64),
        ("200000 100000", "max 100000", 2),
        ("250000 100000", "max 100000", 2),
        ("10000 100000", "max 100000", 1),
        ("800000 100000", "300000 100000", 3),
        ("max 100000", "9900000 100000", 64),
        ("100000 0", "max", 64),
        ("", "garbage 1 2", 64),
        ("-5 1", "²", 64),
    ],
)
def test_the_smallest_quota_of_version_2_counts(own: str, parent: str, expected: int) -> None:
    machine = grouped("0::/a\n", BOTH)
    machine.files |= {"/v2/a/cpu.max": f"{own}\n", "/v2/cpu.max": f"{parent}\n"}
    assert available_parallelism(machine=machine) == expected


@pytest.mark.parametrize(("quota", "expected"), [("-1", 64), ("300000", 3), ("1000", 1)])
def test_the_quota_of_version_1_counts(quota: str, expected: int) -> None:
    machine = grouped("3:cpu,cpuacct:/a\n", BOTH)
    machine.files |= {"/v1/a/cpu.cfs_quota_us": f"{quota}\n", "/v1/a/cpu.cfs_period_us": "100000\n"}
    assert available_parallelism(machine=machine) == expected


@pytest.mark.parametrize("path", ["/proc/self/cgroup", "/proc/self/mountinfo", "/v2/a/cpu.max"])
def test_what_cannot_be_read_is_no_quota(path: str) -> None:
    machine = grouped("0::/a\n", BOTH)
    machine.files[path] = OSError(EACCES, "no", path)
    assert available_parallelism(machine=machine) == 64


def test_this_machine() -> None:
    assert 1 <= available_parallelism() <= (os.cpu_count() or 1)
