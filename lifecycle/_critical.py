"""Critical failures: tasks without which a service is not whole, and the record of how the first of them was lost."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal, TypeVar, TypeVarTuple, final

import attrs
import trio

from ._errors import ContractViolation
from ._group import name_of
from ._logs import place
from ._service_errors import MonitorMisplaced, SubscribersExhausted
from ._task import TaskHandle, WatchedTask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._group import TaskGroup
    from ._outcomes import Outcome
    from ._task import StopMode, TaskKind

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CriticalKind = Literal["panicked", "exited_unexpectedly", "unrecoverable"]
"""An exception left the task; a critical service returned before it was told to stop; recorded by hand."""

MAX_SUBSCRIBERS = 64
"""How many receivers of notices one `CriticalFailures` keeps."""

_log = logging.getLogger("tenure.lifecycle")


@attrs.frozen
class CriticalFailure:
    """The first failure since the last one was taken."""

    task: str
    """The path of the task."""
    kind: CriticalKind
    exception: Exception | None
    """What left the task; None for an early return."""
    at: float
    """When, on Trio's clock."""
    sequence: int
    """Grows with each failure recorded; 1 is the first."""
    occurrences: int = 1
    """How many failures were recorded since, this one included. Only the first is kept."""


@final
class CriticalFailures:
    """The failures of a set of critical tasks: the first that nobody has taken is kept, later ones are counted.

    A failure is here before anybody who waits for its task is woken.
    """

    __slots__ = ("_arrived", "_monitors", "_pending", "_sequence", "_subscribers", "_watched")

    def __init__(self) -> None:
        self._pending: CriticalFailure | None = None
        self._sequence = 0
        self._arrived: trio.Event | None = None
        self._subscribers: dict[trio.MemorySendChannel[CriticalFailure], None] = {}
        self._watched: dict[TaskGroup, int] = {}
        self._monitors: dict[TaskGroup, int] = {}

    def __repr__(self) -> str:
        return f"<CriticalFailures {self._sequence} recorded, {self.occurrences} pending>"

    @property
    def pending(self) -> CriticalFailure | None:
        """The first failure that nobody has taken; None if there is none."""
        return self._pending

    @property
    def occurrences(self) -> int:
        """How many failures have come since the last one was taken."""
        return 0 if self._pending is None else self._pending.occurrences

    @property
    def sequence(self) -> int:
        """How many failures were ever recorded."""
        return self._sequence

    def record(self, task: str, kind: CriticalKind = "unrecoverable", exception: Exception | None = None) -> None:
        """Record a failure, by hand or by the end of a critical task. Sync; never raises and never waits."""
        self._sequence += 1
        failure = CriticalFailure(task, kind, exception, trio.current_time(), self._sequence)
        _log.error("critical task %s: %s", task, kind, exc_info=exception, extra=place(task))
        if self._pending is None:
            self._pending = failure
        else:
            self._pending = attrs.evolve(self._pending, occurrences=self._pending.occurrences + 1)
        if self._arrived is not None:
            self._arrived.set()
            self._arrived = None
        for subscriber in tuple(self._subscribers):
            try:
                subscriber.send_nowait(failure)
            except trio.WouldBlock:
                pass  # a notice is lost, the record is not
            except trio.BrokenResourceError:
                del self._subscribers[subscriber]
                subscriber.close()

    def take(self) -> CriticalFailure | None:
        """Take the pending failure: the caller handles it, nobody else will get it. None if there is none."""
        failure, self._pending = self._pending, None
        return failure

    async def wait(self) -> CriticalFailure:
        """Wait until a failure is pending, and return it without taking it. A checkpoint."""
        await trio.lowlevel.checkpoint()
        while self._pending is None:
            if self._arrived is None:
                self._arrived = trio.Event()
            await self._arrived.wait()
        return self._pending

    def subscribe(self, capacity: int) -> trio.MemoryReceiveChannel[CriticalFailure]:
        """A channel that gets each failure as it is recorded. When `capacity` of them wait there, further notices are
        dropped: `pending` is what counts. Close it to end it. Raises `ContractViolation` for a capacity under 1 and
        `SubscribersExhausted` beyond 64 open channels."""
        if capacity < 1:
            raise ContractViolation(f"a channel of critical failures needs room for 1 at least, not {capacity}")
        for subscriber in tuple(self._subscribers):
            if not subscriber.statistics().open_receive_channels:
                del self._subscribers[subscriber]
                subscriber.close()
        if len(self._subscribers) >= MAX_SUBSCRIBERS:
            raise SubscribersExhausted(MAX_SUBSCRIBERS)
        send, receive = trio.open_memory_channel[CriticalFailure](capacity)
        self._subscribers[send] = None
        return receive

    # -- the tasks and their monitors, which never share a group

    def watch(
        self,
        group: TaskGroup,
        name: str,
        kind: TaskKind,
        fn: Callable[[*Ts], Awaitable[T]],
        args: tuple[*Ts],
        service: bool,
    ) -> TaskHandle[T]:
        """Start a critical task; see `spawn_critical`."""

        def settle(task: TaskHandle[T], outcome: Outcome) -> Outcome:
            _less(self._watched, group)
            if outcome == "panicked":
                self.record(task.path, "panicked", task.exception)
            elif service and outcome == "completed":
                self.record(task.path, "exited_unexpectedly")
                return "failed"
            return outcome

        if group in self._monitors:
            raise MonitorMisplaced(group.path)
        handle = group.launch(WatchedTask(name, group, kind, settle), fn, *args)
        self._watched[group] = self._watched.get(group, 0) + 1
        return handle

    def monitor(self, group: TaskGroup, name: str, callback: Callable[[CriticalFailure], object]) -> TaskHandle[None]:
        """Start a monitor; see `spawn_monitor`."""

        async def run() -> None:
            while True:
                await self.wait()
                if group.stop_requested:
                    return  # what is pending stays so
                failure = self.take()
                if failure is not None:
                    callback(failure)

        def settle(_: TaskHandle[None], outcome: Outcome) -> Outcome:
            _less(self._monitors, group)
            return outcome

        if group in self._watched:
            raise MonitorMisplaced(group.path)
        handle = group.launch(_Monitor(name, group, settle), run)
        self._monitors[group] = self._monitors.get(group, 0) + 1
        return handle


@final
class _Monitor(TaskHandle[None]):
    """Cancelled by the stop of its group. Nothing is lost by that: it takes and handles a failure without a checkpoint
    in between."""

    __slots__ = ("_settle",)

    def __init__(self, name: str, group: TaskGroup, settle: Callable[[TaskHandle[None], Outcome], Outcome]) -> None:
        super().__init__(name, group, "service")
        self._settle = settle
        if group.stop_requested:
            self._scope.cancel()  # told already, with the gate left open

    def request_stop(self, mode: StopMode) -> None:
        self._scope.cancel()

    def settled(self, outcome: Outcome) -> Outcome:
        return self._settle(self, outcome)


def _less(counts: dict[TaskGroup, int], group: TaskGroup) -> None:
    counts[group] -= 1
    if not counts[group]:
        del counts[group]


def spawn_critical(
    group: TaskGroup,
    failures: CriticalFailures,
    fn: Callable[[*Ts], Awaitable[T]],
    /,
    *args: *Ts,
    name: str | None = None,
    kind: TaskKind = "worker",
) -> TaskHandle[T]:
    """Start a task that must not fail: an exception that leaves it is recorded in `failures`. A return is fine, and so
    is being cancelled or aborted. Sync; raises when the gate is closed, `MonitorMisplaced` in a monitor's group."""
    return failures.watch(group, name or name_of(fn), kind, fn, args, service=False)


def spawn_critical_service(
    group: TaskGroup,
    failures: CriticalFailures,
    fn: Callable[[*Ts], Awaitable[T]],
    /,
    *args: *Ts,
    name: str | None = None,
) -> TaskHandle[T]:
    """Start a service that must not end by itself: an exception, and a return before the group was told to stop, are
    recorded in `failures`. Such a return counts as failed in the group's outcomes. Sync, raises like `spawn_critical`.
    """
    return failures.watch(group, name or name_of(fn), "service", fn, args, service=True)


def spawn_monitor(
    group: TaskGroup,
    failures: CriticalFailures,
    callback: Callable[[CriticalFailure], object],
    *,
    name: str = "critical-monitor",
) -> TaskHandle[None]:
    """Start a task that takes each pending failure and calls `callback(failure)`; several share the work.

    It needs a group of its own, outside of those it watches (`MonitorMisplaced`): a failed task poisons its group. It
    ends when that group is told to stop, and what is pending then stays. What the callback raises poisons it.
    """
    return failures.monitor(group, name, callback)
