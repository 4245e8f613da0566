"""A task group: a nursery with a gate, a registry and exact accounting.

The group decides who may start (the gate), knows who runs (the registry) and counts how each ended (the outcomes).
Trio's nursery below it only carries the tasks. It is made at the first spawn, by a companion task in the parent's
nursery, so a group that never spawns costs no nursery, and no nursery is ever entered in somebody else's frame.

Trio nests nurseries by recursion and fails at a few hundred levels. Real nesting therefore ends at
`REAL_LEVELS`; deeper groups put their tasks into the nursery of their ancestor at that level, each under a scope of
its own. Everything that walks the tree here is iterative.
"""

from __future__ import annotations

import itertools
import logging
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Literal, TypeVarTuple, final

import trio

from ._deadline import ShutdownDeadline
from ._errors import GroupClosed, GroupPoisoned
from ._exceptions import split_cancelled
from ._outcomes import Outcome, OutcomeCounts, Outcomes
from ._report import MAX_REMAINING, RemainingTask, ShutdownReport
from ._stack import task_stack
from ._until import scope_until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from ._tree import Tree

Ts = TypeVarTuple("Ts")

State = Literal["open", "closing", "poisoned", "completed"]
StopMode = Literal["stop", "drain", "kill"]
"""Finish what is in hand, finish all that is accepted, or be cancelled now."""

REAL_LEVELS = 100
"""Groups nested deeper than this share the nursery of their ancestor at this level."""

LAST_TURNS = 512
"""Turns of the scheduler that cancelled tasks get to end at the end of a shutdown."""

MAX_NOTES = 256
"""How many ended children a shutdown report lists one by one; the others are in the totals."""

_log = logging.getLogger("tenure.lifecycle")


class TaskRecord:
    """What a group knows of one task in it. Subclassed by whatever runs there."""

    __slots__ = ("group", "name", "task")

    def __init__(self, name: str, group: TaskGroup) -> None:
        self.name: str = name
        self.group: TaskGroup = group
        self.task: trio.lowlevel.Task | None = None

    @property
    def path(self) -> str:
        """Where the task is in the tree, for people."""
        return f"{self.group.path.rstrip('/')}/{self.name}"

    @property
    def place(self) -> str:
        """The path for the report, from the root of the runtime. Other than `path` where that begins elsewhere."""
        return self.path

    def request_stop(self, mode: StopMode) -> TaskGroup | None:
        """Tell the task to end. Sync, never raises; returns a group that is to be told too, if there is one."""
        raise NotImplementedError

    def describe(self) -> str:
        """What the task is doing, in a few words, for the report. Empty if there is nothing to say."""
        return ""


@final
class TaskHandle(TaskRecord):
    """A task that was spawned with `TaskGroup.spawn_service` or `TaskGroup.spawn_cancellable`."""

    __slots__ = ("_aborted", "_cancellable", "_ended", "_scope", "exception", "outcome")

    task: trio.lowlevel.Task | None

    def __init__(self, name: str, group: TaskGroup, cancellable: bool) -> None:
        super().__init__(name, group)
        self._cancellable = cancellable
        self._aborted = False
        self._scope = trio.CancelScope()
        self._ended: trio.Event | None = None
        self.outcome: Outcome | None = None
        self.exception: Exception | None = None

    def cancel(self) -> None:
        """Cancel this task alone. It ends at its next checkpoint, unless it is shielded there; before its first
        step it never runs. It counts as aborted."""
        if self.outcome is None and not self._scope.cancel_called:
            self._aborted = True
        self._scope.cancel()

    async def wait(self) -> Outcome:
        """Wait until the task's frame is gone and return how it ended. A checkpoint; cancelling ends only the wait."""
        if self.outcome is None:
            if self._ended is None:
                self._ended = trio.Event()
            await self._ended.wait()
        else:
            await trio.lowlevel.checkpoint()
        assert self.outcome is not None
        return self.outcome

    def request_stop(self, mode: StopMode) -> TaskGroup | None:
        if self._cancellable or mode == "kill":
            self._scope.cancel()
        return None

    async def run(self, fn: Callable[[*Ts], Awaitable[object]], args: tuple[*Ts]) -> None:
        """The body of the task: run `fn`, settle exactly once, whatever happens."""
        self.task = trio.lowlevel.current_task()
        outcome: Outcome = "cancelled"
        timed_out = False
        try:
            with self._scope:
                if not self._scope.cancel_called:
                    await fn(*args)
                    outcome = "completed"
            if outcome != "completed":
                outcome, timed_out = self._how_cancelled()
            elif self._scope.cancel_called or self.group.stopping.is_set():
                outcome = "cancelled"
        except Exception as exc:
            outcome = self._panicked(exc)
        except BaseException as exc:
            cancelled, rest = split_cancelled(exc)
            if cancelled is not None and isinstance(rest, Exception):
                outcome = self._panicked(rest)
                raise cancelled from None  # noqa: ASYNC104 (the rest is kept as the task's exception)
            outcome, timed_out = self._how_cancelled()
            raise
        finally:
            self.outcome = outcome
            self.group.settle(self, outcome, timed_out=timed_out)
            if self._ended is not None:
                self._ended.set()

    def _how_cancelled(self) -> tuple[Outcome, bool]:
        """The outcome, and whether it was the deadline that overtook the task."""
        if self._aborted:
            return "aborted", False
        if self.group.deadline.is_past_work(trio.current_time()):
            return "aborted", True
        return "cancelled", False

    def _panicked(self, exc: Exception) -> Outcome:
        self.exception = exc
        self.group.poison(self, exc)
        return "panicked"


@final
class TaskGroup:
    """The tasks that one component owns. Made by `ServiceContext.component`, never by hand."""

    __slots__ = (
        "_children",
        "_closing_at",
        "_companion",
        "_empty",
        "_members",
        "_notes",
        "_nursery",
        "_omitted",
        "_over",
        "_own_deadline",
        "_pending",
        "_report",
        "_stopping",
        "_unfollow",
        "cause",
        "counts",
        "id",
        "level",
        "name",
        "owner",
        "parent",
        "state",
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
        self.counts: OutcomeCounts = OutcomeCounts()
        self._members: dict[TaskRecord, None] = {}
        self._children: dict[TaskGroup, None] = {}
        self._nursery: trio.Nursery | None = None
        self._pending: list[tuple[Callable[..., Awaitable[object]], tuple[object, ...], Context]] | None = None
        self._companion: trio.Event | None = None
        self._stopping: trio.Event | None = None
        self._empty: trio.Event | None = None
        self._over = False
        self._own_deadline: ShutdownDeadline | None = None
        self._unfollow: Callable[[], None] | None = None
        self._closing_at = 0.0
        self._notes: list[ShutdownReport] = []
        self._omitted = 0
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

    @property
    def component_count(self) -> int:
        """How many child groups are not yet over."""
        return len(self._children)

    @property
    def outcomes(self) -> Outcomes:
        """How the tasks of this group have ended so far, those of ended children included."""
        outcomes = self.counts.snapshot()
        for note in self._notes:
            outcomes += note.totals()
        return outcomes

    @property
    def over(self) -> bool:
        """Whether the group is closed and nothing of it runs any more."""
        return self._over

    @property
    def stopping(self) -> trio.Event:
        """Set when the group is told to stop; services wait for it and clean up in their own order."""
        if self._stopping is None:
            self._stopping = trio.Event()
            if self.state not in ("open", "poisoned"):
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

    def spawn_service(
        self, fn: Callable[[*Ts], Awaitable[object]], /, *args: *Ts, name: str | None = None
    ) -> TaskHandle:
        """Start a task that watches `stopping` and ends by itself. Sync; raises when the gate is closed."""
        return self._spawn(fn, args, name, cancellable=False)

    def spawn_cancellable(
        self, fn: Callable[[*Ts], Awaitable[object]], /, *args: *Ts, name: str | None = None
    ) -> TaskHandle:
        """Start a task that is cancelled as soon as the group is told to stop. Sync; raises when the gate is closed."""
        return self._spawn(fn, args, name, cancellable=True)

    def _spawn(
        self, fn: Callable[[*Ts], Awaitable[object]], args: tuple[*Ts], name: str | None, cancellable: bool
    ) -> TaskHandle:
        self.check_open()
        handle = TaskHandle(name or str(getattr(fn, "__name__", "task")), self, cancellable)
        self.adopt(handle, handle.run, fn, args)
        return handle

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
            self.counts.add(outcome, timed_out)
            if own is not None:
                self.absorb(own)
        else:
            counts = own.counts if own is not None else OutcomeCounts()
            counts.add(outcome, timed_out)
            self._note(record.name, counts, own, end or outcome)
        if not self._members:
            self._maybe_over()

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
                self._maybe_over()
                await done.wait()
        finally:
            # Also when the host cancels everything, or a task lets an exit through: the group must still end.
            self._nursery = None
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
            self._note(child.name, child.counts, child, "closed")

    def absorb(self, ended: TaskGroup) -> None:
        """Take over the totals of a group that has ended, and nothing else: no history is kept."""
        self.counts.merge(ended.counts)
        for note in ended._notes:
            self.counts.merge(note.totals())

    def _note(self, name: str, counts: OutcomeCounts, group: TaskGroup | None, end: str) -> None:
        """Keep a line for the shutdown report, or only the totals when there are too many lines already."""
        room = MAX_NOTES if counts.is_healthy() else MAX_NOTES + MAX_REMAINING
        if len(self._notes) >= room:
            self._omitted += 1
            self.counts.merge(counts)
            for note in group._notes if group is not None else ():
                self.counts.merge(note.totals())
            return
        self._notes.append(
            ShutdownReport(
                name=name,
                outcome=end,
                elapsed=max(0.0, trio.current_time() - self._closing_at),
                outcomes=counts.snapshot(),
                children=tuple(group._notes) if group is not None else (),
                children_omitted=group._omitted if group is not None else 0,
            )
        )

    # -- failure

    def poison(self, record: TaskRecord, cause: Exception) -> None:
        """An exception left an unsupervised task: log it, close the gate, and tell the runtime."""
        _log.error("task %s failed: %r", record.path, cause, exc_info=cause)
        if self.state == "open":
            self.state = "poisoned"
            self.cause = cause
        self.tree.task_failed(record, cause)

    # -- the end

    def close(self, mode: StopMode = "stop") -> None:
        """Close the gate of the whole subtree and tell everything in it to end. Sync; may be called again with a
        stronger mode. Groups that a task owns are closed by that task."""
        now = trio.current_time()
        todo: list[TaskGroup] = [self]
        while todo:
            group = todo.pop()
            if group.state in ("open", "poisoned"):
                group.state = "closing"
                group._closing_at = now
                if group._stopping is not None:
                    group._stopping.set()
            for record in list(group._members):
                own = record.request_stop(mode)
                if own is not None:
                    todo.append(own)
            todo.extend(child for child in group._children if child.owner is None)
            if not group._members and not group._children:
                group._maybe_over()

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
        now = trio.current_time()
        built: dict[TaskGroup, ShutdownReport] = {}
        for group in reversed(list(self.walk())):
            remaining = [self._remaining(record) for record in itertools.islice(group._members, MAX_REMAINING)]
            counts = group.counts.snapshot()
            children = [*group._notes, *(built.pop(child) for child in group._children)]
            if len(children) > 2 * MAX_NOTES:
                children.sort(key=ShutdownReport.is_healthy)  # what is wrong is shown
            for omitted in children[2 * MAX_NOTES :]:
                counts += omitted.totals()
            built[group] = ShutdownReport(
                name=group.name,
                reason=reason if group is self else None,
                outcome=group.state,
                elapsed=max(0.0, now - group._closing_at) if group.state not in ("open", "poisoned") else 0.0,
                outcomes=counts + Outcomes(leaked=len(group._members), timed_out=len(group._members)),
                children=tuple(children[: 2 * MAX_NOTES]),
                children_omitted=group._omitted + max(0, len(children) - 2 * MAX_NOTES),
                remaining=tuple(remaining),
                remaining_omitted=max(0, len(group._members) - MAX_REMAINING),
            )
        return built[self]

    @staticmethod
    def _remaining(record: TaskRecord) -> RemainingTask:
        return RemainingTask(path=record.place, detail=record.describe(), stack=task_stack(record.task))


async def last_turns(ended: Callable[[], bool]) -> None:
    """Let what has just been cancelled end before it counts as still running. Takes no time, only scheduler turns."""
    for _ in range(LAST_TURNS):
        if ended():
            return
        await trio.lowlevel.checkpoint()
