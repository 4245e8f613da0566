"""How long to wait before the next restart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from ._errors import InvalidBackoff

if TYPE_CHECKING:
    import random

MOST = 2**62  # of attempts: every factor above 1 has overflowed by then


@attrs.frozen
class Backoff:
    """Delays in seconds that grow from `initial` by `factor` at each restart in a row, up to `max`.

    With `jitter` (0 to 1) each delay is drawn evenly between `(1 - jitter)` and `(1 + jitter)` times its value, and
    `max` holds after the draw as well. Raises `InvalidBackoff`, naming the mistake.
    """

    initial: float
    max: float = 60.0
    factor: float = 2.0
    jitter: float = 0.0

    def __attrs_post_init__(self) -> None:
        if not is_number(self.initial) or self.initial < 0:
            raise InvalidBackoff(f"initial is a number of seconds, 0 or more, not {self.initial!r}")
        if not is_number(self.max) or self.max < self.initial:
            raise InvalidBackoff(f"max is a number of seconds, at least initial ({self.initial!r}), not {self.max!r}")
        if not is_number(self.factor) or self.factor < 1:
            raise InvalidBackoff(f"factor is a number, 1 or more, not {self.factor!r}")
        if not is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise InvalidBackoff(f"jitter is a number from 0 to 1, not {self.jitter!r}")

    def delay(self, attempt: int, rng: random.Random) -> float:
        """The seconds to wait before restart number `attempt` in a row, counted from 1. Any count is safe.

        At most one number is drawn from `rng`, and none without jitter.
        """
        if attempt < 1:
            raise ValueError(f"attempts count from 1, not {attempt}")
        if self.initial == 0:
            return 0.0
        try:
            base = min(self.initial * float(self.factor) ** min(attempt - 1, MOST), float(self.max))
        except OverflowError:  # the power is beyond a float, and so beyond max
            base = float(self.max)
        if self.jitter == 0:
            return base
        return min(base * (1 + self.jitter * (2 * rng.random() - 1)), float(self.max))


def is_number(value: object) -> bool:
    """Whether the value is a finite number that a float can hold; True and False are not."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
