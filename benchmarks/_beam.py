"""The BEAM beside Tenure, where Erlang is there (Debian's `erlang-base`): one scheduler, as one Trio thread is."""

from __future__ import annotations

import contextlib
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

from benchmarks._harness import Case, CaseFailed
from benchmarks._processes import Worker

SOURCE = Path(__file__).with_name("beam.erl")


@contextlib.contextmanager
def cases() -> Generator[list[Case], None, None]:
    """Compile the source into a temporary folder and give its cases; `CaseFailed` where Erlang is missing.

    The node listens nowhere, starts with the first case and ends with the block.
    """
    erl, erlc = shutil.which("erl"), shutil.which("erlc")
    if erl is None or erlc is None:
        raise CaseFailed("no `erl` and `erlc` on the PATH; on Debian: apt install erlang-base")
    with tempfile.TemporaryDirectory(prefix="bench-beam-") as folder:
        _compile(erlc, folder)
        with Worker(
            [erl, "+S", "1:1", "-noshell", "-start_epmd", "false", "-pa", folder, "-s", "beam", "main"]
        ) as node:

            def case(name: str, family: str, n: int) -> Case:
                return Case(f"beam.{name}", family, n, functools.partial(node.run, name), optional=True)

            yield [
                case("call", "ask", 150_000),
                case("cast", "tell", 500_000),
                case("spawn_stop", "spawn_stop", 100_000),
            ]


def _compile(erlc: str, folder: str) -> None:
    try:
        done = subprocess.run(
            [erlc, "-o", folder, str(SOURCE)], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise CaseFailed(f"erlc: {failure}") from failure
    if done.returncode != 0:
        raise CaseFailed(f"erlc ended with status {done.returncode}: {done.stdout}{done.stderr}")
