"""What may be wrong with the memory that a runtime is to manage."""

from __future__ import annotations

from ._errors import ContractViolation, OperationalError

MEMORY_VARIABLE = "TENURE_PROCESS_MEMORY_LIMIT_BYTES"
"""The environment variable that says how many bytes of memory this process may use."""


class MemoryInvalid(ContractViolation):
    """An amount of memory, or a policy for it, was refused. `mistakes` are sentences that each name a field."""

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes

    def __str__(self) -> str:
        return f"memory was given with {len(self.mistakes)} mistake(s): " + "; ".join(self.mistakes)


class MemoryVariableInvalid(OperationalError):
    """The environment variable `variable` is set, and not to a number of bytes."""

    def __init__(self, variable: str) -> None:
        super().__init__(variable)
        self.variable = variable

    def __str__(self) -> str:
        return (
            f"the environment variable {self.variable} is not a whole number of bytes, at least 1: "
            "write decimal digits without a unit, or unset it to have the limit detected"
        )


class MemoryUndetected(OperationalError):
    """The memory limit of this process cannot be found out. `path` is the file that is wrong, None if none is there.

    What the system said of the file is the `__cause__`, if it said something.
    """

    def __init__(self, path: str | None, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"the memory limit of this process is not known: {self.path or 'the machine'} {self.problem}; "
            f"correct that, or set {MEMORY_VARIABLE} or RuntimeConfig(memory_limit=...)"
        )


class MemoryTooSmall(OperationalError):
    """A policy leaves no memory to manage. `limit` and `headroom` are bytes, `source` says where the limit is from."""

    def __init__(self, limit: int, source: str, headroom: int) -> None:
        super().__init__(limit, source, headroom)
        self.limit = limit
        self.source = source
        self.headroom = headroom

    def __str__(self) -> str:
        return (
            f"the memory limit of {self.limit} bytes ({self.source}) leaves nothing to manage with a headroom of "
            f"{self.headroom} bytes: give the process more memory, or its MemoryPolicy less headroom or a larger share"
        )
