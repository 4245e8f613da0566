"""Which of several members takes a message: the choice alone, over anything hashable."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from ._errors import InvalidRoute, NoMembers

if TYPE_CHECKING:
    import random

T = TypeVar("T")
M_contra = TypeVar("M_contra", contravariant=True)

Key: TypeAlias = str | bytes | int


class Route(Protocol[M_contra, T]):
    """Chooses one of the members for a message."""

    def pick(self, message: M_contra, members: tuple[T, ...], /) -> T:
        """One of the members. `NoMembers` if there are none."""
        ...


class RoundRobin(Generic[T]):
    """Each member in turn; while they stay the same, each gets as many messages as the others, but for one."""

    def __init__(self) -> None:
        self._next = 0

    def pick(self, _message: object, members: tuple[T, ...], /) -> T:
        if not members:
            raise NoMembers("round_robin")
        index = self._next % len(members)
        self._next = index + 1
        return members[index]


class LeastLoaded(Generic[T]):
    """The member with the smallest depth; those with equal depths take turns. Looks at each until one has depth 0."""

    def __init__(self, depth: Callable[[T], int]) -> None:
        self._depth = depth
        self._next = 0

    def pick(self, _message: object, members: tuple[T, ...], /) -> T:
        if not members:
            raise NoMembers("least_loaded")
        count = len(members)
        best = self._next % count
        least = self._depth(members[best])
        for step in range(1, count):
            if least <= 0:
                break
            index = (self._next + step) % count
            depth = self._depth(members[index])
            if depth < least:
                best, least = index, depth
        self._next = best + 1
        return members[best]


class RandomChoice(Generic[T]):
    """Each member with the same chance."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def pick(self, _message: object, members: tuple[T, ...], /) -> T:
        if not members:
            raise NoMembers("random_choice")
        return self._rng.choice(members)


class HashBy(Generic[M_contra, T]):
    """Messages with the same key go to the same member: rendezvous hashing by XXH3.

    A member that leaves moves its own keys only, spread over the others; one that joins takes its share from each. The
    choice depends on the key and on `identity(member)` alone, neither on the order of the members nor on the process.
    A key or an identity that is not str, bytes or int raises `InvalidRoute`. A pick costs a hash per member.
    """

    def __init__(self, key: Callable[[M_contra], Key], identity: Callable[[T], Key]) -> None:
        self._key = key
        self._identity = identity
        self._members: tuple[T, ...] = ()
        self._digests: list[bytes] = []
        self._score: Callable[[bytes], int]

    def pick(self, message: M_contra, members: tuple[T, ...], /) -> T:
        if not members:
            raise NoMembers("hash_by")
        if members is not self._members:
            self._meet(members)
        key = _as_bytes("the key of a message", self._key(message))
        # Equal scores are decided by the digest, so that the order of the members never matters.
        _, _, index = max((self._score(digest + key), digest, index) for index, digest in enumerate(self._digests))
        return members[index]

    def _meet(self, members: tuple[T, ...]) -> None:
        from xxhash import xxh3_64_digest, xxh3_64_intdigest  # on first use: not every system routes by key

        identities = [_as_bytes("the identity of a member", self._identity(member)) for member in members]
        self._digests = [xxh3_64_digest(identity) for identity in identities]
        self._members = members
        self._score = xxh3_64_intdigest


def _as_bytes(what: str, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, int):
        return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    raise InvalidRoute(f"{what} is str, bytes or int, not {type(value).__qualname__}: convert it in the function given")
