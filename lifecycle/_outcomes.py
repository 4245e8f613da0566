"""How tasks ended, counted once each."""

from __future__ import annotations

from typing import Literal

import attrs

Outcome = Literal["completed", "cancelled", "failed", "panicked", "aborted"]
"""How one task that has ended did so."""


@attrs.frozen
class Outcomes:
    """How many tasks ended in which way.

    Each accepted task that has ended, or was given up at the end of a shutdown, is in exactly one of these counts;
    `timed_out` comes on top: those of `aborted` and `leaked` that the shutdown deadline overtook.
    """

    completed: int = 0
    """Returned before anything was cancelled."""
    cancelled: int = 0
    """Ended as asked: by its cancellation, or by returning after the request to stop."""
    failed: int = 0
    """Declared a failure."""
    panicked: int = 0
    """An exception left the task."""
    timed_out: int = 0
    """Overtaken by the deadline; each of these is also in `aborted` or in `leaked`."""
    aborted: int = 0
    """Cancelled singly or by the deadline, and ended."""
    leaked: int = 0
    """Still running at the end: shielded, in a thread, or deaf to its cancellation."""

    def __add__(self, other: Outcomes) -> Outcomes:
        return Outcomes(
            self.completed + other.completed,
            self.cancelled + other.cancelled,
            self.failed + other.failed,
            self.panicked + other.panicked,
            self.timed_out + other.timed_out,
            self.aborted + other.aborted,
            self.leaked + other.leaked,
        )

    @property
    def total(self) -> int:
        """Tasks counted; equals the number accepted once a shutdown is over."""
        return self.completed + self.cancelled + self.failed + self.panicked + self.aborted + self.leaked

    def is_healthy(self) -> bool:
        """Nothing failed, panicked, timed out or leaked. Cancelled and aborted alone are healthy."""
        return not (self.failed or self.panicked or self.timed_out or self.leaked)

    def nonzero(self) -> dict[str, int]:
        """The counts that are not 0, by name, in the order of the fields."""
        return {name: count for name in OUTCOME_NAMES if (count := getattr(self, name))}


NO_OUTCOMES = Outcomes()

OUTCOME_NAMES: tuple[str, ...] = tuple(field.name for field in attrs.fields(Outcomes))


class OutcomeCounts:
    """The counters that a task group keeps while it lives; `snapshot()` gives them as `Outcomes`."""

    __slots__ = ("aborted", "cancelled", "completed", "failed", "leaked", "panicked", "timed_out")

    def __init__(self) -> None:
        self.completed: int = 0
        self.cancelled: int = 0
        self.failed: int = 0
        self.panicked: int = 0
        self.timed_out: int = 0
        self.aborted: int = 0
        self.leaked: int = 0

    def snapshot(self) -> Outcomes:
        """The counts as they stand."""
        return Outcomes(
            self.completed, self.cancelled, self.failed, self.panicked, self.timed_out, self.aborted, self.leaked
        )

    def add(self, outcome: Outcome, timed_out: bool = False) -> None:
        """Count one task that ended in this way; `timed_out` if it was the deadline that ended it."""
        if outcome == "completed":
            self.completed += 1
        elif outcome == "cancelled":
            self.cancelled += 1
        elif outcome == "aborted":
            self.aborted += 1
        elif outcome == "panicked":
            self.panicked += 1
        else:
            self.failed += 1
        if timed_out:
            self.timed_out += 1

    def merge(self, other: OutcomeCounts | Outcomes) -> None:
        """Take over the counts of something that has ended and is about to be forgotten."""
        self.completed += other.completed
        self.cancelled += other.cancelled
        self.failed += other.failed
        self.panicked += other.panicked
        self.timed_out += other.timed_out
        self.aborted += other.aborted
        self.leaked += other.leaked

    def is_healthy(self) -> bool:
        """Nothing failed, panicked, timed out or leaked so far."""
        return not (self.failed or self.panicked or self.timed_out or self.leaked)
