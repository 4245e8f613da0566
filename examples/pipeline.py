"""Readers, a pool of workers that crash on purpose, a tally with a checkpoint: the pipeline behind `tenure demo`.

`python -m examples.pipeline [DIRECTORY]`; the default is a part of Python's standard library. The pipeline itself is in
`actors/demo`; begin with `_pipeline.py` there.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

from actors.demo import DemoError, Settings, run, standard_library


def main() -> None:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else standard_library() / "email"
    with tempfile.TemporaryDirectory() as place:
        settings = Settings(directory, Path(place) / "checkpoint", fault_rate=0.2, terminal=sys.stderr)
        print(f"Counting {directory}; of all tries, {settings.fault_rate:.0%} crash their worker.")
        try:
            result = run(settings)
        except DemoError as error:
            sys.exit(f"examples.pipeline: {error}")
    print(result.render())
    sys.exit(0 if result.is_good else 1)


if __name__ == "__main__":
    logging.disable(logging.ERROR)  # every crash is logged, and here many are wanted
    main()
