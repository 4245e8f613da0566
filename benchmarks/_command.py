"""What the commands have in common: their options, the size of a run, and what they say meanwhile."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks import _idle

#: Rounds, and the size of a case relative to a full run.
_FULL = (7, 1.0)
_QUICK = (5, 0.15)


def parser(name: str, says: str, quick: str = "smaller cases") -> argparse.ArgumentParser:
    """The options that every command has."""
    made = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=says)
    made.add_argument("--quick", action="store_true", help=quick)
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    made.add_argument("--rounds", type=int, help=argparse.SUPPRESS)
    made.add_argument("--scale", type=float, help=argparse.SUPPRESS)
    return made


def size(options: argparse.Namespace) -> tuple[int, float]:
    """Rounds, and the size of a case relative to a full run."""
    rounds, scale = _QUICK if options.quick else _FULL
    return options.rounds or rounds, options.scale or scale


def idle_count(options: argparse.Namespace) -> int:
    """How many idle ones: always as many, unless a test wants fewer."""
    return _idle.COUNT if options.scale is None else max(1, int(_idle.COUNT * options.scale))


def write(figures: Mapping[str, object], target: Path) -> None:
    """Write the figures as JSON."""
    target.write_text(json.dumps(figures, indent=2) + "\n")


def progress(text: str) -> None:
    """Say how far it is, beside the figures."""
    print(text, file=sys.stderr, flush=True)
