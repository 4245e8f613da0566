"""The inbox: what the body of a function actor reads its messages from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self, TypeVar, final

import trio
from trio.lowlevel import checkpoint

from ._box import Charged, uncharge
from ._errors import AlreadyReplied, NoReply, NotInHand
from ._loop import serve
from ._reply import Later

if TYPE_CHECKING:
    from ._actor import Actor
    from ._box import Item
    from ._cell import Cell
    from ._context import ActorContext
    from ._message import Asked, Request
    from ._reply import Ask

M_co = TypeVar("M_co", covariant=True)
R = TypeVar("R")


@final
class Inbox(Generic[M_co]):
    """An actor's messages, one at a time: `async for msg in inbox`.

    Each turn of the loop ends the message before: a request that was neither answered nor deferred by then answers
    `NoReply` to its asker. The loop ends when the actor is told to stop, or, on a drain, when the mailbox is empty.
    A turn is a checkpoint at least once per slice and whenever the mailbox is empty, always before a message is taken,
    so that a cancellation loses none. One task reads at a time: a second one gets `trio.BusyResourceError`.
    """

    __slots__ = ("_answered", "_cell", "_end", "_fresh", "_left", "_taken")

    def __init__(self, cell: Cell, fresh: bool = True, /) -> None:
        self._cell = cell
        self._answered = False
        self._taken = False
        self._fresh = fresh
        self._left = 0
        self._end = 0.0
        cell.outer = 0

    @property
    def context(self) -> ActorContext[M_co]:
        """What the actor may do to the world around it."""
        return self._cell.context

    def __aiter__(self) -> Self:
        return self

    @trio.lowlevel.enable_ki_protection
    async def __anext__(self) -> M_co:
        cell = self._cell
        box = cell.box
        if self._taken:
            self._finish()
        if cell.state == "starting":
            cell.ready()
        slice_ = box.slice
        while True:
            if cell.halting:
                raise StopAsyncIteration
            if self._left <= 0 or slice_.clock() >= self._end or not (box.data or box.control):
                assert cell.task is not None
                cell.outer = len(cell.task.child_nurseries)
                if box.data or box.control:
                    await checkpoint()
                elif cell.ending is not None:
                    raise StopAsyncIteration
                else:
                    await box.park()
                slice_.renew()
                self._left = slice_.messages
                self._end = slice_.end
            item = self._take()
            if item is None:
                continue
            self._left -= 1
            message: M_co = item[0]  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]  # as the refs say
            ask = item[2]
            if ask is not None and ask.abandoned:
                cell.skip(item)
            elif cell.accepts is not None and not isinstance(message, cell.accepts):
                cell.refuse(item)
            else:
                cell.in_hand = item
                cell.hand_out()
                self._answered = False
                self._taken = True
                return message

    def _take(self) -> Item | None:
        box = self._cell.box
        if box.control:
            return box.control.popleft()
        if not box.data:
            return None
        item = box.taker()()
        if item is not None and box.waiting:
            box.admit()
        return item

    def _finish(self) -> None:
        """The turn of the message before is over, also if it was put aside."""
        cell = self._cell
        self._taken = False
        cell.handled += 1
        item, cell.in_hand = cell.in_hand, None
        if item is not None:
            ask = item[2]
            if ask is not None and not ask.done:
                ask.fail(NoReply(cell.path, item[0]))
            if item.__class__ is Charged:
                uncharge(item)

    def reply(self, msg: Request[R], value: R, /) -> None:
        """Answer the message in hand. Sync. Raises `AlreadyReplied` the second time; does nothing if it was told."""
        ask = self._in_hand(msg)
        if ask is not None:
            ask.settle(value)
        elif self._answered:
            raise AlreadyReplied(self._cell.path, msg)
        self._answered = True

    def fail(self, msg: Asked[object, object], error: BaseException, /) -> None:
        """Let the ask for the message in hand raise `error`. The actor goes on. Otherwise like `reply`."""
        ask = self._in_hand(msg)
        if self._answered:
            raise AlreadyReplied(self._cell.path, msg)
        self._answered = True
        if ask is not None:
            ask.fail(error)

    def refuse(self, msg: object, /) -> None:
        """Give the message in hand up as one that this actor does not take: it becomes a dead letter with its sender,
        and an ask raises `MessageRefused`."""
        cell = self._cell
        item = cell.in_hand
        self._in_hand(msg)
        if item is not None:
            self._taken = False
            cell.refuse(item)

    def later(self, msg: Request[R], /) -> Later[R]:
        """Take the message out of hand and answer it later, from anywhere in the actor."""
        self._in_hand(msg)
        return self._cell.later(msg)

    def _in_hand(self, msg: object) -> Ask | None:
        item = self._cell.in_hand
        if item is None or item[0] is not msg:
            raise NotInHand(self._cell.path, type(msg))
        return item[2]

    async def serve_(self, actor: Actor[M_co]) -> None:
        """Handle the messages with the methods of `actor` until the end. `Actor.__call__` is this."""
        cell = self._cell
        cell.bind(actor)
        if self._fresh and "started" in actor.hooks_:
            await actor.started()
        if cell.state == "starting":
            cell.ready()
        await serve(cell)
