"""A machine made of texts."""

from __future__ import annotations

import attrs


@attrs.define
class Machine:
    """A `MachineView`. What is not in `files` does not exist; an exception there is what reading the file raises."""

    files: dict[str, str | OSError] = attrs.Factory(dict)
    variables: dict[str, str] = attrs.Factory(dict)
    physical: int | None = 1 << 60
    cpus: int | None = 64
    asked: list[str] = attrs.Factory(list)

    def variable(self, name: str) -> str | None:
        return self.variables.get(name)

    def read_file(self, path: str) -> str | None:
        self.asked.append(path)
        text = self.files.get(path)
        if isinstance(text, OSError):
            raise text
        return text

    def physical_memory(self) -> int | None:
        return self.physical

    def usable_cpus(self) -> int | None:
        return self.cpus


def mount(kind: str, point: str, root: str = "/", options: str = "rw") -> str:
    """One line of mountinfo."""
    return f"36 35 98:0 {root} {point} rw,noatime shared:1 master:2 - {kind} {kind} {options}\n"


def grouped(membership: str, mounts: str, **limits: str) -> Machine:
    """A machine whose process is in control groups. `limits` holds the files by their paths."""
    return Machine({"/proc/self/cgroup": membership, "/proc/self/mountinfo": mounts, **limits})
