r"""Where the control groups of this process are to be read: `/proc/self/cgroup` joined with `/proc/self/mountinfo`.

The first says in which group of each hierarchy the process is, the second where that hierarchy can be seen and from
which of its groups on. Both are relative to the cgroup namespace of the process, so they fit each other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._machine import MachineView

MEMBERSHIP = "/proc/self/cgroup"
MOUNTS = "/proc/self/mountinfo"

_ESCAPE = re.compile(r"\\([0-7]{3})")


@attrs.frozen
class CgroupPlaces:
    """The directories whose limits hold for this process with regard to one controller, its own group's first."""

    v2: tuple[str, ...] = ()
    v1: tuple[str, ...] = ()


@attrs.frozen
class _Mount:
    kind: str
    """The type of the file system: `cgroup2`, `cgroup`, or any other."""
    root: str
    """The group that is seen at the mount point."""
    point: str
    options: frozenset[str]


def cgroup_places(machine: MachineView, controller: str) -> CgroupPlaces:
    """Where the limits of `controller` are for this process and for the groups above it, as far as they can be seen.

    Empty where there are no control groups. Lines that do not have the kernel's format are passed over. Raises
    `OSError` when one of the two files exists and cannot be read.
    """
    membership = machine.read_file(MEMBERSHIP)
    mountinfo = machine.read_file(MOUNTS) if membership is not None else None
    if membership is None or mountinfo is None:
        return CgroupPlaces()
    mounts = _mounts(mountinfo)
    v2: dict[str, None] = {}
    v1: dict[str, None] = {}
    for line in membership.splitlines():
        hierarchy, found, rest = line.partition(":")
        controllers, found_too, path = rest.partition(":")
        if not (found and found_too):
            continue
        if hierarchy == "0" and not controllers:
            v2.update(dict.fromkeys(_directories([mount for mount in mounts if mount.kind == "cgroup2"], path)))
        elif controller in controllers.split(","):
            seen = [mount for mount in mounts if mount.kind == "cgroup" and controller in mount.options]
            v1.update(dict.fromkeys(_directories(seen, path)))
    return CgroupPlaces(tuple(v2), tuple(v1))


def _mounts(mountinfo: str) -> list[_Mount]:
    by_point: dict[str, _Mount] = {}
    for line in mountinfo.splitlines():
        mount = _mount(line)
        if mount is not None:
            by_point.pop(mount.point, None)
            by_point[mount.point] = mount  # a later mount on the same place hides the earlier one
    return list(by_point.values())


def _mount(line: str) -> _Mount | None:
    # 36 35 98:0 /root /point rw,noatime shared:1 ... - cgroup2 source rw,options
    left, separator, right = line.partition(" - ")
    before, after = left.split(" "), right.split(" ")
    if not separator or len(before) < 6 or len(after) < 3:
        return None
    return _Mount(after[0], _plain(before[3]), _plain(before[4]), frozenset(after[2].split(",")))


def _plain(field: str) -> str:
    """A field of mountinfo, in which blanks, tabs, newlines and backslashes are written in octal."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), field)


def _directories(mounts: list[_Mount], path: str) -> Iterator[str]:
    """The directories of the group `path` and of those above it, through each mount that shows any of them."""
    shown = [(mount, below) for mount in mounts if (below := _below(mount.root, path)) is not None]
    # No mount shows this group: then what is mounted here is nearly always the container's own, seen from elsewhere.
    for mount, below in shown or [(mount, ()) for mount in mounts]:
        point = mount.point.rstrip("/")
        for depth in range(len(below), -1, -1):
            yield "/".join((point, *below[:depth]))


def _below(root: str, path: str) -> tuple[str, ...] | None:
    """The names that lead from the group `root` down to the group `path`; None if `root` is not above it.

    Both may begin with `..`, for groups outside the process's cgroup namespace.
    """
    above, names = _names(root), _names(path)
    if names[: len(above)] == above:
        below = names[len(above) :]
        # From `..` further up: the root that is mounted lies inside, and is not above.
        return None if ".." in below else below
    if all(name == ".." for name in above) and names.count("..") < len(above):
        return ()  # the mount begins above the namespace; the names from there down to it are hidden from us
    return None


def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)
