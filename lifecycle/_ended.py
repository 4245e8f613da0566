"""What a group remembers of tasks and groups that have ended: totals, and a bounded number of lines for the report."""

from __future__ import annotations

from typing import final

from ._outcomes import Outcome, OutcomeCounts, Outcomes
from ._report import MAX_REMAINING, ShutdownReport

MAX_NOTES = 256
"""How many ended children a shutdown report lists one by one; the others are in the totals."""


@final
class Ended:
    """The accounts of one group. While it is open only totals are kept, no history."""

    __slots__ = ("counts", "notes", "omitted")

    def __init__(self) -> None:
        self.counts: OutcomeCounts = OutcomeCounts()
        self.notes: list[ShutdownReport] = []
        self.omitted: int = 0

    def outcomes(self) -> Outcomes:
        """The totals, those in the notes included."""
        outcomes = self.counts.snapshot()
        for note in self.notes:
            outcomes += note.totals()
        return outcomes

    def absorb(self, other: Ended) -> None:
        """Take over the totals of a group that has ended, and nothing else."""
        self.counts.merge(other.counts)
        for note in other.notes:
            self.counts.merge(note.totals())

    def note_task(self, name: str, outcome: Outcome, timed_out: bool, own: Ended | None, end: str, took: float) -> None:
        """Keep a line for a task that ended after the gate was closed. `own` are the accounts of the group it had."""
        counts = own.counts if own is not None else OutcomeCounts()
        counts.add(outcome, timed_out)
        self._note(name, counts, own, end, took)

    def note_group(self, name: str, ended: Ended, took: float) -> None:
        """Keep a line for a child group that ended after the gate was closed."""
        self._note(name, ended.counts, ended, "closed", took)

    def _note(self, name: str, counts: OutcomeCounts, ended: Ended | None, end: str, took: float) -> None:
        # Beyond the bound only the totals are kept; what is wrong finds room for longer.
        room = MAX_NOTES if counts.is_healthy() else MAX_NOTES + MAX_REMAINING
        if len(self.notes) >= room:
            self.omitted += 1
            self.counts.merge(counts)
            for note in ended.notes if ended is not None else ():
                self.counts.merge(note.totals())
            return
        self.notes.append(
            ShutdownReport(
                name=name,
                outcome=end,
                elapsed=took,
                outcomes=counts.snapshot(),
                children=tuple(ended.notes) if ended is not None else (),
                children_omitted=ended.omitted if ended is not None else 0,
            )
        )
