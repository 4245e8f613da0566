"""`python -m benchmarks.actors [--quick] [--json FILE]`: the actor model against raw Trio, its peers and the BEAM.

Every figure is a ratio of two cases that ran interleaved, the median over at least five rounds. See `README.md`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

from benchmarks import _beam, _command, _idle, _raw, _tenure
from benchmarks._environments import PEERS
from benchmarks._figures import document, table
from benchmarks._harness import Case, CaseFailed, interleave
from benchmarks._peer_cases import benches

_PARTS = ("raw", "tenure", "peers", "beam")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the tables, write the JSON; the status is 0 whatever the figures are."""
    parser = _command.parser(
        "actors", "Measure the actor model.", "smaller cases, and only the peers that have an environment"
    )
    parser.add_argument("--only", metavar="PARTS", help="some of raw,tenure,peers,beam or peers by name, with commas")
    options = parser.parse_args(argv)
    rounds, scale = _command.size(options)
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
            cases += _idle.cases(_command.idle_count(options))
        if "beam" in parts:
            try:
                cases += stack.enter_context(_beam.cases())
            except CaseFailed as failure:
                left_out["beam"] = str(failure)
        peers = stack.enter_context(benches(wanted, quick=options.quick, left_out=left_out, progress=_command.progress))
        for bench in peers:
            cases += bench.cases()
        results = interleave(cases, rounds, scale=scale, progress=_command.progress)

    print(table(results, peers, left_out))
    if options.json is not None:
        figures = document(results, peers, quick=options.quick, rounds=rounds, scale=scale, left_out=left_out)
        _command.write(figures, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
