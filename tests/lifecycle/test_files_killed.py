"""A process that is killed at any step of a replacement, on a real file system.

The page cache outlives the process, so this proves less than the power cuts of `test_files_power_cut`; but it is the
real kernel, with real names, locks and signals.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lifecycle import LocalFiles, lock_directory, persist, read_envelope, seal_envelope, sweep_temporaries
from tests.conformance import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

LAYER = LocalFiles()

# Forks one child for each call that a replacement makes and each way to die in it: before it, after half of what it
# would write, after it. The child kills itself; a child that comes through ends the count.
PROGRAM = """
import json, os, signal, sys
from pathlib import Path
from actors.testing import FailingFiles
from lifecycle import LocalFiles, lock_directory, persist, read_envelope, seal_envelope

def kill(call):
    os.kill(os.getpid(), signal.SIGKILL)

def child(place, number, when):
    layer = FailingFiles(LocalFiles(), number, when=when, only=None, action=kill)
    owner = lock_directory(LocalFiles(), place)
    persist(layer, place / "sub" / "meta", seal_envelope(2, b"new" * 5000))
    return [call.operation for call in layer.calls]

root = Path(sys.argv[1])
for when in ("before", "torn", "after"):
    for fresh in (False, True):
        number = 0
        while True:
            number += 1
            place = root / f"{when}-{number}-{'fresh' if fresh else 'old'}"
            place.mkdir()
            if not fresh:
                persist(LocalFiles(), place / "sub" / "meta", seal_envelope(1, b"old" * 5000))
            pid = os.fork()
            if not pid:
                print(json.dumps(child(place, number, when)), flush=True)
                os._exit(0)
            _, status = os.waitpid(pid, 0)
            if not os.WIFSIGNALED(status):
                assert status == 0
                break
            assert os.WTERMSIG(status) == signal.SIGKILL
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[list[str]], list[Path]]:
    """What the calls of the children that came through were, and the directories of all."""
    root = tmp_path_factory.mktemp("killed")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(root)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], sorted(root.iterdir())


def files_in(place: Path) -> list[str]:
    return sorted(os.listdir(place)) if place.exists() else []


@pytest.mark.row("runtime:R119")
def test_a_kill_at_any_step_leaves_the_old_file_or_the_new_one(killed: tuple[list[list[str]], list[Path]]) -> None:
    calls, places = killed
    old = ["create", "lock", "set_mode", "write", "sync", "rename", "sync_directory"]
    fresh = [
        "sync_directory",
        "make_directory",
        "sync_directory",
        "create",
        "lock",
        "write",
        "sync",
        "rename",
        "sync_directory",
    ]
    assert calls == [old, fresh] * 3
    assert len(places) == 3 * (len(old) + 1 + len(fresh) + 1)
    kept, replaced, swept = 0, 0, 0
    for place in places:
        when, number, kind = place.name.split("-")
        steps = old if kind == "old" else fresh
        dead = "nothing" if int(number) > len(steps) else steps[int(number) - 1]
        target = place / "sub" / "meta"
        renamed = int(number) > steps.index("rename") + (1 if when != "after" else 0)
        if renamed:
            assert read_envelope(LAYER, target) == (2, b"new" * 5000), (place.name, dead)
            replaced += 1
        elif kind == "old":
            assert read_envelope(LAYER, target) == (1, b"old" * 5000), (place.name, dead)
            kept += 1
        else:
            assert not target.exists(), (place.name, dead)
        swept += start_again(place, renamed)
    assert kept
    assert replaced
    assert swept >= 12  # kills between the creation of a temporary file and its rename


def start_again(place: Path, renamed: bool) -> int:
    """As the next process does. Returns how many temporary files it has found."""
    left = [name for name in files_in(place / "sub") if name != "meta"]
    assert len(left) <= 1
    assert not (left and renamed)
    with lock_directory(LAYER, place):
        swept = sweep_temporaries(LAYER, place / "sub")
        assert swept.removed == tuple(left)
        assert swept.kept == ()
        persist(LAYER, place / "sub" / "meta", seal_envelope(3, b"next"))
    assert files_in(place / "sub") == ["meta"]
    assert read_envelope(LAYER, place / "sub" / "meta", settle=True) == (3, b"next")
    return len(left)


WRITER = """
import sys
from pathlib import Path
from lifecycle import LocalFiles, persist, seal_envelope
generation = int(sys.argv[2])
while True:
    generation += 1
    persist(LocalFiles(), Path(sys.argv[1]), seal_envelope(generation, b"%d " % generation * 3000))
    print(generation, flush=True)
"""


@pytest.mark.row("runtime:R119")
def test_a_kill_from_outside_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    target = tmp_path / "meta"
    generation = 0
    for lines in (1, 2, 7, 20):
        for acknowledged in acknowledgements(target, generation, lines):
            generation = acknowledged
        found = read_envelope(LAYER, target)
        assert generation <= found.generation <= generation + 1
        assert found.data == b"%d " % found.generation * 3000
        sweep_temporaries(LAYER, tmp_path)
        assert os.listdir(tmp_path) == ["meta"]
        generation = found.generation


def acknowledgements(target: Path, generation: int, lines: int) -> Iterator[int]:
    """What a writer acknowledges: it is killed after so many lines, or a little later."""
    command = [sys.executable, "-c", WRITER, str(target), str(generation)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(lines):
            yield int(writer.stdout.readline())
        writer.kill()
        for line in writer.stdout:
            yield int(line)
        assert writer.wait() == -signal.SIGKILL
