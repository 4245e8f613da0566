"""The limits of blocking lanes: what may run at once, wait at once, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Literal

import attrs

from ._lane_errors import LaneSettingsInvalid

LaneName = Literal["storage_io", "metadata_io", "cpu"]
"""The lanes that all contexts of a runtime share."""

LANES: tuple[LaneName, ...] = ("storage_io", "metadata_io", "cpu")

LaneKind = Literal["short_io", "cpu_bound", "long_running"]
"""What a call says of itself. A label: it does not choose the lane. `long_running` is refused by every lane."""

LEAST_CAPACITY = 3
MOST_CAPACITY = 512
MOST_PARALLELISM = MOST_CAPACITY // 4
MOST_QUEUE = 1 << 20
MOST_SECONDS = 1e9
"""About thirty years: more than that is a mistake, and some clocks cannot hold it."""


@attrs.frozen
class LanePolicy:
    """The limits of one lane. Times are in seconds, and hold for calls that bring none of their own."""

    max_concurrency: int = 64
    """Closures that run at once, at most: the lane's ceiling. Those that nobody waits for any more are counted."""
    max_queue: int = 256
    """Calls that wait for a slot at once, at most; one more is refused with `LaneFull`."""
    queue_timeout: float = 5.0
    """How long a call waits for a slot."""
    task_timeout: float = 30.0
    """How long a caller waits for its closure once that has a slot. The closure itself cannot be ended."""
    warn_after: float = 1.0
    """A closure that returned, but took longer than this, is logged."""
    reserved: int = 1
    """Slots that other lanes cannot borrow while this one has calls waiting."""

    def mistakes(self, name: str = "policy") -> tuple[str, ...]:
        """Every rule that is broken, each a sentence that begins with `name` and the field; empty if it is valid."""
        return tuple(_policy_mistakes(name, self))


@attrs.frozen
class LaneSettings:
    """The limits of the lanes of one runtime. Constructing one checks nothing, `mistakes` names every mistake."""

    capacity: int = 64
    """Closures that run at once in all lanes together; 3 to 512."""
    storage_io: LanePolicy = LanePolicy()
    metadata_io: LanePolicy = LanePolicy()
    cpu: LanePolicy = LanePolicy()
    headroom: int | None = None
    """Threads beyond the capacity, for calls outside the lanes; None for an eighth of the capacity, at least 2."""
    dedicated_threads: int = 32
    """Threads of their own that may run at once, outside capacity and headroom; at least 0."""

    @staticmethod
    def for_parallelism(parallelism: int) -> LaneSettings:
        """The settings for a machine that runs `parallelism` threads at once; less than 1 counts as 1."""
        p = min(max(parallelism, 1), MOST_PARALLELISM)
        return LaneSettings(
            capacity=4 * p,
            storage_io=LanePolicy(max_concurrency=4 * p, max_queue=16 * p),
            metadata_io=LanePolicy(max_concurrency=2 * p, max_queue=8 * p),
            cpu=LanePolicy(max_concurrency=max(p, 2), max_queue=max(4 * p, 8)),
        )

    @staticmethod
    def uniform(policy: LanePolicy, capacity: int | None = None) -> LaneSettings:
        """The same policy for every lane; without a `capacity`, just enough for all lanes at their ceilings."""
        total = len(LANES) * policy.max_concurrency if capacity is None else capacity
        return LaneSettings(total, policy, policy, policy)

    @property
    def spare_threads(self) -> int:
        """The headroom, as a number."""
        return max(2, self.capacity // 8) if self.headroom is None else self.headroom

    @property
    def threads(self) -> int:
        """Threads in all: the capacity and the headroom beside it."""
        return self.capacity + self.spare_threads

    def policy(self, lane: LaneName) -> LanePolicy:
        """The policy of one lane."""
        policies: dict[LaneName, LanePolicy] = {
            "storage_io": self.storage_io,
            "metadata_io": self.metadata_io,
            "cpu": self.cpu,
        }
        return policies[lane]

    def mistakes(self) -> tuple[str, ...]:
        """Every rule that is broken, each a sentence that begins with the field; empty if the settings are valid."""
        return tuple(_settings_mistakes(self))

    def check(self) -> None:
        """Raise `LaneSettingsInvalid` with every mistake, if there is one."""
        refuse(self.mistakes())


def refuse(mistakes: tuple[str, ...]) -> None:
    """Raise `LaneSettingsInvalid` if there are any."""
    if mistakes:
        raise LaneSettingsInvalid(mistakes)


def _settings_mistakes(settings: LaneSettings) -> Iterator[str]:
    # The types are checked too: settings often come from a file. Hence `object`.
    capacity: object = settings.capacity
    if not _is_count(capacity, LEAST_CAPACITY, MOST_CAPACITY):
        yield f"capacity must be a whole number from {LEAST_CAPACITY} to {MOST_CAPACITY}"
    for name in LANES:
        policy = settings.policy(name)
        if not isinstance(policy, LanePolicy):  # pyright: ignore[reportUnnecessaryIsInstance]
            yield f"{name} must be a LanePolicy"
            continue
        yield from policy.mistakes(name)
        if _is_count(capacity) and _is_count(policy.max_concurrency) and policy.max_concurrency > settings.capacity:
            yield f"{name}.max_concurrency must not be above the capacity of all lanes"
    reserved: list[object] = [getattr(settings.policy(name), "reserved", None) for name in LANES]
    amounts = [amount for amount in reserved if isinstance(amount, int)]
    if _is_count(capacity) and sum(amounts) > settings.capacity:
        yield "the lanes together must not reserve more than the capacity"
    if settings.headroom is not None and not _is_count(settings.headroom):
        yield "headroom must be None or a whole number, at least 1"
    if not _is_count(settings.dedicated_threads, 0):
        yield "dedicated_threads must be a whole number, at least 0"


def _policy_mistakes(name: str, policy: LanePolicy) -> Iterator[str]:
    if not _is_count(policy.max_concurrency, 1, MOST_CAPACITY):
        yield f"{name}.max_concurrency must be a whole number from 1 to {MOST_CAPACITY}"
    if not _is_count(policy.max_queue, 1, MOST_QUEUE):
        yield f"{name}.max_queue must be a whole number from 1 to {MOST_QUEUE}"
    for field in ("queue_timeout", "task_timeout", "warn_after"):
        if not _is_time(getattr(policy, field)):
            yield f"{name}.{field} must be a finite number of seconds above 0"
    if not _is_count(policy.reserved, 0):
        yield f"{name}.reserved must be a whole number, at least 0"
    elif _is_count(policy.max_concurrency) and policy.reserved > policy.max_concurrency:
        yield f"{name}.reserved must not be above its max_concurrency"


def _is_count(value: object, least: int = 1, most: int = 1 << 62) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_time(value: object) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and isfinite(value)
        and 0 < value <= MOST_SECONDS
    )
