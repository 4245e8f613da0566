"""The file layer: the real one, and that the one in memory, on which the power is cut, is like it."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.testing import PowerCut
from lifecycle import FileLayer, LocalFiles

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileLayer, Path]:
    if request.param == "local":
        return LocalFiles(), tmp_path.resolve()
    return PowerCut(tmp_path).layer(), tmp_path


def test_a_log_is_appended_to_and_read_back(place: tuple[FileLayer, Path]) -> None:
    layer, directory = place
    path = directory / "log"
    with layer.create(path) as log:
        assert log.append(b"one") == 0
        assert log.append(memoryview(b"-two-")[1:4]) == 3
        log.write(bytearray(b"X"), 8)
        log.sync(data_only=True)
        assert log.read(100, 0) == b"onetwo\0\0X"
        assert log.read(2, 4) == b"wo"
        assert log.read(5, 9) == b""
        log.truncate(4)
        log.truncate(6)
        assert log.read(10, 0) == b"onet\0\0"
    assert layer.status(path) is not None
    with layer.open(path) as again:
        assert again.status().size == 6
        assert again.path == path


def test_room_is_taken_in_advance_and_never_given_back(place: tuple[FileLayer, Path]) -> None:
    layer, directory = place
    with layer.create(directory / "log") as log:
        log.write(b"head", 0)
        log.preallocate(8192)
        assert log.status().size == 8192
        log.preallocate(10)
        assert log.status().size == 8192
        log.write(b"body", 4)
        assert log.read(12, 0) == b"headbody\0\0\0\0"
        assert log.status().size == 8192


def test_preallocated_room_is_really_taken(tmp_path: Path) -> None:
    with LocalFiles().create(tmp_path / "log") as log:
        log.preallocate(65536)
        assert os.stat(tmp_path / "log").st_blocks * 512 >= 65536


def test_a_lock_keeps_out_others_until_it_is_closed(place: tuple[FileLayer, Path]) -> None:
    layer, directory = place
    path = directory / "lock"
    with layer.create(path) as first, layer.open(path, write=True) as second:
        assert first.lock()
        assert first.lock()
        assert not second.lock()
        first.close()
        first.close()
        assert second.lock()


def test_a_file_that_is_open_follows_its_new_name(place: tuple[FileLayer, Path]) -> None:
    layer, directory = place
    with layer.create(directory / "a") as file, layer.create(directory / "b") as other:
        identity = file.status().identity
        assert other.status().identity != identity
        layer.rename(directory / "a", directory / "b")
        file.append(b"more")
        other.append(b"gone")
        found = layer.status(directory / "b")
        assert found is not None
        assert found.identity == identity
        assert found.size == 4
        assert layer.names(directory) == ("b",)


def test_what_is_there_is_told_apart(tmp_path: Path) -> None:
    layer = LocalFiles()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_bytes(b"four")
    (tmp_path / "file").chmod(0o640)
    os.mkfifo(tmp_path / "pipe")
    found = {name: layer.status(tmp_path / name) for name in layer.names(tmp_path)}
    assert {name: each.kind for name, each in found.items() if each is not None} == {
        "link": "link",
        "file": "file",
        "pipe": "other",
    }
    file = found["file"]
    assert file is not None
    assert (file.size, file.mode, file.user, file.group) == (4, 0o640, os.getuid(), os.getgid())
    directory = layer.status(tmp_path)
    assert directory is not None
    assert directory.kind == "directory"
    assert layer.status(tmp_path / "absent") is None
    with pytest.raises(IsADirectoryError):
        layer.open(tmp_path)
    with pytest.raises(OSError, match="Invalid argument"):
        layer.open(tmp_path / "pipe")


def test_a_descriptor_is_not_inherited_by_programs(tmp_path: Path) -> None:
    with LocalFiles().create(tmp_path / "file"):
        (descriptor,) = {fd for fd in os.listdir("/proc/self/fd") if _is(fd, tmp_path / "file")}
        assert not os.get_inheritable(int(descriptor))


def _is(descriptor: str, path: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}") == str(path)
    except OSError:
        return False


# -- the one in memory is like the real one

NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a"])
STEP = st.one_of(
    st.tuples(st.just("create"), NAMES, st.binary(max_size=6)),
    st.tuples(st.just("write"), NAMES, st.tuples(st.binary(max_size=6), st.integers(0, 8))),
    st.tuples(st.just("truncate"), NAMES, st.integers(0, 9)),
    st.tuples(st.just("preallocate"), NAMES, st.integers(0, 9)),
    st.tuples(st.just("mode"), NAMES, st.sampled_from([0o600, 0o644, 0o400])),
    st.tuples(st.just("rename"), NAMES, NAMES),
    *(
        st.tuples(st.just(name), NAMES, st.none())
        for name in ("remove", "make_directory", "remove_directory", "sync_directory", "names", "status", "open")
    ),
)


@settings(max_examples=150)
@given(st.lists(STEP, max_size=20))
def test_files_in_memory_are_like_real_ones(steps: list[tuple[str, str, object]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        real, memory = LocalFiles(), PowerCut(root).layer()
        for step in steps:
            assert outcome(lambda step=step: carry_out(memory, root, *step)) == outcome(
                lambda step=step: carry_out(real, root, *step)
            ), step
        assert tree(memory, root) == tree(real, root)


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def carry_out(layer: FileLayer, root: Path, step: str, name: str, argument: object) -> object:
    path = root / name
    match step, argument:
        case "create", bytes(data):
            with layer.create(path) as file:
                return file.append(data), file.append(data), file.status().size
        case "write", (bytes(data), int(offset)):
            with layer.open(path, write=True) as file:
                file.write(data, offset)
                file.sync()
                return file.read(20, 1)
        case "truncate" | "preallocate", int(size):
            with layer.open(path, write=True) as file:
                getattr(file, step)(size)
                return file.status().size
        case "mode", int(mode):
            with layer.open(path) as file:
                return file.set_mode(mode)
        case "rename", str(other):
            return layer.rename(path, root / other)
        case "open", _:
            with layer.open(path) as file:
                return outcome(lambda: file.write(b"no", 0)), file.read(9, 0)
        case "status", _:
            found = layer.status(path)
            return found and (found.kind, found.size)
        case _:
            return getattr(layer, step)(path)


def tree(layer: FileLayer, place: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for name in layer.names(place):
        status = layer.status(place / name)
        assert status is not None
        if status.kind == "directory":
            found[name] = tree(layer, place / name)
        else:
            with layer.open(place / name) as file:
                found[name] = (file.read(100, 0), status.mode)
    return found


def test_the_modes_of_new_files_are_what_the_umask_leaves(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        LocalFiles().create(tmp_path / "file").close()
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
