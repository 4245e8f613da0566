"""A ref: the address of an actor, typed by the messages that it takes."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, Never, TypeAlias, TypeVar, cast

from trio.lowlevel import checkpoint, checkpoint_if_cancelled, current_task, reschedule

from ._box import INLINE
from ._current import current_cell
from ._errors import ActorStopped, WouldDeadlock, WrongThread
from ._reply import Ask

if TYPE_CHECKING:
    from ._box import Box
    from ._cell import Cell
    from ._message import Asked, Exit

M_contra = TypeVar("M_contra", contravariant=True)
R = TypeVar("R")


class Ref(Generic[M_contra]):
    """The address of an actor that takes messages of type `M_contra`.

    A ref stays good over restarts, and tells them apart by `generation`. It belongs to the thread that runs its
    system; other threads go through `trio.from_thread`. Refs compare by identity: one actor has one ref.
    """

    __slots__ = ("__weakref__", "box_")

    def __init__(self, box: Box, /) -> None:
        self.box_: Box = box

    def __repr__(self) -> str:
        return f"<Ref {self.path}>"

    @property
    def name(self) -> str:
        """The actor's name among its siblings."""
        return self.box_.cell.name

    @property
    def path(self) -> str:
        """The names from the root of the system to the actor, like `/bank/alice`."""
        return self.box_.cell.path

    @property
    def generation(self) -> int:
        """How often the actor has been started: 1, and one more after each restart."""
        return self.box_.cell.generation

    @property
    def alive(self) -> bool:
        """Whether the actor has not ended. A restart is not an end."""
        return self.box_.cell.exit is None

    @property
    def depth(self) -> int:
        """How many messages are queued for the actor."""
        return self.box_.depth

    def tell(self, msg: M_contra, /) -> None:
        """Send without waiting. Sync: it never blocks and never runs the actor's code.

        Raises `MailboxFull` where the mailbox is full and its policy is `wait` or `reject`. To an actor that has ended
        or is ending, the message becomes a dead letter.
        """
        box = self.box_
        data = box.data
        if len(data) < box.room and not box.is_control[type(msg)]:
            waiter = box.waiter
            if waiter is not None:
                if box.slice.thread != get_ident():
                    raise WrongThread(self.path)
                reschedule(waiter)
                box.waiter = None
            data.append((msg, current_cell(), None))
        elif not box.offer((msg, current_cell(), None)):
            raise box.full()

    def tell_quietly_(self, msg: M_contra, /) -> bool:
        """Tell, and say whether the message was accepted, instead of raising or making a dead letter."""
        return self.box_.offer_quietly((msg, current_cell(), None))

    async def send(self, msg: M_contra, /) -> None:
        """Send, and wait for room first where the mailbox is full and its policy is `wait`.

        Always a cancel point, before the message is accepted and never after; it suspends only to wait for room. Raises
        `ActorStopped` if the actor has ended, is ending, or ends while the message waits; `MailboxFull` under `reject`.
        """
        await self.box_.send((msg, current_cell(), None))

    async def ask(self, msg: Asked[M_contra, R], /) -> R:
        """Send a request, wait for the answer and return it.

        The deadline is the caller's cancel scope. A cancelled ask is not handled any more if the actor has not taken it
        yet; if it has, the handler is cancelled (see `Request.shield`), and nothing is known about what it did. Always
        a cancel point, before the message is handled, and a schedule point at least once per slice.

        An idle actor with a plain `def` handler for the message handles it at once, on the caller's stack.

        Raises `ActorStopped`, `ActorCrashed` (the handler raised), `MailboxFull` or `MessageDropped` (by the mailbox's
        policy), `MessageRefused` (no handler), `NoReply`, `AskCycle` (the answer would wait for the asker).
        """
        box = self.box_
        if box.waiter is not None:
            handler = box.inline.get(type(msg))
            slice_ = box.slice
            if handler is not None and slice_.thread == get_ident():
                slice_.left -= 1
                if slice_.left < 0 or slice_.clock() > slice_.end:
                    await checkpoint()
                    slice_.renew()
                    handler = box.inline.get(type(msg))
                else:
                    await checkpoint_if_cancelled()
                # The wait may have changed either.
                if handler is not None and box.waiter is not None:  # pyright: ignore[reportUnnecessaryComparison]
                    cell = box.cell
                    cell.in_hand = item = (msg, INLINE, None)
                    try:
                        value: Any = cell.vars.run(handler, cell.target, msg)
                    except BaseException as exc:  # noqa: ASYNC103 (what is no Exception is raised in there)
                        cell.crashed_inline(item, exc)
                    else:
                        if cell.in_hand is item:
                            cell.in_hand = None
                            cell.handled += 1
                            return value  # type: ignore[no-any-return]  # a cast is a call, and this is the hot path
                        del value  # a promise: it may be let go while we wait
                    return cast("R", await self._ask_deferred())
        return cast("R", await self._ask_queued(msg))

    async def _ask_queued(self, msg: Any) -> Any:
        box = self.box_
        cell = box.cell
        asker = current_cell()
        await checkpoint_if_cancelled()
        if box.slice.thread != get_ident():
            raise WrongThread(cell.path)
        if box.closed:
            raise ActorStopped(cell.path, cell.exit)
        ask = Ask(msg, asker, cell)
        asks = asker.begin_ask(ask) if asker is not None else None
        tracer = cell.system.tracer
        try:
            if tracer is not None:
                from ._traced import ask_traced

                return await ask_traced(tracer, ask, self._deliver(ask))
            return await self._deliver(ask)
        finally:
            if asks is not None:
                asks.remove(ask)

    async def _ask_deferred(self) -> Any:
        """The inline handler has put the message aside: wait for its answer like any other asker."""
        ask = self.box_.cell.deferred_inline()
        asks = ask.sender.note_ask(ask) if ask.sender is not None else None
        try:
            return await ask.wait()
        finally:
            if asks is not None:
                asks.remove(ask)

    async def _deliver(self, ask: Ask) -> Any:
        item = (ask.message, ask.sender, ask)
        box = self.box_
        if len(box.data) < box.room and not box.is_control[type(ask.message)]:
            waiter = box.waiter
            if waiter is not None:
                reschedule(waiter)
                box.waiter = None
            box.data.append(item)
        elif not box.offer(item):
            box.wait_for_room(item)
        return await ask.wait()

    async def stop(self) -> Exit:
        """Let the actor finish the message in hand and end; return how it ended. The rest of its mailbox is given up at
        once: asks fail with `ActorStopped`, tells become dead letters.

        A supervised actor that is stopped so is not restarted. It does not wait for those that need it (see
        `spawn(needs=...)`): they are for the order of a shutdown. A checkpoint; cancelling it cancels only the wait.
        Raises `WouldDeadlock` within the actor itself or one below it.
        """
        return await self._end("stop")

    async def drain(self) -> Exit:
        """Let the actor finish its mailbox and end; return how it ended. Otherwise like `stop`."""
        return await self._end("drain")

    async def kill(self) -> Exit:
        """Cancel the actor and all below it now; return how it ended. Otherwise like `stop`."""
        return await self._end("kill")

    async def wait_stopped(self) -> Exit:
        """Wait until the actor has ended and return how. A checkpoint; cancelling it cancels only the wait."""
        cell = self.box_.cell
        self._refuse_deadlock("wait_stopped()")
        return await cell.wait_ended()

    async def _end(self, mode: Any) -> Exit:
        self._refuse_deadlock(f"{mode}()")
        cell = self.box_.cell
        cell.end(mode)
        exit_ = await cell.wait_ended()
        self.box_.slice.renew()
        return exit_

    def _refuse_deadlock(self, operation: str) -> None:
        here: Cell | None = current_cell()
        if here is None or not here.owns_task(current_task()):
            return
        if here is self.box_.cell or here.is_below(self.box_.cell):
            raise WouldDeadlock(self.path, operation)


AnyRef: TypeAlias = Ref[Never]
"""The ref of an actor of any kind: to be compared, watched, stopped or needed, but with no message to be sent."""
