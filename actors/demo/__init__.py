"""A supervised pipeline over a directory of text or log files: `tenure demo`, and an example to read.

Begin with `_pipeline`. The actors are `_reader`, `_worker`, `_tally` and `_display`, their messages `_messages`; the
rest is plain code that knows no actors: `_files`, `_counts`, `_faults`, `_checkpoint`, `_result`.

Every file is counted once. The tally keeps counts by path, together with size and time of the file, so a file that is
reported again changes nothing, and one that has changed since is counted anew in place of what it was. A reader asks
the workers again when one crashes, and reports a file only as a whole. A file is done when the tally has it; it is safe
when a checkpoint has it; a run that ends early, in whatever way, loses at most what no checkpoint has, and the next run
counts exactly that.
"""

from __future__ import annotations

from ._errors import CheckpointRefused, CheckpointUnwritable, DemoError, PathUnusable
from ._result import Repairs, Result
from ._run import run
from ._settings import Settings, standard_library

__all__ = [
    "CheckpointRefused",
    "CheckpointUnwritable",
    "DemoError",
    "PathUnusable",
    "Repairs",
    "Result",
    "Settings",
    "run",
    "standard_library",
]
