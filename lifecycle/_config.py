"""Configuration of a runtime and the plan made from it: both pure, nothing here reads a clock or the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from typing import TYPE_CHECKING, Literal

import attrs

from ._errors import ConfigInvalid
from ._lane_policy import LaneSettings
from ._memory import MemoryLimit, MemoryPolicy
from ._memory_detection import detect_memory_limit
from ._report import ShutdownReport

if TYPE_CHECKING:
    import trio

    from ._runtime import Runtime

WHOLE_MEMORY = MemoryPolicy.whole()

OnPoison = Literal["shutdown", "degrade"]
OnOverrun = Literal["exit", "wait"]


@attrs.frozen
class RuntimeConfig:
    """What a runtime is told. Constructing one checks nothing; `Runtime.plan` names every mistake at once."""

    name: str = "tenure"
    """The runtime's name in logs and in the report."""

    shutdown_within: float = 30.0
    """Seconds from the first request to stop until the end of everything, clean-up included."""

    signals: bool = True
    """Take SIGINT and SIGTERM as requests to stop: the first drains, the second ends at once."""

    on_poison: OnPoison = "shutdown"
    """What an unhandled failure of an unsupervised task does beside being logged and raised at the end:
    `shutdown` requests shutdown with reason "internal", `degrade` lets the rest go on."""

    on_overrun: OnOverrun | None = None
    """What happens at the end when tasks still run, after the report was published: `exit` ends the process,
    `wait` waits on and says so again. None means `exit` for `Runtime.run` and `wait` for `open_runtime`."""

    overrun_status: int = 70
    """Exit status of a process ended by `on_overrun="exit"`; 1 to 255."""

    report_sink: Callable[[ShutdownReport], None] | None = None
    """Called once with the report, before the process may be ended. An exception in it is logged, no more."""

    parallelism: int | None = None
    """How many threads the machine runs at once, from which the limits of the lanes follow. None: `build` finds out,
    from the processors that this process may use and the control group's quota of them."""

    lanes: LaneSettings | None = None
    """The limits of the blocking lanes. None: those for the parallelism."""

    memory_limit: int | None = None
    """Bytes of memory that this process may use. None: `build` finds out, from the variable
    TENURE_PROCESS_MEMORY_LIMIT_BYTES, else the smaller of the control group's limit and the machine's memory."""

    memory: MemoryPolicy = WHOLE_MEMORY
    """How much of that limit the root budget hands out."""

    detect_memory: Callable[[], MemoryLimit] = detect_memory_limit
    """What `build` calls, once, if there is no `memory_limit`."""

    budget_keys: int = 4096
    """How many dynamic keys may be registered in the budget tree at a time."""

    metadata_targets: int = 4096
    """How many resources the registry of metadata targets knows at a time."""

    @staticmethod
    def for_parallelism(name: str, parallelism: int) -> RuntimeConfig:
        """A configuration for a machine that runs so many threads at once; less than 1 counts as 1. Pure."""
        return RuntimeConfig(name, parallelism=max(1, parallelism))

    def mistakes(self) -> tuple[str, ...]:
        """Every rule that this configuration breaks, each a sentence naming its field; empty if it is valid."""
        return tuple(_mistakes(self))


@attrs.frozen
class RuntimePlan:
    """A configuration that was found valid. Constructing one with mistakes raises `ConfigInvalid`."""

    config: RuntimeConfig

    def __attrs_post_init__(self) -> None:
        mistakes = self.config.mistakes()
        if mistakes:
            raise ConfigInvalid(mistakes)

    def build(self, *, clock: trio.abc.Clock | None = None) -> Runtime:
        """Make a runtime, which runs once: find the memory limit, make the budget and the lanes.

        A plan builds as many as are wanted; tests may give a virtual clock. Raises `MemoryVariableInvalid`,
        `MemoryUndetected` and `MemoryTooSmall`.
        """
        from ._runtime import Runtime

        return Runtime(self, clock)


def _mistakes(config: RuntimeConfig) -> Iterator[str]:
    # The types are checked too: a configuration often comes from a file or from the environment. Hence `object`.
    values: dict[str, object] = {field.name: getattr(config, field.name) for field in attrs.fields(RuntimeConfig)}
    name, sink = values["name"], values["report_sink"]
    if not isinstance(name, str) or not name.strip():
        yield "name must be a string that is not blank"
    yield from _shutdown_within_mistakes(values["shutdown_within"])
    if not isinstance(values["signals"], bool):
        yield f"signals must be True or False, not {_kind(values['signals'])}"
    if values["on_poison"] not in ("shutdown", "degrade"):
        yield 'on_poison must be "shutdown" or "degrade"'
    if values["on_overrun"] not in ("exit", "wait", None):
        yield 'on_overrun must be "exit", "wait" or None'
    yield from _overrun_status_mistakes(values["overrun_status"])
    if sink is not None and not callable(sink):
        yield f"report_sink must be a function that takes the report, not {_kind(sink)}"
    yield from _lane_mistakes(values["parallelism"], values["lanes"])
    yield from _memory_mistakes(values["memory_limit"], values["memory"], values["detect_memory"])
    for field in ("budget_keys", "metadata_targets"):
        yield from _count_mistakes(field, values[field], 1)


def _lane_mistakes(parallelism: object, lanes: object) -> Iterator[str]:
    if parallelism is not None:
        yield from _count_mistakes("parallelism", parallelism, 1)
    if isinstance(lanes, LaneSettings):
        yield from (f"lanes: {mistake}" for mistake in lanes.mistakes())
    elif lanes is not None:
        yield f"lanes must be LaneSettings or None, not {_kind(lanes)}"


def _memory_mistakes(limit: object, policy: object, detect: object) -> Iterator[str]:
    if limit is not None:
        yield from _count_mistakes("memory_limit", limit, 1)
    if isinstance(policy, MemoryPolicy):
        yield from (f"memory: {mistake}" for mistake in policy.mistakes())
    else:
        yield f"memory must be a MemoryPolicy, not {_kind(policy)}"
    if not callable(detect):
        yield f"detect_memory must be a function that returns a MemoryLimit, not {_kind(detect)}"


def _count_mistakes(field: str, count: object, least: int) -> Iterator[str]:
    if isinstance(count, bool) or not isinstance(count, int):
        yield f"{field} must be a whole number, not {_kind(count)}"
    elif count < least:
        yield f"{field} must be at least {least}, not {count}"


def _shutdown_within_mistakes(within: object) -> Iterator[str]:
    if isinstance(within, bool) or not isinstance(within, (int, float)):
        yield f"shutdown_within must be a number of seconds, not {_kind(within)}"
    elif not isfinite(within) or within < 0:
        yield f"shutdown_within must be a finite number of seconds, at least 0, not {within}"


def _overrun_status_mistakes(status: object) -> Iterator[str]:
    if isinstance(status, bool) or not isinstance(status, int):
        yield f"overrun_status must be a whole number, not {_kind(status)}"
    elif not 1 <= status <= 255:
        yield f"overrun_status must be from 1 to 255, not {status} (0 would tell the system that all went well)"


def _kind(value: object) -> str:
    # Only the type: a value of the wrong type may be anything, also a secret.
    return type(value).__name__
