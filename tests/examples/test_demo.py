"""`tenure demo` counts what is there, exactly, and says what it could not count."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.examples.programs import (
    LONGEST,
    assert_counted,
    counted,
    demo,
    finish,
    many_files,
    plant,
    start,
    until,
)

ODD = {
    "empty.txt": "",
    "no newline at the end.log": "one two",
    "only newlines.txt": "\n\n\n",
    "latin.py": "# Größe\ndef höhe(): pass\n".encode("latin-1"),
    "cut off.txt": "schön".encode()[:-2] + b"\nzwei\n",
    "wide.txt": "über allen Gipfeln ist Ruh\n" * 20_000,
    "binary.dat": b"word \0 word\n",
    "archive.py": b"\0\0\0",
    "windows.cfg": "[section]\r\nkey = value\r\n",
    "README": "no suffix at all\n",
    "Grösse ü.md": "umlauts in the name\n",
    "one long line.log": "level=info " * 40_000,
    "deep/er/down/async.py": "async def f():\n    async  def g(): ...\n\tdef h(): ...\n#def no\nxdef no\n",
    "UPPER.PY": "def f(): ...\n",
}


def test_the_totals_are_those_of_a_plain_count(tmp_path: Path) -> None:
    root = plant(many_files(tmp_path / "root"), ODD)
    status, output, errors = demo(root, "--json", "--checkpoint", tmp_path / "c", "--fault-rate", "0.2", "--seed", "3")
    assert (status, errors) == (0, "")
    result = json.loads(output)
    assert_counted(result, root)
    # At the end some are not started again.
    crashes, restarts = result["repairs"]["crashes"], sum(result["repairs"]["restarts"].values())
    assert 10 < crashes - 4 <= restarts <= crashes
    assert result["report"]["healthy"]


def test_a_plan_of_faults_is_the_same_each_time_and_another_by_another_seed(tmp_path: Path) -> None:
    root = many_files(tmp_path / "root")
    options = (root, "--json", "--checkpoint", tmp_path / "c", "--fault-rate", "0.2")
    crashes = [json.loads(demo(*options, "--seed", seed)[1])["repairs"]["crashes"] for seed in ("1", "1", "2")]
    assert crashes[0] == crashes[1] != crashes[2]


def test_people_get_a_table_and_the_shutdown_report(tmp_path: Path) -> None:
    root = many_files(tmp_path / "root")
    status, output, errors = demo(root, "--checkpoint", tmp_path / "c", "--fault-rate", "0")
    assert (status, errors) == (0, "")
    assert output.startswith(f"{root}: 120 files counted in ")
    assert re.search(r"^kind +files +bytes +lines +words +functions$", output, re.MULTILINE)
    assert re.search(r"^python +24 ", output, re.MULTILINE)
    assert "most frequent: " in output
    assert "crashes of workers: 0 (seed 1, 0% of all tries)" in output
    assert "\nshutdown of demo: healthy, completed in " in output
    assert re.search(r"tally +drained", output)


def test_a_part_of_the_files_can_be_asked_for(tmp_path: Path) -> None:
    root = many_files(tmp_path / "root")
    status, output, _ = demo(root, "--json", "--checkpoint", tmp_path / "c", "--limit", "7")
    assert status == 0
    assert json.loads(output)["files"]["counted"] == 7


def test_without_a_path_it_is_the_standard_library_at_a_pace_to_watch(tmp_path: Path) -> None:
    options = ("--json", "--checkpoint", tmp_path / "c", "--limit", "40", "--pace")
    seconds = []
    for pace in ("0", "1"):
        status, output, _ = demo(*options, pace)
        result = json.loads(output)
        assert status == 0
        assert result["path"] == sysconfig.get_path("stdlib")
        assert result["files"]["counted"] == 40
        seconds.append(result["seconds"])
    assert seconds[1] >= 1 > seconds[0]


def test_what_is_hidden_or_installed_is_left_out(tmp_path: Path) -> None:
    left_out = ["__pycache__/a.py", "site-packages/b.py", "node_modules/c.txt", ".git/d.txt"]
    root = plant(tmp_path / "root", dict.fromkeys(["a.txt", *left_out], "word\n"))
    _, output, _ = demo(root, "--json", "--checkpoint", tmp_path / "c")
    assert json.loads(output)["files"]["counted"] == 1


def test_without_a_checkpoint_file_it_is_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = plant(tmp_path / "root", {"a.txt": "word\n"})
    status, output, errors = demo(root, "--json")
    assert (status, errors) == (0, "")
    file = Path(json.loads(output)["checkpoint"])
    assert file.parent == tmp_path / "cache" / "tenure"
    assert counted(file) == 1


# ---------------------------------------------------------------- what cannot be counted


def test_a_block_that_always_crashes_its_worker_is_reported_and_the_next_run_tries_again(tmp_path: Path) -> None:
    root = plant(tmp_path / "root", {"a.txt": "word\n", "b.txt": "word\n"})
    options = (root, "--json", "--checkpoint", tmp_path / "c")
    status, output, _ = demo(*options, "--fault-rate", "1")
    result = json.loads(output)
    assert status == 1
    reason = "crashed its worker 5 times (PlannedFault: planned for try 5 at {!r} by seed 1)"
    assert result["files"]["failed"] == {name: reason.format(f"{name}:0") for name in ("a.txt", "b.txt")}
    assert result["repairs"]["crashes"] == 10
    status, output, _ = demo(*options, "--fault-rate", "0")
    assert status == 0
    assert_counted(json.loads(output), root)


def test_files_that_vanish_or_change_their_nature_during_the_run_are_reported(tmp_path: Path) -> None:
    root = many_files(tmp_path / "root", 60)
    file = tmp_path / "c"
    slow = ("--workers", "1", "--fault-rate", "0.3", "--every", "0.01")
    process = start("-m", "actors.cli", "demo", root, "--json", "--checkpoint", file, *slow)
    until(lambda: counted(file) > 0, process)
    # The last ones in the order in which they are read.
    (root / "part2" / "file059.json").unlink()
    (root / "part2" / "file056.log").unlink()
    (root / "part2" / "file056.log").mkdir()
    os.unlink(root / "part2" / "file053.rst")
    os.mkfifo(root / "part2" / "file053.rst")
    status, output, _ = finish(process)
    result = json.loads(output)
    assert status == 1
    assert result["files"]["failed"] == {
        "part2/file053.rst": "no longer a regular file",
        "part2/file056.log": "no longer a regular file",
        "part2/file059.json": "No such file or directory",
    }
    assert result["files"]["counted"] == 57
    assert result["report"]["healthy"]


def test_files_that_cannot_be_read_are_reported_to_people_too(tmp_path: Path) -> None:
    root = plant(tmp_path / "root", {"a.txt": "word\n"})
    (root / "dangling.txt").symlink_to("nowhere")
    (root / "broken\n\x1b[31m.txt").symlink_to("broken\n\x1b[31m.txt")
    status, output, _ = demo(root, "--checkpoint", tmp_path / "c")
    assert status == 1
    assert "NOT counted: 2\n" in output
    assert "  dangling.txt: No such file or directory" in output
    assert r"  broken\n\x1b[31m.txt: Too many levels of symbolic links" in output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_without_permission_are_reported(tmp_path: Path) -> None:
    root = plant(tmp_path / "root", {"a.txt": "word\n", "b.txt": "word\n", "c/d.txt": "word\n"})
    (root / "b.txt").chmod(0)
    (root / "c").chmod(0)
    try:
        status, output, _ = demo(root, "--json", "--checkpoint", tmp_path / "c")
    finally:
        (root / "c").chmod(0o700)
    assert status == 1
    assert json.loads(output)["files"]["failed"] == dict.fromkeys(("b.txt", "c"), "Permission denied")


def test_names_that_are_no_text_are_counted(tmp_path: Path) -> None:
    root = plant(tmp_path / "root", {os.fsdecode(b"caf\xe9.txt"): "word\n"})
    file = tmp_path / "c"
    for _ in range(2):
        status, output, errors = demo(root, "--json", "--checkpoint", file)
        assert (status, errors) == (0, "")
        assert json.loads(output)["kinds"]["text"]["files"] == 1


# ---------------------------------------------------------------- what cannot be run


def assert_refused(outcome: tuple[int, str, str], *words: str) -> None:
    status, output, errors = outcome
    assert (status, output) == (2, "")
    assert errors.startswith("tenure demo: ")
    assert errors.count("\n") == 1
    for word in words:
        assert word in errors


def test_a_path_that_does_not_exist_is_empty_or_a_file_is_refused(tmp_path: Path) -> None:
    give = "give a directory with text or log files"
    plant(tmp_path, {"file.txt": "word\n"})
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    checkpoint = ("--checkpoint", tmp_path / "c")
    assert_refused(demo(tmp_path / "missing", *checkpoint), "missing", "No such file or directory", give)
    assert_refused(demo(tmp_path / "empty", *checkpoint), "holds no files", give)
    assert_refused(demo(tmp_path / "file.txt", *checkpoint), "is no directory", give)
    assert not (tmp_path / "c").exists()


def test_a_checkpoint_that_cannot_be_written_is_said_before_anything_is_counted(tmp_path: Path) -> None:
    root = plant(tmp_path / "root", {"a.txt": "word\n"})
    outcome = demo(root, "--checkpoint", tmp_path / "missing" / "c")
    assert_refused(outcome, "cannot be written", "No such file or directory")


def test_a_checkpoint_that_can_no_longer_be_written_ends_the_run(tmp_path: Path) -> None:
    root = many_files(tmp_path / "root")
    place = tmp_path / "place"
    place.mkdir()
    slow = ("--workers", "1", "--fault-rate", "0.3", "--every", "0.01")
    process = start("-m", "actors.cli", "demo", root, "--checkpoint", place / "c", *slow)
    until(lambda: counted(place / "c") > 0, process)
    place.rename(tmp_path / "elsewhere")
    assert_refused(finish(process), "cannot be written", "No such file or directory", "--checkpoint")


# ---------------------------------------------------------------- the terminal


def read_all(terminal: int) -> str:
    shown = b""
    while True:
        try:
            more = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            return shown.decode()
        shown += more


def test_progress_is_shown_on_a_terminal_and_taken_away_at_the_end(tmp_path: Path) -> None:
    root = many_files(tmp_path / "root")
    terminal, theirs = pty.openpty()
    slow = ("--workers", "1", "--fault-rate", "0.2")
    process = start("-m", "actors.cli", "demo", root, "--checkpoint", tmp_path / "c", *slow, stderr=theirs)
    os.close(theirs)
    shown = read_all(terminal)
    os.close(terminal)
    status, output, _ = finish(process)
    assert status == 0
    assert "\x1b" not in output
    lines = shown.split("\r\x1b[K")
    form = re.compile(r"\[#*\.*\] ([\d,]+)/120 files, [\d,]+ lines, (\d+) crashes healed")
    files = [int(match[1]) for line in lines if (match := form.fullmatch(line))]
    assert len(files) > 1
    assert files == sorted(files)
    assert lines[-1] == ""


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    root = plant(tmp_path / "root", {"a.txt": "word\n"})
    process = start("-m", "actors.cli", "demo", root, "--checkpoint", tmp_path / "c", stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr as errors:
        assert errors.read() == ""
    assert process.wait(LONGEST) == 1


def test_a_terminal_that_cannot_show_every_sign_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    root = plant(tmp_path / "root", {"ü.txt": "größer\n"})
    status, output, errors = demo(root, "--checkpoint", tmp_path / "c", "--fault-rate", "0")
    assert (status, errors) == (0, "")
    assert "gr\\xf6\\xdfer 1" in output
