"""The metadata writer: snapshots of small files made durable, in the background, with receipts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol, TypeVar, TypeVarTuple, final

import trio

from ._files_errors import EnvelopeCorrupt
from ._metadata_errors import FenceReason, FenceStands, MetadataAlreadyRunning, MetadataDeadlineExceeded
from ._metadata_history import digest_of
from ._metadata_job import Job
from ._metadata_lane import DrainingLane
from ._metadata_queue import NEVER_BEGUN, MetadataQueue
from ._metadata_reading import begin_clearing, begin_load, clear, end_read, loaded
from ._metadata_store import FileStore
from ._metadata_types import FailedBeforeCommit, MetadataSettings, MetadataShutdown
from ._metadata_view import resources, snapshot
from ._task import WatchedTask

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from ._budget import Budget
    from ._context import ServiceContext
    from ._group import TaskGroup
    from ._metadata_queue import Work
    from ._metadata_receipt import MetadataReceipt
    from ._metadata_store import MetadataStore
    from ._metadata_targets import MetadataTargets
    from ._metadata_types import LoadedMetadata, MetadataSnapshot, MetadataWrite, Retirement, TargetConflict
    from ._outcomes import Outcome
    from ._task import TaskHandle

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RunBlocking(Protocol):
    """How blocking work is run: `await run(fn, *args)` returns what `fn(*args)` returns. A lane, or a plain thread."""

    def __call__(self, fn: Callable[[*Ts], T], /, *args: *Ts) -> Awaitable[T]: ...


async def in_a_thread(fn: Callable[[*Ts], T], /, *args: *Ts) -> T:
    """The default: a thread of Trio's. Its caller may be cancelled at once; the thread goes on."""
    return await trio.to_thread.run_sync(fn, *args, abandon_on_cancel=True)


@final
class MetadataWriter:
    """Takes snapshots with generations, and makes the newest of each resource durable while `run` runs.

    `submit` never waits: it gives a receipt (*accepted*), on which `durable()` waits for the second proof. Contents
    that come faster than the disk are coalesced: only the newest is written, and its durability is that of all before.
    The registry of `targets` is shared by all writers of a process; `budget` is charged for all that is pending.
    All of it is for one thread, that of the Trio program.
    """

    __slots__ = ("_clock", "_follows", "_idle", "_lot", "_queue", "_run_blocking", "_running", "_store", "targets")

    def __init__(
        self,
        name: str,
        targets: MetadataTargets,
        *,
        settings: MetadataSettings | None = None,
        store: MetadataStore | None = None,
        run_blocking: RunBlocking = in_a_thread,
        budget: Budget | None = None,
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        settings = MetadataSettings() if settings is None else settings
        self.targets: MetadataTargets = targets
        self._store: MetadataStore = FileStore(file_mode=settings.file_mode) if store is None else store
        self._run_blocking = run_blocking
        self._clock = clock
        self._lot = trio.lowlevel.ParkingLot()
        self._idle: trio.Event | None = None
        self._follows: Callable[[], None] = _nothing
        self._running = False
        self._queue = MetadataQueue(
            name,
            settings,
            targets,
            budget=budget,
            on_ready=self._lot.unpark_all,
            on_idle=self._has_ended,
        )

    @classmethod
    def of(
        cls,
        context: ServiceContext,
        name: str,
        *,
        settings: MetadataSettings | None = None,
        store: MetadataStore | None = None,
    ) -> MetadataWriter:
        """A writer that uses what the runtime of `context` has: the registry of targets, the budget of the process, and
        the metadata lane, also for what is left to be written when the component has been told to stop. Sync.

        Raises `LaneClosed` when it has been told already. To run it: `start(context.group)`, or an actor.
        """
        settings = MetadataSettings() if settings is None else settings
        resources = context.resources
        return cls(
            name,
            resources.targets,
            settings=settings,
            store=store,
            run_blocking=DrainingLane(context, settings.max_operations),
            budget=resources.budget,
        )

    def __repr__(self) -> str:
        queue = self._queue
        state = "open" if queue.accepting else "closed"
        return f"<MetadataWriter {queue.name} {state}, {queue.operations} pending>"

    @property
    def name(self) -> str:
        """The writer's name, in errors and in its snapshot."""
        return self._queue.name

    @property
    def accepting(self) -> bool:
        """Whether it admits anything."""
        return self._queue.accepting

    # -- admission

    @trio.lowlevel.enable_ki_protection
    def submit(self, request: MetadataWrite, *, deadline: float = inf) -> MetadataReceipt | TargetConflict:
        """Accept a content. Sync, never waits for the disk; the first use of a target looks up its symbolic links.

        A generation that is durable already gives a receipt that is settled; one not newer than what is pending shares
        the end of that. `TargetConflict`, with the request in it, when the resource has another target or the target
        belongs to another resource or writer. Whatever is raised was not admitted and has changed nothing:
        `MetadataDeadlineExceeded` (`deadline` is a time on Trio's clock), `MetadataClosed`, `MetadataRequestInvalid`,
        `GenerationConflict` (the same generation with another content), `MetadataFenced`, `MetadataQueueFull` (never
        for a content that replaces a queued one), `MetadataBytesExceeded`, `MetadataTargetsFull`, or `BudgetExhausted`.
        """
        if deadline != inf and self._clock() >= deadline:
            raise MetadataDeadlineExceeded(request.resource, "submit")
        return self._queue.submit(request)

    @trio.lowlevel.enable_ki_protection
    def submit_next(
        self, resource: str, target: Path, data: bytes, *, deadline: float = inf
    ) -> MetadataReceipt | TargetConflict:
        """`submit` with a generation newer than all of the resource, which no other `submit_next` of the registry has
        given out. There may be gaps. Raises `GenerationsExhausted` beside the others. Sync."""
        if deadline != inf and self._clock() >= deadline:
            raise MetadataDeadlineExceeded(resource, "submit_next")
        return self._queue.submit_next(resource, target, data)

    def confirmed(self, resource: str) -> int | None:
        """The newest generation of `resource` that is known to be durable, whoever wrote it. Sync."""
        return self.targets.confirmed(resource)

    # -- execution

    async def run(self) -> None:
        """Write, until admission is stopped and everything pending has ended.

        May be cancelled and run again: nothing accepted is lost by it. A write that runs in a thread at that time goes
        on, is settled when it ends, and until then no other one of its resource begins; one that has not begun is
        queued again. Raises `MetadataAlreadyRunning`.
        """
        if self._running:
            raise MetadataAlreadyRunning(self.name)
        self._running = True
        try:
            async with trio.open_nursery() as nursery:
                for _ in range(self._queue.settings.max_concurrent_writes):
                    nursery.start_soon(self._work)
        finally:
            self._running = False

    def start(self, group: TaskGroup) -> TaskHandle[None]:
        """Run as a service of `group`. Sync. When the group is told to stop, nothing more is admitted and what was
        accepted is written; what has not begun at its deadline fails. Raises when the group's gate is closed."""
        handle = group.launch(WatchedTask(self.name, group, "service", self._served), self.run)
        self._follows = group.at_stop(self.stop_admission)
        return handle

    def _served(self, task: TaskHandle[None], outcome: Outcome) -> Outcome:
        # Also for a task that was cancelled before its first step: nobody else ends what was accepted.
        self.give_up()
        self._follows()
        return outcome

    @trio.lowlevel.enable_ki_protection
    async def _work(self) -> None:
        queue = self._queue
        while queue.accepting or queue.operations:
            work = queue.take()
            if work is None:
                await self._lot.park()
            else:
                await self._write(work)

    async def _write(self, work: Work) -> None:
        job = Job(work, self._store)
        refusal: Exception | None = None
        try:
            await self._run_blocking(job)
        except Exception as exc:  # the lane refused the job, or waits for it no longer
            refusal = exc
        except BaseException:
            self._leave(job, lambda: self._queue.withdraw(work))
            raise
        outcome = FailedBeforeCommit(work.slot.generation, NEVER_BEGUN, refusal)
        self._leave(job, lambda: self._queue.settle(work, outcome))

    def _leave(self, job: Job, withdrawn: Callable[[], None]) -> None:
        """Nobody waits for the job's thread any more."""
        state = job.leave(partial(self._tell_late, trio.lowlevel.current_trio_token(), job))
        if state == "done":
            self._settle(job)
        elif state == "withdrawn":
            withdrawn()

    def _tell_late(self, token: trio.lowlevel.TrioToken, job: Job) -> None:
        """In the thread of a late job, at its end."""
        try:
            token.run_sync_soon(self._settle, job)
        except trio.RunFinishedError:
            pass  # the program has ended; nobody is left to be told

    def _settle(self, job: Job) -> None:
        self._queue.settle(job.work, job.outcome(), job.digest)

    # -- reading

    async def load(self, resource: str, target: Path) -> LoadedMetadata | None:
        """Read what the target holds, None if there is no file, and take its generation for the durable one.

        A program calls it before its first submission: then generations go on where they stopped, and older ones are
        not written again. While something is pending for the resource it only reads. Raises `EnvelopeCorrupt`,
        `EnvelopeUnreadable`, `FormatTooNew`, `MetadataTargetTaken`, `MetadataTargetsFull`, `MetadataClosed`.
        A checkpoint; cancelling ends only the wait.
        """
        history = begin_load(self._queue, resource, target)
        try:
            found = await self._run_blocking(_read, self._store, history.path)
            if found is None:
                return None
            content, digest = found
            loaded(self._queue, history, content.generation, digest)
            return content
        finally:
            end_read(self._queue, history)

    async def clear_fence(self, resource: str) -> int | None:
        """Read the target of a fenced resource again, after a successful sync of its directory, and take it from there:
        if it holds a whole content that one of the writes in question left, or what was there before them, that is the
        durable one and the resource admits again. Returns the durable generation; None if there is no file, as before.

        Changes nothing for a resource without a fence. Raises `FenceStands` when the re-read does not settle it, and
        what reading raises; the fence then stays. Works after admission was stopped. A checkpoint.
        """
        history = begin_clearing(self._queue, resource)
        if history is None:
            await trio.lowlevel.checkpoint()
            return self.confirmed(resource)
        unknown = max(history.fence)
        try:
            found = await self._run_blocking(_read, self._store, history.path)
            if history.fence:  # otherwise somebody else has cleared it
                state = None if found is None else (found[0].generation, found[1])
                if not clear(self._queue, history, state):
                    why: FenceReason = "missing" if state is None else "unexpected"
                    raise FenceStands(resource, unknown, why, None if state is None else state[0])
            return history.durable
        except EnvelopeCorrupt as exc:
            raise FenceStands(resource, unknown, "corrupt") from exc
        finally:
            end_read(self._queue, history)

    # -- the end

    @trio.lowlevel.enable_ki_protection
    def stop_admission(self) -> None:
        """Admit nothing more; what is pending is written. Sync; may be called again."""
        self._queue.stop_admission()

    def close_resource(self, resource: str) -> bool:
        """Admit nothing more for one resource, so that it can be retired. Sync. False if this writer has it not."""
        return self._queue.close_resource(resource)

    @trio.lowlevel.enable_ki_protection
    def retire(self, resource: str) -> Retirement:
        """Forget a resource: its name, its target and its place in the registry are free. Sync.

        Only when admission has ended, for the writer or for the resource, nothing is pending, nothing is unknown, and
        no other writer has taken it over; otherwise the answer says which. Receipts given before go on to answer.
        """
        return self._queue.retire(resource)

    async def shutdown(self, until: float = inf) -> MetadataShutdown:
        """Stop admission and wait for everything pending, at most until the time `until` on Trio's clock.

        The report says what is unfinished. Nothing is cancelled: a later call goes on waiting and may find all done.
        `run` must be running, or run again. A checkpoint; cancelling ends only the wait.
        """
        self.stop_admission()
        if self._queue.operations:
            if self._idle is None:
                self._idle = trio.Event()
            with trio.CancelScope(deadline=until):
                await self._idle.wait()
        else:
            await trio.lowlevel.checkpoint()
        queue = self._queue
        unfinished = tuple(view for view in resources(queue) if view.in_flight is not None or view.queued is not None)
        return MetadataShutdown(queue.operations > 0, queue.operations, queue.bytes, unfinished)

    @trio.lowlevel.enable_ki_protection
    def give_up(self) -> int:
        """Stop admission and fail, as *failed before commit*, whatever has not begun. Sync. Returns how many that were.

        For a writer that nobody will run again. What runs in a thread goes on, and is settled when it ends.
        """
        return self._queue.give_up()

    def snapshot(self) -> MetadataSnapshot:
        """What the writer holds now. Sync; looks at every resource of this writer."""
        return snapshot(self._queue)

    def _has_ended(self) -> None:
        if self._idle is not None:
            self._idle.set()


def _nothing() -> None:
    pass


def _read(store: MetadataStore, path: Path) -> tuple[LoadedMetadata, bytes] | None:
    found = store.read(path)
    return None if found is None else (found, digest_of(found.data))
