"""The actor's context: what an actor may do to itself and to the world around it."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Generic, TypeVar, TypeVarTuple, final, overload

import trio

from lifecycle import ServiceContext

from ._box import INLINE
from ._current import CURRENT
from ._spawning import Spawner

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractContextManager

    from lifecycle import TaskHandle

    from ._actor import Actor
    from ._cell import Cell
    from ._message import Request, Terminated
    from ._node import Node
    from ._ref import AnyRef, Ref
    from ._reply import Later
    from ._system import System
    from ._timers import Mode, Timer

M = TypeVar("M")
M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


@final
class ActorContext(Spawner, Generic[M_contra]):
    """An actor's context: `self.context` in a class, `inbox.context` in a function. Valid within the actor only."""

    __slots__ = ("cell_",)

    def __init__(self, cell: Cell, /) -> None:
        self.cell_: Cell = cell

    def __repr__(self) -> str:
        return f"<ActorContext {self.path}>"

    def node_(self) -> Node:
        return self.cell_.links.own_node()

    @property
    def ref(self) -> Ref[M_contra]:
        """The actor's own ref, to be given to others."""
        return self.cell_.ref

    @property
    def name(self) -> str:
        """The actor's name among its siblings."""
        return self.cell_.name

    @property
    def path(self) -> str:
        """The names from the root of the system to the actor, like `/bank/alice`."""
        return self.cell_.path

    @property
    def system(self) -> System:
        """The system that the actor lives in."""
        return self.cell_.system

    @property
    def service(self) -> ServiceContext:
        """The actor's place in the tree of components, to hang plain tasks and components into. They end with this life
        of the actor: told to stop when its loop has ended, cancelled when it fails. Raises `ActorStopped` or
        `SystemStopped` when the actor or the system is ending."""
        return ServiceContext(self.node_().group(), self.system.service.runtime)

    @property
    def sender(self) -> AnyRef | None:
        """The actor that sent the message in hand; None for a sender outside the actors."""
        item = self.cell_.in_hand
        sender = self.cell_.links.sender_of(item) if item is not None else None
        return sender.ref if sender is not None else None

    @property
    def deadline(self) -> float:
        """The time on Trio's clock at which the asker of the message in hand gives up; `inf` if it does not."""
        item = self.cell_.in_hand
        if item is None:
            return inf
        if item[1] is INLINE:
            return trio.current_effective_deadline()
        ask = item[2]
        return inf if ask is None else ask.deadline()

    @property
    def stopping(self) -> bool:
        """Whether the actor has been told to end. A long handler may look at it."""
        return self.cell_.ending is not None

    def stop(self) -> None:
        """Ask for the end of this actor after the message in hand; the rest of its mailbox is given up. Sync.

        To a supervisor this is a normal end: a permanent child is started again, others are not.
        """
        self.cell_.end("stop", explicit=False)

    def drain(self) -> None:
        """Ask for the end of this actor when its mailbox is empty; it takes nothing more from now on. Sync."""
        self.cell_.end("drain", explicit=False)

    def later(self, msg: Request[R], /) -> Later[R]:
        """Take `msg`, the message in hand, out of hand, and answer it later, from anywhere in the actor. Sync.

        Raises `NotInHand` if it is not in hand. A handler returns what this returns.
        """
        return self.cell_.links.later(msg)

    def stash(self) -> None:
        """Put the message in hand aside until `unstash_all`; an ask for it goes on waiting. Sync. Raises `StashFull`
        when as many messages as the mailbox may hold are aside already."""
        self.cell_.links.stash()

    def unstash_all(self) -> int:
        """Put the messages that were set aside back ahead of all that is queued, in their order. Sync; returns how
        many."""
        return self.cell_.links.unstash_all()

    def become(self, behaviour: Actor[M_contra], /) -> None:
        """Let the handlers of another object take the messages from the next one on. Sync. For class actors."""
        self.cell_.links.become(behaviour)

    def unbecome(self) -> bool:
        """Back to the behaviour before the last `become`. Sync; False if there is none."""
        return self.cell_.links.unbecome()

    @overload
    def watch(self: ActorContext[Terminated], ref: AnyRef, /) -> None: ...
    @overload
    def watch(self, ref: AnyRef, /, *, as_: M_contra) -> None: ...
    def watch(self, ref: AnyRef, /, *, as_: object = None) -> None:
        """Be sent `Terminated(ref, reason)`, or the message `as_`, when the other actor has ended. Sync.

        Exactly once, also if it has ended already; a restart is not an end. Watching twice changes nothing. Raises
        `HandlerMissing` if this actor has no handler for the message. Ends with this life of the actor.
        """
        self.cell_.links.watch(ref.box_.cell, as_)

    def unwatch(self, ref: AnyRef, /) -> None:
        """Not be told any more, not even of an end that has not been read yet. Sync."""
        self.cell_.links.unwatch(ref.box_.cell)

    @overload
    def send_after(self, delay: float, msg: M_contra, /) -> Timer: ...
    @overload
    def send_after(self, delay: float, msg: M, /, to: Ref[M]) -> Timer: ...
    def send_after(self, delay: float, msg: object, /, to: AnyRef | None = None) -> Timer:
        """Send `msg` in `delay` seconds, to this actor or to `to`. Sync. Ends with this life of the actor.

        Raises `TimerInvalid` for a delay below 0, `TooManyTimers`.
        """
        cell = self.cell_
        return cell.system.timers.start(cell, cell if to is None else to.box_.cell, msg, delay)

    @overload
    def send_every(
        self, period: float, msg: M_contra, /, *, mode: Mode = "fixed_delay", first: float | None = None
    ) -> Timer: ...
    @overload
    def send_every(
        self, period: float, msg: M, /, *, to: Ref[M], mode: Mode = "fixed_delay", first: float | None = None
    ) -> Timer: ...
    def send_every(
        self,
        period: float,
        msg: object,
        /,
        *,
        to: AnyRef | None = None,
        mode: Mode = "fixed_delay",
        first: float | None = None,
    ) -> Timer:
        """Send `msg` every `period` seconds, the first time in `first` seconds (default: one period). Sync.

        `fixed_delay` counts from the last tick, `fixed_rate` stays on the grid of the first. A tick is left out while
        the one before is unread, and counted in `Timer.missed`. Ends with this life of the actor.
        """
        cell = self.cell_
        delay = period if first is None else first
        return cell.system.timers.start(cell, cell if to is None else to.box_.cell, msg, delay, period, mode)

    def start_soon(
        self, fn: Callable[[*Ts], Awaitable[object]], /, *args: *Ts, name: str | None = None
    ) -> TaskHandle[object]:
        """Start a helper task that belongs to this life of the actor: cancelled when it ends. Sync.

        If it fails, the actor fails with it. An ask from a helper is the actor's, but is not looked at for cycles.
        """
        return self.node_().group().spawn_cancellable(_helper, self.cell_, fn, args, name=name or _name(fn))

    def cleanup(self, within: float | None = None) -> AbstractContextManager[trio.CancelScope]:
        """A shielded scope for clean-up that must await, in the `finally` of a function actor. It ends by itself: after
        `within` seconds (default: the system's `shutdown_within`), and never later than the shutdown deadline."""
        return self.cell_.system.cleanup(within)


async def _helper(cell: Cell, fn: Callable[..., Awaitable[object]], args: tuple[object, ...]) -> None:
    CURRENT.set(cell)
    try:
        await fn(*args)
    except Exception as exc:
        cell.child_failed([exc])
    except BaseExceptionGroup as group:
        failures, rest = group.split(Exception)
        if failures is not None:
            cell.child_failed([failures])
        assert rest is not None, "a group without anything else is an Exception"
        raise rest from None


def _name(fn: object) -> str:
    return getattr(fn, "__name__", "helper")
