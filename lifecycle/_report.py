"""The shutdown report: one tree, with the totals rolled up.

Trees may be thousands of levels deep, so nothing here recurses: totals are summed as nodes are made, and every walk
keeps its own stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import attrs

from ._outcomes import NO_OUTCOMES, Outcomes

MAX_REMAINING = 64
"""How many remaining tasks one node lists; the others are counted in `remaining_omitted`."""


@attrs.frozen
class RemainingTask:
    """A task that still ran when the report was made."""

    path: str
    """Where in the tree, like `/system/till/worker`."""
    detail: str = ""
    """What it was doing, in a few words; for an actor the message in hand. May be empty."""
    stack: tuple[str, ...] = ()
    """Where it stood: one line for each frame, the innermost last. Empty if it could not be seen."""


BlockingState = Literal["queued", "running", "timed_out_still_running"]
"""Where a blocking call is; after the last of these nobody waits for it any more, and it runs on all the same."""

BLOCKING_STATES: tuple[BlockingState, ...] = ("queued", "running", "timed_out_still_running")


@attrs.frozen
class BlockingTask:
    """A blocking call in a lane that had not returned when the report was made."""

    name: str
    lane: str
    state: BlockingState
    elapsed: float
    """Seconds since the call was made."""
    stack: tuple[str, ...] = ()
    """Where its thread stood: one line for each frame, the innermost last. Empty if it has none."""


@attrs.frozen(eq=False, repr=False)
class ShutdownReport:
    """How a part of the tree ended. Compares by content; immutable."""

    name: str
    reason: str | None = None
    """Why the shutdown was asked for; None below the node that was asked."""
    outcome: str = "completed"
    """How the component itself ended, in a word."""
    elapsed: float = 0.0
    """Seconds from the request to stop until its end, or until the report if it had not ended."""
    outcomes: Outcomes = NO_OUTCOMES
    """How its own tasks ended, and those of components that ended before the shutdown or are omitted here."""
    children: tuple[ShutdownReport, ...] = ()
    children_omitted: int = 0
    """Further children, without a node of their own; what their tasks did is in `outcomes`."""
    remaining: tuple[RemainingTask, ...] = ()
    """Its own tasks that still ran, at most 64 of them."""
    remaining_omitted: int = 0
    blocking: tuple[BlockingTask, ...] = ()
    """Blocking calls that had not returned, at most 64 of them."""
    blocking_omitted: int = 0
    annotations: tuple[str, ...] = ()
    """Remarks for people."""
    _totals: Outcomes = attrs.field(init=False, default=NO_OUTCOMES)
    _still_blocking: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        if len(self.remaining) > MAX_REMAINING:
            omitted = self.remaining_omitted + len(self.remaining) - MAX_REMAINING
            object.__setattr__(self, "remaining_omitted", omitted)
            object.__setattr__(self, "remaining", self.remaining[:MAX_REMAINING])
        if len(self.blocking) > MAX_REMAINING:
            omitted = self.blocking_omitted + len(self.blocking) - MAX_REMAINING
            object.__setattr__(self, "blocking_omitted", omitted)
            object.__setattr__(self, "blocking", self.blocking[:MAX_REMAINING])
        totals = self.outcomes
        blocking = len(self.blocking) + self.blocking_omitted
        for child in self.children:
            totals += child._totals
            blocking += child._still_blocking
        object.__setattr__(self, "_totals", totals)
        object.__setattr__(self, "_still_blocking", blocking)

    def totals(self) -> Outcomes:
        """The outcomes of this node and of everything below it."""
        return self._totals

    @property
    def blocking_still_running(self) -> int:
        """Blocking calls that had not returned, of this node and of everything below it."""
        return self._still_blocking

    def is_healthy(self) -> bool:
        """Whether nothing failed, panicked, timed out, leaked or blocks a thread, here or anywhere below."""
        return self._totals.is_healthy() and not self._still_blocking

    def walk(self) -> Iterator[ShutdownReport]:
        """This node and all nodes below it, parents before their children, children in order."""
        todo: list[ShutdownReport] = [self]
        while todo:
            node = todo.pop()
            yield node
            todo.extend(reversed(node.children))

    def still_running(self) -> tuple[RemainingTask, ...]:
        """The remaining tasks of the whole tree, as far as they are listed."""
        return tuple(task for node in self.walk() for task in node.remaining)

    def to_json(self) -> str:
        """The report as a JSON text: `format`, `healthy`, `totals` and the flat list `nodes`, in the order of `walk`.

        The `parent` of a node is its parent's place in that list, null for the first.
        """
        from ._report_json import report_to_json

        return report_to_json(self)

    @staticmethod
    def from_json(text: str | bytes) -> ShutdownReport:
        """Read what `to_json` wrote. Raises `FormatTooNew` for a later format, `ReportMalformed` for anything else."""
        from ._report_json import report_from_json

        return report_from_json(text)

    def render(self, *, max_lines: int = 400) -> str:
        """The report for people: the verdict, what was still running and where, then the tree.

        A tree that is too long shows the unhealthy parts first and says how much it leaves out.
        """
        from ._render import render_report

        return render_report(self, max_lines)

    def __str__(self) -> str:
        return self.render()

    def __repr__(self) -> str:
        health = "healthy" if self.is_healthy() else "unhealthy"
        return f"<ShutdownReport {self.name!r} {self.outcome}, {health}, {self._totals.nonzero()}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShutdownReport):
            return NotImplemented
        todo: list[tuple[ShutdownReport, ShutdownReport]] = [(self, other)]
        while todo:
            one, two = todo.pop()
            if one is two:
                continue
            if one._own() != two._own() or len(one.children) != len(two.children):
                return False
            todo.extend(zip(one.children, two.children, strict=True))
        return True

    def __hash__(self) -> int:
        return hash((self._own(), self._totals))

    def _own(self) -> tuple[object, ...]:
        return (
            self.name,
            self.reason,
            self.outcome,
            self.elapsed,
            self.outcomes,
            self.children_omitted,
            self.remaining,
            self.remaining_omitted,
            self.blocking,
            self.blocking_omitted,
            self.annotations,
        )
