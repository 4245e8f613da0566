"""An operation: the work done for one request, as a cancel and a deadline over tasks of one existing group.

It owns nothing and is no group: its tasks are the group's, which follows and ends them. The operation adds what the
request knows: by when, and whether anybody still wants it.
"""

from __future__ import annotations

import logging
from math import inf, isnan
from typing import TYPE_CHECKING, Any, Literal, TypeVar, TypeVarTuple, final

import attrs
import trio

from ._errors import ContractViolation, ObserverRefused, OperationBound, OperationClosed
from ._logs import place
from ._task import StopMode, TaskHandle, TaskKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._group import TaskGroup
    from ._outcomes import Outcome

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

OperationOutcome = Literal["completed", "cancelled", "deadline_exceeded", "owner_cancelled", "panicked", "aborted"]
"""How a task of an operation ended."""

CONFIRM_WITHIN = 1.0
"""Seconds that a wait with a relative limit adds at most, to see the tasks that it aborted end."""

_log = logging.getLogger("tenure.lifecycle")


@attrs.frozen
class OperationOutcomes:
    """How the tasks of an operation ended, each in exactly one count. Once all have, the sum is the number accepted."""

    completed: int = 0
    cancelled: int = 0
    """By the operation's `cancel`."""
    deadline_exceeded: int = 0
    """By the operation's deadline."""
    owner_cancelled: int = 0
    """By the stop of the group that owns the task, or with the whole program around it."""
    panicked: int = 0
    aborted: int = 0
    """Singly, by a wait that ran out, or by the end of a shutdown."""

    @property
    def total(self) -> int:
        """Tasks that have ended."""
        return sum(attrs.astuple(self))


@attrs.frozen
class OperationEnd:
    """What `Operation.close_and_wait` saw."""

    status: Literal["completed", "abort_confirmed", "unconfirmed"]
    """All ended by themselves; or all ended, some after an abort; or some had not ended when the time was over."""
    remaining: int = 0
    """Tasks that had not ended. They stay in their group's records and in its report; a later wait may see them end."""


@final
class _State:
    """What all labels of one operation share."""

    __slots__ = ("accepting", "active", "attempted", "cancelled", "counts", "deadline", "idle", "observer", "owner")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.accepting = True
        self.cancelled = False
        self.attempted = False
        self.owner: TaskGroup | None = None
        self.active: dict[_OperationHandle[Any], None] = {}
        self.counts: dict[OperationOutcome, int] = {}
        self.observer: Callable[[TaskKind, OperationOutcome], object] | None = None
        self.idle: trio.Event | None = None


class _OperationHandle(TaskHandle[T]):
    """One task of an operation."""

    __slots__ = ("_draining", "_state")

    def __init__(self, name: str, group: TaskGroup, kind: TaskKind, state: _State, draining: bool) -> None:
        super().__init__(name, group, kind)
        self._state = state
        self._draining = draining
        self._scope.deadline = state.deadline
        if group.stop_requested and not draining:
            self._scope.cancel()

    def request_stop(self, mode: StopMode) -> TaskGroup | None:
        if mode == "kill" or not self._draining:
            self._scope.cancel()
        return None

    def end_operation(self) -> None:
        """The operation was cancelled."""
        self._scope.cancel()

    def move_deadline(self, deadline: float) -> None:
        self._scope.deadline = min(self._scope.deadline, deadline)

    def classify(self, returned: bool) -> tuple[Outcome, bool]:
        outcome, timed_out = super().classify(returned)
        if outcome == "aborted":
            return outcome, timed_out
        return ("completed" if self._how() == "completed" else "cancelled"), False

    def settled(self, outcome: Outcome) -> Outcome:
        state = self._state
        how: OperationOutcome = "panicked" if outcome == "panicked" else self._how()
        state.counts[how] = state.counts.get(how, 0) + 1
        del state.active[self]
        if state.idle is not None and not state.active:
            state.idle.set()  # wakes nobody before this task has settled with its group too
            state.idle = None
        if state.observer is not None:
            try:
                state.observer(self.kind, how)
            except Exception:  # the end of this task is still to be counted
                text = "the observer of the operation (%s) failed at the end of task %s"
                _log.exception(text, self.kind, self.path, extra=place(self.group.path))
        return outcome

    def _how(self) -> OperationOutcome:
        """What counts when several things happened in one turn: the owner before the operation before the clock."""
        if self._aborted:
            return "aborted"
        if self.group.stop_requested and not self._draining:
            return "owner_cancelled"
        if self._state.cancelled:
            return "cancelled"
        if trio.current_time() >= self._state.deadline:
            return "deadline_exceeded"
        if self._scope.cancel_called:
            return "aborted"
        return "completed" if self._returned else "owner_cancelled"  # with all around it, from outside the tree


@final
class Operation:
    """A cancel and a deadline over tasks of one group, which is the group of the first task that it accepts.

    Start tasks with `TaskGroup.spawn_operation` and `spawn_draining_operation`. When several things happen at the same
    instant the task counts as ended by, in this order: the owner's stop, the operation's cancel, its deadline, itself.
    """

    __slots__ = ("_state", "kind")

    def __init__(self, deadline: float = inf, kind: TaskKind = "operation") -> None:
        """`deadline` is a time on Trio's clock (`trio.current_time() + seconds`)."""
        if isnan(deadline):
            raise ContractViolation("an operation was given a deadline that is not a number (nan)")
        self._state = _State(deadline)
        self.kind: TaskKind = kind

    def __repr__(self) -> str:
        gate = "cancelled" if self.cancelled else "open" if self._state.accepting else "closed"
        return f"<Operation {self.kind} {gate}, {self.active} active>"

    def with_kind(self, kind: TaskKind) -> Operation:
        """The same operation under another label: cancel, deadline, tasks and outcomes are shared."""
        other = Operation(kind=kind)
        other._state = self._state
        return other

    @property
    def deadline(self) -> float:
        """When its tasks are cancelled, on Trio's clock; `inf` for never."""
        return self._state.deadline

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._state.cancelled

    @property
    def active(self) -> int:
        """How many of its tasks have not ended."""
        return len(self._state.active)

    @property
    def outcomes(self) -> OperationOutcomes:
        """How its tasks have ended so far."""
        return OperationOutcomes(**self._state.counts)

    def observe(self, callback: Callable[[TaskKind, OperationOutcome], object]) -> None:
        """Call `callback(kind, outcome)` for each task that ends. Once only, and before the first task is tried:
        `ObserverRefused` otherwise. The callback runs in the task's last step; what it raises is logged only."""
        if self._state.observer is not None or self._state.attempted:
            raise ObserverRefused(self.kind, self._state.observer is not None)
        self._state.observer = callback

    # -- the end

    def close_admission(self) -> None:
        """Accept no more tasks; those accepted go on. Sync."""
        self._state.accepting = False

    def cancel(self) -> None:
        """Accept no more tasks and cancel those accepted, in one step. Sync; the owner and its other tasks go on."""
        state = self._state
        state.accepting = False
        state.cancelled = True
        for task in tuple(state.active):
            task.end_operation()

    def tighten(self, deadline: float) -> bool:
        """Move the deadline earlier, for the tasks that run too; True if it moved. It never moves later."""
        state = self._state
        if not deadline < state.deadline:
            return False
        state.deadline = deadline
        for task in tuple(state.active):
            task.move_deadline(deadline)
        return True

    # -- waits: each takes the owner, which must be the group that the operation is bound to

    async def wait(self, owner: TaskGroup, within: float) -> bool:
        """Wait for the end of all its tasks, of those accepted meanwhile too, at most `within` seconds. Then abort what
        runs and give it at most one second more. True if everything has ended.

        Closes and cancels nothing before. Raises `OperationBound` for another group. Cancelling ends only the wait.
        """
        self._check_owner(owner)
        limit = trio.current_time() + within
        if await self._idle_by(limit):
            return True
        self._abort_all()
        return await self._idle_by(limit + CONFIRM_WITHIN)

    async def wait_until(self, owner: TaskGroup, deadline: float) -> bool:
        """Like `wait` up to a time on Trio's clock. Then what runs is aborted and the answer is False at once."""
        self._check_owner(owner)
        if await self._idle_by(deadline):
            return True
        self._abort_all()
        return False

    async def cancel_and_wait(self, owner: TaskGroup, within: float) -> bool:
        """`cancel`, then `wait`."""
        self._check_owner(owner)
        self.cancel()
        return await self.wait(owner, within)

    async def cancel_and_wait_until(self, owner: TaskGroup, deadline: float) -> bool:
        """`cancel`, then `wait_until`."""
        self._check_owner(owner)
        self.cancel()
        return await self.wait_until(owner, deadline)

    async def close_and_wait(self, owner: TaskGroup, graceful: float, confirmation: float) -> OperationEnd:
        """Accept no more tasks, wait for the end of all until `graceful`, abort what runs, and wait for that to end
        until `confirmation`; both are times on Trio's clock, and the earlier one bounds both.

        Raises `OperationBound` for another group, with admission as it was. Cancelling ends only the wait.
        """
        self._check_owner(owner)
        self.close_admission()
        if await self._idle_by(min(graceful, confirmation)):
            return OperationEnd("completed")
        self._abort_all()
        if await self._idle_by(confirmation):
            return OperationEnd("abort_confirmed")
        return OperationEnd("unconfirmed", self.active)

    async def _idle_by(self, deadline: float) -> bool:
        """Whether all has ended by then. A checkpoint."""
        state = self._state
        if not state.active:
            await trio.lowlevel.checkpoint()
        with trio.CancelScope(deadline=deadline):
            while state.active:
                if state.idle is None:
                    state.idle = trio.Event()
                await state.idle.wait()
        return not state.active

    def _abort_all(self) -> None:
        for task in tuple(self._state.active):
            task.cancel()

    def _check_owner(self, owner: TaskGroup) -> None:
        bound = self._state.owner
        if bound is not None and bound is not owner:
            raise OperationBound(self.kind, bound.path, owner.path)

    # -- the gate, called by the group

    def spawn_into(
        self,
        group: TaskGroup,
        fn: Callable[[*Ts], Awaitable[T]],
        args: tuple[*Ts],
        name: str,
        draining: bool,
    ) -> TaskHandle[T]:
        """See `TaskGroup.spawn_operation`."""
        state = self._state
        state.attempted = True
        group.check_open()
        self._check_owner(group)
        if not state.accepting:
            raise OperationClosed(self.kind, "cancelled" if state.cancelled else "closed")
        if trio.current_time() >= state.deadline:
            raise OperationClosed(self.kind, "past its deadline")
        task: _OperationHandle[T] = _OperationHandle(name, group, self.kind, state, draining)
        state.owner = group
        state.active[task] = None
        group.adopt(task, task.run, task.scoped, (fn, args))
        return task
