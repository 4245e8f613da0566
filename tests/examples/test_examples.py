"""The examples print what they show, and end with a report."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from tests.examples.programs import many_files, plain_count, python

REPORT = re.compile(r"^shutdown of (\w+): (healthy|NOT HEALTHY), (\w+) in [\d.]+ s", re.MULTILINE)


def test_hello_greets_and_ends_healthy() -> None:
    status, output, errors = python("-m", "examples.hello")
    assert (status, errors) == (0, "")
    assert output.startswith("Hello, world!\nshutdown of hello: healthy, completed in ")
    assert "greeter-1  drained" in output


def test_supervision_shows_restarts_choices_and_escalation() -> None:
    status, output, errors = python("-m", "examples.supervision")
    assert status == 0, errors
    shown = [re.sub(r"^ +[\d.]+ s  ", "", line) for line in output.splitlines()]

    restarts = shown[: next(i for i, line in enumerate(shown) if line.startswith("A supervisor chooses"))]
    assert restarts.count("/till starts with no coins") == 4
    assert restarts.count("the asker is told: Jammed('a bent coin')") == 3
    assert restarts[2] == "coins: 1, 2"
    assert restarts[-1] == "coins: 1, in life number 4"

    assert "/guard is told: /kiosk failed, Stolen('somebody took the till')" in shown
    assert shown.count("/kiosk starts with no coins") == 1

    assert shown.count("/market/stall/till starts with no coins") == 4
    causes = shown[next(i for i, line in enumerate(shown) if line.startswith("The topmost one")) :]
    assert causes[1:5] == ["Stolen('somebody took the till')"] * 4
    assert REPORT.findall(output)[-1][:2] == ("supervision", "NOT HEALTHY")


def test_supervision_waits_longer_before_each_restart_in_a_row() -> None:
    _, output, _ = python("-m", "examples.supervision")
    starts = [float(time) for time in re.findall(r"([\d.]+) s  /till starts", output)]
    waits = [round(later - earlier, 2) for earlier, later in pairwise(starts)]
    assert all(wait >= 0.99 * wanted for wait, wanted in zip(waits, (0.1, 0.2, 0.4), strict=True))


def test_pipeline_counts_a_directory_and_heals(tmp_path: Path) -> None:
    root = many_files(tmp_path)
    status, output, errors = python("-m", "examples.pipeline", root)
    assert (status, errors) == (0, "")
    kinds, _ = plain_count(root)
    assert re.search(rf"^all +120 .* {sum(kind['words'] for kind in kinds.values()):,} +\d", output, re.MULTILINE)
    crashes = int(re.findall(r"crashes of workers: (\d+)", output)[0])
    restarts = [int(n) for n in re.findall(r"/workers/\d (\d+)x", output)]
    assert 0 < crashes - 4 <= sum(restarts) <= crashes  # at the end some are not started again
    assert REPORT.findall(output) == [("demo", "healthy", "completed")]


def test_pipeline_says_in_a_line_what_is_wrong(tmp_path: Path) -> None:
    status, _, errors = python("-m", "examples.pipeline", tmp_path / "missing")
    assert status == 1
    assert errors.startswith("examples.pipeline: ")
    assert errors.count("\n") == 1
