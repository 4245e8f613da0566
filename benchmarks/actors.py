"""`python -m benchmarks.actors [--quick] [--json FILE]`: the actor model against raw Trio, its peers and the BEAM.

Every figure is a ratio of two cases that ran interleaved, the median over at least five rounds. See `README.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import _beam, _idle, _raw, _tenure
from benchmarks._environments import PEERS
from benchmarks._figures import document, table
from benchmarks._harness import Case, CaseFailed, interleave
from benchmarks._peer_cases import benches

#: Rounds, and the size of a case relative to a full run.
_FULL = (7, 1.0)
_QUICK = (5, 0.15)
_PARTS = ("raw", "tenure", "peers", "beam")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the tables, write the JSON; the status is 0 whatever the figures are."""
    options = _parser().parse_args(argv)
    rounds, scale = _QUICK if options.quick else _FULL
    rounds, scale = options.rounds or rounds, options.scale or scale
    parts = set(options.only.split(",")) if options.only else {*_PARTS}
    wanted = {peer.name for peer in PEERS if "peers" in parts or peer.name in parts}
    left_out: dict[str, str] = {}

    with contextlib.ExitStack() as stack:
        cases: list[Case] = []
        if "raw" in parts:
            cases += _raw.cases()
        if "tenure" in parts:
            cases += _tenure.cases()
        if parts >= {"raw", "tenure"}:
            cases += _idle.cases(_idle.COUNT if options.scale is None else max(1, int(_idle.COUNT * scale)))
        if "beam" in parts:
            try:
                cases += stack.enter_context(_beam.cases())
            except CaseFailed as failure:
                left_out["beam"] = str(failure)
        peers = stack.enter_context(benches(wanted, quick=options.quick, left_out=left_out, progress=_progress))
        for bench in peers:
            cases += bench.cases()
        results = interleave(cases, rounds, scale=scale, progress=_progress)

    print(table(results, peers, left_out))
    if options.json is not None:
        figures = document(results, peers, quick=options.quick, rounds=rounds, scale=scale, left_out=left_out)
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.actors", description="Measure the actor model.")
    parser.add_argument(
        "--quick", action="store_true", help="smaller cases, and only the peers that have an environment"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--only", metavar="PARTS", help="some of raw,tenure,peers,beam or peers by name, with commas")
    parser.add_argument("--rounds", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--scale", type=float, help=argparse.SUPPRESS)
    return parser


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
