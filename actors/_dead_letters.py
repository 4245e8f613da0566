"""Dead letters: messages that nobody will handle, counted, kept for a while, and told to those who ask."""

from __future__ import annotations

import logging
from collections import Counter, deque
from typing import TYPE_CHECKING, final

from ._message import DeadLetter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._cell import Cell
    from ._message import DeadReason
    from ._ref import Ref

RECENT = 100

_log = logging.getLogger("tenure.actors")


@final
class DeadLetters:
    """The dead letters of one system. Every one is counted; the last 100 are kept; subscribers are told all they
    take."""

    __slots__ = ("_by_reason", "_recent", "_subscribers")

    def __init__(self) -> None:
        self._by_reason: Counter[DeadReason] = Counter()
        self._recent: deque[DeadLetter] = deque(maxlen=RECENT)
        self._subscribers: dict[Ref[DeadLetter], None] = {}

    @property
    def count(self) -> int:
        """How many there have been."""
        return self._by_reason.total()

    @property
    def by_reason(self) -> Mapping[DeadReason, int]:
        """How many there have been, by reason."""
        return dict(self._by_reason)

    @property
    def recent(self) -> tuple[DeadLetter, ...]:
        """The last ones, oldest first."""
        return tuple(self._recent)

    def subscribe(self, ref: Ref[DeadLetter], /) -> None:
        """Tell `ref` every dead letter from now on, as far as its mailbox takes them, but for its own. Ends with it."""
        self._subscribers[ref] = None

    def unsubscribe(self, ref: Ref[DeadLetter], /) -> None:
        """Tell `ref` no more."""
        self._subscribers.pop(ref, None)

    def add(self, recipient: Cell, message: object, sender: Cell | None, reason: DeadReason) -> None:
        """Count a message. Never raises."""
        self._by_reason[reason] += 1
        letter = DeadLetter(message, sender.ref if sender is not None else None, recipient.path, reason)
        self._recent.append(letter)
        _log.debug("dead letter (%s): %s to %s", reason, type(message).__qualname__, recipient.path)
        if isinstance(message, DeadLetter):
            return  # a dead letter about a dead letter would never end
        for ref in tuple(self._subscribers):
            if not ref.alive:
                del self._subscribers[ref]
            elif ref is not recipient.ref:
                ref.box_.offer_quietly((letter, None, None))
