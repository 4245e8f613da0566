"""Waiting for something that threads, processes or sockets bring about."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar, overload

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


@overload
async def eventually(condition: Callable[[], Awaitable[T]], /, within: float = 5.0, poll: float = 0.01) -> T: ...
@overload
async def eventually(condition: Callable[[], T], /, within: float = 5.0, poll: float = 0.01) -> T: ...
async def eventually(condition: Callable[[], Any], /, within: float = 5.0, poll: float = 0.01) -> Any:
    """Call `condition`, sync or async, every `poll` seconds until it returns something true, and return that.

    An AssertionError in it means "not yet". After `within` seconds on Trio's clock raises an AssertionError that names
    the condition and what it returned or raised last; an async condition is cancelled then. A checkpoint.
    """
    last: object = None
    cause: AssertionError | None = None
    calls = 0
    with trio.move_on_after(within):
        while True:
            calls += 1
            cause = None
            try:
                last = condition()
                if inspect.isawaitable(last):
                    last = await last
            except AssertionError as exc:
                cause = exc
            else:
                if last:
                    await trio.lowlevel.checkpoint()
                    return last
            await trio.sleep(poll)
    outcome = f"raised {cause!r}" if cause is not None else f"was {last!r}"
    failure = f"{_name(condition)} did not hold within {within:g} s ({calls} calls): at last it {outcome}"
    raise AssertionError(failure) from cause


def _name(condition: Callable[[], object]) -> str:
    name = getattr(condition, "__qualname__", repr(condition))
    if name.endswith("<lambda>"):
        try:
            return f"`{inspect.getsource(condition).strip()}`"
        except (OSError, TypeError):
            pass
    return f"`{name}`"
