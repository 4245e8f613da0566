"""What the benchmarks give: each figure, what it is made of, and what is wanted of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Final, Literal

import attrs

from benchmarks._harness import By, Results
from benchmarks._peer_cases import Bench

Kind = Literal["rate", "cost", "bytes"]


@attrs.frozen
class Figure:
    """A figure by name. `rate`: how many times their rate ours is; `cost`: how many times their time ours takes;
    `bytes`: the resident memory of one of ours. `wanted` is the least of a rate and the most of the others.
    """

    name: str
    says: str
    ours: str
    theirs: str
    wanted: float
    kind: Kind = "rate"
    by: By = "cpu"
    """What the verdict goes by: CPU time, or the wall's where a disk is what is measured."""

    def value(self, results: Results, by: By | None = None) -> float | None:
        """The median over the rounds, None when one of the two did not run."""
        if self.kind == "bytes":
            return results.extra(self.ours, "bytes_each")
        taken = results.ratio if self.kind == "rate" else results.cost
        return taken(self.ours, self.theirs, by or self.by)

    def spread(self, results: Results) -> str:
        """The lowest and the highest round, for people; empty for memory."""
        rounds = results.ratios(self.ours, self.theirs, self.by)
        if not rounds or self.kind == "bytes":
            return ""
        ends = sorted(rounds if self.kind == "rate" else (1 / ratio for ratio in rounds))
        return f"{_short(ends[0])}..{_short(ends[-1])}"

    def met(self, value: float) -> bool:
        """Whether a value is as good as wanted."""
        return value >= self.wanted if self.kind == "rate" else value <= self.wanted

    @property
    def aim(self) -> str:
        """What is wanted, for people."""
        return f"{'>=' if self.kind == 'rate' else '<='} {self.wanted:g}"


_RULE: Final = "-" * 118

FIGURES: Final = (
    Figure(
        "tell_vs_channel", "tell, messages built beforehand / memory channel", "tenure.tell", "raw.channel_burst", 6
    ),
    Figure(
        "tell_built_vs_channel",
        "tell, a message built for each / memory channel",
        "tenure.tell_built",
        "raw.channel_burst",
        2.5,
    ),
    Figure(
        "ask_inline_vs_channels",
        "ask an idle actor / two memory channels",
        "tenure.ask_inline",
        "raw.channel_pingpong",
        15,
    ),
    Figure(
        "ask_queued_vs_channels",
        "the same by the queue / two memory channels",
        "tenure.ask_queued",
        "raw.channel_pingpong",
        1.5,
    ),
    Figure(
        "spawn_stop_vs_task",
        "spawn and stop / a bare task with its scope",
        "tenure.spawn_stop",
        "raw.task_with_scope",
        0.6,
    ),
    Figure(
        "bytes_per_idle_actor",
        "resident memory of an idle actor among 10,000",
        "tenure.stop_idle",
        "",
        6 * 1024,
        "bytes",
    ),
    Figure(
        "stop_10000_vs_tasks",
        "time to stop 10,000 / to cancel 10,000 bare tasks",
        "tenure.stop_idle",
        "raw.cancel_idle",
        4,
        "cost",
    ),
    Figure("ask_inline_vs_beam", "ask an idle actor / gen_server:call", "tenure.ask_inline", "beam.call", 1),
)


def document(
    results: Results,
    peers: Sequence[Bench] = (),
    *,
    quick: bool,
    rounds: int,
    scale: float,
    left_out: dict[str, str],
    figures: Sequence[Figure] = FIGURES,
) -> dict[str, object]:
    """All figures as one JSON object: ratios by CPU time unless said otherwise, `cpu` and `wall` as operations a second
    of each case. None where a case did not run; why stands in `environment`.
    """
    environment = {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "trio": version("trio"),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "quick": quick,
        "rounds": rounds,
        "scale": scale,
        "left_out": {**left_out, **results.failed},
    }
    return {
        **{figure.name: figure.value(results) for figure in figures},
        "peers": {bench.peer.name: bench.figures(results) for bench in peers},
        "environment": environment,
        "cpu": {name: results.rate(name, "cpu") for name in results.samples},
        "wall": {name: results.rate(name, "wall") for name in results.samples},
    }


def table(
    results: Results, peers: Sequence[Bench], left_out: dict[str, str], figures: Sequence[Figure] = FIGURES
) -> str:
    """The same for people."""
    return "\n".join(
        [
            *_figure_lines(results, figures),
            "",
            *_peer_lines(results, peers),
            "",
            *_rate_lines(results),
            *_left_out(results, left_out),
        ]
    )


def _figure_lines(results: Results, figures: Sequence[Figure]) -> list[str]:
    lines = [f"{'figure':<24}{'value':>8}{'rounds':>14}{'by wall':>9}{'wanted':>9}         what", _RULE]
    for figure in figures:
        value = figure.value(results)
        wall = figure.value(results, "wall") if figure.kind != "bytes" else None
        wall = value if figure.by == "wall" else wall
        verdict = "" if value is None else "met" if figure.met(value) else "MISSED"
        numbers = f"{_short(value):>8}{figure.spread(results):>14}{_short(wall):>9}{figure.aim:>9}"
        lines.append(f"{figure.name:<24}{numbers}  {verdict:<7}{figure.says}")
    return lines


def _peer_lines(results: Results, peers: Sequence[Bench]) -> list[str]:
    lines = [f"{'ours / theirs':<24}{'tell':>10}{'ask':>10}{'queued':>10}{'spawn':>10}  by", _RULE]
    for bench in peers:
        figures = bench.figures(results)
        row = "".join(f"{_short(figures[key]):>10}" for key in ("tell", "ask", "ask_queued", "spawn_stop"))
        about = f"{bench.worker.about.get('version', '?')} on Python {bench.worker.about.get('python', '?')}"
        lines.append(f"{bench.peer.name:<24}{row}  {bench.peer.by:<5}{about}")
    return lines if peers else []


def _rate_lines(results: Results) -> list[str]:
    lines = [f"{'case':<24}{'per CPU-s':>14}{'per s':>14}", _RULE]
    for name in sorted(results.samples):
        cpu, wall = results.rate(name, "cpu"), results.rate(name, "wall")
        lines.append(f"{name:<24}{_rate(cpu):>14}{_rate(wall):>14}")
    task = results.extra("raw.cancel_idle", "bytes_each")
    return lines + ([f"An idle bare task has {task:,.0f} bytes."] if task is not None else [])


def _left_out(results: Results, left_out: dict[str, str]) -> list[str]:
    return [f"left out: {name}: {reason}" for name, reason in {**left_out, **results.failed}.items()]


def _short(value: object) -> str:
    if not isinstance(value, (int, float)):
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
