"""Timers: one task and one heap for all timers of a system."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Literal, final

import trio
from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

from ._errors import ActorStopped, TimerInvalid, TooManyTimers
from ._timer_queue import TimerQueue, check_delay, check_period, fixed_rate

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._cell import Cell
    from ._timer_queue import TimerEntry

LIMIT = 10_000
"""Timers that one actor may have at a time."""

Mode = Literal["fixed_delay", "fixed_rate"]


@final
class Timer:
    """A message that an actor will be sent, once or again and again. It ends with its actor, or by `cancel`."""

    __slots__ = ("_cell", "_entry", "_first", "_message", "_mode", "_number", "_period", "_timers", "_to", "missed")

    def __init__(self, timers: Timers, cell: Cell, to: Cell, message: Any, period: float | None, mode: Mode) -> None:
        self._timers = timers
        self._cell = cell
        self._message = message
        self._period = period
        self._mode: Mode = mode
        self._number = 0
        self._first = 0.0
        self._entry: TimerEntry[Callable[[], None]] | None = None
        self._to = to
        self.missed: int = 0
        """Ticks of a periodic timer that were left out: the one before was still unread, or time had run past them."""

    def __repr__(self) -> str:
        return f"<Timer {type(self._message).__qualname__} to {self._to.path}, {'active' if self.active else 'ended'}>"

    @property
    def active(self) -> bool:
        """Whether it will fire (again)."""
        return self._entry is not None

    def cancel(self) -> bool:
        """End the timer. True if it was active. Sync. A message that is already in a mailbox stays there."""
        entry, self._entry = self._entry, None
        self._cell.links.timers.discard(self)
        return entry is not None and self._timers.cancel(entry)

    def begin_(self, delay: float) -> None:
        self._first = trio.current_time() + delay
        self._entry = self._timers.add(self._first, self.fire_)

    def fire_(self) -> None:
        """The time has come: send, and set up the next tick."""
        period = self._period
        if self._entry is None:
            return  # cancelled by another that was due at the same time
        if period is None or self._to.exit is not None:
            self._entry = None
            self._cell.links.timers.discard(self)
            self._send()
            return
        if self._is_unread():
            self.missed += 1  # one unread tick says all that two would say
        else:
            self._send()
        now = trio.current_time()
        if self._mode == "fixed_delay":
            due = now + period
        else:
            tick = fixed_rate(self._first, period, self._number, now)
            self._number = tick.number
            self.missed += tick.missed
            due = tick.due
        self._entry = self._timers.add(due, self.fire_)

    def _is_unread(self) -> bool:
        box = self._to.box
        return any(item[0] is self._message for lane in (box.data, box.control) for item in lane)

    def _send(self) -> None:
        to = self._to
        if not to.box.offer_quietly((self._message, self._cell, None)):
            to.dead(self._message, self._cell, "stopped" if to.box.closed else "full")


@final
class Timers:
    """The timers of one system. `run` is the task that fires them."""

    def __init__(self) -> None:
        self._queue: TimerQueue[Callable[[], None]] = TimerQueue()
        self._sleeper: trio.lowlevel.Task | None = None
        self._until = inf

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, due: float, call: Callable[[], None]) -> TimerEntry[Callable[[], None]]:
        """Call `call()` at `due`, a time on Trio's clock. Sync."""
        entry = self._queue.add(due, call)
        if due < self._until and self._sleeper is not None:
            reschedule(self._sleeper)
            self._sleeper = None
        return entry

    def call_after(self, delay: float, call: Callable[[], None]) -> TimerEntry[Callable[[], None]]:
        """Call `call()` in `delay` seconds. Sync."""
        return self.add(trio.current_time() + delay, call)

    def cancel(self, entry: TimerEntry[Callable[[], None]]) -> bool:
        """Forget a call. True if it had not been made."""
        return self._queue.cancel(entry)

    def start(
        self, cell: Cell, to: Cell, message: Any, delay: float, period: float | None = None, mode: Mode = "fixed_delay"
    ) -> Timer:
        """A new timer of `cell`'s. Raises `TimerInvalid`, `TooManyTimers`, `ActorStopped`."""
        if cell.exit is not None:
            raise ActorStopped(cell.path, cell.exit)
        check_delay(delay)
        if period is not None:
            check_period(period)
        if mode not in ("fixed_delay", "fixed_rate"):
            raise TimerInvalid(f"mode is fixed_delay or fixed_rate, not {mode!r}")
        timers = cell.links.timers
        if len(timers) >= LIMIT:
            raise TooManyTimers(cell.path, LIMIT)
        timer = Timer(self, cell, to, message, period, mode)
        timers.add(timer)
        timer.begin_(delay)
        return timer

    async def run(self) -> None:
        """Fire what is due, for ever."""
        while True:
            for entry in self._queue.pop_due(trio.current_time()):
                entry.payload()
            self._until = self._queue.next_due()
            with trio.CancelScope(deadline=self._until):
                self._sleeper = current_task()
                await wait_task_rescheduled(self._wake)
            self._sleeper = None

    def _wake(self, _: object) -> Abort:
        self._sleeper = None
        return Abort.SUCCEEDED
