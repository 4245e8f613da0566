"""The lanes of a runtime, and the set of them that a scope gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, final

import trio

from ._lane import Lane
from ._lane_errors import DedicatedThreadsExhausted
from ._lane_isolated import IsolatedLane
from ._lane_policy import LANES, LaneName, LanePolicy, LaneSettings
from ._lane_pool import LanePool
from ._lane_process import MAX_BYTES, ProcessLane
from ._lane_snapshot import LanesSnapshot, snapshot
from ._lane_thread import DedicatedThread, ThreadStop

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._group import TaskGroup
    from ._report import BlockingTask

T = TypeVar("T")


@final
class Lanes:
    """The blocking lanes that all contexts of one runtime share: one capacity, a ceiling and a reservation for each.

    They belong to one Trio program, the first that uses them; use them in its thread.
    """

    __slots__ = ("_dedicated", "_headroom", "_isolated", "_pool", "settings")

    def __init__(self, settings: LaneSettings) -> None:
        """Raises `LaneSettingsInvalid` with every mistake."""
        settings.check()
        self.settings: LaneSettings = settings
        self._pool = LanePool("lanes", settings.capacity, [(name, settings.policy(name)) for name in LANES])
        self._isolated: dict[LanePool, None] = {}
        self._dedicated = 0
        self._headroom: trio.CapacityLimiter | None = None

    def __repr__(self) -> str:
        return f"<Lanes, {self._pool.admission.running} of {self.settings.capacity} slots held>"

    @property
    def headroom(self) -> trio.CapacityLimiter:
        """A limiter for calls outside the lanes: `trio.to_thread.run_sync(fn, limiter=lanes.headroom)`. It has threads
        when every slot of the lanes is stuck."""
        if self._headroom is None:
            self._headroom = trio.CapacityLimiter(self.settings.spare_threads)
        return self._headroom

    def attach(self, owner: trio.lowlevel.TrioToken | None = None) -> None:
        """Belong to the Trio program `owner`, or the one that runs in this thread, unless there is one already. The
        runtime calls this."""
        self._pool.attach(owner)

    def bind(self, scope: TaskGroup) -> LaneSet:
        """The lanes for the calls of one scope, which end with it. Costs nothing, may be called again."""
        return LaneSet(self, scope)

    # -- what runs

    @property
    def blocking_still_running(self) -> int:
        """Closures that have not returned, in all lanes, isolated ones included."""
        return sum(pool.count(lambda call: call.started) for pool in self._pools())

    @property
    def dedicated_threads(self) -> int:
        """Dedicated threads that have not ended."""
        return self._dedicated

    def running_closures(self) -> tuple[BlockingTask, ...]:
        """The closures that have not returned, with the stacks of their threads: what keeps a runtime from ending.

        Sync. Right also when the Trio program has ended: a closure that returns afterwards is gone from here.
        """
        return tuple(task for pool in self._pools() for task in pool.records(queued=False))

    def blocking(self) -> tuple[BlockingTask, ...]:
        """The same, and the calls that wait for a slot. Bounded by the limits of the lanes."""
        return tuple(task for pool in self._pools() for task in pool.records())

    async def wait_idle(self) -> None:
        """Wait until every closure has returned, also those that nobody waits for any more. A checkpoint; cancelling
        ends only the wait."""
        await trio.lowlevel.checkpoint()
        while any(pool.admission.running for pool in self._pools()):
            for pool in self._pools():
                await pool.wait_idle()

    def snapshot(self) -> LanesSnapshot:
        """All lanes as they stand now. Sync."""
        admission = self._pool.admission
        return LanesSnapshot(
            capacity=admission.capacity,
            running=admission.running,
            available=admission.capacity - admission.running,
            headroom=self.settings.spare_threads,
            dedicated_threads=self._dedicated,
            lanes=tuple(snapshot(self._pool, board) for board in self._pool.boards),
            isolated=tuple(snapshot(pool, pool.boards[0]) for pool in self._isolated),
        )

    def _pools(self) -> tuple[LanePool, ...]:
        if self._isolated:
            for pool in [pool for pool in self._isolated if pool.stopped and not pool.calls]:
                del self._isolated[pool]
        return (self._pool, *self._isolated)

    # -- for lane sets

    def lane(self, name: LaneName, scope: TaskGroup) -> Lane:
        """One lane for one scope."""
        return Lane(self._pool, self._pool.boards[LANES.index(name)], scope)

    def isolated(self, scope: TaskGroup, name: str, policy: LanePolicy) -> IsolatedLane:
        """See `LaneSet.isolated`."""
        scope.check_open()
        lane = IsolatedLane(policy, scope, name)
        self._isolated[lane.pool] = None
        lane.pool.registry = self._isolated
        return lane

    def processes(self, scope: TaskGroup, name: str, policy: LanePolicy, max_bytes: int) -> ProcessLane:
        """See `LaneSet.processes`."""
        scope.check_open()
        lane = ProcessLane(policy, scope, name, max_bytes)
        self._isolated[lane.pool] = None
        lane.pool.registry = self._isolated
        return lane

    def start_thread(
        self,
        scope: TaskGroup,
        fn: Callable[[ThreadStop], T],
        name: str,
        wake: Callable[[], object] | None,
    ) -> DedicatedThread[T]:
        """See `LaneSet.start_thread`."""
        scope.check_open()
        if self._dedicated >= self.settings.dedicated_threads:
            raise DedicatedThreadsExhausted(name, self.settings.dedicated_threads)
        thread: DedicatedThread[T] = DedicatedThread(name, scope, wake, self._thread_ended)
        scope.launch(thread, thread.body, fn)
        self._dedicated += 1
        return thread

    def _thread_ended(self) -> None:
        self._dedicated -= 1


@final
class LaneSet:
    """The lanes of a runtime, for the calls of one scope. Made by `Lanes.bind`."""

    __slots__ = ("_scope", "cpu", "metadata_io", "shared", "storage_io")

    def __init__(self, shared: Lanes, scope: TaskGroup, /) -> None:
        self.shared: Lanes = shared
        """What all scopes share."""
        self.storage_io: Lane = shared.lane("storage_io", scope)
        """For calls that read and write data."""
        self.metadata_io: Lane = shared.lane("metadata_io", scope)
        """For the small files on which much depends."""
        self.cpu: Lane = shared.lane("cpu", scope)
        """For short computations that release the GIL, such as compression and cryptography."""
        self._scope = scope

    def __repr__(self) -> str:
        return f"<LaneSet of {self._scope.path}>"

    def isolated(self, name: str, policy: LanePolicy) -> IsolatedLane:
        """A lane with a capacity of its own (`policy.max_concurrency`), which shares nothing with the others. It stops
        with this scope, and what runs in it is in the runtime's report. Raises `LaneSettingsInvalid` beside what a
        closed scope raises."""
        return self.shared.isolated(self._scope, name, policy)

    def processes(self, name: str, policy: LanePolicy, *, max_bytes: int = MAX_BYTES) -> ProcessLane:
        """A lane whose work runs in processes, `policy.max_concurrency` of them, and can be killed. It stops with this
        scope. Sync; use it in a Trio program. Raises `LaneSettingsInvalid` beside what a closed scope raises."""
        return self.shared.processes(self._scope, name, policy, max_bytes)

    def start_thread(
        self, fn: Callable[[ThreadStop], T], /, *, name: str, wake: Callable[[], object] | None = None
    ) -> DedicatedThread[T]:
        """Run `fn(stop)` in a thread of its own, for loops that no lane takes. It ends when it likes, and has to end
        soon when `stop` is requested: by the stop of this scope, or by `cancel` of the handle.

        `wake` is called then too, in Trio's thread: to close the socket that the thread sits in, for example. It must
        neither block nor raise. The task of the thread ends when the thread does, never before: one that does not end
        in time is in the shutdown report, with its stack. Sync. Raises `DedicatedThreadsExhausted` beside what a closed
        scope raises.
        """
        return self.shared.start_thread(self._scope, fn, name, wake)
