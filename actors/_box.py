"""The mailbox: two bounded lanes, a policy for when there is no room, one wake-up slot.

A deque and a slot, not a memory channel: the loop that empties it takes many messages for one trip through the
scheduler. The lanes are made on first use, so that an idle actor costs little. `data` is looked into by `Ref.tell` and
`Ref.ask` directly; everything that is not the plain case (closed, full, first use, another policy, control) goes
through `Box.offer`, to which `room = 0` leads.
"""

from __future__ import annotations

from collections import deque
from threading import get_ident
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, final

import trio
from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

from ._errors import ActorStopped, MailboxFull, MessageDropped, WrongThread
from ._mailbox import Coalesce, DropStale

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from lifecycle import Permit

    from ._cell import Cell
    from ._mailbox import Mailbox
    from ._message import DeadReason
    from ._reply import Ask
    from ._slice import Slice

Item: TypeAlias = "tuple[object, Cell | None, Ask | None]"
"""A message, the actor that sent it, and the ask that waits for its answer."""

INLINE: Any = "inline"
"""Stands in an item for the sender of an ask that is handled inline: who that is, is looked up only if asked for."""

NO_HANDLERS: dict[type[object], Any] = {}
"""What stands for the handlers of an actor that must not be run inline now: it is closed, crashed, or not in its
loop."""

NONE_INLINE: dict[type[object], Any] = {}
"""The same for one that could, were it not switched off."""

_NO_ITEMS: deque[Item] = deque(maxlen=0)


@final
class Notice(tuple[object, "Cell | None", "Ask | None"]):
    """An item of the framework's own. `about` is the actor whose end it tells of, None for other matters."""

    about: Cell | None = None


@final
class Charged(tuple[object, "Cell | None", "Ask | None"]):
    """An item of a mailbox with a budget, and the permit that covers it."""

    permit: Permit
    aside: bool = False
    """Whether it is stashed: it is charged on when its turn has ended."""


def uncharge(item: Item) -> None:
    """The item is out of hand."""
    if isinstance(item, Charged) and not item.aside:
        item.permit.release()


@final
class Parked:
    """A message that waits for room, and the sender's task (None for an ask, which waits for its answer)."""

    __slots__ = ("box", "error", "gone", "item", "task")

    def __init__(self, box: Box, item: Item) -> None:
        self.box: Box = box
        self.item: Item = item
        self.task: trio.lowlevel.Task | None = None
        self.error: ActorStopped | MailboxFull | None = None
        self.gone: bool = False

    @property
    def given_up(self) -> bool:
        """Whether the sender or asker was cancelled meanwhile."""
        ask = self.item[2]
        return self.gone if ask is None else ask.abandoned

    def abort(self, _: object) -> Abort:
        self.gone = True
        self.task = None
        self.box.forget_parked()
        return Abort.SUCCEEDED

    def wake(self) -> None:
        task, self.task = self.task, None
        if task is not None:
            reschedule(task)


class Box:
    """One actor's mailbox, as the framework sees it."""

    charged: ClassVar[bool] = False
    """Whether its messages are charged to a budget: a `ChargedBox`."""

    __slots__ = (
        "accepted", "cell", "closed", "control", "data", "dropped", "forgotten", "gone", "inline", "is_control", "keys",
        "room", "slice", "spec", "times", "waiter", "waiting",
    )  # fmt: skip

    def __init__(self, spec: Mailbox, cell: Cell, slice_: Slice, is_control: dict[type[object], bool]) -> None:
        self.spec: Mailbox = spec
        self.cell: Cell = cell
        self.slice: Slice = slice_
        self.is_control: dict[type[object], bool] = is_control
        self.data: deque[Item] = _NO_ITEMS
        self.control: deque[Item] = _NO_ITEMS
        self.room: int = 0
        self.waiter: trio.lowlevel.Task | None = None
        self.inline: dict[type[object], Any] = NO_HANDLERS
        self.waiting: deque[Parked] | None = None
        self.forgotten: int = 0
        """Of those that wait for room, how many have given up, at most."""
        self.gone: int = 0
        """Of the asks that are queued, how many have been abandoned, at most."""
        self.closed: bool = False
        self.dropped: int = 0
        # Of the two policies that need them.
        self.accepted: int = 0
        self.keys: dict[Hashable, int] | None = None
        self.times: deque[float] | None = None

    @property
    def depth(self) -> int:
        """Messages queued, those that wait for room left out."""
        return len(self.data) + len(self.control)

    # -- waking the loop

    def wake(self) -> None:
        """Let the loop look again. Sync; does nothing if it is awake."""
        waiter = self.waiter
        if waiter is not None:
            reschedule(waiter)
            self.waiter = None

    def abort_park(self, _: object) -> Abort:
        self.waiter = None
        return Abort.SUCCEEDED

    async def park(self) -> None:
        """Wait until there may be something to do. A cancel point."""
        if self.waiter is not None:
            raise trio.BusyResourceError(f"another task waits for the inbox of {self.cell.path}")
        self.waiter = current_task()
        await wait_task_rescheduled(self.abort_park)

    # -- putting in

    def post(self, message: object, about: Cell | None = None) -> None:
        """A message of the framework's own: into the control lane, whatever its depth, unless the actor has closed."""
        if not self.closed:
            notice = Notice((message, None, None))
            notice.about = about
            self._put_control(notice)

    def offer(self, item: Item) -> bool:
        """Accept the message if that needs no waiting. False if it must wait for room; otherwise it is queued, dropped
        by the policy, a dead letter (a tell to a closed mailbox), or an error (`MailboxFull`, `ActorStopped` for an
        ask)."""
        if self.slice.thread != get_ident():
            raise WrongThread(self.cell.path)
        if self.closed:
            self._refuse_closed(item)
            return True
        if self.is_control[type(item[0])]:
            if len(self.control) >= self.spec.control_limit:
                raise MailboxFull(self.cell.path, self.spec.control_limit, len(self.control))
            self._put_control(item)
            return True
        if self.data is _NO_ITEMS:
            self.open()
        if self.gone and len(self.data) >= self.spec.limit:
            self._reclaim()
        policy = self.spec.policy
        if isinstance(policy, Coalesce):
            self._coalesce(policy, item)
        elif isinstance(policy, DropStale):
            self._put_timed(policy, item)
        elif len(self.data) < self.spec.limit:
            self.data.append(item)
            self.wake()
        elif policy == "wait":
            return False
        elif policy == "reject":
            raise self.full()
        elif policy == "drop_newest":
            self._displace(item, "displaced")
        else:
            self._displace(self.data.popleft(), "displaced")
            self.data.append(item)
        return True

    def offer_quietly(self, item: Item) -> bool:
        """`offer` for senders that neither wait nor make a dead letter of a closed mailbox. False if the message was
        not accepted."""
        dropped = self.dropped
        try:
            if self.closed or not self.offer(item):
                return False
        except MailboxFull:
            return False
        return self.dropped == dropped or self.spec.policy != "drop_newest"

    def free(self) -> int:
        """Room in the data lane."""
        if isinstance(self.spec.policy, DropStale) and self.times:
            self._drop_stale(self.spec.policy, trio.current_time())
        if self.gone:
            self._reclaim()
        return self.spec.limit - len(self.data)

    def full(self) -> MailboxFull:
        """The error for a message that found no room."""
        return MailboxFull(self.cell.path, self.spec.limit, len(self.data) + len(self.waiting or ()))

    async def send(self, item: Item) -> None:
        """Put the message in, waiting for room if the policy says so. A cancel point; suspends only to wait for
        room."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.closed:
            raise ActorStopped(self.cell.path, self.cell.exit)
        if not self.offer(item):
            if item[1] is self.cell and self.cell.must_await(current_task()):
                raise self.full()  # it would wait for itself
            parked = self.wait_for_room(item)
            if self.waiting and self.waiting[-1] is parked:
                parked.task = current_task()
                await wait_task_rescheduled(parked.abort)
            if parked.error is not None:
                raise parked.error

    def open(self) -> None:
        """Make the data lane, if that is not done."""
        if self.data is not _NO_ITEMS:
            return
        self.data = deque()
        if isinstance(self.spec.policy, Coalesce):
            self.keys = {}
        elif isinstance(self.spec.policy, DropStale):
            self.times = deque()
        else:
            self.room = self.spec.limit

    def _put_control(self, item: Item) -> None:
        self._control_lane().append(item)
        self.wake()

    def _control_lane(self) -> deque[Item]:
        if self.control is _NO_ITEMS:
            self.control = deque()
        return self.control

    # -- the policies that need more than a deque

    def _coalesce(self, policy: Coalesce, item: Item) -> None:
        assert self.keys is not None
        key = key_of(policy, item[0])
        place = self._place_of(key)
        if place >= 0:
            old = self.data[place]
            self.data[place] = item
            self._displace(old, "displaced")
            return
        if len(self.data) >= self.spec.limit:
            raise self.full()
        self._put_keyed(key, item)

    def _place_of(self, key: Hashable) -> int:
        """Where the message of that key is queued; below 0 if it is not."""
        assert self.keys is not None
        number = self.keys.get(key)
        return -1 if number is None else number - (self.accepted - len(self.data))

    def _put_keyed(self, key: Hashable, item: Item) -> None:
        assert self.keys is not None
        if len(self.keys) > 2 * self.spec.limit:  # keys of messages that were taken long ago
            taken = self.accepted - len(self.data)
            self.keys = {k: n for k, n in self.keys.items() if n >= taken}
        self.keys[key] = self.accepted
        self.accepted += 1
        self.data.append(item)
        self.wake()

    def _number_anew(self) -> None:
        """Under `coalesce`: note again where each key is queued, its newest message counts."""
        policy = self.spec.policy
        if isinstance(policy, Coalesce):
            self.keys = {key_of(policy, item[0]): number for number, item in enumerate(self.data)}
            self.accepted = len(self.data)

    def _put_timed(self, policy: DropStale, item: Item) -> None:
        assert self.times is not None
        now = trio.current_time()
        self._drop_stale(policy, now)
        if len(self.data) >= self.spec.limit:
            raise self.full()
        self.data.append(item)
        self.times.append(now)
        self.wake()

    def _drop_stale(self, policy: DropStale, now: float) -> None:
        assert self.times is not None
        while self.times and now - self.times[0] > policy.age:
            self.times.popleft()
            self._displace(self.data.popleft(), "stale")

    # -- taking out

    def taker(self) -> Callable[[], Item | None]:
        """The function that takes the next message of the data lane; the caller has seen that there is one."""
        return self.data.popleft if self.times is None else self._take_fresh

    def _take_fresh(self) -> Item | None:
        assert self.times is not None
        policy = self.spec.policy
        assert isinstance(policy, DropStale)
        self._drop_stale(policy, trio.current_time())
        if not self.data:
            return None
        self.times.popleft()
        return self.data.popleft()

    def put_first(self, item: Item) -> None:
        """Put back the message that was just taken: it is the next one again."""
        self._control_lane().appendleft(item)

    def put_back(self, items: list[Item]) -> None:
        """Put messages that were taken ahead of all that is queued in their lanes, in their order. Limits do not hold,
        and what is put back is as fresh as what is put in now."""
        self.open()
        control: list[Item] = []
        data: list[Item] = []
        for item in items:
            if isinstance(item, Charged):
                item.aside = False
            (control if isinstance(item, Notice) or self.is_control[type(item[0])] else data).append(item)
        if control:
            self._control_lane().extendleft(reversed(control))
        self.data.extendleft(reversed(data))
        if self.times is not None:
            self.times.extendleft([trio.current_time()] * len(data))
        self._number_anew()
        self.wake()

    def has_notice(self, about: Cell) -> bool:
        """Whether a notice of the end of `about` is unread."""
        return any(isinstance(item, Notice) and item.about is about for item in self.control)

    def take_notices(self, about: Cell | None = None) -> None:
        """Take out the unread notices of the end of `about`, or of every actor's end."""
        for place in range(len(self.control) - 1, -1, -1):
            item = self.control[place]
            if isinstance(item, Notice) and item.about is not None and about in (None, item.about):
                del self.control[place]

    # -- waiting for room

    def wait_for_room(self, item: Item) -> Parked:
        """Queue the message behind the full mailbox, first come, first served."""
        parked = Parked(self, item)
        if item[2] is not None:
            item[2].parked = True
        if self.waiting is None:
            self.waiting = deque()
        self.waiting.append(parked)
        return parked

    def admit(self) -> None:
        """Room has been made: move in those that have waited longest."""
        waiting = self.waiting
        while waiting and len(self.data) < self.spec.limit:
            parked = waiting.popleft()
            if parked.given_up:
                self._count_gone(parked.item)
                continue
            ask = parked.item[2]
            if ask is not None:
                ask.parked = False
            self.data.append(parked.item)
            parked.wake()

    def forget_parked(self) -> None:
        """Somebody that waited for room has gone. Now and then, remove those from the queue."""
        self.forgotten += 1
        if self.waiting and 2 * self.forgotten > len(self.waiting):
            self.forgotten = 0
            waiting: deque[Parked] = deque()
            for parked in self.waiting:
                if parked.given_up:
                    self._count_gone(parked.item)
                else:
                    waiting.append(parked)
            self.waiting = waiting

    def forget(self, ask: Ask) -> None:
        """An ask that the actor has not in hand was abandoned."""
        if ask.parked:
            self.forget_parked()
        else:
            self.gone += 1

    def _reclaim(self) -> None:
        """Give the room of abandoned asks to others, those that wait first. In place, since the loop holds the
        deque."""
        self.gone = 0
        kept: list[Item] = []
        times: list[float] = []
        since = iter(self.times or ())
        for item in self.data:
            time = next(since, 0.0)
            if item[2] is not None and item[2].abandoned:
                self.cell.skip(item)
            else:
                kept.append(item)
                times.append(time)
        if len(kept) == len(self.data):
            return
        self.data.clear()
        self.data.extend(kept)
        if self.times is not None:
            self.times.clear()
            self.times.extend(times)
        self._number_anew()
        self.admit()

    def _count_gone(self, item: Item) -> None:
        if item[2] is not None:
            self.cell.abandoned += 1

    # -- the end

    def close(self) -> None:
        """Take nothing more. Those that wait for room fail at once; what is queued stays."""
        self.closed = True
        self.room = 0
        self.inline = NO_HANDLERS
        waiting, self.waiting = self.waiting, None
        for parked in waiting or ():
            if parked.item[2] is not None:
                self.cell.give_up(parked.item, "stopped")
            elif parked.task is not None:
                parked.error = ActorStopped(self.cell.path, self.cell.exit)
                parked.wake()

    def reopen(self) -> None:
        """Take messages again."""
        self.closed = False
        if self.data is not _NO_ITEMS and self.keys is None and self.times is None:
            self.room = self.spec.limit

    def flush(self, reason: DeadReason) -> None:
        """Give up all that is queued, in order: asks fail, tells become dead letters."""
        for lane in (self.control, self.data):
            while lane:
                self.cell.give_up(lane.popleft(), reason)
        if self.times is not None:
            self.times.clear()

    def _refuse_closed(self, item: Item) -> None:
        if item[2] is not None:
            raise ActorStopped(self.cell.path, self.cell.exit)
        self.cell.dead(item[0], item[1], "stopped")

    def _displace(self, item: Item, reason: DeadReason) -> None:
        message, sender, ask = item
        uncharge(item)
        if ask is not None and ask.abandoned:
            self.cell.abandoned += 1
            return
        self.dropped += 1
        if ask is not None:
            ask.fail(MessageDropped(self.cell.path, self.spec.policy_name))
        else:
            self.cell.dead(message, sender, reason)


def key_of(policy: Coalesce, message: object) -> Hashable:
    """The key of a message. One that the function has none for is like no other: the sender cannot help it."""
    try:
        key = policy.key(message)
        hash(key)
    except Exception:
        return object()
    return key
