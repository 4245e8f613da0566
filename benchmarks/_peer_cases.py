"""The peers' cases: the same work as ours, each framework in a process of its own environment."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Collection, Generator

import attrs

from benchmarks._environments import PEERS, Peer, make
from benchmarks._harness import By, Case, CaseFailed, Results
from benchmarks._processes import Worker

#: The rows of a peer's table: the key, the case of ours, the case of theirs.
ROWS = (
    ("tell", "tenure.tell", "tell"),
    ("ask", "tenure.ask_inline", "ask"),
    ("ask_queued", "tenure.ask_queued", "ask"),
    ("spawn_stop", "tenure.spawn_stop", "spawn_stop"),
)
_CASES = ("tell", "ask", "spawn_stop")


@attrs.frozen
class Bench:
    """A peer that takes part, with the worker that runs its script."""

    peer: Peer
    worker: Worker

    def cases(self) -> list[Case]:
        """Its cases, in the families of ours."""
        return [
            Case(f"{self.peer.name}.{name}", name, self.peer.n[name], functools.partial(self.worker.run, name), True)
            for name in _CASES
        ]

    def figures(self, results: Results) -> dict[str, object]:
        """Ours over theirs for each row: the headline by the peer's own measure, then by CPU and by wall time.

        None where the peer has no such figure, such as CPU time over several processes.
        """
        both: dict[By, dict[str, float | None]] = {
            "cpu": self._ratios(results, "cpu"),
            "wall": self._ratios(results, "wall"),
        }
        return {**both[self.peer.by], "by": self.peer.by, "cpu": both["cpu"], "wall": both["wall"], **self.worker.about}

    def _ratios(self, results: Results, by: By) -> dict[str, float | None]:
        return {key: results.ratio(ours, f"{self.peer.name}.{theirs}", by) for key, ours, theirs in ROWS}


@contextlib.contextmanager
def benches(
    wanted: Collection[str], *, quick: bool, left_out: dict[str, str], progress: Callable[[str], None]
) -> Generator[list[Bench], None, None]:
    """The peers that take part: with `quick` those that have an environment, else all, made where they have none.

    Why one is missing goes to `left_out`. Their processes start with their first case and end with the block.
    """
    with contextlib.ExitStack() as stack:
        found: list[Bench] = []
        for peer in PEERS:
            if peer.name not in wanted:
                continue
            try:
                _prepare(peer, quick, progress)
            except CaseFailed as failure:
                left_out[peer.name] = str(failure)
                continue
            worker = Worker(peer.command(), env={**os.environ, **peer.variables})
            found.append(Bench(peer, stack.enter_context(worker)))
        yield found


def _prepare(peer: Peer, quick: bool, progress: Callable[[str], None]) -> None:
    if quick and peer.costly:
        raise CaseFailed("left out of a quick run: it starts a process for every actor")
    if quick and not peer.ready():
        raise CaseFailed("no environment yet; a run without --quick makes it")
    if not peer.ready():
        progress(f"making an environment for {peer.name}")
    make(peer)
