from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors._errors import InvalidRoute, NoMembers
from actors._routes import HashBy, Key, LeastLoaded, RandomChoice, RoundRobin, Route

MEMBERS = st.lists(st.text(max_size=5), min_size=1, max_size=8, unique=True).map(tuple)
KEYS = st.text(max_size=8) | st.binary(max_size=8) | st.integers()


def by_itself(value: Key) -> Key:
    return value


def hash_by_itself() -> HashBy[Key, str]:
    return HashBy(by_itself, str)


def test_without_members_there_is_no_choice() -> None:
    routes: list[Route[str, str]] = [
        RoundRobin(),
        LeastLoaded[str](len),
        RandomChoice(random.Random(0)),
        HashBy[str, str](str, str),
    ]
    for route in routes:
        with pytest.raises(NoMembers, match="has no members to route to"):
            route.pick("message", ())
        assert route.pick("message", ("only",)) == "only"


def test_round_robin_takes_each_in_turn() -> None:
    route = RoundRobin[str]()
    assert [route.pick(None, ("a", "b", "c")) for _ in range(7)] == ["a", "b", "c", "a", "b", "c", "a"]


@given(MEMBERS, st.integers(0, 40))
def test_round_robin_is_even(members: tuple[str, ...], picks: int) -> None:
    route = RoundRobin[str]()
    counts = Counter(route.pick(None, members) for _ in range(picks))
    shares = [counts[member] for member in members]
    assert max(shares) - min(shares) <= 1


@given(st.lists(MEMBERS, max_size=30))
def test_round_robin_lives_with_members_that_come_and_go(changes: list[tuple[str, ...]]) -> None:
    route = RoundRobin[str]()
    for members in changes:
        assert route.pick(None, members) in members


def test_least_loaded_takes_the_smallest_depth_and_rotates_ties() -> None:
    depths = {"a": 2, "b": 1, "c": 1, "d": 3}
    route = LeastLoaded[str](depths.__getitem__)
    assert [route.pick(None, tuple(depths)) for _ in range(4)] == ["b", "c", "b", "c"]
    depths["d"] = 0
    assert route.pick(None, tuple(depths)) == "d"


def test_least_loaded_looks_no_further_than_an_idle_member() -> None:
    looked: list[str] = []

    def depth(member: str) -> int:
        looked.append(member)
        return 0

    LeastLoaded[str](depth).pick(None, ("a", "b", "c"))
    assert looked == ["a"]


@given(MEMBERS, st.lists(st.integers(0, 5), min_size=8, max_size=8), st.integers(0, 8))
def test_least_loaded_never_takes_a_deeper_one(members: tuple[str, ...], depths: list[int], before: int) -> None:
    depth = dict(zip(members, depths, strict=False))
    route = LeastLoaded[str](depth.__getitem__)
    for _ in range(before):
        route.pick(None, members)
    assert depth[route.pick(None, members)] == min(depth.values())


@given(MEMBERS, st.integers(0, 40))
def test_least_loaded_is_even_when_it_fills_the_members_itself(members: tuple[str, ...], picks: int) -> None:
    depths = dict.fromkeys(members, 0)
    route = LeastLoaded[str](depths.__getitem__)
    for _ in range(picks):
        depths[route.pick(None, members)] += 1
    assert max(depths.values()) - min(depths.values()) <= 1


def test_random_choice_repeats_with_its_seed_and_reaches_everybody() -> None:
    members = ("a", "b", "c")
    routes = [RandomChoice[str](random.Random(5)) for _ in range(2)]
    runs = [[route.pick(None, members) for _ in range(60)] for route in routes]
    assert runs[0] == runs[1]
    assert set(runs[0]) == set(members)


@given(MEMBERS, st.lists(KEYS, max_size=20), st.randoms(use_true_random=False))
def test_hash_by_depends_on_key_and_identity_alone(
    members: tuple[str, ...], keys: list[Key], rng: random.Random
) -> None:
    shuffled = list(members)
    rng.shuffle(shuffled)
    route, other = hash_by_itself(), hash_by_itself()
    assert [route.pick(key, members) for key in keys] == [other.pick(key, tuple(shuffled)) for key in keys]


@given(MEMBERS.filter(lambda members: len(members) > 1), st.lists(KEYS, max_size=20), st.integers(0, 7))
def test_a_leaving_member_moves_only_its_own_keys(members: tuple[str, ...], keys: list[Key], index: int) -> None:
    gone = members[index % len(members)]
    left = tuple(member for member in members if member != gone)
    route = hash_by_itself()
    before = {key: route.pick(key, members) for key in keys}
    after = {key: route.pick(key, left) for key in keys}
    back = {key: route.pick(key, members) for key in keys}
    assert all(after[key] == member for key, member in before.items() if member != gone)
    assert back == before


def test_hash_by_spreads_the_keys_and_those_of_a_leaver() -> None:
    members = tuple(f"/pool/{number}" for number in range(8))
    route = hash_by_itself()
    before = {key: route.pick(key, members) for key in range(8000)}
    assert all(850 < share < 1150 for share in Counter(before.values()).values())
    moved = Counter(route.pick(key, members[1:]) for key, member in before.items() if member == members[0])
    assert len(moved) == 7
    assert all(90 < share < 200 for share in moved.values())


def test_hash_by_is_the_same_in_every_process() -> None:
    members = ("/pool/0", "/pool/1", "/pool/2")
    keys: list[Key] = ["alice", b"\xff\x00", 7, -1, 2**70, "", "\ud800"]
    assert [hash_by_itself().pick(key, members)[-1:] for key in keys] == ["2", "2", "2", "1", "1", "0", "0"]


@pytest.mark.parametrize("key", [None, 1.5, ("a",), bytearray(b"a")])
def test_a_key_of_another_type_is_refused(key: Any) -> None:
    with pytest.raises(InvalidRoute, match=f"the key of a message is str, bytes or int, not {type(key).__name__}"):
        hash_by_itself().pick(key, ("a",))


def test_an_identity_of_another_type_is_refused_and_leaves_the_route_as_it_was() -> None:
    route: HashBy[Key, Any] = HashBy(by_itself, by_itself)
    member = route.pick("key", ("a", "b"))
    with pytest.raises(InvalidRoute, match="the identity of a member"):
        route.pick("key", ("a", None))
    assert route.pick("key", ("a", "b")) == member


def test_xxhash_is_imported_on_first_use() -> None:
    code = "import sys, actors._routes as r; r.HashBy(str, str); sys.exit('xxhash' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
