"""What the tests of budgets and queues share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lifecycle import Budget


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def held(budget: Budget) -> tuple[int, int]:
    """Count and bytes that are held."""
    shot = budget.snapshot()
    return shot.current_count, shot.current_bytes


def state(*budgets: Budget) -> list[tuple[int, int, int, int]]:
    """What a permit may change: what is held and what was admitted."""
    shots = [budget.snapshot() for budget in budgets]
    return [(shot.current_count, shot.current_bytes, shot.control_count, shot.admitted_count) for shot in shots]
