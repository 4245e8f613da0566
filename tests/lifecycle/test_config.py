"""The configuration of a runtime: pure, and every mistake named at once."""

from __future__ import annotations

import pickle
from math import inf, nan
from typing import Any

import attrs
import pytest

import lifecycle
from lifecycle import (
    AlreadyRun,
    ConfigInvalid,
    ContractViolation,
    GroupClosed,
    GroupPoisoned,
    LifecycleError,
    OperationalError,
    RuntimeConfig,
    RuntimePlan,
)


def test_the_defaults_are_valid() -> None:
    assert RuntimeConfig().mistakes() == ()
    assert RuntimePlan(RuntimeConfig()).config == RuntimeConfig()


@pytest.mark.parametrize(
    "changes",
    [
        {"shutdown_within": 0},
        {"shutdown_within": 0.001},
        {"overrun_status": 1},
        {"overrun_status": 255},
        {"on_poison": "degrade"},
        {"on_overrun": "exit"},
        {"on_overrun": "wait"},
        {"report_sink": print},
    ],
)
def test_values_at_the_edge_are_accepted(changes: dict[str, Any]) -> None:
    assert attrs.evolve(RuntimeConfig(), **changes).mistakes() == ()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": " \t"}, "name"),
        ({"name": None}, "name"),
        ({"shutdown_within": -0.1}, "shutdown_within"),
        ({"shutdown_within": inf}, "shutdown_within"),
        ({"shutdown_within": nan}, "shutdown_within"),
        ({"shutdown_within": "30"}, "shutdown_within"),
        ({"shutdown_within": True}, "shutdown_within"),
        ({"signals": 1}, "signals"),
        ({"on_poison": "ignore"}, "on_poison"),
        ({"on_overrun": "kill"}, "on_overrun"),
        ({"overrun_status": 0}, "overrun_status"),
        ({"overrun_status": 256}, "overrun_status"),
        ({"overrun_status": True}, "overrun_status"),
        ({"overrun_status": 7.0}, "overrun_status"),
        ({"report_sink": "stdout"}, "report_sink"),
    ],
)
def test_each_mistake_names_its_field(changes: dict[str, Any], field: str) -> None:
    (mistake,) = RuntimeConfig(**changes).mistakes()
    assert mistake.startswith(f"{field} must ")
    with pytest.raises(ConfigInvalid) as caught:
        RuntimePlan(RuntimeConfig(**changes))
    assert caught.value.mistakes == (mistake,)


def test_every_mistake_is_named_at_once() -> None:
    wrong: dict[str, Any] = {
        "name": " ",
        "shutdown_within": -1,
        "signals": "yes",
        "on_poison": "x",
        "on_overrun": "x",
        "overrun_status": 0,
        "report_sink": 3,
    }
    with pytest.raises(ConfigInvalid) as caught:
        RuntimePlan(RuntimeConfig(**wrong))
    assert [mistake.split()[0] for mistake in caught.value.mistakes] == list(wrong)
    for mistake in caught.value.mistakes:
        assert mistake in str(caught.value)


def error_classes() -> list[type[BaseException]]:
    found = [getattr(lifecycle, name) for name in lifecycle.__all__]
    return [item for item in found if isinstance(item, type) and issubclass(item, BaseException)]


@pytest.mark.row("runtime:R10")
def test_the_two_families_of_errors_never_mix_and_their_texts_show_no_value_of_the_configuration() -> None:
    for error in error_classes():
        assert issubclass(error, LifecycleError)
        assert not (issubclass(error, ContractViolation) and issubclass(error, OperationalError))
    secret = "hunter2"
    wrong: dict[str, Any] = {
        "name": [secret],
        "shutdown_within": secret,
        "signals": secret,
        "on_poison": secret,
        "on_overrun": secret,
        "overrun_status": secret,
        "report_sink": secret,
    }
    violation = ConfigInvalid(RuntimeConfig(**wrong).mistakes())
    assert len(violation.mistakes) == 7
    assert secret not in str(violation)
    assert secret not in repr(violation)
    operational = GroupPoisoned("/a", ValueError(secret))
    assert secret not in str(operational)


@pytest.mark.parametrize("error", [AlreadyRun("x"), GroupClosed("/a", "closing"), ConfigInvalid(("a", "b"))])
def test_errors_keep_their_fields_when_pickled(error: LifecycleError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)
