"""What the test kit raises. All but `InjectedCrash` are assertion errors: they fail the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from lifecycle import ShutdownReport


@attrs.define(eq=False)
class UncleanSystem(AssertionError):
    """A system of the test kit has ended, and not as it should."""

    report: ShutdownReport | None
    """How the tree ended; None if there is nothing wrong with that."""
    unread: tuple[tuple[str, BaseException], ...]
    """Actors that failed for good without anybody being told: path and cause."""

    def __str__(self) -> str:
        parts = [
            f"actor {path} failed for good with {cause!r}, and nobody was told: watch it or await `wait_stopped()` "
            "before it fails, or open the system with unread_failures=True"
            for path, cause in self.unread
        ]
        if self.report is not None:
            if self.report.totals().leaked:
                parts.append("tasks have leaked: they ran on past the shutdown deadline, where the report shows them")
            parts.append(f"the shutdown report is unhealthy:\n{self.report.render()}")
        return "\n".join(parts)


@attrs.define(eq=False)
class Deadlocked(AssertionError):
    """On the virtual clock: every task waits, and nothing is due that could ever wake one."""

    tasks: tuple[str, ...]
    """Who waits where: a line for each task."""

    def __str__(self) -> str:
        lines = "".join(f"\n  {task}" for task in self.tasks)
        return f"every task waits and no timer or time limit is due, so nothing can happen any more:{lines}"


@attrs.define(eq=False)
class Unexpected(AssertionError):
    """A probe was sent something else than the test expected, or nothing in time."""

    probe: str
    """The probe's path."""
    expected: str
    got: str
    seen: tuple[object, ...] = ()
    """What else was received: passed over before, or still unread. Oldest first."""

    def __str__(self) -> str:
        others = "".join(f"\n  {message!r}" for message in self.seen)
        also = f"; it also has{others}" if others else ""
        return f"{self.probe} expected {self.expected} and got {self.got}{also}"


@attrs.define(eq=False)
class InjectedCrash(Exception):
    """Raised by a `FaultPlan` in an actor that it wraps."""

    path: str
    message: object
    number: int
    """Which of the actor's messages it was, from 1."""

    def __str__(self) -> str:
        return f"the fault plan crashed {self.path} at message {self.number}, {type(self.message).__qualname__}"


@attrs.define(eq=False)
class PowerCutFailed(AssertionError):
    """Recovery from what a power cut may leave is wrong."""

    state: tuple[str, ...]
    """What was cut when, and what was lost: lines."""
    problem: str

    def __str__(self) -> str:
        return "\n".join((self.problem, *self.state))
