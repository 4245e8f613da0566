"""The picture that lanes give of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ._schedule_snapshot import Histogram

if TYPE_CHECKING:
    from ._lane_policy import LaneKind
    from ._lane_pool import LaneBoard, LanePool
    from ._report import BlockingState


@attrs.frozen
class LaneTask:
    """A call that has not returned."""

    id: int
    """A number of its own among the calls of its runtime, or of its isolated lane."""
    name: str
    kind: LaneKind
    state: BlockingState
    elapsed: float
    """Seconds since the call was made."""


@attrs.frozen
class LaneSnapshot:
    """One lane as it stood at one instant. Times are in seconds of Trio's clock."""

    lane: str
    max_concurrency: int
    max_queue: int
    global_capacity: int
    """Slots of all lanes together."""
    global_running: int
    """Slots that all lanes together hold."""
    global_available: int
    lane_reserved: int
    lane_running: int
    """Slots that this lane holds: `blocking_still_running`, and calls that are about to start or end."""
    lane_borrowed: int
    """Those of them beyond its reservation."""
    queued: int
    """Calls that wait for a slot, or for room in the queue."""
    running: int
    """Closures that run and that somebody waits for."""
    timed_out_still_running: int
    """Closures that run and that nobody waits for any more."""
    blocking_still_running: int
    """Both."""
    rejected: int
    """Calls refused at once: the queue was full, the scope closed, the deadline past, the kind long-running."""
    completed: int
    failed: int
    """Closures that raised an exception for their caller."""
    timed_out_queued: int
    """Calls whose time ended before they could start."""
    timed_out_running: int
    """Calls whose time ended while their closure ran."""
    oldest_queue_wait: float
    """For how long the first in the queue has waited; 0.0 if nobody waits."""
    queue_waits: Histogram
    """Of calls that were given a slot."""
    run_times: Histogram
    """Of closures that returned in time."""
    tasks: tuple[LaneTask, ...] = ()
    """Oldest first. Bounded by the lane's limits."""


@attrs.frozen
class LanesSnapshot:
    """The lanes of a runtime as they stood at one instant."""

    capacity: int
    running: int
    """Slots that are held."""
    available: int
    headroom: int
    """Threads for calls outside the lanes."""
    dedicated_threads: int
    """Threads of their own that have not ended."""
    lanes: tuple[LaneSnapshot, ...]
    isolated: tuple[LaneSnapshot, ...] = ()
    """Isolated lanes made through the runtime, each with a capacity of its own."""

    @property
    def blocking_still_running(self) -> int:
        """Closures that have not returned, in all lanes."""
        return sum(lane.blocking_still_running for lane in (*self.lanes, *self.isolated))

    def lane(self, name: str) -> LaneSnapshot:
        """The lane of that name. Raises `KeyError`."""
        for lane in (*self.lanes, *self.isolated):
            if lane.lane == name:
                return lane
        raise KeyError(name)


def snapshot(pool: LanePool, board: LaneBoard) -> LaneSnapshot:
    """One lane of `pool`. Outside the owner's loop elapsed times are real ones, and queue waits are not known."""
    now = pool.now()
    admission = pool.admission
    share = admission.shares[board.index]
    calls = [call for call in tuple(pool.calls) if call.board is board and not call.returned]
    late = sum(call.state == "timed_out_still_running" for call in calls)
    running = sum(call.state == "running" for call in calls)
    return LaneSnapshot(
        lane=board.name,
        max_concurrency=board.policy.max_concurrency,
        max_queue=board.policy.max_queue,
        global_capacity=admission.capacity,
        global_running=admission.running,
        global_available=admission.capacity - admission.running,
        lane_reserved=share.reserved,
        lane_running=share.running,
        lane_borrowed=share.borrowed,
        queued=share.waiting,
        running=running,
        timed_out_still_running=late,
        blocking_still_running=running + late,
        rejected=board.rejected,
        completed=sum(board.run_times.counts),
        failed=board.failed,
        timed_out_queued=board.timed_out_queued,
        timed_out_running=board.timed_out_running,
        oldest_queue_wait=0.0 if now is None else share.oldest_wait(now),
        queue_waits=_with_zeros(board.queue_waits.histogram(), board.unqueued),
        run_times=board.run_times.histogram(),
        tasks=tuple(LaneTask(call.id, call.name, call.kind, call.state, call.elapsed(now)) for call in calls),
    )


def _with_zeros(histogram: Histogram, zeros: int) -> Histogram:
    first, *others = histogram.counts
    return Histogram(histogram.bounds, (first + zeros, *others), histogram.total)
