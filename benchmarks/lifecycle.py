"""`python -m benchmarks.lifecycle [--quick] [--json FILE]`: the runtime against plain Trio.

Every figure is a ratio of two cases that ran interleaved, the median over at least five rounds. See `README.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from benchmarks import _idle, _raw, _runtime
from benchmarks._figures import Figure, document, table
from benchmarks._harness import interleave

#: Rounds, and the size of a case relative to a full run.
_FULL = (7, 1.0)
_QUICK = (5, 0.15)

FIGURES: Final = (
    Figure(
        "spawn_vs_nursery",
        "spawn in a task group / in a bare nursery",
        "tenure.group_spawn",
        "raw.nursery_spawn",
        0.6,
    ),
    Figure(
        "spawn_handle_vs_scope",
        "the same with a handle / in a nursery with a scope for each",
        "tenure.group_spawn_handle",
        "raw.nursery_spawn_scope",
        0.6,
    ),
    Figure(
        "permit_vs_message",
        "reserve and release 3 levels deep / one message by a channel",
        "tenure.permit",
        "raw.channel_burst",
        1,
        "cost",
    ),
    Figure(
        "queue_vs_channel", "budgeted queue, push and receive / channel", "tenure.queue_burst", "raw.channel_burst", 2
    ),
    Figure(
        "metadata_vs_naive",
        "contents of a hot resource made durable / each by itself",
        "tenure.metadata_writes",
        "raw.naive_writes",
        20,
        by="wall",
    ),
    Figure("lane_vs_thread", "a lane call / trio.to_thread.run_sync", "tenure.lane_call", "raw.to_thread", 0.8),
    Figure(
        "shutdown_10000_vs_tasks",
        "shutdown of 10,000 services / cancelling 10,000 bare tasks",
        "tenure.stop_services",
        "raw.cancel_idle",
        4,
        "cost",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the tables, write the JSON; the status is 0 whatever the figures are."""
    options = _parser().parse_args(argv)
    rounds, scale = _QUICK if options.quick else _FULL
    rounds, scale = options.rounds or rounds, options.scale or scale
    channel = next(case for case in _raw.cases() if case.name == "raw.channel_burst")
    cases = [attrs.evolve(channel, family="channel"), *_runtime.cases()]
    count = _idle.COUNT if options.scale is None else max(1, int(_idle.COUNT * scale))
    cases += _idle.cases(count, ("services", "tasks"))
    results = interleave(cases, rounds, scale=scale, progress=_progress)
    print(table(results, (), {}, FIGURES))
    if options.json is not None:
        figures = document(results, quick=options.quick, rounds=rounds, scale=scale, left_out={}, figures=FIGURES)
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lifecycle", description="Measure the runtime.")
    parser.add_argument("--quick", action="store_true", help="smaller cases")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--rounds", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--scale", type=float, help=argparse.SUPPRESS)
    return parser


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
