"""The worker: it counts what it is given. Now and then it crashes; its supervisor starts it again."""

from __future__ import annotations

from actors import Actor, handles

from ._counts import Counts, count_text
from ._faults import Faults
from ._messages import Count


class Worker(Actor[Count]):
    """Has no state, so a crash costs nothing but the try."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    @handles(Count)
    def count(self, msg: Count) -> Counts:
        self._faults.strike(msg.place, msg.attempt)
        return count_text(msg.text, msg.kind)
