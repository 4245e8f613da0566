"""Configuration of a runtime and the plan made from it: both pure, nothing here reads a clock or the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from typing import TYPE_CHECKING, Literal

import attrs

from ._errors import ConfigInvalid
from ._report import ShutdownReport

if TYPE_CHECKING:
    import trio

    from ._runtime import Runtime

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
        """Make a runtime, which runs once. A plan builds as many as are wanted; tests may give a virtual clock."""
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
