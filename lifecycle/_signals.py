"""SIGINT and SIGTERM as requests to stop: the first drains, each further one ends everything at once."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

import trio

from ._errors import SignalsUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SignalPolicy:
    """Decides what a signal means. Knows no clock and no tree."""

    __slots__ = ("_received",)

    def __init__(self) -> None:
        self._received = 0

    def receive(self) -> Literal["drain", "now"]:
        """What the signal that has just come asks for. Both signals count alike."""
        self._received += 1
        return "drain" if self._received == 1 else "now"


def take_signals(stack: ExitStack, runtime: str) -> AsyncIterator[int]:
    """Take SIGINT and SIGTERM over for the life of `stack`. Raises `SignalsUnavailable` outside the main thread."""
    try:
        return stack.enter_context(trio.open_signal_receiver(*STOP_SIGNALS))
    except RuntimeError as exc:
        raise SignalsUnavailable(runtime) from exc


async def watch_signals(
    runtime: str,
    drain: Callable[[], object],
    now: Callable[[], object],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call `drain` at the first signal and `now` at each further one, until cancelled.

    Reports itself started when the signals are taken over; raises `SignalsUnavailable` when they cannot be.
    """
    policy = SignalPolicy()
    with ExitStack() as stack:
        signals = take_signals(stack, runtime)
        task_status.started()
        async for _ in signals:
            if policy.receive() == "drain":
                drain()
            else:
                now()
