"""Probes: actors that a test talks to others through, and looks at what they send."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar, cast, final, overload

import attrs
import trio

from actors import Request, Terminated

from ._errors import Unexpected

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import ActorContext, AnyRef, Asked, Exit, Inbox, Later, Mailbox, Ref, System

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
M = TypeVar("M")
R = TypeVar("R")
T = TypeVar("T")

WITHIN = 1.0
"""Seconds that a probe waits where the test does not say."""


@attrs.frozen(eq=False)
class _Received(Generic[M]):
    message: M
    sender: AnyRef | None
    later: Later[Any] | None


@final
class Probe(Generic[M]):
    """An actor in the hands of a test: it keeps what it is sent until the test asks for it. Made by `open_probe`.

    `within` is in seconds on Trio's clock everywhere. Every failure is `Unexpected`, an AssertionError that says what
    was received instead. All waits are checkpoints; cancelling one takes no message.
    """

    def __init__(self, takes: tuple[type[Any], ...]) -> None:
        self._takes = takes
        self._context: ActorContext[Any] | None = None
        self._unread: deque[_Received[M]] = deque()
        self._taken: list[_Received[M]] = []
        self._ends: dict[AnyRef, Exit] = {}
        self._last: _Received[M] | None = None
        self._stopped = False
        self._changed = trio.Event()

    def __repr__(self) -> str:
        return f"<Probe {self.ref.path}, {len(self._unread)} unread>"

    @property
    def context(self) -> ActorContext[M]:
        """The probe's own context, for what a test wants done by an actor."""
        assert self._context is not None, "a probe is made by open_probe"
        return self._context

    @property
    def ref(self) -> Ref[M]:
        """The probe's address, to be given to the actors under test."""
        return self.context.ref

    @property
    def unread(self) -> tuple[M, ...]:
        """What was received and not yet asked for, oldest first."""
        return tuple(received.message for received in self._unread)

    @property
    def sender(self) -> AnyRef | None:
        """The actor that sent the message that the test took last; None for a sender outside the actors."""
        return self._last.sender if self._last is not None else None

    # -- messages

    @overload
    async def expect(self, what: type[T], /, *, within: float = WITHIN) -> T: ...
    @overload
    async def expect(self, what: M, /, *, within: float = WITHIN) -> M: ...
    async def expect(self, what: Any, /, *, within: float = WITHIN) -> Any:
        """Take the next message: it is an instance of the class `what`, or equal to the message `what`. Returns it."""
        received = await self._next(trio.current_time() + within)
        if received is None:
            raise self._unexpected(_text(what), self._nothing(within))
        if not (isinstance(received.message, what) if isinstance(what, type) else received.message == what):
            raise self._unexpected(_text(what), repr(received.message), self.unread)
        return received.message

    async def expect_none(self, *, within: float = 0.1) -> None:
        """No message comes for `within` seconds, and none is unread. The probe goes on when it has waited that long."""
        received = await self._next(trio.current_time() + within)
        if received is not None:
            raise self._unexpected("no message", repr(received.message), self.unread)

    @overload
    async def fish_for(self, wanted: type[T], /, *, within: float = WITHIN) -> T: ...
    @overload
    async def fish_for(self, wanted: Callable[[M], bool], /, *, within: float = WITHIN) -> M: ...
    async def fish_for(self, wanted: Any, /, *, within: float = WITHIN) -> Any:
        """Take messages until one is an instance of a class, or `wanted(message)` is true. Returns it.

        Those before it are passed over. `within` is for all of them together.
        """
        end = trio.current_time() + within
        passed: list[object] = []
        while True:
            received = await self._next(end)
            if received is None:
                raise self._unexpected(_text(wanted), self._nothing(within), tuple(passed))
            message = received.message
            if isinstance(message, wanted) if isinstance(wanted, type) else wanted(message):
                return message
            passed.append(message)

    # -- answers

    def reply(self, msg: Request[R], value: R, /) -> None:
        """Answer a request that the test has taken. Sync; does nothing if its asker has gone."""
        self._later(msg).set(value)

    def fail(self, msg: Asked[object, object], error: BaseException, /) -> None:
        """Let the ask for a request that the test has taken raise `error`. Sync."""
        self._later(msg).fail(error)

    def _later(self, msg: object) -> Later[Any]:
        for received in self._taken:
            if received.message is msg and received.later is not None:
                self._taken.remove(received)
                return received.later
        raise self._unexpected(
            f"an open request in {msg!r}", "none: it was told, has an answer, or was not taken from this probe"
        )

    # -- ends

    def watch(self, ref: AnyRef, /) -> None:
        """Be told when the actor ends, for `expect_terminated`. Sync."""
        self.context.cell_.links.watch(ref.box_.cell, None)

    async def expect_terminated(self, ref: AnyRef, /, *, within: float = WITHIN) -> Exit:
        """Wait until the actor has ended and return how. Watches it if `watch` has not been called."""
        if ref not in self._ends:
            self.watch(ref)
        with trio.move_on_after(within):
            while ref not in self._ends and not self._stopped:
                await self._changed.wait()
        await trio.lowlevel.checkpoint()
        if ref not in self._ends:
            raise self._unexpected(f"the end of {ref.path}", self._nothing(within), self.unread)
        return self._ends[ref]

    # -- the actor

    async def run_(self, inbox: Inbox[Any]) -> None:
        """The body of the probe's actor."""
        self._context = inbox.context
        try:
            async for msg in inbox:
                self._receive(inbox, msg)
        finally:
            self._stopped = True
            self._wake()

    def _receive(self, inbox: Inbox[Any], msg: Any) -> None:
        message: object = msg
        if isinstance(message, Terminated):
            self._ends[message.ref] = message.reason
        if isinstance(message, self._takes):
            sender = inbox.context.sender
            later: Later[Any] | None = inbox.later(msg) if isinstance(message, Request) else None
            if later is not None and later.abandoned:
                later = None  # it was told
            self._unread.append(_Received(cast("M", msg), sender, later))
        elif not isinstance(message, Terminated):
            inbox.refuse(msg)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _next(self, end: float) -> _Received[M] | None:
        """The next message, or None when the time is up or the probe has been stopped."""
        with trio.move_on_at(end):
            while not self._unread and not self._stopped:
                await self._changed.wait()
        await trio.lowlevel.checkpoint()
        if not self._unread:
            return None
        self._last = received = self._unread.popleft()
        if received.later is not None:
            self._taken.append(received)
        return received

    def _nothing(self, within: float) -> str:
        return "nothing: the probe has been stopped" if self._stopped else f"nothing within {within:g} s"

    def _unexpected(self, expected: str, got: str, seen: tuple[object, ...] = ()) -> Unexpected:
        return Unexpected(f"probe {self.ref.path}", expected, got, seen)


async def _probe(inbox: Inbox[Any], probe: Probe[Any]) -> None:
    await probe.run_(inbox)


@overload
async def open_probe(
    system: System | ActorContext[Never], a: type[A], /, *, name: str | None = None, mailbox: Mailbox | None = None
) -> Probe[A]: ...
@overload
async def open_probe(
    system: System | ActorContext[Never], a: type[A], b: type[B], /, *, name: str | None = None,
    mailbox: Mailbox | None = None,
) -> Probe[A | B]: ...  # fmt: skip
@overload
async def open_probe(
    system: System | ActorContext[Never], a: type[A], b: type[B], c: type[C], /, *, name: str | None = None,
    mailbox: Mailbox | None = None,
) -> Probe[A | B | C]: ...  # fmt: skip
@overload
async def open_probe(
    system: System | ActorContext[Never], a: type[A], b: type[B], c: type[C], d: type[D], /, *, name: str | None = None,
    mailbox: Mailbox | None = None,
) -> Probe[A | B | C | D]: ...  # fmt: skip
async def open_probe(
    system: System | ActorContext[Never], /, *takes: type[Any], name: str | None = None, mailbox: Mailbox | None = None
) -> Probe[Any]:
    """Start a probe that takes messages of these classes, below the system or an actor. A checkpoint.

    Messages of other classes are refused, as by any actor. The probe ends with its system.
    """
    probe: Probe[Any] = Probe(takes)
    await system.spawn(_probe, probe, name=name, mailbox=mailbox)
    return probe


def _text(what: object) -> str:
    if isinstance(what, type):
        return f"a {what.__qualname__}"
    if callable(what):
        return f"a message for which {getattr(what, '__qualname__', repr(what))} is true"
    return repr(what)
