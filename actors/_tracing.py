"""Request tracing: who asked whom. For those who want it; without a tracer an ask pays nothing for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from contextlib import AbstractContextManager

R = TypeVar("R")


@attrs.define(eq=False)
class TracedAsk:
    """One ask, as a tracer sees it: the same object where it is asked and where it is handled."""

    asker: str | None
    """The path of the actor that asks; None for an asker outside the actors."""
    target: str
    """The path of the actor that is asked."""
    message: object
    note: object = None
    """The tracer's own: what goes with the ask from `traced` to `handling`."""


class Tracer(Protocol):
    """What `open_system(tracer=...)` takes. A system with a tracer dispatches nothing inline."""

    async def traced(self, ask: TracedAsk, answer: Awaitable[R], /) -> R:
        """Await `answer` and return it, and note what happened around it. In the task of the asker."""
        ...

    def handling(self, ask: TracedAsk, /) -> AbstractContextManager[object]:
        """Entered before the handler of the ask and left after it, by its exception if it raises. In the actor's task;
        context variables that it sets are seen by the handler, and so by the asks that this makes."""
        ...
