"""Isolated lanes: a capacity of their own, and an end of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs
import trio

from ._lane import Lane
from ._lane_policy import LanePolicy, refuse
from ._lane_pool import LanePool
from ._lane_snapshot import LaneSnapshot

if TYPE_CHECKING:
    from ._group import TaskGroup


@attrs.frozen
class LaneShutdown:
    """How the shutdown of an isolated lane stands."""

    completed: bool
    """Whether every closure has returned."""
    pending: int
    """Closures that have not."""
    snapshot: LaneSnapshot


@final
class IsolatedLane(Lane):
    """A lane of one's own: all of its capacity is reserved for it, and it can be stopped and shut down by itself.

    Handles from `bind` are the same lane: what stops one stops all. It stops with the scope that it was made for.
    """

    __slots__ = ()

    def __init__(self, policy: LanePolicy, scope: TaskGroup, name: str = "isolated") -> None:
        """Raises `LaneSettingsInvalid`. `LaneSet.isolated` makes one that is in the runtime's report too."""
        refuse(policy.mistakes(name))
        own = attrs.evolve(policy, reserved=policy.max_concurrency)
        pool = LanePool(name, policy.max_concurrency, [(name, own)])
        super().__init__(pool, pool.boards[0], scope)
        if trio.lowlevel.in_trio_run():
            pool.attach()
        scope.at_stop(pool.scope_stopped)

    @property
    def pool(self) -> LanePool:
        """The capacity; for the runtime's accounts."""
        return self._pool

    def bind(self, scope: TaskGroup) -> IsolatedLane:
        """The same lane for the calls of another scope, which are refused when that stops too."""
        other = object.__new__(IsolatedLane)
        Lane.__init__(other, self._pool, self._board, scope)
        return other

    def stop_admission(self) -> None:
        """Take no more calls, and end the waits of those without a slot with `LaneClosed`. Closures that run go on.
        Sync; may be called again."""
        self._pool.stop()

    async def shutdown(self, until: float) -> LaneShutdown:
        """`stop_admission`, then wait for the return of every closure, at most until a time on Trio's clock.

        May be called again, and then tells how it stands. A checkpoint; cancelling ends only the wait.
        """
        self.stop_admission()
        with trio.CancelScope(deadline=until):
            await self._pool.wait_idle()
        now = self.snapshot()
        return LaneShutdown(not now.lane_running, now.lane_running, now)
