"""Interrupted at any moment, `tenure demo` ends in time, and the next run goes on at the checkpoint: nothing is counted
twice, nothing is left out."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.examples.programs import assert_counted, body, counted, demo, finish, many_files, plant, start, until

FILES = 80
SLOW = ("--workers", "1", "--fault-rate", "0.3", "--seed", "5", "--every", "0.01")
"""About 40 files a second, since the only worker keeps crashing. No file fails with this seed."""

BIG = "a line of a log that goes on for quite a while\n" * 300_000
"""Takes seconds to count."""


def begin(root: Path, file: Path, *options: str) -> subprocess.Popen[str]:
    return start("-m", "actors.cli", "demo", root, "--json", "--checkpoint", file, *options)


def resumed(root: Path, file: Path) -> dict[str, Any]:
    """The result of a run that is not interrupted."""
    status, output, errors = demo(root, "--json", "--checkpoint", file)
    assert (status, errors) == (0, "")
    result: dict[str, Any] = json.loads(output)
    return result


def has_reached(file: Path, files: int) -> bool:
    return counted(file) >= files


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_again_and_again_it_counts_every_file_once(tmp_path: Path, signal_: signal.Signals) -> None:
    root, file = many_files(tmp_path / "root", FILES), tmp_path / "c"
    before = runs = 0
    finished = False
    while not finished:
        runs += 1
        process = begin(root, file, *SLOW)
        until(partial(has_reached, file, min(FILES, before + 20)), process)
        process.send_signal(signal_)
        status, output, errors = finish(process)
        assert status == 0, errors
        result = json.loads(output)
        assert result["files"]["resumed"] == before
        assert result["report"]["nodes"][0]["reason"] in ("signal", "finished")
        before = result["files"]["counted"]
        assert before == counted(file)
        finished = result["finished"]
        if not finished:
            assert errors == "interrupted: finishing what is in hand, within 10 s (again: end at once)\n"
    assert runs > 2
    assert_counted(result, root)


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.004, 0.008, 0.016])
def test_interrupted_while_it_starts_it_ends_in_order(tmp_path: Path, delay: float) -> None:
    root, file = many_files(tmp_path / "root", FILES), tmp_path / "c"
    process = begin(root, file, *SLOW, "--every", "60")
    until(file.exists, process)
    # Not to wait for something, but to hit different places of what follows.
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    status, output, errors = finish(process)
    assert status == 0, errors
    first = json.loads(output)["files"]["counted"]
    assert first == counted(file) < FILES
    result = resumed(root, file)
    assert result["files"]["resumed"] == first
    assert_counted(result, root)


@pytest.mark.parametrize("moment", [0, 1, 40])
def test_killed_it_loses_only_what_no_checkpoint_has(tmp_path: Path, moment: int) -> None:
    root, file = many_files(tmp_path / "root", FILES), tmp_path / "c"
    process = begin(root, file, *SLOW)
    until(lambda: counted(file) >= moment, process)
    process.kill()
    finish(process)
    saved = counted(file)
    assert saved >= moment
    result = resumed(root, file)
    assert result["files"]["resumed"] == saved
    assert_counted(result, root)


def test_what_has_changed_since_is_counted_anew_in_place_of_what_it_was(tmp_path: Path) -> None:
    root, file = many_files(tmp_path / "root", FILES), tmp_path / "c"
    process = begin(root, file, *SLOW)
    until(lambda: counted(file) >= 20, process)
    process.send_signal(signal.SIGINT)
    finish(process)
    first, second = (entry[0] for entry in body(file)["counted"][:2])
    plant(root, {first: "quite another text\n", "part0/new.py": "def new(): ...\n"})
    (root / second).unlink()
    result = resumed(root, file)
    assert result["files"]["resumed"] == counted_before(result, FILES) - 2
    assert_counted(result, root)


def counted_before(result: dict[str, Any], files: int) -> int:
    """How many files the interrupted run had counted, by what the next one had left to do."""
    # One file was changed, one is new, one is gone.
    asked_for = result["files"]["counted"] - result["files"]["resumed"]
    return files - (asked_for - 2)


def test_a_finished_run_is_not_resumed(tmp_path: Path) -> None:
    root, file = many_files(tmp_path / "root", FILES), tmp_path / "c"
    assert resumed(root, file)["files"]["resumed"] == 0
    again = resumed(root, file)
    assert again["files"]["resumed"] == 0
    assert_counted(again, root)


def test_fresh_starts_anew(tmp_path: Path) -> None:
    root, file = many_files(tmp_path / "root", FILES), tmp_path / "c"
    process = begin(root, file, *SLOW)
    until(lambda: counted(file) > 0, process)
    process.send_signal(signal.SIGINT)
    finish(process)
    status, output, _ = demo(root, "--json", "--checkpoint", file, "--fresh")
    assert status == 0
    assert json.loads(output)["files"]["resumed"] == 0
    assert_counted(json.loads(output), root)


# ---------------------------------------------------------------- the deadline, and no more patience


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """Some files, and in the middle of them one that takes long."""
    return plant(many_files(tmp_path / "root", 20), {"part0/big.log": BIG})


def interrupt(root: Path, file: Path, *options: str) -> subprocess.Popen[str]:
    """A run that was interrupted while it reads the big file, and goes on with that."""
    process = begin(root, file, "--fault-rate", "0", "--every", "0.05", *options)
    until(lambda: counted(file) == 20, process)  # all others, so none is to be written soon
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("interrupted: finishing what is in hand")
    return process


def has_counted(file: Path, name: str) -> bool:
    return name in (entry[0] for entry in body(file)["counted"])


def test_what_is_in_hand_at_the_first_interrupt_is_finished(big: Path, tmp_path: Path) -> None:
    file = tmp_path / "c"
    status, output, errors = finish(interrupt(big, file))
    assert (status, errors) == (0, "")
    assert json.loads(output)["report"]["nodes"][0]["reason"] == "signal"
    assert has_counted(file, "part0/big.log")
    assert_counted(json.loads(output), big)


def test_a_second_interrupt_ends_at_once(big: Path, tmp_path: Path) -> None:
    file = tmp_path / "c"
    process = interrupt(big, file)
    process.send_signal(signal.SIGINT)
    status, output, errors = finish(process)
    if status == 70:  # it met a checkpoint on its way to the disk: nothing ends a thread, and the report says so
        assert "/pipeline/tally: handling Save" in errors, errors
        assert "to_thread_run_sync" in errors, errors
    else:
        assert status == 130, errors
        assert not json.loads(output)["finished"]
        assert json.loads(output)["report"]["nodes"][0]["elapsed"] < 1
    assert not has_counted(file, "part0/big.log")
    assert_counted(resumed(big, file), big)


def test_the_deadline_ends_what_takes_too_long(big: Path, tmp_path: Path) -> None:
    file = tmp_path / "c"
    process = interrupt(big, file, "--within", "0.3")
    status, output, errors = finish(process)
    assert status in (0, 130), errors
    result = json.loads(output)
    assert not result["finished"]
    assert result["report"]["nodes"][0]["elapsed"] < 1
    assert not has_counted(file, "part0/big.log")
    assert_counted(resumed(big, file), big)
