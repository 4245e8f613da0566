"""Files that fail: at which call, how far it gets, and what it does instead."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from actors import InvalidSetting
from actors.testing import FailingFiles, FileCall, PowerCut
from lifecycle import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lifecycle import FileLayer


def everything(layer: FileLayer, place: Path) -> None:
    """Each call once, those that only look included."""
    layer.resolve(place)
    layer.make_directory(place / "d")
    with layer.create(place / "a") as file:
        file.lock()
        file.write(b"1234", 0)
        file.append(b"5678")
        file.truncate(6)
        file.preallocate(8)
        file.set_mode(0o600)
        status = file.status()
        file.set_owner(status.user, status.group)
        file.sync()
        assert file.path == place / "a"
    with layer.open(place / "a") as file:
        assert file.read(9, 0) == b"123456\0\0"
    layer.rename(place / "a", place / "b")
    assert layer.status(place / "a") is None
    layer.remove(place / "b")
    layer.remove_directory(place / "d")
    layer.sync_directory(place)
    assert layer.names(place) == ()


CHANGING = [
    "make_directory",
    "create",
    "lock",
    "write",
    "write",
    "truncate",
    "preallocate",
    "set_mode",
    "set_owner",
    "sync",
    "open",
    "rename",
    "remove",
    "remove_directory",
    "sync_directory",
]


def test_calls_are_counted_without_those_that_only_look(tmp_path: Path) -> None:
    layer = FailingFiles()
    everything(layer, tmp_path)
    assert [call.operation for call in layer.calls] == CHANGING
    assert [call.number for call in layer.calls] == list(range(1, len(CHANGING) + 1))
    assert layer.calls[11] == FileCall(12, "rename", tmp_path / "b")


def test_only_what_was_named_counts(tmp_path: Path) -> None:
    layer = FailingFiles(LocalFiles(), only={"status", "names", "read", "resolve"})
    everything(layer, tmp_path)
    assert [call.operation for call in layer.calls] == ["resolve", "status", "read", "status", "names"]


@pytest.mark.parametrize("number", range(1, len(CHANGING) + 1))
@pytest.mark.parametrize("when", ["before", "after"])
def test_any_call_fails_with_what_was_asked_for(tmp_path: Path, number: int, when: str) -> None:
    layer = FailingFiles(LocalFiles(), number, errno=errno.EIO, when="after" if when == "after" else "before")
    with pytest.raises(OSError, match="Input/output error") as caught:
        everything(layer, tmp_path)
    assert caught.value.errno == errno.EIO
    assert caught.value.filename == str(layer.calls[-1].path)
    assert len(layer.calls) == number
    assert layer.calls[-1].operation == CHANGING[number - 1]


@pytest.mark.parametrize(("when", "content"), [("before", b""), ("torn", b"12"), ("after", b"1234")])
def test_a_call_gets_as_far_as_it_was_told(tmp_path: Path, when: str, content: bytes) -> None:
    for append in (False, True):
        path = tmp_path / str(append)
        layer = FailingFiles(LocalFiles(), 2, when=when)  # type: ignore[arg-type]
        with layer.create(path) as file, pytest.raises(OSError, match="No space left"):
            _ = file.append(b"1234") if append else file.write(b"1234", 0)
        assert path.read_bytes() == content


def test_it_fails_as_often_as_it_was_told(tmp_path: Path) -> None:
    def fails(layer: FailingFiles) -> list[bool]:
        found: list[bool] = []
        for _ in range(5):
            try:
                layer.sync_directory(tmp_path)
            except OSError:
                found.append(True)
            else:
                found.append(False)
        return found

    assert fails(FailingFiles()) == [False] * 5
    assert fails(FailingFiles(None, 2)) == [False, True, False, False, False]
    assert fails(FailingFiles(None, 2, times=2)) == [False, True, True, False, False]
    assert fails(FailingFiles(None, 4, times=None)) == [False, False, False, True, True]


def test_an_action_is_done_instead_and_the_call_goes_on_if_it_returns(tmp_path: Path) -> None:
    seen: list[tuple[FileCall, bool]] = []

    def look(call: FileCall) -> None:
        seen.append((call, (tmp_path / "a").exists()))

    for when in ("before", "after"):
        with FailingFiles(None, 1, when=when, action=look).create(tmp_path / "a"):  # type: ignore[arg-type]
            pass
        (tmp_path / "a").unlink()
    call = FileCall(1, "create", tmp_path / "a")
    assert seen == [(call, False), (call, True)]


def test_over_a_power_cut_the_half_that_was_written_is_recorded(tmp_path: Path) -> None:
    cut = PowerCut(tmp_path)
    layer = FailingFiles(cut.layer(), 2, when="torn")
    with layer.create(tmp_path / "a") as file, pytest.raises(OSError, match="No space left"):
        file.write(b"1234", 0)
    assert b"12" in {state.files.get(tmp_path / "a") for state in cut.states()}
    assert "at=2, 2 calls" in repr(layer)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FailingFiles(None, 0),
        lambda: FailingFiles(None, 1, times=0),
        lambda: FailingFiles(None, 1, when="later"),  # type: ignore[arg-type]
    ],
)
def test_settings_are_checked(make: Callable[[], FailingFiles]) -> None:
    with pytest.raises(InvalidSetting):
        make()
