from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, cast, get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors._backoff import Backoff
from actors._errors import ChildEnded, InvalidIntensity, InvalidStrategy, RestartLimitExceeded
from actors._supervision import (
    Decision,
    Directive,
    Escalate,
    Forget,
    GiveUp,
    Restart,
    RestartKind,
    Resume,
    Strategy,
    StrategyKind,
    SupervisionPolicy,
    one_for_all,
    one_for_one,
    rest_for_one,
)

MAKERS: list[Callable[..., Strategy]] = [one_for_one, one_for_all, rest_for_one]


def policy_of(strategy: Strategy, **children: RestartKind) -> SupervisionPolicy:
    policy = SupervisionPolicy(strategy, random.Random(0))
    for key, restart in children.items():
        policy.add(key, restart)
        policy.started(key, 0.0)
    return policy


def carry_out(policy: SupervisionPolicy, decision: Decision, now: float) -> float:
    """What a supervisor does with a restart whose starts take no time; the time after it."""
    if isinstance(decision, Restart):
        now += decision.delay
        for key in decision.start:
            policy.started(key, now)
    return now


# The strategy


@pytest.mark.parametrize("make", MAKERS)
def test_a_strategy_has_defaults(make: Callable[..., Strategy]) -> None:
    strategy = make()
    assert strategy.kind == make.__name__
    assert (strategy.max_restarts, strategy.within, strategy.backoff, dict(strategy.on)) == (3, 5.0, None, {})
    assert strategy == make()
    assert hash(strategy) == hash(make())


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("count", [True, -1, 1.0, math.nan, None, "3"])
def test_a_restart_count_that_cannot_work(make: Callable[..., Strategy], count: Any) -> None:
    with pytest.raises(InvalidIntensity, match="max_restarts is a count, 0 or more"):
        make(max_restarts=count)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("within", [True, 0, -1.0, math.nan, -math.inf, None, "5"])
def test_a_window_that_cannot_work(make: Callable[..., Strategy], within: Any) -> None:
    with pytest.raises(InvalidIntensity, match="within is a number of seconds above 0"):
        make(within=within)


BAD_CHOICES: list[tuple[dict[str, Any], str]] = [
    ({"backoff": 0.1}, "backoff is a Backoff"),
    ({"on": 3}, "on is a mapping"),
    ({"on": {"ValueError": "stop"}}, "exception classes as keys"),
    ({"on": {KeyboardInterrupt: "stop"}}, "exception classes as keys"),
    ({"on": {ValueError: "ignore"}}, r"on\[ValueError\] is one of"),
]


@pytest.mark.parametrize(("fields", "text"), BAD_CHOICES, ids=repr)
def test_choices_that_cannot_work(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidStrategy, match=text):
        one_for_one(**fields)


def test_a_kind_that_does_not_exist() -> None:
    kind: Any = "all_for_none"
    with pytest.raises(InvalidStrategy, match="all_for_none"):
        Strategy(kind)


def test_a_strategy_does_not_change_with_the_mapping_it_was_given() -> None:
    on: dict[type[Exception], Directive] = {ValueError: "stop"}
    strategy = one_for_one(on=on)
    on[ValueError] = "escalate"
    assert strategy.directive(ValueError()) == "stop"


def test_the_most_specific_class_decides() -> None:
    strategy = one_for_one(on={Exception: "escalate", OSError: "stop", FileNotFoundError: "resume"})
    assert strategy.directive(FileNotFoundError()) == "resume"
    assert strategy.directive(PermissionError()) == "stop"
    assert strategy.directive(KeyError()) == "escalate"


def test_the_nearest_class_in_the_method_order_decides_between_two_bases() -> None:
    class Both(KeyError, OSError):
        pass

    assert one_for_one(on={OSError: "stop", KeyError: "resume"}).directive(Both()) == "resume"
    assert one_for_one(on={OSError: "stop", LookupError: "resume"}).directive(Both()) == "resume"
    assert one_for_one(on={OSError: "stop"}).directive(Both()) == "stop"


def test_a_failure_without_a_choice_is_restarted() -> None:
    assert one_for_one(on={OSError: "stop"}).directive(ValueError()) == "restart"


def test_a_group_is_decided_by_its_most_severe_member() -> None:
    strategy = one_for_one(on={KeyError: "escalate", OSError: "stop", TypeError: "resume"})

    def of(*members: Exception) -> Directive:
        return strategy.directive(ExceptionGroup("outer", [ExceptionGroup("inner", members)]))

    assert of(TypeError()) == "resume"
    assert of(TypeError(), ValueError()) == "restart"
    assert of(TypeError(), OSError(), ValueError()) == "stop"
    assert of(TypeError(), OSError(), ValueError(), KeyError()) == "escalate"
    assert strategy.directive(RestartLimitExceeded("/a", 1, 1.0, [OSError(), ValueError()])) == "stop"


def test_a_group_whose_class_has_a_choice_is_decided_as_a_whole() -> None:
    strategy = one_for_one(on={RestartLimitExceeded: "escalate", Exception: "resume"})
    limit = RestartLimitExceeded("/a", 1, 1.0, [ValueError()])
    assert strategy.directive(limit) == "escalate"
    assert strategy.directive(ExceptionGroup("outer", [limit, ValueError()])) == "escalate"
    assert strategy.directive(ExceptionGroup("outer", [ValueError()])) == "resume"


LEAVES: st.SearchStrategy[Exception] = st.sampled_from([TypeError, ValueError, OSError, KeyError]).map(
    lambda cls: cls()
)


def grouped(members: st.SearchStrategy[Exception]) -> st.SearchStrategy[Exception]:
    return st.lists(members, min_size=1, max_size=4).map(lambda excs: ExceptionGroup("g", excs))


def leaves(exc: Exception) -> list[Exception]:
    if isinstance(exc, ExceptionGroup):
        members: tuple[Exception, ...] = cast("ExceptionGroup[Exception]", exc).exceptions
        return [leaf for member in members for leaf in leaves(member)]
    return [exc]


@given(st.recursive(LEAVES, grouped))
def test_a_group_is_as_severe_as_its_leaves(failure: Exception) -> None:
    choices: dict[type[Exception], Directive] = {KeyError: "escalate", OSError: "stop", TypeError: "resume"}
    order: list[Directive] = ["resume", "restart", "stop", "escalate"]
    worst = max(order.index(choices.get(type(leaf), "restart")) for leaf in leaves(failure))
    assert one_for_one(on=choices).directive(failure) == order[worst]


# Whom a failure restarts


def test_one_for_one_restarts_the_child_alone() -> None:
    policy = policy_of(one_for_one(), a="permanent", b="permanent", c="permanent")
    assert policy.ended("b", ValueError(), 1.0) == Restart(halt=(), start=("b",), delay=0.0)


def test_one_for_all_restarts_everybody_in_order() -> None:
    policy = policy_of(one_for_all(), a="permanent", b="permanent", c="transient")
    assert policy.ended("b", ValueError(), 1.0) == Restart(halt=("c", "a"), start=("a", "b", "c"), delay=0.0)


def test_rest_for_one_restarts_those_started_later() -> None:
    policy = policy_of(rest_for_one(), a="permanent", b="permanent", c="permanent", d="permanent")
    assert policy.ended("b", ValueError(), 1.0) == Restart(halt=("d", "c"), start=("b", "c", "d"), delay=0.0)


@pytest.mark.parametrize("make", [one_for_all, rest_for_one])
def test_a_temporary_sibling_is_halted_and_not_started_again(make: Callable[..., Strategy]) -> None:
    policy = policy_of(make(), a="permanent", b="temporary", c="permanent")
    assert policy.ended("a", ValueError(), 1.0) == Restart(halt=("c", "b"), start=("a", "c"), delay=0.0)
    assert policy.children == ("a", "c")


def test_a_restarted_child_keeps_its_place_and_a_new_one_is_last() -> None:
    policy = policy_of(rest_for_one(), a="permanent", b="permanent", c="permanent")
    carry_out(policy, policy.ended("a", ValueError(), 1.0), 1.0)
    policy.remove("b")
    policy.add("b", "permanent")
    assert policy.children == ("a", "c", "b")
    assert policy.ended("c", ValueError(), 2.0) == Restart(halt=("b",), start=("c", "b"), delay=0.0)


@pytest.mark.parametrize("make", MAKERS)
def test_restart_kinds(make: Callable[..., Strategy]) -> None:
    policy = policy_of(make(), p="permanent", t="transient", u="transient", v="temporary", w="temporary")
    assert policy.ended("v", None, 1.0) == Forget("v")
    assert policy.ended("w", ValueError(), 1.0) == Forget("w")
    assert policy.ended("t", None, 1.0) == Forget("t")
    assert policy.children == ("p", "u")
    for key, failure in (("u", ValueError()), ("p", ValueError()), ("p", None)):
        decision = policy.ended(key, failure, 1.0)
        assert isinstance(decision, Restart)
        assert key in decision.start
        carry_out(policy, decision, 1.0)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("restart", get_args(RestartKind))
def test_directives(make: Callable[..., Strategy], restart: RestartKind) -> None:
    strategy = make(on={KeyError: "escalate", OSError: "stop", TypeError: "resume"})
    policy = policy_of(strategy, a="permanent", b=restart)
    cause = KeyError()
    assert policy.ended("b", cause, 1.0) == Escalate(cause)
    resumed = policy.ended("b", TypeError(), 1.0)
    assert resumed == (Forget("b") if restart == "temporary" else Resume("b"))
    if restart != "temporary":
        assert policy.ended("b", OSError(), 1.0) == Forget("b")
    assert policy.children == ("a",)


def test_stop_and_resume_use_up_no_restarts() -> None:
    policy = policy_of(one_for_one(max_restarts=0, on={OSError: "stop", TypeError: "resume"}), a="permanent")
    for _ in range(10):
        assert policy.ended("a", TypeError(), 1.0) == Resume("a")
    assert policy.ended("a", OSError(), 1.0) == Forget("a")


def test_a_failed_start_cannot_be_resumed() -> None:
    policy = policy_of(one_for_one(on={TypeError: "resume", ValueError: "restart"}), a="permanent")
    assert isinstance(policy.ended("a", ValueError(), 1.0), Restart)
    assert policy.ended("a", TypeError(), 1.0) == Restart((), ("a",), 0.0)
    policy.started("a", 1.0)
    assert policy.ended("a", TypeError(), 1.0) == Resume("a")


def test_mistakes_of_the_caller() -> None:
    policy = policy_of(one_for_one(), a="permanent")
    kind: Any = "sometimes"
    with pytest.raises(ValueError, match="there already"):
        policy.add("a", "permanent")
    with pytest.raises(ValueError, match="sometimes"):
        policy.add("b", kind)
    for call in (lambda: policy.remove("b"), lambda: policy.started("b", 0.0), lambda: policy.ended("b", None, 0.0)):
        with pytest.raises(KeyError):
            call()


# How often


def test_the_restart_one_too_many_gives_up_with_the_causes_in_order() -> None:
    policy = policy_of(one_for_one(max_restarts=2, within=5.0), a="permanent", b="permanent")
    causes = [ValueError(number) for number in range(4)]
    assert isinstance(policy.ended("a", causes[0], 0.0), Restart)
    assert isinstance(policy.ended("b", causes[1], 2.0), Restart)
    # At 5.0 the first restart is exactly as old as the window and no longer counts.
    assert isinstance(policy.ended("a", causes[2], 5.0), Restart)
    decision = policy.ended("b", causes[3], 6.9)
    assert decision == GiveUp(tuple(causes[1:]))


def test_max_restarts_0_never_restarts() -> None:
    policy = policy_of(one_for_one(max_restarts=0), a="permanent")
    cause = ValueError()
    assert policy.ended("a", cause, 100.0) == GiveUp((cause,))


def test_a_permanent_child_that_ends_without_failure_counts_and_has_a_stand_in_cause() -> None:
    policy = policy_of(one_for_one(max_restarts=1), a="permanent")
    assert isinstance(policy.ended("a", None, 0.0), Restart)
    decision = policy.ended("a", None, 1.0)
    assert isinstance(decision, GiveUp)
    assert [type(cause) for cause in decision.causes] == [ChildEnded, ChildEnded]
    RestartLimitExceeded.flat("/sup", 1, 5.0, decision.causes)


def test_a_window_without_end() -> None:
    policy = policy_of(one_for_one(max_restarts=1, within=math.inf), a="permanent")
    assert isinstance(policy.ended("a", ValueError(), 0.0), Restart)
    assert isinstance(policy.ended("a", ValueError(), 1e9), GiveUp)


def test_no_history_beyond_the_window_is_kept() -> None:
    policy = policy_of(one_for_one(max_restarts=1_000_000, within=5.0), a="permanent")
    now = 0.0
    for _ in range(1000):
        now = carry_out(policy, policy.ended("a", ValueError(), now), now) + 1.0
    assert len(policy._restarts) == 5  # pyright: ignore[reportPrivateUsage]
    policy.started("a", now + 5)
    assert len(policy._restarts) == 0  # pyright: ignore[reportPrivateUsage]


# How long to wait

BACKOFF = Backoff(1.0, max=100.0)


def delay_of(decision: Decision) -> float:
    assert isinstance(decision, Restart)
    return decision.delay


def test_delays_grow_while_restarts_follow_each_other_and_start_anew_after_a_long_life() -> None:
    policy = policy_of(one_for_one(max_restarts=1000, within=5.0, backoff=BACKOFF), a="permanent", b="permanent")
    now = 0.0
    delays: list[float] = []
    for life in (1.0, 5.0, 0.0, 5.0, 8.5, 5.0, 5.1):
        decision = policy.ended("a", ValueError(), now + life)
        delays.append(delay_of(decision))
        now = carry_out(policy, decision, now + life)
    # 8.5 s is longer than the delay of 8 s before it and the window; 5 s is not longer than the window.
    assert delays == [1.0, 2.0, 4.0, 8.0, 1.0, 2.0, 1.0]
    assert delay_of(policy.ended("b", ValueError(), now)) == 1.0


def test_a_life_must_outlast_the_last_delay() -> None:
    policy = policy_of(one_for_one(max_restarts=1000, within=5.0, backoff=Backoff(50.0)), a="permanent")
    now = carry_out(policy, policy.ended("a", ValueError(), 0.0), 0.0)
    now = carry_out(policy, policy.ended("a", ValueError(), now + 49.0), now + 49.0)
    assert delay_of(policy.ended("a", ValueError(), now + 59.0)) == 60.0


def test_a_start_that_fails_goes_on_with_the_delays_however_long_it_took() -> None:
    policy = policy_of(one_for_one(max_restarts=1000, within=5.0, backoff=BACKOFF), a="permanent")
    assert [delay_of(policy.ended("a", ValueError(), now)) for now in (1.0, 100.0, 200.0)] == [1.0, 2.0, 4.0]


def test_one_for_all_counts_for_the_group() -> None:
    policy = policy_of(one_for_all(max_restarts=1000, within=5.0, backoff=BACKOFF), a="permanent", b="permanent")
    now = carry_out(policy, policy.ended("a", ValueError(), 0.0), 0.0)
    decision = policy.ended("b", ValueError(), now)
    assert delay_of(decision) == 2.0
    now = carry_out(policy, decision, now)
    # One that joins the group later does not make the group young again.
    policy.add("c", "permanent")
    policy.started("c", now + 6.0)
    assert delay_of(policy.ended("c", ValueError(), now + 6.0)) == 1.0


def test_a_group_of_which_one_did_not_start_has_not_lived() -> None:
    policy = policy_of(one_for_all(max_restarts=1000, within=5.0, backoff=BACKOFF), a="permanent", b="permanent")
    assert delay_of(policy.ended("a", ValueError(), 0.0)) == 1.0
    policy.started("a", 1.0)
    assert policy.ended("b", ValueError(), 100.0) == Restart(("a",), ("a", "b"), 2.0)


def test_a_group_lives_on_when_one_is_removed_before_its_start() -> None:
    policy = policy_of(one_for_all(max_restarts=1000, within=5.0, backoff=BACKOFF), a="permanent", b="permanent")
    policy.ended("a", ValueError(), 0.0)
    policy.started("a", 1.0)
    policy.remove("b")
    assert delay_of(policy.ended("a", ValueError(), 6.5)) == 1.0
    policy.remove("a")
    policy.add("c", "permanent")
    policy.started("c", 20.0)
    assert delay_of(policy.ended("c", ValueError(), 20.0)) == 1.0


def test_a_group_lives_from_its_last_start_however_long_the_starts_took() -> None:
    policy = policy_of(one_for_all(max_restarts=1000, within=5.0, backoff=BACKOFF), a="permanent", b="permanent")
    policy.ended("a", ValueError(), 0.0)
    policy.started("a", 10.0)
    policy.started("b", 20.0)
    assert delay_of(policy.ended("a", ValueError(), 25.0)) == 2.0


def test_a_sibling_that_lived_long_before_it_was_halted_starts_anew() -> None:
    policy = policy_of(rest_for_one(max_restarts=1000, within=5.0, backoff=BACKOFF), a="permanent", b="permanent")
    now = carry_out(policy, policy.ended("b", ValueError(), 0.0), 0.0)
    now = carry_out(policy, policy.ended("a", ValueError(), now + 100.0), now + 100.0)
    assert delay_of(policy.ended("b", ValueError(), now)) == 1.0


def test_jitter_is_drawn_from_the_generator_given() -> None:
    strategy = one_for_one(max_restarts=1000, backoff=Backoff(1.0, jitter=0.5))
    runs: list[list[float]] = []
    for _ in range(2):
        policy = SupervisionPolicy(strategy, random.Random(7))
        policy.add("a", "permanent")
        runs.append([delay_of(policy.ended("a", ValueError(), float(now))) for now in range(5)])
    assert runs[0] == runs[1]
    assert len({delay / 2**power for power, delay in enumerate(runs[0])}) == 5


# Against a naive oracle, which keeps all that ever happened

How: TypeAlias = Literal["normal", "restart", "stop", "escalate", "resume"]
FAILURES: dict[str, type[Exception]] = {
    "restart": ValueError,
    "stop": OSError,
    "escalate": KeyError,
    "resume": TypeError,
}
ON: dict[type[Exception], Directive] = {OSError: "stop", KeyError: "escalate", TypeError: "resume"}


@attrs.frozen
class End:
    """A child, chosen by an index, lives for so many quarters of a second more and ends so."""

    quarters: int
    child: int
    how: How
    start_fails: bool


@attrs.frozen
class Join:
    key: str
    restart: RestartKind


class Oracle:
    """Recomputes every answer from the whole history."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.order: list[str] = []
        self.kinds: dict[str, RestartKind] = {}
        self.restarts: list[tuple[float, Exception | None]] = []
        self.lives: dict[str, list[tuple[float, bool]]] = {}  # how long (-1: did not start), and whether it failed
        self.born: dict[str, float | None] = {}

    def join(self, key: str, restart: RestartKind, now: float) -> None:
        self.order.append(key)
        self.kinds[key] = restart
        self.lives[key] = []
        self.born[key] = now

    def leave(self, key: str) -> None:
        self.order.remove(key)

    def delay(self, lives: list[tuple[float, bool]]) -> float:
        strategy = self.strategy
        assert strategy.backoff is not None
        attempts, last = 0, 0.0
        for life, failed in lives:
            attempts = (0 if life > max(strategy.within, last) else attempts) + failed
            if failed:
                last = min(strategy.backoff.initial * 2.0 ** (attempts - 1), strategy.backoff.max)
        return last

    def ended(self, key: str, how: How, failure: Exception | None, now: float) -> Decision:
        kind = self.kinds[key]
        if failure is not None and how == "escalate":
            return Escalate(failure)
        if kind == "temporary" or how == "stop" or (kind == "transient" and how == "normal"):
            self.leave(key)
            return Forget(key)
        if how == "resume" and self.born[key] is not None:
            return Resume(key)
        recent = [cause for time, cause in self.restarts if now - time < self.strategy.within]
        if len(recent) >= self.strategy.max_restarts:
            return GiveUp(tuple(cause or ChildEnded("any") for cause in (*recent, failure)))
        self.restarts.append((now, failure))
        return self.restart(key, now)

    def restart(self, key: str, now: float) -> Restart:
        at = self.order.index(key)
        after = {"one_for_one": [], "one_for_all": self.order[at + 1 :], "rest_for_one": self.order[at + 1 :]}
        before = {"one_for_one": [], "one_for_all": self.order[:at], "rest_for_one": []}
        affected: list[str] = [*before[self.strategy.kind], key, *after[self.strategy.kind]]
        for name in affected:
            born = self.born[name]
            self.lives[name].append((-1.0 if born is None else now - born, name == key))
            self.born[name] = None
            if self.kinds[name] == "temporary":
                self.leave(name)
        return Restart(
            halt=tuple(name for name in affected[::-1] if name != key),
            start=tuple(name for name in affected if self.kinds[name] != "temporary"),
            delay=self.delay(self.lives[key]),
        )


def alike(mine: Decision, other: Decision) -> bool:
    if isinstance(mine, GiveUp) and isinstance(other, GiveUp):
        return [type(cause) for cause in mine.causes] == [type(cause) for cause in other.causes]
    return mine == other


ENDS = st.builds(
    End,
    quarters=st.integers(0, 40),
    child=st.integers(0, 10),
    how=st.sampled_from(["normal", "restart", "restart", "restart", "stop", "resume", "escalate"]),
    start_fails=st.booleans(),
)
JOINS = st.builds(Join, key=st.sampled_from("abcdef"), restart=st.sampled_from(get_args(RestartKind)))


@given(
    kind=st.sampled_from(get_args(StrategyKind)),
    max_restarts=st.integers(0, 4),
    within=st.sampled_from([0.25, 1.0, 3.0]),
    events=st.lists(JOINS | ENDS | ENDS, max_size=60),
)
def test_the_policy_agrees_with_a_naive_oracle(
    kind: StrategyKind, max_restarts: int, within: float, events: list[Join | End]
) -> None:
    strategy = Strategy(kind, max_restarts, within, Backoff(0.25, max=2.0), ON)
    policy = SupervisionPolicy(strategy, random.Random(0))
    oracle = Oracle(strategy)
    now = 0.0
    for event in events:
        if isinstance(event, Join):
            if event.key not in oracle.order:
                policy.add(event.key, event.restart)
                policy.started(event.key, now)
                oracle.join(event.key, event.restart, now)
            continue
        if not oracle.order:
            continue
        key = oracle.order[event.child % len(oracle.order)]
        now += event.quarters / 4
        failure = FAILURES[event.how]() if event.how in FAILURES else None
        decision = policy.ended(key, failure, now)
        expected = oracle.ended(key, event.how, failure, now)
        if kind == "one_for_all" and isinstance(decision, Restart) and isinstance(expected, Restart):
            expected = attrs.evolve(expected, delay=decision.delay)  # counted for the group; see above
        assert alike(decision, expected)
        assert policy.children == tuple(oracle.order)
        if isinstance(decision, Restart):
            now += decision.delay
            for name in decision.start:
                if not (event.start_fails and name == key):
                    policy.started(name, now)
                    oracle.born[name] = now


@given(
    kind=st.sampled_from(get_args(StrategyKind)),
    max_restarts=st.integers(0, 5),
    within=st.floats(0.001, 100),
    lives=st.lists(st.tuples(st.floats(0, 50), st.integers(0, 2)), max_size=80),
)
def test_no_window_holds_more_restarts_than_allowed(
    kind: StrategyKind, max_restarts: int, within: float, lives: list[tuple[float, int]]
) -> None:
    policy = policy_of(Strategy(kind, max_restarts, within), a="permanent", b="transient", c="permanent")
    admitted: list[float] = []
    now = 0.0
    for life, child in lives:
        now += life
        decision = policy.ended("abc"[child], ValueError(), now)
        window = [time for time in admitted if now - time < within]
        if isinstance(decision, Restart):
            admitted.append(now)
            assert len(window) < max_restarts
            carry_out(policy, decision, now)
        else:
            # It never gives up early either, and gives a cause for each restart of the window and for this one.
            assert isinstance(decision, GiveUp)
            assert len(window) == max_restarts
            assert len(decision.causes) == max_restarts + 1
    for index in range(max_restarts, len(admitted)):
        assert max_restarts > 0
        assert admitted[index] - admitted[index - max_restarts] >= within


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2)), max_size=40))
def test_one_for_all_counts_like_one_for_one_with_a_single_child(lives: list[tuple[int, int]]) -> None:
    # While the same children start together, the group is a single child to the back-off.
    backoff = Backoff(0.25, max=8.0)
    group = policy_of(one_for_all(10**6, 3.0, backoff), a="permanent", b="permanent", c="permanent")
    single = policy_of(one_for_one(10**6, 3.0, backoff), a="permanent")
    for key in group.children:
        group.started(key, 0.0)
    now = 0.0
    for quarters, child in lives:
        now += quarters / 4
        mine, other = group.ended("abc"[child], ValueError(), now), single.ended("a", ValueError(), now)
        assert delay_of(mine) == delay_of(other)
        assert carry_out(group, mine, now) == carry_out(single, other, now)
        now = now + delay_of(mine)
