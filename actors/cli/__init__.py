"""The program `tenure`.

What is not needed for the command that was chosen is not imported. Exit status: 0 when all went well and ended in
order, 1 when something failed or the shutdown report is not healthy, 2 when the arguments or what they name cannot be
used, 70 when something did not end by the deadline (the report names it), 130 when it was interrupted and could not
finish what was in hand.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program with these arguments (default: those of the process) and return its exit status."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")  # a terminal that cannot show a sign is no reason to fail
    try:
        from ._program import run

        status = run(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
    except KeyboardInterrupt:  # before a runtime has taken the signals, or after
        print("tenure: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Nobody reads on. Python would complain again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status
