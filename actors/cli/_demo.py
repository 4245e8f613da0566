"""`tenure demo`."""

from __future__ import annotations

import argparse
import logging
import math
import sys
from collections.abc import Callable
from pathlib import Path

DESCRIPTION = """\
Count words, lines and functions in a directory of text or log files. Readers take the files to a pool of workers, some
of which crash on purpose and are started again; a tally adds up and writes a checkpoint every second. Ctrl-C finishes
what is in hand, Ctrl-C again ends at once; the next run goes on at the checkpoint."""

EPILOG = """\
exit status: 0 all went well; 1 a file could not be counted, or the shutdown report is not healthy; 2 the arguments, the
directory or the checkpoint cannot be used; 70 something did not end by the deadline; 130 interrupted, and not all that
was in hand could be finished."""


WATCHABLE = 5.0
"""Seconds that a run over the default directory takes at least, so that there is something to see and to interrupt."""


def run(arguments: list[str]) -> int:
    """Run `tenure demo` and return its exit status."""
    options = _parser().parse_args(arguments)

    # Only now: this loads Trio and the actors.
    from actors.demo import DemoError, Settings, standard_library
    from actors.demo import run as run_demo

    # The report is printed below. What is critical comes before the process is ended.
    logging.getLogger("tenure").setLevel(logging.CRITICAL)
    settings = Settings(
        path=options.path or standard_library(),
        checkpoint=options.checkpoint,
        workers=options.workers,
        fault_rate=options.fault_rate,
        seed=options.seed,
        within=options.within,
        limit=options.limit,
        every=options.every,
        pace=options.pace if options.pace is not None else 0.0 if options.path else WATCHABLE,
        fresh=options.fresh,
        terminal=sys.stderr,
    )
    try:
        result = run_demo(settings)
    except DemoError as error:
        print(f"tenure demo: {error}", file=sys.stderr)
        return 2
    print(result.to_json() if options.json else result.render())
    if result.cut_short:
        return 130
    return 0 if result.is_good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tenure demo", description=DESCRIPTION, epilog=EPILOG)
    add = parser.add_argument
    add("path", nargs="?", type=Path, help="the directory (default: the sources of Python's standard library)")
    add("--workers", type=_whole(1, 1000), default=4, metavar="N", help="how many there are (default: %(default)s)")
    add("--checkpoint", type=Path, metavar="FILE", help="where the checkpoint is (default: a file in the user's cache)")
    add("--fault-rate", type=_number(0, 1), default=0.02, metavar="F",
        help="the share of tries that crash a worker on purpose, from 0 to 1 (default: %(default)s)")  # fmt: skip
    add("--seed", type=int, default=1, metavar="N", help="which tries these are (default: %(default)s)")
    add("--within", type=_number(0, 86400), default=10.0, metavar="SECONDS",
        help="from Ctrl-C to the end of everything (default: %(default)g)")  # fmt: skip
    add("--every", type=_number(0.001, 86400), default=1.0, metavar="SECONDS",
        help="from one checkpoint to the next (default: %(default)g)")  # fmt: skip
    add("--pace", type=_number(0, 86400), metavar="SECONDS",
        help=f"spread the work, to watch it (default: {WATCHABLE:g} without a path, 0 with one)")  # fmt: skip
    add("--limit", type=_whole(1, 10**9), metavar="N", help="count at most so many files")
    add("--json", action="store_true", help="print the result as JSON")
    add("--fresh", action="store_true", help="start anew instead of at the checkpoint")
    return parser


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return value

    return read


def _number(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least:g} to {most:g}")
        return value

    return read
