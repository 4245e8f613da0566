"""The benchmarks' own machinery, and that the command gives every key. No figure is asserted here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from benchmarks import _environments
from benchmarks._environments import PEERS, Peer
from benchmarks._figures import FIGURES
from benchmarks._harness import Case, CaseFailed, Results, Sample, Watch, interleave, trio_case
from benchmarks._processes import Worker, run_once
from benchmarks.actors import main
from benchmarks.lifecycle import FIGURES as RUNTIME_FIGURES
from benchmarks.lifecycle import main as runtime_main

FIGURE_KEYS = {
    "tell_vs_channel",
    "tell_built_vs_channel",
    "ask_inline_vs_channels",
    "ask_queued_vs_channels",
    "spawn_stop_vs_task",
    "bytes_per_idle_actor",
    "stop_10000_vs_tasks",
    "ask_inline_vs_beam",
}


def logged(log: list[str], name: str, family: str, **options: bool) -> Case:
    def run(n: int) -> Sample:
        log.append(f"{name}:{n}")
        return Sample(n, wall=n * 2.0, cpu=n * 1.0)

    return Case(name, family, 100, run, **options)


class TestInterleaving:
    def test_every_case_runs_once_a_round_next_to_its_family(self) -> None:
        log: list[str] = []
        cases = [logged(log, name, name[0]) for name in ("a1", "b1", "a2", "b2", "a3")]
        results = interleave(cases, 5, seed=1)
        counted = [entry.partition(":")[0] for entry in log[len(cases) :]]
        rounds = [counted[start : start + 5] for start in range(0, len(counted), 5)]
        assert len(rounds) == 5
        for names in rounds:
            assert sorted(names[:3]) == ["a1", "a2", "a3"]
            assert sorted(names[3:]) == ["b1", "b2"]
        assert {len(samples) for samples in results.samples.values()} == {5}

    def test_the_order_is_shuffled_by_the_seed(self) -> None:
        def order(seed: int) -> list[str]:
            log: list[str] = []
            interleave([logged(log, name, "f") for name in "abcdefgh"], 3, seed=seed)
            return log

        assert order(1) == order(1)
        assert order(1) != order(2)

    def test_warm_up_is_a_tenth_and_not_counted(self) -> None:
        log: list[str] = []
        results = interleave([logged(log, "a", "f")], 2, scale=0.5)
        assert log == ["a:5", "a:50", "a:50"]
        assert len(results.samples["a"]) == 2

    def test_a_fixed_case_keeps_its_size_and_has_no_warm_up(self) -> None:
        log: list[str] = []
        interleave([logged(log, "a", "f", fixed=True)], 2, scale=0.5)
        assert log == ["a:100", "a:100"]

    def test_an_optional_case_that_fails_is_left_out_of_all_rounds_with_its_reason(self) -> None:
        calls = 0

        def run(n: int) -> Sample:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise CaseFailed("the peer is gone")
            return Sample(n, 1.0, 1.0)

        log: list[str] = []
        results = interleave([Case("p", "f", 1, run, optional=True), logged(log, "a", "f")], 5)
        assert results.failed == {"p": "the peer is gone"}
        assert "p" not in results.samples
        assert calls == 3
        assert len(results.samples["a"]) == 5

    def test_a_case_that_is_not_optional_ends_the_run(self) -> None:
        def run(n: int) -> Sample:
            raise CaseFailed("no")

        with pytest.raises(CaseFailed):
            interleave([Case("a", "f", 1, run)], 1)


class TestRatios:
    def results(self, ours: list[float], theirs: list[float]) -> Results:
        results = Results()
        results.samples = {
            "ours": [Sample(10, wall=2 * seconds, cpu=seconds) for seconds in ours],
            "theirs": [Sample(10, wall=seconds, cpu=seconds) for seconds in theirs],
        }
        return results

    def test_the_ratio_is_taken_inside_a_round_before_the_median(self) -> None:
        results = self.results([1, 10, 100], [2, 20, 900])  # a machine that grows slower
        assert results.ratios("ours", "theirs") == [2, 2, 9]
        assert results.ratio("ours", "theirs") == 2

    def test_wall_time_stands_beside_cpu_time(self) -> None:
        assert self.results([1, 1, 1], [2, 2, 2]).ratio("ours", "theirs", "wall") == 1

    def test_a_cost_is_the_other_way_round(self) -> None:
        assert self.results([6, 6, 6], [2, 2, 2]).cost("ours", "theirs") == 3

    def test_different_sizes_are_compared_by_rate(self) -> None:
        results = Results()
        results.samples = {"ours": [Sample(100, 1, 1)], "theirs": [Sample(10, 1, 1)]}
        assert results.ratio("ours", "theirs") == 10

    def test_what_did_not_run_has_no_ratio(self) -> None:
        results = self.results([1], [1])
        assert results.ratio("ours", "nobody") is None
        assert results.cost("ours", "nobody") is None
        assert results.rate("nobody", "cpu") is None
        assert results.extra("ours", "bytes_each") is None

    def test_time_over_several_processes_has_no_cpu_ratio(self) -> None:
        results = self.results([1], [1])
        results.samples["theirs"] = [Sample(10, 5, None)]
        assert results.ratio("ours", "theirs", "cpu") is None
        assert results.ratio("ours", "theirs", "wall") == 2.5


class TestCases:
    def test_a_trio_case_times_only_what_is_inside_its_watch(self) -> None:
        async def body(watch: Watch, n: int) -> int:
            await trio.sleep(0.02)
            with watch:
                await trio.lowlevel.checkpoint()
            return n + 1

        sample = trio_case("a", "f", 10, body).run(10)
        assert sample.n == 11
        assert 0 < sample.wall < 0.02

    @pytest.mark.parametrize(("by", "rate"), [("cpu", 10.0), ("wall", 5.0)])
    def test_a_rate_is_operations_a_second(self, by: str, rate: float) -> None:
        assert Sample(20, wall=4.0, cpu=2.0).rate("cpu" if by == "cpu" else "wall") == rate


ECHO = """
import json, sys
for line in iter(sys.stdin.readline, ""):
    case, n = line.split()
    if case == "die":
        sys.exit(3)
    if case == "hang":
        import time; time.sleep(60)
    answer = {"error": "unknown"} if case == "bad" else {"n": int(n), "wall": 0.5, "cpu": None, "version": "7"}
    print("no json" if case == "noise" else json.dumps(answer), flush=True)
"""


class TestWorkers:
    def worker(self) -> Worker:
        return Worker([sys.executable, "-c", ECHO])

    def test_one_child_answers_for_all_cases(self) -> None:
        with self.worker() as worker:
            assert worker.run("tell", 3) == Sample(3, 0.5, None)
            assert worker.run("ask", 4).n == 4
            assert worker.about == {"version": "7"}

    @pytest.mark.parametrize(
        ("case", "within", "says"),
        [("bad", 20, "unknown"), ("die", 20, "ended"), ("noise", 20, "JSON"), ("hang", 0.5, "time limit")],
    )
    def test_what_goes_wrong_is_a_failed_case_and_the_next_one_has_a_new_child(
        self, case: str, within: float, says: str
    ) -> None:
        with self.worker() as worker:
            with pytest.raises(CaseFailed, match=says):
                worker.run(case, 1, within=within)
            assert worker.run("tell", 1).n == 1

    def test_a_command_that_is_not_there_is_a_failed_case(self) -> None:
        with Worker(["/nonexistent/python"]) as worker, pytest.raises(CaseFailed):
            worker.run("tell", 1)

    def test_a_single_run_fails_with_what_it_said(self) -> None:
        with pytest.raises(CaseFailed, match="oh dear"):
            run_once([sys.executable, "-c", "raise SystemExit('oh dear')"], within=20)
        assert run_once([sys.executable, "-c", "print('{\"a\": 1}')"], within=20) == {"a": 1}


class TestEnvironments:
    def test_each_peer_has_its_script_and_sizes(self) -> None:
        for peer in PEERS:
            assert (_environments.SCRIPTS / peer.script).exists()
            assert set(peer.n) == {"tell", "ask", "spawn_stop"}

    def test_an_environment_counts_only_when_made_wholly_with_the_present_pin(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_environments, "CACHE", tmp_path)
        peer = Peer("other", "other_peer.py", "other>=1,<2")
        assert not peer.ready()
        peer.python.parent.mkdir(parents=True)
        peer.python.touch()
        assert not peer.ready()
        (peer.folder / "requirement.txt").write_text("other>=0,<1")
        assert not peer.ready()
        (peer.folder / "requirement.txt").write_text("other>=1,<2")
        assert peer.ready()

    def test_an_interpreter_too_new_for_anyone_is_named(self) -> None:
        with pytest.raises(CaseFailed, match=r"3\.90"):
            _environments.interpreter((3, 90))


@pytest.fixture
def figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[dict[str, object], str]]:
    def run(*options: str) -> tuple[dict[str, object], str]:
        target = tmp_path / "figures.json"
        assert main(["--quick", "--rounds", "1", "--scale", "0.005", "--json", str(target), *options]) == 0
        return json.loads(target.read_text()), capsys.readouterr().out

    return run


def test_the_command_gives_every_key(figures: Callable[..., tuple[dict[str, object], str]]) -> None:
    found, said = figures("--only", "raw,tenure")
    assert set(found) == FIGURE_KEYS | {"peers", "environment", "cpu", "wall"}
    assert {figure.name for figure in FIGURES} == FIGURE_KEYS
    assert [key for key in FIGURE_KEYS if found[key] is None] == ["ask_inline_vs_beam"]
    assert found["peers"] == {}
    for name in FIGURE_KEYS:
        assert name in said


def test_a_part_alone_leaves_the_other_figures_empty(figures: Callable[..., tuple[dict[str, object], str]]) -> None:
    found, said = figures("--only", "raw")
    assert {found[key] for key in FIGURE_KEYS} == {None}
    assert "raw.channel_burst" in said


def test_the_command_for_the_runtime_gives_every_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "figures.json"
    assert runtime_main(["--quick", "--rounds", "1", "--scale", "0.005", "--json", str(target)]) == 0
    found, said = json.loads(target.read_text()), capsys.readouterr().out
    names = {
        "spawn_vs_nursery",
        "spawn_handle_vs_scope",
        "permit_vs_message",
        "queue_vs_channel",
        "metadata_vs_naive",
        "lane_vs_thread",
        "shutdown_10000_vs_tasks",
    }
    assert {figure.name for figure in RUNTIME_FIGURES} == names
    assert set(found) == names | {"peers", "environment", "cpu", "wall"}
    for name in names:
        assert found[name] > 0
        assert name in said


def test_a_figure_may_go_by_the_wall() -> None:
    figure = next(figure for figure in RUNTIME_FIGURES if figure.name == "metadata_vs_naive")
    results = Results()
    results.samples = {figure.ours: [Sample(10, wall=1, cpu=1)], figure.theirs: [Sample(10, wall=30, cpu=2)]}
    assert figure.value(results) == 30
    assert figure.value(results, "cpu") == 2
