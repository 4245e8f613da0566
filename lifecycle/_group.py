"""A task group: a nursery with a gate, a registry and exact accounting.

The group decides who may start (the gate), knows who runs (the registry) and counts how each ended (the outcomes).
Trio's nursery below it only carries the tasks. It is made at the first spawn, by a companion task in the parent's
nursery, so a group that never spawns costs no nursery, and no nursery is ever entered in somebody else's frame.

Trio nests nurseries by recursion and fails at a few hundred levels. Real nesting therefore ends at
`REAL_LEVELS`; deeper groups put their tasks into the nursery of their ancestor at that level, each under a scope of
its own. Everything that walks the tree here is iterative.
"""

from __future__ import annotations

import logging
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Literal, TypeVar, TypeVarTuple, final

import trio

from ._crew import Crew
from ._deadline import ShutdownDeadline
from ._ended import Ended
from ._errors import GroupClosed, GroupPoisoned
from ._group_report import build_report
from ._logs import place
from ._outcomes import Outcome, Outcomes
from ._task import CancellableTask, GroupTask, StopMode, TaskHandle, TaskKind, TaskRecord
from ._until import scope_until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from ._operation import Operation
    from ._report import ShutdownReport
    from ._tree import Tree

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

State = Literal["open", "poisoned", "closing", "closed", "completed"]

REAL_LEVELS = 100
"""Groups nested deeper than this share the nursery of their ancestor at this level."""

LAST_TURNS = 512
"""Turns of the scheduler that cancelled tasks get to end at the end of a shutdown."""

_log = logging.getLogger("tenure.lifecycle")


@final
class TaskGroup:
    """The tasks that one component owns. Made by `ServiceContext.component`, never by hand."""

    __slots__ = (
        "_at_stop",
        "_children",
        "_closing_at",
        "_companion",
        "_crew",
        "_empty",
        "_members",
        "_nursery",
        "_over",
        "_own_deadline",
        "_pending",
        "_report",
        "_stopping",
        "_unfollow",
        "cause",
        "ended",
        "id",
        "killed",
        "level",
        "name",
        "owner",
        "parent",
        "state",
        "stop_requested",
        "tree",
    )

    def __init__(self, name: str, parent: TaskGroup | None, tree: Tree, owner: TaskRecord | None = None) -> None:
        self.id: int = tree.next_id()
        self.name: str = name
        self.parent: TaskGroup | None = parent
        self.tree: Tree = tree
        self.owner: TaskRecord | None = owner
        self.level: int = 0 if parent is None else parent.level + 1
        self.state: State = "open"
        self.cause: Exception | None = None
        self.stop_requested: bool = parent is not None and parent.stop_requested
        self.killed: bool = False
        self.ended: Ended = Ended()
        self._members: dict[TaskRecord, None] = {}
        self._children: dict[TaskGroup, None] = {}
        self._nursery: trio.Nursery | None = None
        self._pending: list[tuple[Callable[..., Awaitable[object]], tuple[object, ...], Context]] | None = None
        self._companion: trio.Event | None = None
        self._crew: Crew | None = None
        self._stopping: trio.Event | None = None
        self._empty: trio.Event | None = None
        self._over = False
        self._own_deadline: ShutdownDeadline | None = None
        self._unfollow: Callable[[], None] | None = None
        self._closing_at = 0.0
        self._at_stop: dict[int, Callable[[], object]] | None = None
        self._report: ShutdownReport | None = None
        if parent is not None:
            parent._children[self] = None

    # -- what it is

    def __repr__(self) -> str:
        return f"<TaskGroup {self.path} {self.state}, {len(self._members)} tasks>"

    @property
    def path(self) -> str:
        """The names from the root to here, like `/system/till`."""
        names: list[str] = []
        group: TaskGroup = self
        while group.parent is not None:
            names.append(group.name)
            group = group.parent
        return "/" + "/".join(reversed(names))

    @property
    def task_count(self) -> int:
        """How many tasks of this group itself are not yet settled."""
        return len(self._members)

    def records(self) -> Iterator[TaskRecord]:
        """The tasks of this group itself that are not yet settled, in start order."""
        return iter(tuple(self._members))

    def scan_tasks(self) -> Iterator[TaskRecord]:
        """Like `records`, one at a time and without a copy: use it without a checkpoint and without ending a task."""
        return iter(self._members)

    def scan_components(self) -> Iterator[TaskGroup]:
        """The child groups that are not yet over, one at a time and without a copy, as `scan_tasks`."""
        return iter(self._children)

    @property
    def component_count(self) -> int:
        """How many child groups are not yet over."""
        return len(self._children)

    @property
    def outcomes(self) -> Outcomes:
        """How the tasks of this group have ended so far, those of ended children included."""
        return self.ended.outcomes()

    @property
    def over(self) -> bool:
        """Whether the group is closed and nothing of it runs any more."""
        return self._over

    @property
    def stopping(self) -> trio.Event:
        """Set when the group is told to stop; services wait for it and clean up in their own order."""
        if self._stopping is None:
            self._stopping = trio.Event()
            if self.stop_requested:
                self._stopping.set()
        return self._stopping

    @property
    def deadline(self) -> ShutdownDeadline:
        """The nearest shutdown deadline: of this group, of an ancestor, or of the runtime."""
        group: TaskGroup | None = self
        while group is not None:
            if group._own_deadline is not None:
                return group._own_deadline
            group = group.parent
        return self.tree.deadline

    def walk(self) -> Iterator[TaskGroup]:
        """This group and every group below it, parents first."""
        todo: list[TaskGroup] = [self]
        while todo:
            group = todo.pop()
            yield group
            todo.extend(group._children)

    # -- the gate

    def check_open(self) -> None:
        """Raise `GroupClosed` or `GroupPoisoned` unless a task may be started here now."""
        if self.state != "open":
            if self.state == "poisoned" and self.cause is not None:
                raise GroupPoisoned(self.path, self.cause)
            raise GroupClosed(self.path, self.state)

    def child(self, name: str, owner: TaskRecord | None = None) -> TaskGroup:
        """A new group below this one. Raises `GroupClosed` or `GroupPoisoned` when the gate is closed."""
        self.check_open()
        return TaskGroup(name, self, self.tree, owner)

    def start_soon(
        self, fn: Callable[[*Ts], Awaitable[object]], /, *args: *Ts, name: str | None = None, kind: TaskKind = "worker"
    ) -> None:
        """Start a task without a handle, as in a nursery, but counted: the cheapest way. It ends by itself, or is
        cancelled with the group at the work deadline. Sync; raises when the gate is closed."""
        self.check_open()
        task = GroupTask(name or name_of(fn), self, kind)
        self._members[task] = None
        crew = self._crew
        if crew is None or crew.over:
            crew = self._crew = Crew()
            self._start(crew.keep, ())
        crew.start(task.run, (fn, args), task.name)

    def spawn(
        self, fn: Callable[[*Ts], Awaitable[T]], /, *args: *Ts, name: str | None = None, kind: TaskKind = "worker"
    ) -> TaskHandle[T]:
        """Start a task that ends by itself. Sync; raises `GroupClosed` or `GroupPoisoned` when the gate is closed."""
        self.check_open()
        return self._start_task(TaskHandle(name or name_of(fn), self, kind), fn, args)

    def spawn_service(self, fn: Callable[[*Ts], Awaitable[T]], /, *args: *Ts, name: str | None = None) -> TaskHandle[T]:
        """Start a task that watches `stopping` and cleans up in its own order. Sync; raises when the gate is closed."""
        self.check_open()
        return self._start_task(TaskHandle(name or name_of(fn), self, "service"), fn, args)

    def spawn_cancellable(
        self, fn: Callable[[*Ts], Awaitable[T]], /, *args: *Ts, name: str | None = None
    ) -> TaskHandle[T]:
        """Start a task that is cancelled as soon as the group is told to stop. Sync; raises when the gate is closed."""
        self.check_open()
        return self._start_task(CancellableTask(name or name_of(fn), self, "service"), fn, args)

    def spawn_operation(
        self, operation: Operation, fn: Callable[[*Ts], Awaitable[T]], /, *args: *Ts, name: str | None = None
    ) -> TaskHandle[T]:
        """Start a task of `operation`: cancelled by the group's stop, by the operation's `cancel` and at its deadline.

        Sync. Raises `OperationClosed` or `OperationBound` beside the gate's errors; then nothing is counted.
        """
        return operation.spawn_into(self, fn, args, name or name_of(fn), draining=False)

    def spawn_draining_operation(
        self, operation: Operation, fn: Callable[[*Ts], Awaitable[T]], /, *args: *Ts, name: str | None = None
    ) -> TaskHandle[T]:
        """Like `spawn_operation`, but the group's stop does not cancel the task: it may go on until the work deadline
        of a shutdown."""
        return operation.spawn_into(self, fn, args, name or name_of(fn), draining=True)

    def launch(self, task: TaskHandle[T], fn: Callable[[*Ts], Awaitable[T]], /, *args: *Ts) -> TaskHandle[T]:
        """Start `fn(*args)` as `task`, which was made for this group. Sync; raises when the gate is closed."""
        self.check_open()
        return self._start_task(task, fn, args)

    def _start_task(self, task: TaskHandle[T], fn: Callable[[*Ts], Awaitable[T]], args: tuple[*Ts]) -> TaskHandle[T]:
        self.adopt(task, task.run, task.scoped, (fn, args))
        return task

    def adopt(self, record: TaskRecord, fn: Callable[[*Ts], Awaitable[object]], /, *args: *Ts) -> None:
        """Register `record` and start `fn(*args)` for it. `fn` calls `settle` once at its end and lets only
        `Cancelled` and non-`Exception`s leave. The caller has looked at the gate."""
        self._members[record] = None
        nursery = self._nursery
        if nursery is not None:
            nursery.start_soon(fn, *args, name=record.name)
        else:
            self._launch(fn, args)

    def settle(
        self,
        record: TaskRecord,
        outcome: Outcome,
        *,
        timed_out: bool = False,
        own: TaskGroup | None = None,
        end: str = "",
    ) -> None:
        """Count how a task ended, once, and forget it. `own` is the group that the task itself had."""
        del self._members[record]
        if self.state == "open":
            self.ended.counts.add(outcome, timed_out)
            if own is not None:
                self.ended.absorb(own.ended)
        else:
            accounts = own.ended if own is not None else None
            self.ended.note_task(record.name, outcome, timed_out, accounts, end or outcome, self.closing_for())
        if not self._members:
            self._maybe_over()

    # -- single tasks

    def contains(self, task: TaskRecord) -> bool:
        """Whether `task` is one of this group's own that has not ended. Another group's never is."""
        return task in self._members

    def abort(self, task: TaskHandle[T]) -> bool:
        """Cancel one task of this group; it counts as aborted once its frame is gone. False for a task that has ended
        or is another group's."""
        if task not in self._members:
            return False
        task.cancel()
        return True

    async def wait_task(self, task: TaskHandle[T], within: float) -> bool:
        """Wait at most `within` seconds for the end of a task of this group, 0 or less only looks; True if it has
        ended. False at once for another group's task. A checkpoint."""
        if task.group is not self:
            await trio.lowlevel.checkpoint()
            return False
        with trio.CancelScope(deadline=trio.current_time() + within):
            await task.wait()
        return task.ended

    async def abort_and_wait(self, task: TaskHandle[T], within: float) -> bool:
        """Abort a task of this group and wait at most `within` seconds for its end; True if it ended in that time.
        False at once for one that had ended before, or is another group's. A checkpoint."""
        if not self.abort(task):
            await trio.lowlevel.checkpoint()
            return False
        return await self.wait_task(task, within)

    # -- the nursery

    def _launch(self, fn: Callable[..., Awaitable[object]], args: tuple[object, ...]) -> None:
        if self._pending is not None:
            self._pending.append((fn, args, copy_context()))
        elif self.level > REAL_LEVELS:
            anchor: TaskGroup = self
            while anchor.level > REAL_LEVELS and anchor.parent is not None:
                anchor = anchor.parent
            anchor._start(fn, args)
        else:
            self._pending = [(fn, args, copy_context())]
            assert self.parent is not None, "the root's nursery is opened by the runtime"
            self.parent._start(self._keep_nursery, ())

    def _start(self, fn: Callable[..., Awaitable[object]], args: tuple[object, ...]) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(fn, *args)
        else:
            self._launch(fn, args)

    async def _keep_nursery(self) -> None:
        """The companion: holds the nursery open until the group is closed and empty."""
        done = self._companion = trio.Event()
        try:
            async with trio.open_nursery() as nursery:
                self.open_with(nursery)
                try:
                    self._maybe_over()
                    await done.wait()
                finally:
                    # From here on the nursery closes with its last task. Who comes later needs another one.
                    self._nursery = None
        finally:
            # Also when the host cancels everything, or a task lets an exit through: the group must still end.
            if self._companion is done:
                self._companion = None
                self._maybe_over()

    def open_with(self, nursery: trio.Nursery) -> None:
        """Take `nursery` as the group's own and start what has been waiting for it."""
        self._nursery = nursery
        pending, self._pending = self._pending, None
        for fn, args, context in pending or ():
            context.run(nursery.start_soon, fn, *args)  # with the context variables of whoever spawned it

    def _maybe_over(self) -> None:
        """End iteratively upwards: an empty closed group is over, and may be the last that its parent waited for."""
        group: TaskGroup | None = self
        while group is not None and not group._over:
            if group._members or group._children or group.state in ("open", "poisoned"):
                return
            if group._crew is not None:
                group._crew.done.set()
            if group._companion is not None:
                group._companion.set()
                return
            group._over = True
            group.state = "completed"
            if group._empty is not None:
                group._empty.set()
            if group._unfollow is not None:
                group._unfollow()
            parent = group.parent
            if parent is not None:
                del parent._children[group]
                if group.owner is None:
                    parent._child_over(group)
            group = parent

    def _child_over(self, child: TaskGroup) -> None:
        if self.state in ("open", "poisoned"):
            self.absorb(child)
        else:
            self.ended.note_group(child.name, child.ended, self.closing_for())

    def closing_for(self) -> float:
        """Seconds since everything here was told to end; 0.0 until then."""
        if self.state in ("open", "poisoned"):
            return 0.0
        return max(0.0, trio.current_time() - self._closing_at)

    def absorb(self, other: TaskGroup) -> None:
        """Take over the totals of a group that has ended, and nothing else: no history is kept."""
        self.ended.absorb(other.ended)

    # -- failure

    def poison(self, record: TaskRecord, cause: Exception) -> None:
        """An exception left an unsupervised task: log it, close the gate, and tell the runtime."""
        _log.error("task %s failed: %r", record.path, cause, exc_info=cause, extra=place(self.path))
        if self.state == "open":
            self.state = "poisoned"
            self.cause = cause
        self.tree.task_failed(record, cause)

    # -- the end

    def at_stop(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once, in the call that tells this group to stop; at once if it has been told already.

        Returns the function that takes it back. The callback must not raise.
        """
        if self.stop_requested:
            callback()
            return _nothing
        token = self.tree.next_id()
        callbacks = self._at_stop
        if callbacks is None:
            callbacks = self._at_stop = {}
        callbacks[token] = callback

        def take_back() -> None:
            callbacks.pop(token, None)

        return take_back

    def cancel(self) -> None:
        """Tell everything in the subtree to stop, and leave the gates open: more may be spawned, and is told at once.

        What ends by this is counted as at a shutdown. Sync; groups that a task owns are told by that task.
        """
        todo: list[TaskGroup] = [self]
        while todo:
            group = todo.pop()
            group._tell_stop()
            for record in list(group._members):
                own = record.request_stop("stop")
                if own is not None:
                    todo.append(own)
            todo.extend(child for child in group._children if child.owner is None)

    def close(self, mode: StopMode = "stop") -> None:
        """Close the gate of the whole subtree, then tell everything in it to end. Sync; may be called again with a
        stronger mode. Groups that a task owns are closed by that task."""
        now = trio.current_time()
        todo: list[TaskGroup] = [self]
        while todo:
            sealed = self._seal(todo.pop(), now)
            for group in sealed:
                group._tell_stop()
                if group.state == "closing":
                    # Closed is said only now: whoever reads it has been told to stop.
                    group.state = "closed"
                for record in list(group._members):
                    own = record.request_stop(mode)
                    if own is not None:
                        todo.append(own)
                if mode == "kill":
                    group.killed = True
                    if group._crew is not None:
                        group._crew.kill()
                if not group._members and not group._children:
                    group._maybe_over()

    @staticmethod
    def _seal(top: TaskGroup, now: float) -> list[TaskGroup]:
        """Close every gate of the subtree before anything in it hears of the end."""
        sealed = [top]
        for group in sealed:
            if group.state in ("open", "poisoned"):
                group.state = "closing"
                group._closing_at = now
            sealed.extend(child for child in group._children if child.owner is None)
        return sealed

    def _tell_stop(self) -> None:
        if not self.stop_requested:
            self.stop_requested = True
            if self._stopping is not None:
                self._stopping.set()
            callbacks, self._at_stop = self._at_stop, None
            if callbacks is not None:
                for token in list(callbacks):
                    callback = callbacks.pop(token, None)  # one may have taken back another
                    if callback is not None:
                        callback()

    async def wait_over(self) -> None:
        """Wait until the group is over. A checkpoint; cancelling it cancels only the wait."""
        if self._over:
            await trio.lowlevel.checkpoint()
        else:
            if self._empty is None:
                self._empty = trio.Event()
            await self._empty.wait()

    async def shutdown(self, within: float, *, mode: StopMode = "drain", reason: str = "shutdown") -> ShutdownReport:
        """Close the subtree and wait for its end, at most `within` seconds, and not past an ancestor's deadline.

        Returns the report, with what still runs at the end in it. A second call returns the same report. Cancelling
        the call cancels only the wait: the subtree stays told to stop, and a further call resumes.
        """
        if self._report is not None:
            await trio.lowlevel.checkpoint()
            return self._report
        deadline = self.freeze(within, reason)
        self.close(mode)
        await self._wait_until(deadline, lambda: deadline.work)
        if not self._over:
            self.close("kill")
            await self._wait_until(deadline, lambda: deadline.end)
            await last_turns(lambda: self._over)
        if self._report is None:
            self._report = self.report(reason)
        return self._report

    def shutdown_now(self, reason: str = "shutdown") -> ShutdownReport:
        """Close the subtree, cancel everything in it, and report at once. Sync: nothing has had a turn to end yet, so
        what runs is in the report as *leaked*. `shutdown` afterwards waits and gives the report that counts, which is
        also what this returns once there is one."""
        if self._report is not None:
            return self._report
        self.freeze(0.0, reason)
        self.close("kill")
        return self.report(reason)

    def freeze(self, within: float, reason: str) -> ShutdownDeadline:
        """Fix the subtree's deadline, never later than the ones above it. Those below it move along. Sync."""
        if self._own_deadline is None:
            self._own_deadline = self._deadline_below(self.deadline)
        own = self._own_deadline
        own.freeze(trio.current_time(), within, reason)
        for group in self.walk():
            if group._own_deadline is not None:
                group._own_deadline.follow(own)
        return own

    def _deadline_below(self, above: ShutdownDeadline) -> ShutdownDeadline:
        if self.parent is None:
            return above
        own = ShutdownDeadline()
        own.subscribe(self.tree.tighten_cleanups)
        own.follow(above)
        root = self.tree.deadline
        if not self._over:
            self._unfollow = root.subscribe(lambda: own.follow(root))
        return own

    async def _wait_until(self, deadline: ShutdownDeadline, limit: Callable[[], float]) -> None:
        """Wait for the end of the group, at most until `limit()`, which may move earlier meanwhile."""
        with scope_until(deadline, limit):
            await self.wait_over()

    def report(self, reason: str | None = None) -> ShutdownReport:
        """The report of this subtree as it stands now. Whatever still runs is *leaked*, with its stack."""
        return build_report(self, reason)


def name_of(fn: object) -> str:
    """What a task is called whose spawner gave no name."""
    return str(getattr(fn, "__name__", "task"))


def _nothing() -> None:
    pass


async def last_turns(ended: Callable[[], bool]) -> None:
    """Let what has just been cancelled end before it counts as still running. Takes no time, only scheduler turns."""
    for _ in range(LAST_TURNS):
        if ended():
            return
        await trio.lowlevel.checkpoint()
