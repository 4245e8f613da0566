"""Power cuts: that every state is found that a disk could leave, and none with a synced byte gone."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from actors import InvalidSetting
from actors.testing import CutState, PowerCut, PowerCutFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lifecycle import FileLayer, OpenFile

DATA = Path("/data")
A, B = DATA / "a", DATA / "b"


def durable(layer: FileLayer, path: Path, content: bytes) -> OpenFile:
    file = layer.create(path)
    file.write(content, 0)
    file.sync()
    layer.sync_directory(path.parent)
    return file


def contents(cut: PowerCut, path: Path = A) -> set[bytes | None]:
    states = cut.states()
    assert states.exhaustive
    return {state.files.get(path) for state in states}


def after(cut: PowerCut, path: Path = A) -> set[bytes | None]:
    """What may be found from here on: what may be found by now if this moment is promised."""
    return {state.files.get(path) for state in from_here(cut)}


def from_here(cut: PowerCut) -> list[CutState]:
    """The states from here on."""
    cut.begin("here")
    states = list(cut.states(limit=100_000))
    moment = max(len(state.begun) for state in states)
    return [state for state in states if len(state.begun) == moment]


# -- one file


def test_nothing_is_there_for_certain_before_it_is_synced() -> None:
    cut = PowerCut()
    with cut.layer().create(A) as file:
        file.write(b"ab", 0)
        assert contents(cut) == {None, b"", b"\0\0", b"ab", b"a\0"}
        file.sync()
        assert after(cut) == {None, b"ab"}
        cut.layer().sync_directory(DATA)
        assert after(cut) == {b"ab"}


def test_each_block_is_as_it_was_or_as_a_write_has_made_it() -> None:
    cut = PowerCut(block=2)
    file = durable(cut.layer(), A, b"..--..")
    file.write(b"12", 0)
    file.write(b"34", 2)
    file.write(b"56", 2)
    found = after(cut)
    whole = {first + second + b".." for first in (b"..", b"12") for second in (b"--", b"34", b"56")}
    torn = {b"1.--..", b"1.34..", b"1.56..", b"..3-..", b"123-..", b"..54..", b"1254.."}
    assert found == whole | torn


def test_a_size_comes_without_its_data_and_the_data_without_its_size() -> None:
    cut = PowerCut(block=4)
    file = durable(cut.layer(), A, b"head")
    file.append(b"tail")
    assert after(cut) == {b"head", b"headtail", b"head\0\0\0\0", b"headt\0\0\0", b"headta\0\0", b"headtai\0"}


def test_a_truncation_may_be_lost_and_a_longer_file_may_be_short() -> None:
    cut = PowerCut(block=4)
    file = durable(cut.layer(), A, b"12345678")
    file.truncate(4)
    assert after(cut) >= {b"12345678", b"1234", b"1234\0\0\0\0"}
    file.sync()
    file.preallocate(8)
    assert after(cut) == {b"1234", b"1234\0\0\0\0"}
    file.write(b"56", 4)
    file.sync(data_only=True)
    assert after(cut) == {b"123456\0\0"}


def test_a_mode_needs_a_whole_sync() -> None:
    cut = PowerCut()
    file = durable(cut.layer(), A, b"")
    file.set_mode(0o600)
    file.sync(data_only=True)

    def modes() -> set[int]:
        found = [state.layer().status(A) for state in from_here(cut)]
        return {each.mode for each in found if each is not None}

    assert modes() == {0o600, 0o644}
    file.sync()
    assert modes() == {0o600}
    (state,) = from_here(cut)
    assert {state.layer().status(A) for state in PowerCut(start=state).states()} == {state.layer().status(A)}


# -- names


def test_names_change_in_any_order_until_the_directory_is_synced() -> None:
    cut = PowerCut()
    layer = cut.layer()
    durable(layer, A, b"a").close()
    layer.rename(A, B)
    layer.create(A).close()
    layer.make_directory(DATA / "d")
    states = from_here(cut)
    assert {tuple(sorted(state.files.items())) for state in states} == {
        ((A, b""), (B, b"a")),
        ((A, b""),),  # the rename is lost, and the new file came in the place of the old one
        ((B, b"a"),),
        ((A, b"a"),),
    }
    assert len({state.layer().names(DATA) for state in states}) == 6
    layer.sync_directory(DATA)
    assert [state.layer().names(DATA) for state in from_here(cut)] == [("a", "b", "d")]


def test_a_rename_between_directories_needs_both() -> None:
    cut = PowerCut()
    layer = cut.layer()
    layer.make_directory(DATA / "d")
    durable(layer, A, b"a").close()
    other = DATA / "d" / "a"
    layer.rename(A, other)
    layer.sync_directory(DATA / "d")
    cut.begin("one")
    layer.sync_directory(DATA)
    cut.begin("both")
    places = {len(state.begun): set[tuple[Path, ...]]() for state in cut.states()}
    for state in cut.states():
        places[len(state.begun)].add(tuple(state.files))
    assert places[1] == {(A,), (other,)}
    assert places[2] == {(other,)}


def test_what_a_lost_directory_held_is_lost_with_it() -> None:
    cut = PowerCut()
    cut.layer().make_directory(DATA / "d")
    durable(cut.layer(), DATA / "d" / "a", b"a").close()
    assert after(cut, DATA / "d" / "a") == {None, b"a"}
    cut.layer().sync_directory(DATA)
    assert after(cut, DATA / "d" / "a") == {b"a"}


# -- every state, against a disk that writes back at random

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from("ab"), st.none(), st.none()),
        st.tuples(st.just("write"), st.sampled_from("ab"), st.binary(min_size=1, max_size=3), st.integers(0, 4)),
        st.tuples(st.just("truncate"), st.sampled_from("ab"), st.none(), st.integers(0, 5)),
        st.tuples(st.just("rename"), st.sampled_from("ab"), st.none(), st.none()),
        st.tuples(st.just("remove"), st.sampled_from("ab"), st.none(), st.none()),
        st.tuples(st.just("sync"), st.sampled_from("ab"), st.none(), st.none()),
        st.tuples(st.just("sync_directory"), st.just(""), st.none(), st.none()),
    ),
    max_size=8,
)


class LazyDisk:
    """A disk behind the layer's files, which takes blocks, sizes and names when it likes, or when it must."""

    BLOCK = 2

    def __init__(self, cut: PowerCut, dice: random.Random) -> None:
        self.layer = cut.layer()
        self.dice = dice
        self.open: dict[tuple[int, int], OpenFile] = {}
        self.blocks: dict[tuple[int, int], dict[int, bytes]] = {}
        self.sizes: dict[tuple[int, int], int] = {}
        self.names: dict[str, tuple[int, int]] = {}
        self.changes: list[tuple[tuple[int, int], str | None]] = []

    def file(self, name: str) -> tuple[int, int]:
        found = self.layer.status(DATA / name)
        if found is None:
            raise FileNotFoundError
        return found.identity

    def step(self, step: str, name: str, data: bytes | None, number: int | None) -> None:
        path = DATA / name
        match step:
            case "create":
                file = self.layer.create(path)
                identity = file.status().identity
                self.open[identity], self.blocks[identity], self.sizes[identity] = file, {}, 0
                self.changes.append((identity, name))
            case "rename":
                self.changes.append((self.file(name), "b" if name == "a" else "a"))
                self.layer.rename(path, B if path == A else A)
            case "remove":
                self.changes.append((self.file(name), None))
                self.layer.remove(path)
            case "sync_directory":
                self.layer.sync_directory(DATA)
                while self.changes:
                    self.take_name(0)
            case _:
                identity = self.file(name)
                file = self.open[identity]
                if step == "write":
                    file.write(data or b"", number or 0)
                elif step == "truncate":
                    file.truncate(number or 0)
                else:
                    file.sync()
                    self.take_size(identity)
                    for block in range(5):
                        self.take_block(identity, block)

    def take_name(self, place: int) -> None:
        identity, name = self.changes.pop(place)
        self.names = {other: node for other, node in self.names.items() if node != identity}
        if name is not None:
            self.names[name] = identity

    def take_size(self, identity: tuple[int, int]) -> None:
        self.sizes[identity] = self.open[identity].status().size

    def take_block(self, identity: tuple[int, int], block: int) -> None:
        version = self.open[identity].read(self.BLOCK, block * self.BLOCK)
        self.blocks[identity][block] = version.ljust(self.BLOCK, b"\0")

    def idle(self) -> None:
        """Between two calls it takes what it likes; names of one file in their order."""
        for identity in self.open:
            if self.dice.random() < 0.3:
                self.take_size(identity)
            for block in range(5):
                if self.dice.random() < 0.3:
                    self.take_block(identity, block)
        for place in reversed(range(len(self.changes))):
            first = all(other[0] != self.changes[place][0] for other in self.changes[:place])
            if first and not self.same_name_before(place) and self.dice.random() < 0.3:
                self.take_name(place)

    def same_name_before(self, place: int) -> bool:
        name = self.changes[place][1]
        return name is not None and any(other[1] == name for other in self.changes[:place])

    def found(self) -> Mapping[Path, bytes]:
        """After the power cut."""
        files: dict[Path, bytes] = {}
        for name, identity in self.names.items():
            blocks = [self.blocks[identity].get(block, b"\0\0") for block in range(5)]
            files[DATA / name] = b"".join(blocks)[: self.sizes[identity]]
        return files


@settings(max_examples=200)
@given(STEPS, st.integers(0, 2**32))
def test_whatever_a_lazy_disk_leaves_is_among_the_states(
    steps: list[tuple[str, str, bytes | None, int | None]], seed: int
) -> None:
    cut = PowerCut(block=LazyDisk.BLOCK)
    disk = LazyDisk(cut, random.Random(seed))
    for step in steps:
        try:
            disk.step(*step)
        except OSError:
            continue
        disk.idle()
    states = cut.states(limit=30_000)
    assume(states.exhaustive)
    assert disk.found() in [state.files for state in states]


# -- many states


def test_too_many_states_are_sampled_by_seed_and_it_says_so() -> None:
    cut = PowerCut(block=2)
    file = durable(cut.layer(), A, bytes(80))
    for number in range(1, 40):
        file.write(b"%02d" % number, number * 2)
    cut.begin("done")
    few = cut.states(seed=1, limit=200)
    assert not few.exhaustive
    assert few.total > 2**39
    assert "seed 1" in repr(few)
    chosen = [(state.number, state.files) for state in few]
    assert chosen == [(state.number, state.files) for state in few]
    assert chosen == [(state.number, state.files) for state in cut.states(seed=1, limit=200)]
    assert chosen != [(state.number, state.files) for state in cut.states(seed=2, limit=200)]
    assert 100 < len(chosen) <= 200
    report = cut.check(lambda layer: None, seed=1, limit=200)
    assert not report.exhaustive
    assert str(report) == f"{report.states} of at most {report.total} states after a power cut, chosen by seed 1"


def test_sampled_states_are_states_and_the_edges_are_among_them() -> None:
    cut = PowerCut(block=2)
    layer = cut.layer()
    file = durable(layer, A, b"......")
    file.write(b"123456", 0)
    layer.rename(A, B)
    layer.create(A).close()
    every = {tuple(sorted(state.files.items())) for state in cut.states(limit=100_000)}
    assert cut.states(limit=100_000).exhaustive
    for seed in range(20):
        some = {tuple(sorted(state.files.items())) for state in cut.states(seed=seed, limit=20)}
        assert some <= every
        assert ((A, b""), (B, b"123456")) in some
        assert ((A, b"......"),) in some


def test_names_in_doubt_are_counted_when_there_are_many() -> None:
    cut = PowerCut()
    for number in range(30):
        cut.layer().create(DATA / str(number)).close()
    states = cut.states(limit=300)
    assert states.total == 2**30
    assert not states.exhaustive
    found = [len(state.files) for state in states]
    assert min(found) == 0
    assert max(found) == 30
    assert len({state.layer().names(DATA) for state in states}) > 100


def test_a_limit_below_the_number_of_moments_still_looks_at_the_last() -> None:
    cut = PowerCut()
    file = durable(cut.layer(), A, b"")
    for number in range(50):
        file.append(b"x")
        file.sync()
        cut.begin(number)
    states = list(cut.states(limit=5))
    assert 0 < len(states) <= 5
    assert states[-1].begun[-1] == 49


# -- what was promised


def test_a_state_knows_what_was_begun_and_acknowledged() -> None:
    cut = PowerCut()
    assert [(state.begun, state.acknowledged, state.possible) for state in cut.states()] == [((), (), (None,))]
    cut.begin(1)
    cut.begin(2)
    cut.acknowledge(2)
    cut.acknowledge(3)
    states = list(cut.states())
    assert [state.begun for state in states] == [(), (1,), (1, 2), (1, 2), (1, 2, 3), (1, 2, 3)]
    assert [state.acknowledged for state in states] == [(), (), (), (2,), (2,), (2, 3)]
    assert [state.possible for state in states] == [(None,), (None, 1), (None, 1, 2), (2,), (2, 3), (3,)]


def test_a_state_says_what_was_lost_and_when() -> None:
    cut = PowerCut()
    file = durable(cut.layer(), A, b"old")
    file.write(b"new", 0)
    cut.layer().rename(A, B)
    cut.begin("here")
    with pytest.raises(PowerCutFailed) as caught:
        cut.check(lambda layer: layer.names(DATA), lambda state, names: not state.begun or state.files.get(A) != b"old")
    text = str(caught.value)
    assert "recovery found ('a',), which breaks the rule" in text
    assert "the power is cut after call 6, rename /data/a to /data/b" in text
    assert "lost: rename /data/a to /data/b" in text
    assert "lost: part of what was done to /data/a" in text


def test_a_recovery_that_raises_fails_the_check_with_its_cause() -> None:
    cut = PowerCut()
    cut.layer().create(A).close()

    def recover(layer: FileLayer) -> None:
        layer.open(A)

    with pytest.raises(PowerCutFailed, match="recovery raised FileNotFoundError") as caught:
        cut.check(recover)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


@pytest.mark.parametrize(
    ("found", "right"),
    [([], False), ([1], True), ((1, 2), True), ([1, 2, 3], True), ([1, 3], False), ([2], False), (1, False)],
)
def test_a_log_holds_all_that_was_acknowledged_in_order(found: object, right: bool) -> None:
    cut = PowerCut()
    for value in (1, 2, 3):
        cut.begin(value)
    cut.acknowledge(1)
    # Without files there is one state for each moment, and the last is that after the acknowledgement.
    answers = iter([[], [], [1], [1, 2], found])
    if right:
        assert cut.check(lambda layer: next(answers), "log").states == 5
    else:
        with pytest.raises(PowerCutFailed, match=r"with \(1,\) acknowledged"):
            cut.check(lambda layer: next(answers), "log")


def test_recovery_must_find_the_same_again() -> None:
    cut = PowerCut()
    durable(cut.layer(), A, b"").close()

    def counting(layer: FileLayer) -> int:
        with layer.open(A, write=True) as file:
            return file.append(b"x")

    with pytest.raises(PowerCutFailed, match="had found 0 before the second cut"):
        cut.check(counting, lambda state, found: True, again=100)


# -- the rest


def test_a_state_is_written_to_a_real_directory(tmp_path: Path) -> None:
    cut = PowerCut()
    cut.layer().make_directory(DATA / "d")
    with cut.layer().create(DATA / "d" / "a", 0o640) as file:
        file.write(b"content", 0)
    *_, last = (state for state in cut.states() if not state.lost)
    last.write_to(tmp_path)
    place = tmp_path / "data" / "d" / "a"
    assert place.read_bytes() == b"content"
    assert place.stat().st_mode & 0o777 == 0o640


def test_a_kill_closes_what_was_open_and_keeps_what_was_written() -> None:
    cut = PowerCut()
    file = cut.layer().create(A)
    assert file.lock()
    file.write(b"kept", 0)
    cut.kill()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write(b"more", 4)
    with cut.layer().open(A) as again:
        assert again.lock()
        assert again.read(9, 0) == b"kept"
    file.close()
    assert None in contents(cut)


def test_recovery_in_one_state_does_not_change_another() -> None:
    cut = PowerCut()
    durable(cut.layer(), A, b"a").close()
    (state,) = from_here(cut)
    state.layer().remove(A)
    assert state.layer().names(DATA) == ("a",)
    assert state.files == {A: b"a"}


def test_threads_may_share_the_layer() -> None:
    cut = PowerCut()

    def write(name: str) -> None:
        for number in range(50):
            with cut.layer().create(DATA / f"{name}{number}") as file:
                file.append(b"x")
                file.sync()

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cut.layer().sync_directory(DATA)
    cut.begin("all")
    (last,) = (state for state in cut.states(limit=500) if state.begun)
    assert len(last.files) == 200


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidSetting):
        PowerCut(block=0)
    with pytest.raises(InvalidSetting):
        PowerCut().states(limit=0)
