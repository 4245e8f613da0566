"""`python -m benchmarks.lifecycle [--quick] [--json FILE]`: the runtime against plain Trio.

Every figure is a ratio of two cases that ran interleaved, the median over at least five rounds. See `README.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import attrs

from benchmarks import _command, _idle, _raw, _runtime
from benchmarks._figures import Figure, document, table
from benchmarks._harness import interleave

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
    options = _command.parser("lifecycle", "Measure the runtime.").parse_args(argv)
    rounds, scale = _command.size(options)
    channel = next(case for case in _raw.cases() if case.name == "raw.channel_burst")
    cases = [attrs.evolve(channel, family="channel"), *_runtime.cases()]
    cases += _idle.cases(_command.idle_count(options), ("services", "tasks"))
    results = interleave(cases, rounds, scale=scale, progress=_command.progress)
    print(table(results, (), {}, FIGURES))
    if options.json is not None:
        figures = document(results, quick=options.quick, rounds=rounds, scale=scale, left_out={}, figures=FIGURES)
        _command.write(figures, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
