"""The supervisor: an actor that carries out what `SupervisionPolicy` decides.

A child whose life has ended waits in its own task for the supervisor's word. So a restart keeps the child's ref and
mailbox, and a supervisor that is busy with one group of children delays others but loses none.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, final

import attrs
import trio

from ._actor import Actor
from ._body import mailbox_of
from ._errors import ChildEnded, RestartLimitExceeded
from ._handlers import handles
from ._spawn import await_ready, start_cell
from ._supervision import Escalate, Forget, GiveUp, Restart, Resume, SupervisionPolicy

if TYPE_CHECKING:
    from lifecycle import StopMode

    from ._cell import Cell, Verdict
    from ._child import AnyChild
    from ._message import Exit
    from ._ref import Ref
    from ._supervision import Strategy

SHUTDOWN = 5.0
"""Seconds that a child may take to end where no deadline and no `shutdown` says otherwise."""


@attrs.frozen(eq=False)
class ChildDown:
    """A child's life has ended; it waits for a word."""

    cell: Cell
    generation: int
    exit: Exit


@attrs.frozen(eq=False)
class RestartDue:
    """A child's back-off is over."""

    cell: Cell
    generation: int
    cause: Exception


@attrs.frozen(eq=False)
class GroupDue:
    """The back-off of a group is over. `number` counts the restarts of groups."""

    number: int
    cells: list[Cell]
    cause: Exception


@final
class Supervisor(Actor[ChildDown | RestartDue | GroupDue]):
    """Starts its children in order, restarts them by its strategy, ends them in reverse order, a rank at a time.

    Made by `supervise`, or nested: `Child(Supervisor, one_for_all(), Child(...), Child(...), name="db")`. It fails with
    `RestartLimitExceeded` when it gives up, or with the failure that it escalates.
    """

    interrupt_on_stop_: ClassVar[bool] = True

    def __init__(self, strategy: Strategy, *children: AnyChild) -> None:
        self.strategy = strategy
        self._specs = children
        self._children: dict[Cell, AnyChild] = {}
        # Of a group that is being restarted: who is still to be started, and why; who has just failed to start.
        self._number = 0
        self._rest: deque[Cell] = deque()
        self._cause: Exception | None = None
        self._stuck: Cell | None = None
        # While the children end: the wait for the present rank.
        self._rank: trio.CancelScope | None = None

    async def started(self) -> None:
        self._policy = SupervisionPolicy(self.strategy, self.context.cell_.system.random)
        try:
            for spec in self._specs:
                await self.start_child(spec)
        except BaseException:
            with self.context.cleanup():
                await self.end_children_()  # noqa: ASYNC102 (shielded by cleanup(), which ends)
            raise

    @property
    def children(self) -> tuple[tuple[Cell, AnyChild], ...]:
        """The living children, in start order."""
        return tuple(self._children.items())

    async def start_child(self, spec: AnyChild) -> Ref[Any]:
        """Start one more child, after all others. Raises `StartFailed`."""
        node = self.context.cell_.links.own_node()
        cell = start_cell(
            node, spec.body, spec.args, spec.name, mailbox_of(spec.body, spec.mailbox), spec.inline, supervisor=self,
            transparent=spec.name is None and spec.body is Supervisor,
        )  # fmt: skip
        self._children[cell] = spec
        self._policy.add(_key(cell), spec.restart)
        await await_ready(cell)
        return cell.ref

    # -- what the cells of the children tell; sync, in their tasks

    def child_ready(self, cell: Cell) -> None:
        """A child's life has begun."""
        if cell in self._children:
            self._policy.started(_key(cell), trio.current_time())

    def child_down(self, cell: Cell, exit_: Exit) -> None:
        """A child's life has ended; the child waits for a word."""
        self.context.cell_.box.post(ChildDown(cell, cell.generation, exit_))

    def child_gone(self, cell: Cell) -> None:
        """A child has ended."""
        if self._children.pop(cell, None) is not None:
            try:
                self._policy.remove(_key(cell))
            except KeyError:  # the policy itself has forgotten it
                pass

    def may_resume(self, cell: Cell, exit_: Exit) -> bool:
        """Whether the child whose life has ended may be told to go on with it."""
        spec = self._children.get(cell)
        failure = exit_.cause
        return (
            spec is not None
            and spec.restart != "temporary"
            and isinstance(failure, Exception)
            and self.strategy.directive(failure) == "resume"
            and cell.body.can_resume(cell)
        )

    def while_draining(self, cell: Cell, exit_: Exit) -> Verdict:
        """A child's life has ended while it drains. After a failure it goes on with the rest of its mailbox, alone and
        at once, as often as the strategy allows restarts."""
        failure = exit_.cause
        if cell not in self._children or not isinstance(failure, Exception):
            return "end"
        resumable = cell.body.can_resume(cell)
        match self._policy.ended(_key(cell), failure, trio.current_time(), resumable=resumable, alone=True):
            case Restart():
                return "restart"
            case Resume():
                return "resume"
            case Forget():
                cell.judged = True
                return "end"
            case Escalate() | GiveUp():
                return "end"

    # -- decisions

    @handles(ChildDown)
    async def on_child_down(self, msg: ChildDown) -> None:
        """Decide what comes after the end of a child's life, and carry it out."""
        cell = msg.cell
        # Otherwise it has ended, or was restarted with the others meanwhile.
        if cell in self._children and cell.generation == msg.generation and cell.waits:
            await self._decide(cell, msg.exit)
        await self._start_rest()

    async def _decide(self, cell: Cell, exit_: Exit) -> None:
        failure = exit_.cause if isinstance(exit_.cause, Exception) else None
        resumable = cell.body.can_resume(cell)
        decision = self._policy.ended(_key(cell), failure, trio.current_time(), resumable=resumable)
        cell.judged = True
        cause = ChildEnded(cell.name) if failure is None else failure
        match decision:
            case Restart(halt=(), delay=0):
                cell.decide("restart", cause)
            case Restart(halt=(), delay=delay):
                self._post_after(delay, RestartDue(cell, cell.generation, cause))
            case Restart(halt=halt, start=start, delay=delay):
                await self._halt([cell, *self._cells(halt)], set(start), cause)
                due = GroupDue(self._number, self._cells(start), cause)
                if delay > 0:
                    self._post_after(delay, due)
                else:
                    self._begin_group(due)
            case Resume():
                cell.decide("resume")
            case Forget():
                cell.decide("forget")
            case Escalate():
                cell.decide("forget")
                raise decision.cause
            case GiveUp(causes=causes):
                cell.decide("forget")
                strategy = self.strategy
                raise RestartLimitExceeded.flat(
                    self.context.path, strategy.max_restarts, strategy.within, causes
                ) from causes[-1]

    @handles(RestartDue)
    def on_restart_due(self, msg: RestartDue) -> None:
        """Start a child again after its back-off."""
        if msg.cell.generation == msg.generation:
            msg.cell.decide("restart", msg.cause)

    @handles(GroupDue)
    async def on_group_due(self, msg: GroupDue) -> None:
        """Start a group again after its back-off, unless another restart has taken over since."""
        if msg.number == self._number:
            self._begin_group(msg)
            await self._start_rest()

    def _post_after(self, delay: float, due: RestartDue | GroupDue) -> None:
        cell = self.context.cell_
        cell.system.timers.call_after(delay, lambda: cell.box.post(due))

    async def _halt(self, cells: list[Cell], restarted: set[str], cause: Exception) -> None:
        """End the present lives of these children, one after the other, and the temporary ones for good."""
        self._number += 1
        self._rest.clear()
        for cell in cells:
            if _key(cell) in restarted:
                cell.halt(cause)
                with trio.move_on_after(self._share(cell, 1)):
                    await cell.wait_halted()
                cell.halt_now()
                await cell.wait_halted()
                cell.judged = True
            else:
                cell.end("stop")
                with trio.move_on_after(self._share(cell, 1)):
                    await cell.wait_ended()
                cell.end("kill")
                await cell.wait_ended()

    def _begin_group(self, due: GroupDue) -> None:
        self._rest.extend(due.cells)
        self._cause = due.cause
        self._stuck = None

    async def _start_rest(self) -> None:
        """Start what is left of a group, each child when the one before runs."""
        while self._rest and (self._stuck is None or self._stuck.judged or not self._stuck.waits):
            cell = self._rest.popleft()
            cell.decide("restart", self._cause)
            # One that fails again says so in a message of its own; the others go on after the decision about that.
            self._stuck = None if await cell.wait_restarted() else cell

    def _cells(self, keys: tuple[str, ...]) -> list[Cell]:
        by_key = {_key(cell): cell for cell in self._children}
        return [by_key[key] for key in keys if key in by_key]

    # -- the end

    async def end_children_(self) -> None:
        """End the children in reverse start order. A rank that uses up its share keeps running; the next one is
        told."""
        told: list[Cell] = []
        waiting = list(self._children)
        while waiting:
            cell = waiting.pop()
            cell.end(self._mode, in_turn=True)
            told.append(cell)
            await self._wait_rank(cell, trio.current_time() + self._share(cell, len(waiting) + 1), told)
        if self.context.cell_.group.deadline.work < inf:
            for cell in told:
                await self._wait_rank(cell, inf, told)  # the work deadline ends them

    async def _wait_rank(self, cell: Cell, until: float, told: list[Cell]) -> None:
        mode = self._mode
        while cell.exit is None and trio.current_time() < until:
            with trio.CancelScope(deadline=until) as self._rank:
                await cell.wait_ended()
            if self._mode != mode:
                mode = self._mode
                for earlier in told:
                    earlier.end(mode, in_turn=True)

    @property
    def _mode(self) -> StopMode:
        return self.context.cell_.ending or "stop"

    def end_children_harder_(self) -> None:
        """The supervisor was told to end more strongly: what was told already is told so too."""
        if self._rank is not None:
            self._rank.cancel()

    def _share(self, cell: Cell, ranks: int) -> float:
        spec = self._children.get(cell)
        if spec is not None and spec.shutdown is not None:
            return spec.shutdown
        work = self.context.cell_.group.deadline.work
        return (work - trio.current_time()) / ranks if work < inf else SHUTDOWN


def _key(cell: Cell) -> str:
    return cell.name
