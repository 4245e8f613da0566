"""The metadata lane of a runtime, for a writer that drains: its last calls come after the stop of its scope."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple, final

from ._lane_errors import LaneClosed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._context import ServiceContext

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@final
class DrainingLane:
    """Runs calls in the metadata lane of a context, at most `last_calls` of them after its stop."""

    __slots__ = ("_group", "_lane", "_lease")

    def __init__(self, context: ServiceContext, last_calls: int) -> None:
        self._group = context.group
        self._lane = context.lanes.metadata_io
        self._lease = self._lane.drain_lease(inf, last_calls)

    async def __call__(self, fn: Callable[[*Ts], T], /, *args: *Ts) -> T:
        if not self._group.stop_requested:
            try:
                return await self._lane.run(fn, *args)
            except LaneClosed:
                pass  # the stop came while it waited for its slot: it has not begun
        return await self._lease.run(fn, *args)
