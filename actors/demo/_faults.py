"""Faults on purpose: which try at which part of which file crashes its worker."""

from __future__ import annotations

from random import Random

import attrs


class PlannedFault(Exception):
    """Raised in a worker, as any bug would."""


@attrs.frozen
class Faults:
    """A plan by seed. It looks at the work alone, so it is the same in whatever order the work is done."""

    seed: int
    rate: float
    """The share of all tries that crash, from 0 to 1."""

    def strike(self, place: str, attempt: int) -> None:
        """Raise `PlannedFault` if this try is to fail."""
        if Random(f"{self.seed} {place!a} {attempt}").random() < self.rate:
            raise PlannedFault(f"planned for try {attempt} at {place!r} by seed {self.seed}")
