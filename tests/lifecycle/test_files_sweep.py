"""What an owner does with its directory on start: it has it alone, and removes what the dead have left."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from actors.testing import FailingFiles, FileCall, PowerCut
from lifecycle import (
    DirectoryInUse,
    LocalFiles,
    OpenFile,
    PersistFailed,
    SweptTemporaries,
    lock_directory,
    persist,
    sweep_temporaries,
)
from tests.conformance import ROOT

LAYER = LocalFiles()


def abandon(directory: Path, name: str = "meta") -> str:
    """Leaves what a process that dies before the rename leaves."""

    def interrupt(call: FileCall) -> None:
        raise OSError(errno.EIO, "gone")

    layer = FailingFiles(LAYER, 1, only={"rename"}, action=interrupt)
    before = set(os.listdir(directory))
    with pytest.raises(PersistFailed):
        persist(FailingFiles(layer, 1, only={"remove"}, times=None), directory / name, b"half")
    (left,) = set(os.listdir(directory)) - before
    return left


@pytest.mark.row("runtime:R119")
def test_stale_temporaries_are_swept_and_all_else_stays(tmp_path: Path) -> None:
    stale = {abandon(tmp_path), abandon(tmp_path), abandon(tmp_path, "x" * 200), abandon(tmp_path, "a\nb")}
    persist(LAYER, tmp_path / "meta", b"whole")
    others = [
        "meta.tmp",
        ".meta.tmp",
        ".meta.1-0123456789abcdef.tmp",
        ".meta.x-0123456789abcdef.tenure-tmp",
        "meta.1-0123456789abcdef.tenure-tmp",
        ".meta.1-0123456789abcde.tenure-tmp",
        ".meta.1-0123456789abcdef.tenure-tmp2",
    ]
    for name in others:
        (tmp_path / name).write_bytes(b"mine")
    directory, link = ".d.1-0123456789abcdef.tenure-tmp", ".l.1-0123456789abcdef.tenure-tmp"
    (tmp_path / directory).mkdir()
    (tmp_path / link).symlink_to(tmp_path / "meta")
    swept = sweep_temporaries(LAYER, tmp_path)
    assert set(swept.removed) == stale
    assert swept.kept == (directory, link)
    assert set(os.listdir(tmp_path)) == {"meta", directory, link, *others}
    assert (tmp_path / "meta").read_bytes() == b"whole"


@pytest.mark.row("runtime:R119")
@pytest.mark.parametrize("step", ["set_mode", "write", "sync", "rename"])
def test_a_temporary_file_of_a_living_writer_is_never_swept(tmp_path: Path, step: str) -> None:
    (tmp_path / "meta").write_bytes(b"old")
    swept: list[SweptTemporaries] = []

    def sweep(call: FileCall) -> None:
        swept.append(sweep_temporaries(LAYER, tmp_path))

    persist(FailingFiles(LAYER, 1, only={step}, action=sweep), tmp_path / "meta", b"new")
    ((kept,),) = (each.kept for each in swept)
    assert kept.startswith(".meta.")
    assert swept[0].removed == ()
    assert (tmp_path / "meta").read_bytes() == b"new"


def test_a_writer_whose_file_is_swept_before_it_is_locked_takes_another_one(tmp_path: Path) -> None:
    swept: list[SweptTemporaries] = []

    def sweep(call: FileCall) -> None:
        swept.append(sweep_temporaries(LAYER, tmp_path))

    layer = FailingFiles(LAYER, 1, only={"lock"}, action=sweep)
    counted = FailingFiles(layer, only={"create"})
    persist(counted, tmp_path / "meta", b"new")
    assert len(swept[0].removed) == 1
    assert len(counted.calls) == 2
    assert os.listdir(tmp_path) == ["meta"]


def test_a_writer_waits_for_no_sweep_that_has_its_file(tmp_path: Path) -> None:
    held: list[OpenFile] = []

    def hold(call: FileCall) -> None:
        held.append(LAYER.open(call.path, write=True))
        assert held[0].lock()

    persist(FailingFiles(LAYER, 1, only={"lock"}, action=hold), tmp_path / "meta", b"new")
    assert (tmp_path / "meta").read_bytes() == b"new"
    with held[0] as other:
        assert other.path.read_bytes() == b""
        other.path.unlink()
    always = FailingFiles(LAYER, 1, only={"lock"}, times=None, action=lambda call: call.path.unlink())
    with pytest.raises(PersistFailed) as caught:
        persist(always, tmp_path / "meta", b"newer")
    assert (caught.value.step, caught.value.committed) == ("create_temporary", "no")
    assert (tmp_path / "meta").read_bytes() == b"new"


def test_where_there_are_no_locks_nothing_is_swept(tmp_path: Path) -> None:
    left = abandon(tmp_path)
    layer = FailingFiles(LAYER, 1, errno=errno.ENOLCK, only={"lock"}, times=None)
    assert sweep_temporaries(layer, tmp_path) == SweptTemporaries((), (left,))
    assert sweep_temporaries(LAYER, tmp_path) == SweptTemporaries((left,), ())


@pytest.mark.row("runtime:R119")
def test_sweeps_and_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    stop = threading.Event()
    failures: list[Exception] = []

    def sweep() -> None:
        try:
            while not stop.is_set():
                sweep_temporaries(LAYER, tmp_path)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=sweep)
    thread.start()
    try:
        for number in range(100):
            persist(LAYER, tmp_path / "meta", b"%d" % number)
            assert (tmp_path / "meta").read_bytes() == b"%d" % number
    finally:
        stop.set()
        thread.join()
    assert failures == []
    assert os.listdir(tmp_path) == ["meta"]


def test_a_sweep_makes_the_directory_and_syncs_it_and_what_names_it(tmp_path: Path) -> None:
    layer = FailingFiles(LAYER, only={"sync_directory"})
    assert sweep_temporaries(layer, tmp_path / "new") == SweptTemporaries((), ())
    assert [call.path for call in layer.calls][-2:] == [tmp_path / "new", tmp_path]
    closed = FailingFiles(LAYER, 2, errno=errno.EACCES, only={"sync_directory"})
    sweep_temporaries(closed, tmp_path / "new")
    broken = FailingFiles(LAYER, 1, errno=errno.EIO, only={"sync_directory"})
    with pytest.raises(OSError, match="Input/output error"):
        sweep_temporaries(broken, tmp_path / "new")


# -- one owner


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    place = tmp_path / "slot"
    with lock_directory(LAYER, place) as lock:
        assert lock.directory == place
        with pytest.raises(DirectoryInUse) as caught:
            lock_directory(LAYER, place)
        assert (caught.value.directory, caught.value.holder) == (place, os.getpid())
        assert str(os.getpid()) in str(caught.value)
    lock.release()
    with lock_directory(LAYER, place):
        pass
    assert os.listdir(place) == [".tenure-lock"]


def test_another_name_of_the_directory_is_the_same_directory(tmp_path: Path) -> None:
    (tmp_path / "slot").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "slot")
    with lock_directory(LAYER, tmp_path / "link") as lock, pytest.raises(DirectoryInUse):
        assert lock.directory == tmp_path / "slot"
        lock_directory(LAYER, tmp_path / "slot")


def test_a_lock_whose_file_somebody_removes_is_not_given_out(tmp_path: Path) -> None:
    def remove(call: FileCall) -> None:
        call.path.unlink()

    with lock_directory(FailingFiles(LAYER, 1, only={"lock"}, action=remove), tmp_path), pytest.raises(DirectoryInUse):
        lock_directory(LAYER, tmp_path)
    with pytest.raises(DirectoryInUse) as caught:
        lock_directory(FailingFiles(LAYER, 1, only={"lock"}, times=None, action=remove), tmp_path)
    assert caught.value.holder is None


OWNER = """
import sys
from pathlib import Path
from lifecycle import LocalFiles, lock_directory
with lock_directory(LocalFiles(), Path(sys.argv[1])):
    print("owned", flush=True)
    sys.stdin.read()
"""


def test_another_process_is_kept_out_until_the_owner_dies(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "owned\n"
        with pytest.raises(DirectoryInUse) as caught:
            lock_directory(LAYER, tmp_path)
        assert caught.value.holder == owner.pid
        owner.kill()
        owner.wait()
        lock_directory(LAYER, tmp_path).release()


def test_a_power_cut_ends_every_lock() -> None:
    cut = PowerCut()
    place = Path("/data")
    lock_directory(cut.layer(), place)
    with pytest.raises(DirectoryInUse):
        lock_directory(cut.layer(), place)
    for state in cut.states():
        lock_directory(state.layer(), place)
    cut.kill()
    lock_directory(cut.layer(), place)
