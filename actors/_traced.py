"""How a system with a tracer tells it of its asks: around the wait of the asker, and around the handler."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self, final

from ._tracing import TracedAsk

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from ._cell import Cell
    from ._handlers import HandlerTable
    from ._inbox import Inbox
    from ._reply import Ask
    from ._tracing import Tracer


async def ask_traced(tracer: Tracer, ask: Ask, answer: Coroutine[Any, Any, Any]) -> Any:
    """Await `answer` under the tracer's eyes."""
    ask.trace = TracedAsk(None if ask.sender is None else ask.sender.path, ask.cell.path, ask.message)
    try:
        return await tracer.traced(ask.trace, answer)
    finally:
        answer.close()  # a tracer that raises may never have awaited it


def _trace_in_hand(cell: Cell) -> TracedAsk | None:
    ask = cell.in_hand[2] if cell.in_hand is not None else None
    return getattr(ask, "trace", None)


def traced_handlers(
    tracer: Tracer, cell: Cell, table: HandlerTable
) -> tuple[dict[type[object], Any], dict[type[object], Any]]:
    """The handlers of a table, plain and awaiting, with the tracer around them."""
    plain = {message: _plain(tracer, cell, fn) for message, fn in table.plain.items()}
    awaiting = {message: _awaiting(tracer, cell, fn) for message, fn in table.awaiting.items()}
    return plain, awaiting


def _plain(tracer: Tracer, cell: Cell, fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def handler(target: object, message: object) -> object:
        trace = _trace_in_hand(cell)
        if trace is None:
            return fn(target, message)
        with tracer.handling(trace):
            return fn(target, message)

    return handler


def _awaiting(tracer: Tracer, cell: Cell, fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    async def handler(target: object, message: object) -> object:
        trace = _trace_in_hand(cell)
        if trace is None:
            return await fn(target, message)
        with tracer.handling(trace):
            return await fn(target, message)

    return handler


@final
class TracedInbox:
    """An inbox that tells the tracer when the turn of an ask begins and ends. Left when the body ends."""

    def __init__(self, tracer: Tracer, cell: Cell, inbox: Inbox[Any]) -> None:
        self._tracer = tracer
        self._cell = cell
        self._inbox = inbox
        self._turn = ExitStack()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inbox, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._turn.__exit__(kind, exc, traceback)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        self._turn.close()
        message = await self._inbox.__anext__()
        trace = _trace_in_hand(self._cell)
        if trace is not None:
            self._turn.enter_context(self._tracer.handling(trace))
        return message
