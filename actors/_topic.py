"""Topics: publish and subscribe, typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

import attrs

from ._current import current_cell
from ._message import Lagged

if TYPE_CHECKING:
    from ._box import Box
    from ._cell import Cell
    from ._ref import Ref

T = TypeVar("T")


@attrs.define(eq=False)
class _Subscriber:
    tell_lag: bool = False
    missed: int = 0
    missed_in_all: int = 0


@final
class Topic(Generic[T]):
    """A subject that messages of type `T` are published on: `prices = Topic[Price]("prices")`.

    An object like any other: whoever has it may publish and subscribe. A subscription ends with its actor. Each
    subscriber's own mailbox and its policy decide what it can take; what it could not is counted, and told if it wants.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._subscribers: dict[Ref[Any], _Subscriber] = {}

    def __repr__(self) -> str:
        return f"<Topic {self.name}, {len(self._subscribers)} subscribers>"

    def subscribe(self, ref: Ref[T], /) -> None:
        """Send `ref` every message published from now on. Sync; twice is once."""
        self._subscribe(ref)

    def subscribe_lagged(self, ref: Ref[T | Lagged], /) -> None:
        """Like `subscribe`, and send `Lagged` ahead of the first message after some that the mailbox had no room
        for."""
        subscriber = self._subscribe(ref)
        if subscriber is not None:
            subscriber.tell_lag = True

    def _subscribe(self, ref: Ref[Any]) -> _Subscriber | None:
        if ref.box_.cell.is_leaving:
            return None
        subscriber = self._subscribers.get(ref)
        if subscriber is None:
            subscriber = self._subscribers[ref] = _Subscriber()
            ref.box_.cell.links.groups.append(self._forget)
        return subscriber

    def unsubscribe(self, ref: Ref[T], /) -> bool:
        """End the subscription. Sync; False if there was none."""
        if ref not in self._subscribers:
            return False
        ref.box_.cell.links.groups.remove(self._forget)
        self._forget(ref)
        return True

    def _forget(self, ref: Ref[Any]) -> None:
        self._subscribers.pop(ref, None)

    @property
    def subscribers(self) -> tuple[Ref[T], ...]:
        """The subscribers."""
        return tuple(self._subscribers)

    def missed(self, ref: Ref[T], /) -> int:
        """How many messages this subscriber's mailbox had no room for."""
        subscriber = self._subscribers.get(ref)
        return 0 if subscriber is None else subscriber.missed_in_all

    def publish(self, msg: T, /) -> int:
        """Send `msg` to every subscriber; returns how many mailboxes took it. Sync; waits for nobody, never raises."""
        accepted = 0
        sender = current_cell()
        for ref, subscriber in tuple(self._subscribers.items()):
            box = ref.box_
            caught_up = not (subscriber.missed and subscriber.tell_lag) or self._tell_lag(box, subscriber, sender)
            if caught_up and box.offer_quietly((msg, sender, None)):
                accepted += 1
            else:
                subscriber.missed += 1
                subscriber.missed_in_all += 1
        return accepted

    def _tell_lag(self, box: Box, subscriber: _Subscriber, sender: Cell | None) -> bool:
        """Say how many messages were missed, if there is room for that and for the next one; False if not."""
        free = box.free()
        lagged = Lagged(self, subscriber.missed)
        if free >= 2:
            box.offer_quietly((lagged, sender, None))
        elif free == 1 and not box.data:
            box.post(lagged)  # a mailbox of one message; nothing is queued that this could overtake
        else:
            return False
        subscriber.missed = 0
        return True
