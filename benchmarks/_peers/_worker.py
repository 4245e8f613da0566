"""What the peers' scripts share. They run in the peer's own environment, so this imports the standard library only.

    python pykka_peer.py            reads lines `CASE N` and answers each with one line of JSON
    python pykka_peer.py CASE N     runs one case

A case does `n` operations (about `n`: `tell` rounds to whole bursts), times only them with the given watch, and
returns how many they were when that is not `n`.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO

#: As in benchmarks/_raw.py: messages told before the sender waits for the receiver to catch up.
BURST = 512


class Watch:
    """Times its `with` block, by the wall and by the CPU of this process with all its threads."""

    def __enter__(self) -> Watch:
        self.wall, self.cpu = -time.perf_counter(), -time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu += time.process_time()
        self.wall += time.perf_counter()


Case = Callable[[Watch, int], "int | None"]


class Message:
    """Two fields, built beforehand, as Tenure's own case has them."""

    __slots__ = ("amount", "label")

    def __init__(self, amount: int, label: str) -> None:
        self.amount = amount
        self.label = label


def goals(n: int) -> Iterator[int]:
    """The count that the receiver has reached after each burst, for about `n` messages."""
    yield from range(BURST, max(1, round(n / BURST)) * BURST + 1, BURST)


def free_port() -> int:
    """A loopback port that was free a moment ago, picked by the operating system."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main(version: str, cases: dict[str, Case], *, cpu: bool = True) -> None:
    """Serve the cases; `cpu=False` where other processes do part of the work, so that CPU time would mislead."""
    out = os.fdopen(os.dup(1), "w")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that a case ends what it started
    os.dup2(2, 1)  # what a library prints must not stand between the answers
    lines = [" ".join(sys.argv[1:])] if sys.argv[1:] else iter(sys.stdin.readline, "")
    for line in lines:
        _answer(out, version, cases, line.split(), cpu)


def _answer(out: IO[str], version: str, cases: dict[str, Case], words: list[str], cpu: bool) -> None:
    name, n = words[0], int(words[1])
    watch = Watch()
    gc.collect()
    try:
        done = cases[name](watch, n)
        answer = {
            "case": name,
            "n": done or n,
            "wall": watch.wall,
            "cpu": watch.cpu if cpu else None,
            "version": version,
            "python": sys.version.split()[0],
        }
    except Exception as failure:
        answer = {"case": name, "error": f"{type(failure).__name__}: {failure}"}
    print(json.dumps(answer), file=out, flush=True)
