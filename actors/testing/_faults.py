"""A fault plan: which messages of which actors go wrong, decided by a seed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Literal, TypeVar, final

import attrs

from actors import InvalidSetting, Lagged, Terminated

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from actors import Actor

Body = TypeVar("Body", bound="Callable[..., Actor[Any]] | Callable[..., Awaitable[None]]")

FaultKind = Literal["crash", "delay", "drop", "duplicate"]

_KINDS: tuple[FaultKind, ...] = ("crash", "delay", "drop", "duplicate")


@attrs.frozen
class Fault:
    """What happens to one message."""

    kind: FaultKind
    path: str
    """The actor that the message is for."""
    number: int
    """Which of that actor's messages it is, from 1."""
    message: object
    seconds: float = 0.0
    """How long a *delay* lasts."""
    after: bool = False
    """Whether a *crash* comes after the message has been handled, and not before."""


@final
class FaultPlan:
    """Decides by seed which messages go wrong, and does it to the actors that `wrap` makes.

    `crash`, `delay`, `drop` and `duplicate` are probabilities per message, 1 together at most. They do only what can
    happen to an actor anyway, and the accounting stays right:

    - *crash*: `InjectedCrash` is raised, half of the time before the message is handled, half of the time after, so
      that the answer of a handler is lost: the asker gets `ActorCrashed`. (What a function actor has answered by
      `inbox.reply` stays.) The supervisor decides.
    - *delay*: the actor is slow: it has the message in hand for up to `longest` seconds before it handles it. The order
      stays; abandoned asks and stops work as ever. With delays, plain handlers are not run inline.
    - *drop*: the message is not handled. A tell becomes a dead letter ("displaced"), an ask raises `MessageDropped`.
    - *duplicate*: the message is queued once more, as a tell with the same sender, behind what is queued already. That
      copy goes wrong no more. A full mailbox takes no copy.

    Each actor, by its path, draws from a stream of its own: one seed gives an actor the same faults at the same numbers
    of its messages, whatever the others do. `only` names the message classes that may go wrong; `Terminated` and
    `Lagged`, which the framework sends, never do. `limit` ends it after so many faults.

    One plan may wrap several bodies. It touches those alone: not links, timers or stores, nor the order of messages.
    """

    def __init__(
        self,
        seed: int,
        *,
        crash: float = 0.0,
        delay: float = 0.0,
        drop: float = 0.0,
        duplicate: float = 0.0,
        longest: float = 1.0,
        only: tuple[type[object], ...] = (object,),
        limit: int | None = None,
    ) -> None:
        self.seed = seed
        self.odds: dict[FaultKind, float] = {"crash": crash, "delay": delay, "drop": drop, "duplicate": duplicate}
        if any(not 0 <= odds <= 1 for odds in self.odds.values()) or sum(self.odds.values()) > 1 + 1e-9:
            raise InvalidSetting(f"the odds of a fault plan are from 0 to 1, and 1 together at most, not {self.odds!r}")
        if longest < 0:
            raise InvalidSetting(f"the longest delay is a number of seconds, 0 or more, not {longest!r}")
        self._longest = longest
        self._only = only
        self._limit = limit
        self._streams: dict[str, random.Random] = {}
        self._numbers: dict[str, int] = {}
        self._log: list[Fault] = []

    def __repr__(self) -> str:
        return f"<FaultPlan seed={self.seed}, {len(self._log)} faults>"

    @property
    def log(self) -> tuple[Fault, ...]:
        """All that it has decided to do, in order."""
        return tuple(self._log)

    def decide(self, path: str, message: object) -> Fault | None:
        """The fate of the next message of the actor at `path`; None if nothing is wrong with it.

        Sync, does nothing but decide: a test may drive something of its own with it.
        """
        if isinstance(message, (Terminated, Lagged)):
            return None
        number = self._numbers[path] = self._numbers.get(path, 0) + 1
        stream = self._streams.get(path)
        if stream is None:
            stream = self._streams[path] = random.Random(f"{self.seed} {path}")
        # Three draws per message, needed or not, so that one decision does not shift those after it.
        draw, after, share = stream.random(), stream.random() < 0.5, stream.random()
        if not isinstance(message, self._only) or (self._limit is not None and len(self._log) >= self._limit):
            return None
        kind = self._kind(draw)
        if kind is None:
            return None
        seconds = share * self._longest if kind == "delay" else 0.0
        fault = Fault(kind, path, number, message, seconds, after and kind == "crash")
        self._log.append(fault)
        return fault

    def _kind(self, draw: float) -> FaultKind | None:
        for kind in _KINDS:
            draw -= self.odds[kind]
            if draw < 0:
                return kind
        return None

    def wrap(self, body: Body, /) -> Body:
        """The same body with faults, for `spawn`, `pool` and `Child`. Nothing is changed in the original.

        An actor class gives a class derived from it, so names and lookups (`find("/till", Account)`) stay; a function
        that returns an actor gives one whose actors have faults; a function over an inbox gives one whose inbox has
        them (look it up by what `wrap` returns). What an actor becomes (`context.become`) has none. Raises `NotABody`.
        """
        from ._faulty import with_faults

        return with_faults(self, body)
