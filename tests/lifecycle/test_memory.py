"""How much memory a process may use: detected, and how much of it is managed."""

from __future__ import annotations

import os
import tempfile
from errno import EACCES, EIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifecycle import (
    MEMORY_VARIABLE,
    ContractViolation,
    LocalMachine,
    MemoryInvalid,
    MemoryLimit,
    MemoryPolicy,
    MemorySource,
    MemoryTooSmall,
    MemoryUndetected,
    MemoryVariableInvalid,
    OperationalError,
    detect_memory_limit,
)

from ._machine import Machine, grouped, mount

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
V2 = "/sys/fs/cgroup"
V1 = "/sys/fs/cgroup/memory"


def v2(path: str, limits: dict[str, str | OSError], *, root: str = "/", point: str = V2) -> Machine:
    machine = grouped(f"0::{path}\n", mount("ext4", "/") + mount("cgroup2", point, root))
    machine.files.update(limits)
    return machine


def v1(path: str, limits: dict[str, str | OSError], *, root: str = "/", point: str = V1) -> Machine:
    machine = grouped(f"9:memory:{path}\n1:name=systemd:/x\n", mount("cgroup", point, root, "rw,memory"))
    machine.files.update(limits)
    return machine


# ---------------------------------------------------------------- version 2


@pytest.mark.row("runtime:R97")
@pytest.mark.parametrize(
    ("own", "parent", "top", "expected"),
    [
        ("100", "200", "300", 100),
        ("300", "100", "200", 100),
        ("300", "200", "100", 100),
        ("max", "max", "100", 100),
        ("max", "100", None, 100),
        (None, None, "100", 100),
    ],
)
def test_the_smallest_limit_of_nested_groups_of_version_2_holds(
    own: str | None, parent: str | None, top: str | None, expected: int
) -> None:
    files = {f"{V2}/a/b/memory.max": own, f"{V2}/a/memory.max": parent, f"{V2}/memory.max": top}
    machine = v2("/a/b", {path: f"{text}\n" for path, text in files.items() if text is not None})
    assert detect_memory_limit(machine=machine) == MemoryLimit(expected, "cgroup_v2")


@pytest.mark.row("runtime:R97")
def test_what_only_slows_a_process_down_and_the_limits_of_other_groups_are_no_limits() -> None:
    machine = v2(
        "/a/b",
        {
            f"{V2}/a/b/memory.high": "1\n",
            f"{V2}/a/b/memory.low": "1\n",
            f"{V2}/a/b/memory.swap.max": "1\n",
            f"{V2}/a/b/c/memory.max": "2\n",
            f"{V2}/a/other/memory.max": "3\n",
            f"{V2}/a/b/memory.max": "max\n",
        },
    )
    assert detect_memory_limit(machine=machine) == MemoryLimit(1 << 60, "physical")


@pytest.mark.row("runtime:R97")
def test_the_escaped_names_of_a_mount_are_read() -> None:
    # A blank, a tab, a newline and a backslash, in the mount point and in the group that is mounted there.
    machine = v2(
        "/the group/in\\side",
        {"/mnt/a b\tc\nd\\e/in\\side/memory.max": "77\n"},
        root=r"/the\040group",
        point=r"/mnt/a\040b\011c\012d\134e",
    )
    assert detect_memory_limit(machine=machine) == MemoryLimit(77, "cgroup_v2")


def test_a_name_with_a_colon_is_one_name() -> None:
    machine = v2("/sys:tem/a:b", {f"{V2}/sys:tem/a:b/memory.max": "5"})
    assert detect_memory_limit(machine=machine).bytes == 5


# ---------------------------------------------------------------- version 1


@pytest.mark.row("runtime:R97")
@pytest.mark.parametrize("unlimited", ["9223372036854771712", "9223372036854710272", "9223372036854775807", "-1"])
def test_the_value_that_version_1_writes_for_no_limit_is_none(unlimited: str) -> None:
    machine = v1("/a", {f"{V1}/a/memory.limit_in_bytes": f"{unlimited}\n"})
    assert detect_memory_limit(machine=machine) == MemoryLimit(1 << 60, "physical")
    machine.physical = None
    with pytest.raises(MemoryUndetected):
        detect_memory_limit(machine=machine)
    machine.files[f"{V1}/memory.limit_in_bytes"] = f"{MIB}\n"
    assert detect_memory_limit(machine=machine) == MemoryLimit(MIB, "cgroup_v1")


@pytest.mark.row("runtime:R97")
def test_the_smallest_limit_of_nested_groups_of_version_1_holds() -> None:
    machine = v1("/a/b", {f"{V1}/a/b/memory.limit_in_bytes": "900", f"{V1}/a/memory.limit_in_bytes": "800"})
    assert detect_memory_limit(machine=machine) == MemoryLimit(800, "cgroup_v1")


@pytest.mark.row("runtime:R97")
def test_a_controller_is_found_where_several_are_mounted_together() -> None:
    machine = grouped("4:cpu,memory,cpuacct:/a\n", mount("cgroup", "/cg", options="rw,cpu,cpuacct,memory"))
    machine.files["/cg/a/memory.limit_in_bytes"] = "123\n"
    assert detect_memory_limit(machine=machine) == MemoryLimit(123, "cgroup_v1")


def test_a_controller_with_a_similar_name_is_another_one() -> None:
    machine = grouped("4:memory2,hugetlb:/a\n", mount("cgroup", "/cg", options="rw,memory2,hugetlb"))
    machine.files["/cg/a/memory.limit_in_bytes"] = "123\n"
    assert detect_memory_limit(machine=machine).source == "physical"


@pytest.mark.row("runtime:R97")
def test_with_both_versions_the_smaller_limit_holds() -> None:
    mounts = mount("cgroup2", "/sys/fs/cgroup/unified") + mount("cgroup", V1, options="rw,memory")
    machine = grouped("9:memory:/one\n0::/two\n", mounts)
    machine.files[f"{V1}/one/memory.limit_in_bytes"] = "500"
    assert detect_memory_limit(machine=machine) == MemoryLimit(500, "cgroup_v1")
    machine.files["/sys/fs/cgroup/unified/two/memory.max"] = "400"
    assert detect_memory_limit(machine=machine) == MemoryLimit(400, "cgroup_v2")


# ---------------------------------------------------------------- mounts and namespaces


@pytest.mark.row("runtime:R97")
@pytest.mark.parametrize("make", [v2, v1])
def test_a_container_that_sees_only_its_own_group_finds_its_limit(make: Callable[..., Machine]) -> None:
    # The host's names in the membership, and the container's group as the root of the mount.
    name = "memory.max" if make is v2 else "memory.limit_in_bytes"
    point = V2 if make is v2 else V1
    machine = make("/docker/abc/inner", {f"{point}/{name}": "600", f"{point}/inner/{name}": "700"}, root="/docker/abc")
    assert detect_memory_limit(machine=machine).bytes == 600


@pytest.mark.row("runtime:R97")
@pytest.mark.parametrize(
    ("root", "path", "file"),
    [
        ("/", "/", "/memory.max"),  # the usual namespace
        ("/", "/a", "/a/memory.max"),
        ("/..", "/../other", "/other/memory.max"),  # outside its namespace, and the mount begins there too
        ("/..", "/", "/memory.max"),  # the mount begins above the namespace: what is there holds, the rest is hidden
        ("/../..", "/../a", "/memory.max"),
        ("/docker/abc", "/kubepods/x", "/memory.max"),  # seen from elsewhere: the container's own
    ],
)
def test_namespaces_of_groups(root: str, path: str, file: str) -> None:
    machine = v2(path, {f"{V2}{file}": "55"}, root=root)
    assert detect_memory_limit(machine=machine) == MemoryLimit(55, "cgroup_v2")


def test_a_group_outside_the_namespace_is_not_looked_for_outside_the_mount() -> None:
    machine = v2("/../other", {f"{V2}/../other/memory.max": "1", f"{V2}/../memory.max": "2", f"{V2}/memory.max": "3"})
    assert detect_memory_limit(machine=machine).bytes == 3
    assert not any(".." in path for path in machine.asked)


def test_a_path_is_not_taken_for_one_that_begins_with_the_same_letters() -> None:
    mounts = mount("cgroup2", "/one", "/a") + mount("cgroup2", "/two", "/ab")
    machine = grouped("0::/ab/c\n", mounts)
    machine.files |= {"/one/memory.max": "1", "/one/b/c/memory.max": "2", "/two/c/memory.max": "3"}
    assert detect_memory_limit(machine=machine).bytes == 3


def test_two_mounts_of_a_hierarchy_are_both_looked_at_and_a_hidden_one_is_not() -> None:
    mounts = mount("cgroup2", "/one") + mount("cgroup2", "/two", "/a") + mount("cgroup2", "/hidden")
    machine = grouped("0::/a/b\n", mounts + mount("tmpfs", "/hidden"))
    machine.files |= {"/hidden/memory.max": "1", "/one/memory.max": "30", "/two/b/memory.max": "20"}
    assert detect_memory_limit(machine=machine).bytes == 20


def test_lines_that_are_not_the_kernels_are_passed_over() -> None:
    machine = v2("/a", {f"{V2}/a/memory.max": "9"})
    for path in ("/proc/self/cgroup", "/proc/self/mountinfo"):
        text = machine.files[path]
        assert isinstance(text, str)
        machine.files[path] = f"\ngarbage\n1 2 - x\n:\n{text}7:memory\n"
    assert detect_memory_limit(machine=machine).bytes == 9


# ---------------------------------------------------------------- what is missing, unreadable or wrong


@pytest.mark.row("runtime:R97")
@pytest.mark.parametrize("missing", ["/proc/self/cgroup", "/proc/self/mountinfo", f"{V2}/a/memory.max"])
def test_a_file_that_is_not_there_sets_no_limit(missing: str) -> None:
    machine = v2("/a", {f"{V2}/a/memory.max": "9"})
    assert detect_memory_limit(machine=machine).bytes == 9
    del machine.files[missing]
    assert detect_memory_limit(machine=machine) == MemoryLimit(1 << 60, "physical")


@pytest.mark.row("runtime:R97")
@pytest.mark.parametrize(
    ("make", "path"),
    [
        (v2, "/proc/self/cgroup"),
        (v2, "/proc/self/mountinfo"),
        (v2, f"{V2}/a/memory.max"),
        (v2, f"{V2}/memory.max"),
        (v1, f"{V1}/a/memory.limit_in_bytes"),
    ],
)
@pytest.mark.parametrize("code", [EACCES, EIO])
def test_a_file_that_is_there_and_cannot_be_read_is_an_error(
    make: Callable[..., Machine], path: str, code: int
) -> None:
    machine = make("/a", {})
    machine.files[path] = OSError(code, os.strerror(code), path)
    with pytest.raises(MemoryUndetected) as caught:
        detect_memory_limit(machine=machine)
    assert caught.value.path == path
    assert isinstance(caught.value.__cause__, OSError)
    assert isinstance(caught.value, OperationalError)
    assert path in str(caught.value)
    assert MEMORY_VARIABLE in str(caught.value)


@pytest.mark.row("runtime:R97")
@pytest.mark.parametrize("text", ["", "\n", "12 kB", "0x10", "-5", "0", "1_000", "1e9", "²", "unlimited", "9" * 5000])
def test_a_limit_that_is_no_number_is_an_error(text: str) -> None:
    with pytest.raises(MemoryUndetected) as caught:
        detect_memory_limit(machine=v2("/a", {f"{V2}/a/memory.max": text}))
    assert caught.value.path == f"{V2}/a/memory.max"
    assert text.strip() == "" or f" {text}" not in str(caught.value)


@pytest.mark.row("runtime:R97")
@pytest.mark.parametrize(
    "text",
    ["", " ", "12 ", "+12", "-1", "0", "0x10", "12k", "1_000", "1.5", "1e9", "max", "²", "५", "9" * 20, "9" * 5000],
)
def test_garbage_in_the_environment_is_an_error(text: str) -> None:
    machine = v2("/a", {f"{V2}/a/memory.max": "9"})
    machine.variables[MEMORY_VARIABLE] = text
    with pytest.raises(MemoryVariableInvalid) as caught:
        detect_memory_limit(machine=machine)
    assert caught.value.variable == MEMORY_VARIABLE == "TENURE_PROCESS_MEMORY_LIMIT_BYTES"
    assert isinstance(caught.value, OperationalError)
    assert len(str(caught.value)) < 300  # the value is not in it
    assert machine.asked == []


@pytest.mark.row("runtime:R97")
@pytest.mark.parametrize("text", ["1", "007", "4096", "9223372036854775807"])
def test_the_environment_comes_first_and_nothing_else_is_asked(text: str) -> None:
    machine = v2("/a", {f"{V2}/a/memory.max": "9"})
    machine.variables[MEMORY_VARIABLE] = text
    assert detect_memory_limit(machine=machine) == MemoryLimit(int(text), "environment")
    assert machine.asked == []


@pytest.mark.row("runtime:R97")
def test_the_smaller_of_the_group_and_the_machine_holds() -> None:
    machine = v2("/a", {f"{V2}/a/memory.max": "1000"})
    machine.physical = 999
    assert detect_memory_limit(machine=machine) == MemoryLimit(999, "physical")
    machine.physical = 1000
    assert detect_memory_limit(machine=machine) == MemoryLimit(1000, "cgroup_v2")
    machine.physical = None
    assert detect_memory_limit(machine=machine) == MemoryLimit(1000, "cgroup_v2")


def test_a_machine_that_says_nothing_is_an_error() -> None:
    with pytest.raises(MemoryUndetected) as caught:
        detect_memory_limit(machine=Machine(physical=None))
    assert caught.value.path is None
    assert "memory_limit" in str(caught.value)


# ---------------------------------------------------------------- this machine


@pytest.mark.row("runtime:R97")
def test_the_limit_of_this_process_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MEMORY_VARIABLE, raising=False)
    limit = detect_memory_limit()
    physical = LocalMachine().physical_memory()
    assert limit.source in ("cgroup_v2", "cgroup_v1", "physical")
    assert 16 * MIB < limit.bytes <= (physical or limit.bytes)
    monkeypatch.setenv(MEMORY_VARIABLE, "4096")
    assert detect_memory_limit() == MemoryLimit(4096, "environment")


def test_the_files_of_this_machine(tmp_path: Path) -> None:
    machine = LocalMachine()
    (tmp_path / "file").write_bytes(b"a\xff\n")
    assert machine.read_file(str(tmp_path / "file")) == "a\udcff\n"  # any bytes may be in a name
    assert machine.read_file(str(tmp_path / "none")) is None
    assert machine.read_file(str(tmp_path / "file" / "below")) is None
    with pytest.raises(OSError):
        machine.read_file(tempfile.gettempdir())


# ---------------------------------------------------------------- the policy


@pytest.mark.row("runtime:R98")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (MemoryPolicy(), 1000),
        (MemoryPolicy.whole(), 1000),
        (MemoryPolicy.whole(headroom=1), 999),
        (MemoryPolicy.whole(headroom=999), 1),
        (MemoryPolicy.explicit(600), 600),
        (MemoryPolicy.explicit(1000), 1000),
        (MemoryPolicy.explicit(5000), 1000),  # the limit holds over what was wished for
        (MemoryPolicy.explicit(600, headroom=400), 600),
        (MemoryPolicy.explicit(600, headroom=500), 500),
        (MemoryPolicy.fraction(1, 2), 500),
        (MemoryPolicy.fraction(2, 3), 666),
        (MemoryPolicy.fraction(1, 1), 1000),
        (MemoryPolicy.fraction(3, 4, headroom=250), 750),
        (MemoryPolicy.fraction(3, 4, headroom=300), 700),
    ],
)
def test_what_a_policy_manages(policy: MemoryPolicy, expected: int) -> None:
    assert policy.mistakes() == ()
    assert policy.managed(MemoryLimit(1000)) == expected


@pytest.mark.row("runtime:R98")
@pytest.mark.parametrize(
    "policy",
    [
        MemoryPolicy.whole(headroom=1000),
        MemoryPolicy.whole(headroom=1 << 70),
        MemoryPolicy.explicit(5, headroom=1000),
        MemoryPolicy.explicit(5, headroom=1001),
        MemoryPolicy.fraction(1, 2, headroom=1000),
        MemoryPolicy.fraction(1, 1001),
    ],
)
def test_a_policy_that_leaves_nothing_is_an_error(policy: MemoryPolicy) -> None:
    with pytest.raises(MemoryTooSmall) as caught:
        policy.managed(MemoryLimit(1000, "cgroup_v2"))
    assert (caught.value.limit, caught.value.source, caught.value.headroom) == (1000, "cgroup_v2", policy.headroom)
    assert isinstance(caught.value, OperationalError)
    assert "1000 bytes (cgroup_v2)" in str(caught.value)


@pytest.mark.row("runtime:R98")
@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({"bytes": 0}, ["bytes"]),
        ({"bytes": -1}, ["bytes"]),
        ({"bytes": 1.5}, ["bytes"]),
        ({"bytes": True}, ["bytes"]),
        ({"headroom": -1}, ["headroom"]),
        ({"headroom": None}, ["headroom"]),
        ({"numerator": 0}, ["fraction"]),
        ({"numerator": -1, "denominator": -1}, ["fraction"]),
        ({"numerator": 2, "denominator": 1}, ["fraction"]),
        ({"denominator": 0}, ["fraction"]),
        ({"numerator": 0.5}, ["fraction"]),
        ({"numerator": True}, ["fraction"]),
        ({"bytes": "secret", "denominator": "x", "headroom": -5}, ["bytes", "fraction", "headroom"]),
    ],
)
def test_the_mistakes_of_a_policy_are_named_all_at_once(arguments: dict[str, Any], fields: list[str]) -> None:
    policy = MemoryPolicy(**arguments)
    mistakes = policy.mistakes()
    assert len(mistakes) == len(fields)
    assert all(field in mistake for field, mistake in zip(fields, mistakes, strict=True))
    with pytest.raises(MemoryInvalid) as caught:
        policy.managed(MemoryLimit(1000))
    assert caught.value.mistakes == mistakes
    assert isinstance(caught.value, ContractViolation)
    assert "secret" not in str(caught.value)


@pytest.mark.row("runtime:R98")
@given(
    limit=st.integers(1, 1 << 70),
    share=st.tuples(st.integers(1, 1 << 70), st.integers(1, 1 << 70)).map(sorted),
    headroom=st.integers(0, 1 << 70),
)
def test_a_share_is_exact_for_every_size_and_never_more_than_the_limit_less_the_headroom(
    limit: int, share: list[int], headroom: int
) -> None:
    policy = MemoryPolicy.fraction(share[0], share[1], headroom=headroom)
    try:
        managed = policy.managed(MemoryLimit(limit))
    except MemoryTooSmall:
        assert limit <= headroom or limit * share[0] < share[1]
        return
    assert 1 <= managed <= limit - headroom
    assert managed * share[1] <= limit * share[0]
    assert managed == limit - headroom or (managed + 1) * share[1] > limit * share[0]


@pytest.mark.parametrize("source", ["configured", "environment", "cgroup_v2", "cgroup_v1", "physical"])
def test_a_limit_says_who_set_it(source: MemorySource) -> None:
    limit = MemoryLimit(10, source)
    assert (limit.bytes, limit.source) == (10, source)
    assert limit.fraction(1, 3) == 3


@pytest.mark.parametrize("value", [0, -1, 1.0, True, None, "12"])
def test_a_limit_that_is_no_number_of_bytes_is_refused(value: Any) -> None:
    with pytest.raises(MemoryInvalid, match="bytes must be"):
        MemoryLimit(value)


def test_a_limit_from_nowhere_and_a_share_of_nothing_are_refused() -> None:
    with pytest.raises(MemoryInvalid, match="source must be one of"):
        MemoryLimit(1, "hearsay")  # type: ignore[arg-type]
    for share in ((0, 1), (2, 1), (1, 0)):
        with pytest.raises(MemoryInvalid, match="fraction"):
            MemoryLimit(1).fraction(*share)
