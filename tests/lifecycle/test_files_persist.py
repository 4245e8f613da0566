"""Replacing a file: whole or not at all, whatever fails, and what a failure says."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from typing import TYPE_CHECKING, Literal

import pytest

from actors.testing import FailingFiles, FileCall, FileOperation
from lifecycle import LocalFiles, PersistFailed, PersistStep, ensure_directory, persist, sweep_temporaries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LAYER = LocalFiles()
When = Literal["before", "torn", "after"]

# The calls of one replacement, in order, and the step that each is part of.
STEPS: list[tuple[FileOperation, PersistStep]] = [
    ("create", "create_temporary"),
    ("lock", "create_temporary"),
    ("set_mode", "create_temporary"),
    ("write", "write_temporary"),
    ("sync", "sync_temporary"),
    ("rename", "replace_target"),
    ("sync_directory", "sync_parent"),
]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- what is replaced, and what stays


def test_the_content_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "meta"
    for data in (b"one", bytearray(b"two"), memoryview(b"three")):
        persist(LAYER, target, data)
        assert target.read_bytes() == bytes(data)
        assert os.listdir(tmp_path) == ["meta"]


def test_a_target_keeps_its_mode_and_a_new_one_gets_what_was_asked_for(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        persist(LAYER, tmp_path / "plain", b"")
        persist(LAYER, tmp_path / "asked", b"", mode=0o664)
        (tmp_path / "kept").write_bytes(b"")
        (tmp_path / "kept").chmod(0o2645)
        persist(LAYER, tmp_path / "kept", b"new", mode=0o600)
    finally:
        os.umask(old)
    assert mode_of(tmp_path / "plain") == 0o600
    assert mode_of(tmp_path / "asked") == 0o664
    assert mode_of(tmp_path / "kept") == 0o2645
    assert (tmp_path / "kept").read_bytes() == b"new"


def test_nobody_reads_the_temporary_file_of_a_private_target(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"old")
    (tmp_path / "key").chmod(0o600)
    seen: list[int] = []

    def look(call: FileCall) -> None:
        seen.append(mode_of(call.path))

    for operation in ("lock", "set_mode", "write", "sync"):
        persist(FailingFiles(LAYER, 1, only={operation}, action=look), tmp_path / "key", b"new")
    assert seen == [0o600] * 4


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_a_target_keeps_its_owner(tmp_path: Path) -> None:
    target = tmp_path / "meta"
    target.write_bytes(b"old")
    os.chown(target, 12345, 54321)
    target.chmod(0o4755)
    persist(LAYER, target, b"new")
    assert (target.stat().st_uid, target.stat().st_gid, mode_of(target)) == (12345, 54321, 0o4755)


def test_without_the_right_to_give_files_away_the_content_counts(tmp_path: Path) -> None:
    target = tmp_path / "meta"
    target.write_bytes(b"old")
    if os.getuid() == 0:
        os.chown(target, 12345, 54321)
    persist(FailingFiles(LAYER, 1, errno=errno.EPERM, only={"set_owner"}), target, b"new")
    assert target.read_bytes() == b"new"


def test_what_a_link_leads_to_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "there").symlink_to("real/meta")
    (tmp_path / "chain").symlink_to(tmp_path / "there")
    persist(LAYER, tmp_path / "chain", b"first")  # it leads to nowhere as yet
    persist(LAYER, tmp_path / "there", b"second")
    assert (tmp_path / "real" / "meta").read_bytes() == b"second"
    assert (tmp_path / "there").is_symlink()
    assert (tmp_path / "chain").is_symlink()
    assert os.listdir(tmp_path / "real") == ["meta"]


@pytest.mark.parametrize(
    ("kind", "code"), [("directory", errno.EISDIR), ("pipe", errno.EINVAL), ("circle", errno.ELOOP)]
)
def test_what_is_no_file_is_refused_and_stays(tmp_path: Path, kind: str, code: int) -> None:
    target = tmp_path / "odd"
    match kind:
        case "directory":
            target.mkdir()
        case "pipe":
            os.mkfifo(target)
        case _:
            target.symlink_to(tmp_path / "round")
            (tmp_path / "round").symlink_to(target)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(PersistFailed) as caught:
        persist(LAYER, target, b"new")
    assert (caught.value.step, caught.value.committed) == ("resolve", "no")
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == code
    assert sorted(os.listdir(tmp_path)) == before


def test_a_very_long_name_leaves_room_for_the_temporary_one(tmp_path: Path) -> None:
    target = tmp_path / ("ü" * 127)
    persist(LAYER, target, b"long")
    assert target.read_bytes() == b"long"


# -- the protocol


def test_the_steps_come_in_their_order(tmp_path: Path) -> None:
    target = tmp_path / "meta"
    target.write_bytes(b"old")
    layer = FailingFiles(LAYER)
    persist(layer, target, b"new")
    assert [call.operation for call in layer.calls] == [operation for operation, _ in STEPS]
    temporary = layer.calls[0].path
    assert temporary.parent == tmp_path
    assert temporary.name.startswith(".meta.")
    assert {call.path for call in layer.calls[:5]} == {temporary}
    assert layer.calls[-1].path == tmp_path


def test_missing_directories_are_made_and_each_is_durable_before_the_next(tmp_path: Path) -> None:
    layer = FailingFiles(LAYER, only={"make_directory", "sync_directory", "create"})
    persist(layer, tmp_path / "a" / "b" / "meta", b"new")
    a, b = tmp_path / "a", tmp_path / "a" / "b"
    assert [(call.operation, call.path) for call in layer.calls if call.operation != "create"] == [
        ("sync_directory", tmp_path.parent),
        ("make_directory", a),
        ("sync_directory", tmp_path),
        ("make_directory", b),
        ("sync_directory", a),
        ("sync_directory", b),
    ]


def test_a_directory_that_could_not_be_made_durable_is_not_left_for_others_to_trust(tmp_path: Path) -> None:
    layer = FailingFiles(LAYER, 2, errno=errno.EIO, only={"sync_directory"})
    with pytest.raises(PersistFailed) as caught:
        persist(layer, tmp_path / "a" / "meta", b"new")
    assert (caught.value.step, caught.value.committed) == ("create_parent", "no")
    assert not (tmp_path / "a").exists()


def test_a_directory_that_somebody_else_makes_meanwhile_is_synced(tmp_path: Path) -> None:
    def overtake(call: FileCall) -> None:
        call.path.mkdir()

    layer = FailingFiles(LAYER, 1, only={"make_directory"}, action=overtake)
    ensure_directory(layer, tmp_path / "a")
    synced = FailingFiles(layer, only={"sync_directory"})
    ensure_directory(synced, tmp_path / "a")
    assert synced.calls == ()
    racing = FailingFiles(LAYER, 1, only={"make_directory"}, action=overtake)
    counted = FailingFiles(racing, only={"sync_directory"})
    ensure_directory(counted, tmp_path / "b")
    assert [call.path for call in counted.calls] == [tmp_path.parent, tmp_path]


# -- failures


@pytest.mark.row("runtime:R115")
@pytest.mark.parametrize("when", ["before", "torn", "after"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("number", range(1, len(STEPS) + 1))
def test_a_failure_of_any_call_says_whether_the_target_may_have_changed(
    tmp_path: Path, number: int, code: int, when: When
) -> None:
    target = tmp_path / "meta"
    target.write_bytes(b"old")
    operation, step = STEPS[number - 1]
    layer = FailingFiles(LAYER, number, errno=code, when=when)
    if operation == "lock":  # a file system without locks is no reason not to write
        persist(layer, target, b"new content")
        assert target.read_bytes() == b"new content"
        return
    with pytest.raises(PersistFailed) as caught:
        persist(layer, target, b"new content")
    error = caught.value
    renamed = operation == "sync_directory" or (operation == "rename" and when == "after")
    assert layer.calls[number - 1].operation == operation
    assert error.step == step
    assert error.committed == ("unknown" if renamed else "no")
    assert error.target == target
    assert error.disk_full is (code != errno.EIO)
    assert target.read_bytes() == (b"new content" if renamed else b"old")
    assert [name for name in os.listdir(tmp_path) if name != "meta"] == leftovers(operation, when, tmp_path)
    assert str(target) in str(error)
    assert step in str(error)
    assert "new content" not in str(error)


def leftovers(operation: FileOperation, when: When, place: Path) -> list[str]:
    """A file whose creation has been reported as a failure is known to nobody: it is for the next sweep."""
    if operation == "create" and when == "after":
        return list(sweep_temporaries(LAYER, place).removed)
    return []


@pytest.mark.row("runtime:R115")
@pytest.mark.parametrize("operation", ["write", "sync", "rename"])
def test_the_first_error_is_told_even_if_the_temporary_file_cannot_be_removed(
    tmp_path: Path, operation: FileOperation
) -> None:
    target = tmp_path / "meta"
    persist(LAYER, target, b"old")
    layer = FailingFiles(LAYER, 1, errno=errno.ENOSPC, only={operation})
    stuck = FailingFiles(layer, 1, errno=errno.EROFS, only={"remove"}, times=None)
    with pytest.raises(PersistFailed) as caught:
        persist(stuck, target, b"new")
    assert caught.value.committed == "no"
    assert caught.value.disk_full
    (temporary,) = (name for name in os.listdir(tmp_path) if name != "meta")
    assert sweep_temporaries(LAYER, tmp_path).removed == (temporary,)
    assert target.read_bytes() == b"old"


def test_a_rename_of_which_nothing_can_be_seen_is_not_called_undone(tmp_path: Path) -> None:
    persist(LAYER, tmp_path / "meta", b"old")
    counted = FailingFiles(LAYER, only={"status"})
    persist(counted, tmp_path / "meta", b"old")
    broken = FailingFiles(LAYER, 1, errno=errno.EIO, only={"rename"})
    blind = FailingFiles(broken, len(counted.calls) + 1, errno=errno.EIO, only={"status"}, times=None)
    with pytest.raises(PersistFailed) as caught:
        persist(blind, tmp_path / "meta", b"new")
    assert (caught.value.step, caught.value.committed) == ("replace_target", "unknown")


def test_a_temporary_file_of_which_nothing_can_be_seen_is_not_used(tmp_path: Path) -> None:
    for number in range(1, 5):
        layer = FailingFiles(LAYER, number, errno=errno.EIO, only={"status"})
        with pytest.raises(PersistFailed) as caught:
            persist(layer, tmp_path / "meta", b"new")
        assert caught.value.committed == "no"
        assert os.listdir(tmp_path) == []


def test_another_exception_leaves_no_temporary_file(tmp_path: Path) -> None:
    def interrupt(call: FileCall) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        persist(FailingFiles(LAYER, 1, only={"sync"}, action=interrupt), tmp_path / "meta", b"new")
    assert os.listdir(tmp_path) == []


@pytest.mark.row("runtime:R115")
def test_after_a_failure_the_next_write_starts_with_a_file_of_its_own(tmp_path: Path) -> None:
    """A second sync of a file whose first one failed may return with nothing written."""
    target = tmp_path / "meta"
    layer = FailingFiles(LAYER, 1, errno=errno.EIO, only={"sync"})
    with pytest.raises(PersistFailed):
        persist(layer, target, b"new")
    counted = FailingFiles(layer, only={"create", "write", "sync"})
    persist(counted, target, b"new")
    assert [call.operation for call in counted.calls] == ["create", "write", "sync"]
    assert target.read_bytes() == b"new"


# -- a disk that is really full


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if os.getuid() != 0 or mount is None or umount is None:
        pytest.skip("mounting a tmpfs needs root and mount")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=64k", "tenure-test", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run([umount, place], check=True)


def test_a_full_disk_keeps_the_old_content(tiny_disk: Path) -> None:
    target = tiny_disk / "meta"
    persist(LAYER, target, b"old" * 1000)
    with pytest.raises(PersistFailed) as caught:
        persist(LAYER, target, b"new" * 30000)
    assert (caught.value.step, caught.value.committed, caught.value.disk_full) == ("write_temporary", "no", True)
    assert target.read_bytes() == b"old" * 1000
    assert os.listdir(tiny_disk) == ["meta"]
    persist(LAYER, target, b"next" * 1000)
    assert target.read_bytes() == b"next" * 1000


def test_a_full_disk_refuses_room_in_advance(tiny_disk: Path) -> None:
    with LAYER.create(tiny_disk / "log") as log:
        log.preallocate(8192)
        with pytest.raises(OSError, match="No space left") as caught:
            log.preallocate(1 << 20)
    assert caught.value.errno == errno.ENOSPC
