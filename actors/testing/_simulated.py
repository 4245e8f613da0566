"""Property tests: a fresh clock, system and run for each example."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec

from ._open import SHUTDOWN_WITHIN, open_test_system
from ._scheduler import run_virtual

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from actors import System

P = ParamSpec("P")


def simulated(
    *,
    seed: int = 0,
    examples: int = 1,
    inline: bool | Literal["both"] = True,
    shutdown_within: float = SHUTDOWN_WITHIN,
    unread_failures: bool = False,
    unhealthy: bool = False,
) -> Callable[[Callable[Concatenate[System, P], Awaitable[object]]], Callable[P, None]]:
    """Make a sync test of `async def test(system, ...)` that runs it `examples` times, each time in a `trio.run` of its
    own, with a virtual clock from 0, a fresh `open_test_system`, and a scheduler that depends on the seed alone.

    Example `n`, counted from 0, has the seed `seed + n`; `inline="both"` runs each with inline dispatch and without.
    One that fails says in a note to its exception how to see it again. The other parameters of the test are passed on,
    so it works under hypothesis: `@given(...)` above `@simulated(...)`. The other options are `open_test_system`'s.
    """
    if examples < 1:
        raise ValueError(f"examples is a whole number of at least 1, not {examples!r}")
    ways = (True, False) if inline == "both" else (inline,)

    def decorate(test: Callable[Concatenate[System, P], Awaitable[object]]) -> Callable[P, None]:
        if not inspect.iscoroutinefunction(test):
            raise TypeError(f"@simulated takes an `async def test(system, ...)`, not {test!r}; it goes below @given")

        @functools.wraps(test)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            for number in range(examples):
                for way in ways:
                    _run_example(test, args, kwargs, number, seed + number, way, options)

        _hide_first_parameter(run, test)
        return run

    options = {"shutdown_within": shutdown_within, "unread_failures": unread_failures, "unhealthy": unhealthy}
    return decorate


def _run_example(
    test: Callable[..., Awaitable[object]], args: tuple[Any, ...], kwargs: dict[str, Any], number: int, seed: int,
    inline: bool, options: dict[str, Any],
) -> None:  # fmt: skip
    async def example() -> None:
        async with open_test_system(seed=seed, inline=inline, **options) as system:
            await test(system, *args, **kwargs)

    try:
        run_virtual(example, seed=seed)
    except BaseException as exc:
        again = f"@simulated(seed={seed}{'' if inline else ', inline=False'})"
        exc.add_note(f"in example {number} of {_name(test)}; to see it again: {again}")
        raise


def _hide_first_parameter(run: Callable[..., object], test: Callable[..., object]) -> None:
    """What is left of the signature is what pytest and hypothesis are to provide."""
    signature = inspect.signature(test)
    vars(run)["__signature__"] = signature.replace(parameters=list(signature.parameters.values())[1:])


def _name(test: Callable[..., object]) -> str:
    return getattr(test, "__qualname__", repr(test))
