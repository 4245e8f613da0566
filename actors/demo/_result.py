"""What came of a run: the totals, what broke and healed, how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from lifecycle import ShutdownReport

from ._checkpoint import Checkpoint
from ._counts import Sum, most_frequent
from ._errors import shown
from ._settings import Settings

SHOWN_TOKENS = 10
SHOWN_FAILURES = 10


@attrs.frozen
class Repairs:
    """What broke in this run, and what became of it."""

    crashes: int = 0
    """Handlers that an exception has left."""
    restarts: Mapping[str, int] = attrs.field(factory=dict[str, int])
    """How often each worker was started again, by path."""
    dead_letters: int = 0


@attrs.frozen
class Kind:
    """The files of one kind, added up."""

    files: int
    bytes: int
    sum: Sum


@attrs.frozen
class Result:
    """A run that has ended, as its checkpoint has it: what is shown is what is on disk."""

    settings: Settings
    checkpoint: Checkpoint
    expected: int
    """How many files there are to count; 0 if the run was interrupted before that was known."""
    resumed: int
    """How many of the counted files were counted by earlier runs."""
    seconds: float
    repairs: Repairs
    report: ShutdownReport

    @property
    def finished(self) -> bool:
        """Whether every file has been counted, or has failed and is reported."""
        return self.checkpoint.finished

    @property
    def cut_short(self) -> bool:
        """Whether it was interrupted and what was in hand could not be finished."""
        return self.report.reason == "signal" and not self.report.is_healthy()

    @property
    def is_good(self) -> bool:
        """Whether it ended in order, and nothing failed."""
        return self.report.is_healthy() and not self.checkpoint.failed

    def kinds(self) -> dict[str, Kind]:
        """The totals by kind of file, the kind with the most lines first."""
        kinds: dict[str, Kind] = {}
        for each in self.checkpoint.counted.values():
            kind = kinds.get(each.kind, Kind(0, 0, Sum()))
            kind.sum.add(each.counts)
            kinds[each.kind] = Kind(kind.files + 1, kind.bytes + each.file.size, kind.sum)
        return dict(sorted(kinds.items(), key=lambda item: (-item[1].sum.lines, item[0])))

    def tokens(self) -> list[tuple[str, int]]:
        """The most frequent tokens, by the most frequent ones of each file."""
        total = Sum()
        for each in self.checkpoint.counted.values():
            total.add(each.counts)
        return most_frequent(total.tokens, SHOWN_TOKENS)

    def to_json(self) -> str:
        """All of it, for programs."""
        data: dict[str, Any] = {
            "path": str(self.settings.path),
            "checkpoint": str(self.settings.checkpoint_path()),
            "finished": self.finished,
            "files": {
                "expected": self.expected,
                "counted": len(self.checkpoint.counted),
                "resumed": self.resumed,
                "failed": self.checkpoint.failed,
            },
            "kinds": {
                name: {
                    "files": kind.files,
                    "bytes": kind.bytes,
                    "lines": kind.sum.lines,
                    "words": kind.sum.words,
                    "functions": kind.sum.functions,
                }
                for name, kind in self.kinds().items()
            },
            "tokens": dict(self.tokens()),
            "repairs": attrs.asdict(self.repairs),
            "seconds": self.seconds,
            "report": json.loads(self.report.to_json()),
        }
        return json.dumps(data)

    def render(self) -> str:
        """All of it, for people."""
        return "\n".join([*self._lines(), "", self.report.render(max_lines=40)])

    def _lines(self) -> Iterator[str]:
        settings, checkpoint, repairs = self.settings, self.checkpoint, self.repairs
        earlier = f", {self.resumed:,} of them by earlier runs" if self.resumed else ""
        yield f"{shown(settings.path)}: {len(checkpoint.counted):,} files counted in {self.seconds:.1f} s{earlier}"
        if checkpoint.counted:
            yield ""
            yield from table(self.kinds())
        if tokens := self.tokens():
            yield ""
            yield "most frequent: " + ", ".join(f"{shown(token)} {count:,}" for token, count in tokens)
        yield ""
        yield f"crashes of workers: {repairs.crashes} (seed {settings.seed}, {settings.fault_rate:.0%} of all tries)"
        if repairs.crashes:
            yield "started again: " + ", ".join(f"{path} {n}x" for path, n in repairs.restarts.items() if n)
        yield f"dead letters: {repairs.dead_letters}"
        yield from self._failures()
        yield self._next()

    def _failures(self) -> Iterator[str]:
        failed = self.checkpoint.failed
        if failed:
            yield f"NOT counted: {len(failed):,}"
            for path, reason in sorted(failed.items())[:SHOWN_FAILURES]:
                yield f"  {shown(path)}: {reason}"
            if len(failed) > SHOWN_FAILURES:
                yield f"  and {len(failed) - SHOWN_FAILURES:,} more (--json has them)"

    def _next(self) -> str:
        file = shown(self.settings.checkpoint_path())
        if self.finished:
            return f"checkpoint: finished, so the next run starts anew ({file})"
        left = self.expected - len(self.checkpoint.counted)
        open_ = f"{left:,} files are left" if self.expected else "the files were not yet listed"
        return f"checkpoint: {open_}, the next run goes on there ({file})"


def table(kinds: Mapping[str, Kind]) -> Iterator[str]:
    """The totals by kind of file, in columns."""
    rows: list[tuple[str, tuple[int, ...]]] = [
        (name, (kind.files, kind.bytes, kind.sum.lines, kind.sum.words, kind.sum.functions))
        for name, kind in kinds.items()
    ]
    rows.append(("all", tuple(sum(column) for column in zip(*(numbers for _, numbers in rows), strict=True))))
    yield f"{'kind':<8}{'files':>10}{'bytes':>16}{'lines':>12}{'words':>14}{'functions':>12}"
    for name, (files, size, lines, words, functions) in rows:
        yield f"{name:<8}{files:>10,}{size:>16,}{lines:>12,}{words:>14,}{functions:>12,}"
