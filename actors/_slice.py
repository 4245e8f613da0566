"""How long one actor may run before others get a turn."""

from __future__ import annotations

from math import inf
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Literal, final

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGES = 64
"""Messages in one slice, at most."""

SECONDS = 50e-6
"""Length of one slice, at most: the message that passes it is the last."""


def _stopped_clock() -> float:
    return 0.0


@final
class Slice:
    """The slice that is being used up on this thread, shared by all actors of a system.

    A message loop begins a slice, takes messages until it is used up, and lets others run. An inline ask spends from
    the slice of its caller. Under `count` no clock is read, which makes runs on a virtual clock repeatable.
    """

    __slots__ = ("clock", "end", "left", "messages", "seconds", "thread")

    def __init__(self, by: Literal["time", "count"] = "time") -> None:
        self.messages: int = MESSAGES
        self.clock: Callable[[], float] = perf_counter if by == "time" else _stopped_clock
        self.seconds: float = SECONDS if by == "time" else inf
        self.thread: int = get_ident()
        self.left: int = 0
        self.end: float = 0.0

    def renew(self) -> None:
        """Begin a slice: the caller has just come back from a schedule point."""
        self.left = self.messages
        self.end = self.clock() + self.seconds
