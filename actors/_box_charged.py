"""The mailbox whose messages are charged to a budget.

Everything goes through `offer` (`room` is 0), so that a mailbox without a budget pays nothing for it. A message is
charged before it is in a lane, and the permit goes with its item until that is out of hand. The end of a turn is seen
for class actors by what is put around their handlers, for function actors by the inbox.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any, ClassVar, final

import trio

from lifecycle import BudgetClosed, BudgetExhausted, Permit

from ._box import Box, Charged, key_of, uncharge
from ._errors import MailboxFull, WrongThread
from ._mailbox import Coalesce, DropStale

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from lifecycle import Budget, BudgetRefusal

    from ._box import Item, Parked
    from ._cell import Cell
    from ._mailbox import Mailbox
    from ._slice import Slice

    class Waiting(Protocol):
        """A wait for a share of a budget."""

        done: bool

        def withdraw(self) -> None: ...


@final
class ChargedBox(Box):
    """A mailbox with a budget."""

    __slots__ = ("_admitting", "_budget", "_exhausted", "_first", "_size", "_turned_away", "_waiter")

    charged: ClassVar[bool] = True

    def __init__(
        self, spec: Mailbox, budget: Budget, cell: Cell, slice_: Slice, is_control: dict[type[object], bool]
    ) -> None:
        super().__init__(spec, cell, slice_, is_control)
        self._budget: Budget = budget
        self._size: Callable[[Any], int] | None = spec.size
        self._first: Parked | None = None
        self._waiter: Waiting | None = None
        """Waits for a share for `_first`, which has waited longest for room. There only while the limit allows it."""
        self._admitting: bool = False
        self._exhausted: str = budget.path
        """The budget that had no room for the message that was to wait last."""
        self._turned_away: int = 0
        """New messages that `drop_newest` and `drop_oldest` have dropped."""

    # -- putting in

    def offer(self, item: Item) -> bool:
        if self.slice.thread != get_ident():
            raise WrongThread(self.cell.path)
        if self.closed:
            self._refuse_closed(item)
            return True
        if self.is_control[type(item[0])]:
            if len(self.control) >= self.spec.control_limit:
                raise MailboxFull(self.cell.path, self.spec.control_limit, len(self.control))
            self._put_control(self._charge(item, control=True))
            return True
        self.open()
        if self.gone and len(self.data) >= self.spec.limit:
            self._reclaim()
        policy = self.spec.policy
        if isinstance(policy, Coalesce):
            self._coalesce(policy, item)
        elif isinstance(policy, DropStale):
            self._put_timed(policy, item)
        elif policy == "wait":
            return self._put_or_wait(item)
        elif policy == "reject":
            self._put(self._charge_within_limit(item))
        else:
            self._put_or_drop(item)
        return True

    def offer_quietly(self, item: Item) -> bool:
        turned_away = self._turned_away
        try:
            accepted = not self.closed and self.offer(item)
        except MailboxFull:
            return False
        return accepted and self._turned_away == turned_away

    def _put(self, item: Item) -> None:
        self.data.append(item)
        self.wake()

    def _put_or_wait(self, item: Item) -> bool:
        hopeless = self._budget.hopeless_(self._bytes(item))
        if hopeless is not None:
            raise self._no_room(hopeless)
        self.admit()
        if self.waiting or len(self.data) >= self.spec.limit or self._budget.is_awaited_():
            self._exhausted = self._budget.path
            return False
        found = self._try_charge(item)
        if not isinstance(found, Charged):
            self._exhausted = _exhausted(found)
            return False
        self._put(found)
        return True

    def _put_or_drop(self, item: Item) -> None:
        oldest = self.spec.policy == "drop_oldest"
        if len(self.data) < self.spec.limit:
            found = self._try_charge(item)
            charged = found if isinstance(found, Charged) else self._charge_instead(item) if oldest else None
        else:
            charged = self._charge_instead(item) if oldest else None
        if charged is None:
            self._turned_away += 1
            self._displace(item, "displaced")
        else:
            self._put(charged)

    def _charge_instead(self, item: Item) -> Charged | None:
        """Charge the message in the place of the oldest ones, as few as it takes. None if all would not do: then they
        stay."""
        nbytes = self._bytes(item)
        permits = [old.permit for old in self.data if isinstance(old, Charged)]
        if not permits or not self._budget.fits_(nbytes, permits):
            return None
        number = 1
        while not self._budget.fits_(nbytes, permits[:number]):
            number += 1
        permit = self._budget.offer_(nbytes, control=False, instead_of=permits[:number])
        assert isinstance(permit, Permit), "it has just been seen to fit"
        for _ in range(number):
            self._displace(self.data.popleft(), "displaced")
        return _charged(item, permit)

    def _coalesce(self, policy: Coalesce, item: Item) -> None:
        key = key_of(policy, item[0])
        place = self._place_of(key)
        if place < 0:
            self._put_keyed(key, self._charge_within_limit(item))
            return
        old = self.data[place]
        assert isinstance(old, Charged)
        permit = self._budget.offer_(self._bytes(item), control=False, instead_of=(old.permit,))
        if not isinstance(permit, Permit):
            raise self._no_room(permit)
        self.data[place] = _charged(item, permit)
        self._displace(old, "displaced")

    def _put_timed(self, policy: DropStale, item: Item) -> None:
        assert self.times is not None
        now = trio.current_time()
        self._drop_stale(policy, now)
        charged = self._charge_within_limit(item)
        self.times.append(now)
        self._put(charged)

    # -- charging

    def _bytes(self, item: Item) -> int:
        if self._size is None:
            return 0
        try:
            return _whole(self._size(item[0]))
        except Exception:
            return 0

    def _try_charge(self, item: Item, control: bool = False) -> Charged | BudgetRefusal:
        nbytes = self._bytes(item)
        found = self._budget.offer_(nbytes, control)
        if not isinstance(found, Permit) and self.gone:
            self._reclaim()
            found = self._budget.offer_(nbytes, control)
        return _charged(item, found) if isinstance(found, Permit) else found

    def _charge(self, item: Item, control: bool = False) -> Charged:
        found = self._try_charge(item, control)
        if isinstance(found, Charged):
            return found
        raise self._no_room(found)

    def _charge_within_limit(self, item: Item) -> Charged:
        if len(self.data) >= self.spec.limit:
            raise self.full()
        return self._charge(item)

    def full(self) -> MailboxFull:
        if len(self.data) >= self.spec.limit:
            return super().full()
        return self._full(self._exhausted)

    def _full(self, budget: str) -> MailboxFull:
        return MailboxFull(self.cell.path, self.spec.limit, len(self.data) + len(self.waiting or ()), budget)

    def _no_room(self, refusal: BudgetRefusal) -> MailboxFull:
        error = self._full(_exhausted(refusal))
        error.__cause__ = refusal
        return error

    def free(self) -> int:
        return max(0, min(super().free(), self._budget.room_()))

    # -- waiting for room

    def wait_for_room(self, item: Item) -> Parked:
        parked = super().wait_for_room(item)
        self.admit()
        return parked

    def admit(self) -> None:
        if self._admitting or self._waiter is not None:
            return
        self._admitting = True
        try:
            while self.waiting and len(self.data) < self.spec.limit:
                parked = self.waiting[0]
                if parked.given_up:
                    self._count_gone(self.waiting.popleft().item)
                    continue
                nbytes = self._bytes(parked.item)
                hopeless = self._budget.hopeless_(nbytes)
                if hopeless is not None:
                    self._failed(hopeless)
                    continue
                timers = self.cell.system.timers
                waiter = self._budget.wait_(nbytes, self._granted, self._failed, timers.call_after)
                if not waiter.done:
                    self._waiter, self._first = waiter, parked
                    break
        finally:
            self._admitting = False

    def _granted(self, permit: Permit) -> None:
        self._waiter = self._first = None
        assert self.waiting
        parked = self.waiting.popleft()
        ask = parked.item[2]
        if ask is not None:
            ask.parked = False
        self._put(_charged(parked.item, permit))
        parked.wake()
        self.admit()

    def _failed(self, refusal: BudgetRefusal) -> None:
        self._waiter = self._first = None
        assert self.waiting
        parked = self.waiting.popleft()
        error = self._no_room(refusal)
        ask = parked.item[2]
        if ask is not None:
            ask.parked = False
            ask.fail(error)
        else:
            parked.error = error
            parked.wake()
        self.admit()

    def forget_parked(self) -> None:
        super().forget_parked()
        if self._first is not None and self._first.given_up:
            self._withdraw()
            self.admit()

    def _withdraw(self) -> None:
        waiter, self._waiter, self._first = self._waiter, None, None
        if waiter is not None:
            waiter.withdraw()

    # -- the end

    def open(self) -> None:
        super().open()
        self.room = 0

    def reopen(self) -> None:
        super().reopen()
        self.room = 0

    def close(self) -> None:
        self._withdraw()
        super().close()


def _whole(nbytes: object) -> int:
    return max(0, nbytes) if isinstance(nbytes, int) else 0


def _exhausted(refusal: BudgetRefusal) -> str:
    if isinstance(refusal, BudgetExhausted):
        return refusal.exhausted
    return refusal.closed if isinstance(refusal, BudgetClosed) else refusal.path


def _charged(item: Item, permit: Permit) -> Charged:
    charged = Charged(item)
    charged.permit = permit
    return charged


def charged_handlers(cell: Cell) -> tuple[dict[type[object], Any], dict[type[object], Any]]:
    """The handlers that the actor has now, plain and awaiting, each of which ends the charge of its message."""
    plain = {message: _plain(cell, fn) for message, fn in cell.plain.items()}
    awaiting = {message: _awaiting(cell, fn) for message, fn in cell.awaiting.items()}
    return plain, awaiting


def _plain(cell: Cell, fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def handler(target: object, message: object) -> object:
        item = cell.in_hand
        try:
            return fn(target, message)
        finally:
            if item is not None:
                uncharge(item)

    return handler


def _awaiting(cell: Cell, fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    async def handler(target: object, message: object) -> object:
        item = cell.in_hand
        try:
            return await fn(target, message)
        finally:
            if item is not None:
                uncharge(item)

    return handler
