"""What a supervisor does when a child ends: the decision alone, as a plain object that is told the time.

The supervisor that carries the decisions out is elsewhere. Times are in seconds, on one clock that never goes back.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import attrs

from ._backoff import Backoff, is_number
from ._errors import ChildEnded, InvalidIntensity, InvalidStrategy

if TYPE_CHECKING:
    import random

Directive: TypeAlias = Literal["restart", "stop", "escalate", "resume"]
RestartKind: TypeAlias = Literal["permanent", "transient", "temporary"]
StrategyKind: TypeAlias = Literal["one_for_one", "one_for_all", "rest_for_one"]

BY_SEVERITY: tuple[Directive, ...] = ("resume", "restart", "stop", "escalate")


@attrs.frozen
class Strategy:
    """Which children a failure restarts, how often that may happen, and how long to wait; see `one_for_one`.

    Raises `InvalidIntensity` for `max_restarts` and `within`, `InvalidStrategy` for the rest.
    """

    kind: StrategyKind
    max_restarts: int = 3
    within: float = 5.0
    backoff: Backoff | None = None
    on: Mapping[type[Exception], Directive] = attrs.field(factory=dict[type[Exception], Directive], hash=False)

    def __attrs_post_init__(self) -> None:
        _check_intensity(self.max_restarts, self.within)
        _check_choices(self.kind, self.backoff, self.on)
        # A copy, so that the strategy cannot change under the supervisors that share it.
        object.__setattr__(self, "on", MappingProxyType(dict(self.on)))

    def directive(self, failure: Exception) -> Directive:
        """The choice for a failure: that of its most specific class in `on`, "restart" if none is there.

        An exception group whose own class is not in `on` gets the most severe choice among its members:
        escalate, stop, restart, resume.
        """
        severity = 0
        rest: list[BaseException] = [failure]
        while rest:
            exc = rest.pop()
            is_group = isinstance(exc, BaseExceptionGroup)
            choice = self._choice(type(exc), BaseExceptionGroup if is_group else BaseException)
            if choice is None and is_group:
                rest.extend(cast("BaseExceptionGroup[BaseException]", exc).exceptions)
            else:
                severity = max(severity, BY_SEVERITY.index(choice or "restart"))
        return BY_SEVERITY[severity]

    def _choice(self, cls: type[BaseException], within: type[BaseException]) -> Directive | None:
        classes = cast("Mapping[type[object], Directive]", self.on)
        return next((classes[c] for c in cls.__mro__ if c in classes and issubclass(c, within)), None)


def one_for_one(
    max_restarts: int = 3,
    within: float = 5.0,
    backoff: Backoff | None = None,
    on: Mapping[type[Exception], Directive] | None = None,
) -> Strategy:
    """Only the child that failed is restarted.

    A supervisor gives up at the failure that would need more than `max_restarts` restarts within any `within` seconds
    (0: it never restarts). `backoff` delays restarts; `on` chooses by exception type: the most specific class wins.
    """
    return Strategy("one_for_one", max_restarts, within, backoff, on or {})


def one_for_all(
    max_restarts: int = 3,
    within: float = 5.0,
    backoff: Backoff | None = None,
    on: Mapping[type[Exception], Directive] | None = None,
) -> Strategy:
    """All children are restarted together: the others are stopped first. See `one_for_one` for the options."""
    return Strategy("one_for_all", max_restarts, within, backoff, on or {})


def rest_for_one(
    max_restarts: int = 3,
    within: float = 5.0,
    backoff: Backoff | None = None,
    on: Mapping[type[Exception], Directive] | None = None,
) -> Strategy:
    """The child and those started after it are restarted. See `one_for_one` for the options."""
    return Strategy("rest_for_one", max_restarts, within, backoff, on or {})


@attrs.frozen
class Restart:
    """Stop `halt` in its order, wait `delay` seconds, start `start` in its order.

    A child in `halt` may not be running at the time, and one that is not in `start` (it is temporary) is gone.
    """

    halt: tuple[str, ...]
    start: tuple[str, ...]
    delay: float


@attrs.frozen
class Resume:
    """The child goes on with its state and its next message."""

    key: str


@attrs.frozen
class Forget:
    """The child is gone; the supervisor and its other children go on."""

    key: str


@attrs.frozen
class Escalate:
    """The supervisor fails with the cause."""

    cause: Exception


@attrs.frozen
class GiveUp:
    """The supervisor fails: too many restarts. The causes in the window, oldest first, at least one."""

    causes: tuple[Exception, ...]


Decision: TypeAlias = Restart | Resume | Forget | Escalate | GiveUp


@attrs.define(eq=False)
class _Streak:
    """Restarts in a row. `since` is the start of the life now running, None while there is none."""

    attempts: int = 0
    last_delay: float = 0.0
    since: float | None = None

    def end_life(self, now: float, within: float) -> None:
        if self.since is not None and now - self.since > max(within, self.last_delay):
            self.attempts = 0
        self.since = None


@attrs.define(eq=False)
class _Child:
    restart: RestartKind
    streak: _Streak
    running: bool = False


class SupervisionPolicy:
    """Decides for one supervisor. It is told of every child (`add`, `remove`), start and end, and keeps their order.

    An end that the supervisor brought about itself (`halt`, a stop that was asked for) is not reported; a restart
    whose start fails is, as `ended` without a `started` before it. Restarts older than `within` seconds are forgotten.
    """

    def __init__(self, strategy: Strategy, rng: random.Random) -> None:
        self.strategy = strategy
        self._rng = rng
        self._children: dict[str, _Child] = {}
        self._restarts: deque[tuple[float, Exception]] = deque()
        self._group = _Streak() if strategy.kind == "one_for_all" else None
        self._unstarted: set[str] = set()  # of the group's restart under way

    @property
    def children(self) -> tuple[str, ...]:
        """The keys, in start order."""
        return tuple(self._children)

    def add(self, key: str, restart: RestartKind) -> None:
        """A child that is to be started after all others. ValueError if the key is there or the kind unknown."""
        if key in self._children:
            raise ValueError(f"child {key!r} is there already")
        if restart not in get_args(RestartKind):
            raise ValueError(f"restart is one of {', '.join(get_args(RestartKind))}, not {restart!r}")
        self._children[key] = _Child(restart, self._group or _Streak())

    def remove(self, key: str) -> None:
        """The child is no longer supervised. KeyError if it is unknown, as in the other methods."""
        del self._children[key]
        self._unstarted.discard(key)

    def started(self, key: str, now: float) -> None:
        """The child is ready, for the first time or again."""
        self._expire(now)
        child = self._children[key]
        child.running = True
        if self._group is None:
            child.streak.since = now
        elif key in self._unstarted:
            # The group lives from its last start on; a child that joins it later changes nothing.
            self._unstarted.remove(key)
            self._group.since = now

    def ended(
        self, key: str, failure: Exception | None, now: float, *, resumable: bool = True, alone: bool = False
    ) -> Decision:
        """The child ended by itself: by a failure, or normally (None). What the supervisor does about it.

        A failed start cannot be resumed, nor what is not `resumable`: it is restarted instead. One that is `alone` is
        restarted without its group and without a delay; that counts like any restart.
        """
        self._expire(now)
        child = self._children[key]
        directive = "restart" if failure is None else self.strategy.directive(failure)
        if failure is not None and directive == "escalate":
            return Escalate(failure)
        finished = failure is None and child.restart == "transient"
        if finished or directive == "stop" or child.restart == "temporary":
            self.remove(key)
            return Forget(key)
        if directive == "resume" and child.running and resumable:
            return Resume(key)
        cause = ChildEnded(key) if failure is None else failure
        if len(self._restarts) >= self.strategy.max_restarts:
            return GiveUp((*(earlier for _, earlier in self._restarts), cause))
        self._restarts.append((now, cause))
        if alone:
            child.running = False
            return Restart((), (key,), 0.0)
        return self._restart(key, child, now)

    def _restart(self, key: str, child: _Child, now: float) -> Restart:
        affected = self._affected(key)
        if self._group is not None and self._unstarted:
            self._group.since = None  # the group did not come to life
        for name in affected:
            other = self._children[name]
            other.running = False
            other.streak.end_life(now, self.strategy.within)
            if other.restart == "temporary":
                self.remove(name)
        start = tuple(name for name in affected if name in self._children)
        delay = self._next_delay(child.streak)
        if self._group is not None:
            self._unstarted = set(start)
            self._group.since = now + delay
        return Restart(tuple(name for name in reversed(affected) if name != key), start, delay)

    def _next_delay(self, streak: _Streak) -> float:
        streak.attempts += 1
        backoff = self.strategy.backoff
        streak.last_delay = 0.0 if backoff is None else backoff.delay(streak.attempts, self._rng)
        return streak.last_delay

    def _affected(self, key: str) -> list[str]:
        if self.strategy.kind == "one_for_one":
            return [key]
        keys = list(self._children)
        return keys if self.strategy.kind == "one_for_all" else keys[keys.index(key) :]

    def _expire(self, now: float) -> None:
        while self._restarts and now - self._restarts[0][0] >= self.strategy.within:
            self._restarts.popleft()


def _check_intensity(max_restarts: object, within: object) -> None:
    if isinstance(max_restarts, bool) or not isinstance(max_restarts, int) or max_restarts < 0:
        raise InvalidIntensity(f"max_restarts is a count, 0 or more, not {max_restarts!r}")
    if not (is_number(within) or within == math.inf) or cast("float", within) <= 0:
        raise InvalidIntensity(f"within is a number of seconds above 0 (math.inf for ever), not {within!r}")


def _check_choices(kind: object, backoff: object, on: object) -> None:
    if kind not in get_args(StrategyKind):
        raise InvalidStrategy(f"kind is one of {', '.join(get_args(StrategyKind))}, not {kind!r}")
    if backoff is not None and not isinstance(backoff, Backoff):
        raise InvalidStrategy(f"backoff is a Backoff, such as Backoff(0.1), or None, not {backoff!r}")
    if not isinstance(on, Mapping):
        raise InvalidStrategy(f"on is a mapping of exception classes to directives, not {on!r}")
    for cls, directive in cast("Mapping[object, object]", on).items():
        if not isinstance(cls, type) or not issubclass(cls, Exception):
            raise InvalidStrategy(f"on has exception classes as keys, not {cls!r}")
        if directive not in BY_SEVERITY:
            raise InvalidStrategy(f"on[{cls.__qualname__}] is one of {', '.join(BY_SEVERITY)}, not {directive!r}")
