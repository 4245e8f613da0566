"""What a queue does when it is full."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import inf
from typing import Any, Literal

import attrs

from ._budget_errors import QueueInvalid


@attrs.frozen
class Wait:
    """`push` waits for room, first come, first served. Without `rate` it waits for capacity only, and an exhausted rate
    refuses at once."""

    rate: bool = True


@attrs.frozen
class Coalesce:
    """A newer item takes the place of the queued one with the same `key(item)`, whether the queue is full or not."""

    key: Callable[[Any], Hashable]


@attrs.frozen
class CoalesceLatest:
    """When the queue's own budget is full, a newer item takes the place of all that are queued."""


@attrs.frozen
class DropStale:
    """What has been queued for `age` seconds or longer is dropped; when full of fresh items, refuse."""

    age: float | None = None
    """None: the `max_age` of the queue's budget."""


@attrs.frozen
class CloseSlowConsumer:
    """When the queue's own budget is full, or its oldest item has been queued for `age` seconds, the queue drops all
    and closes."""

    age: float | None = None
    """None: the `max_age` of the queue's budget, if it has one; otherwise age does not matter."""


QueuePolicy = Literal["reject", "wait"] | Wait | Coalesce | CoalesceLatest | DropStale | CloseSlowConsumer
"""What a queue does when it is full."""


def coalesce(key: Callable[[Any], Hashable]) -> Coalesce:
    """The policy that keeps only the newest item of each `key(item)`, in the place of the oldest. A new key is refused
    when the queue is full. `key` must not raise."""
    return Coalesce(key)


def coalesce_latest() -> CoalesceLatest:
    """The policy that, when the queue's own budget is full, keeps only the newest item of all. If even that would not
    make room, it refuses and keeps what is queued."""
    return CoalesceLatest()


def drop_stale(age: float | None = None) -> DropStale:
    """The policy that drops what has been queued for `age` seconds (or the budget's `max_age`), on push, on receive and
    by `sweep()`."""
    return DropStale(age)


def close_slow_consumer(age: float | None = None) -> CloseSlowConsumer:
    """The policy that gives up a consumer which does not keep up: the queue drops all and closes. What is full above
    the queue's own budget, an exhausted rate, and an item that can never fit close nothing."""
    return CloseSlowConsumer(age)


POLICY_NAMES: dict[type[object], str] = {
    Wait: "wait",
    Coalesce: "coalesce",
    CoalesceLatest: "coalesce_latest",
    DropStale: "drop_stale",
    CloseSlowConsumer: "close_slow_consumer",
}


def policy_name(policy: QueuePolicy) -> str:
    """The policy as errors and snapshots name it."""
    return policy if isinstance(policy, str) else POLICY_NAMES[type(policy)]


def age_in_force(policy: DropStale | CloseSlowConsumer, path: str, most: float | None) -> float:
    """Seconds after which an item is stale; `most` is the `max_age` of the budget `path`."""
    age = policy.age
    if age is None:
        if most is None and isinstance(policy, DropStale):
            raise QueueInvalid(path, "drop_stale needs an age, here or as max_age of the budget")
        return inf if most is None else most
    if not 0 < age < inf:
        raise QueueInvalid(path, "an age must be a finite number of seconds above 0")
    if most is not None and age > most:
        raise QueueInvalid(path, "its age is above the max_age of the budget: lower it, or leave it out")
    return age
