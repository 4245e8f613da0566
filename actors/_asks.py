"""The asks that an actor waits for from its body, the cycles that they could close, and what cancels them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, final

from ._errors import AskCycle

if TYPE_CHECKING:
    import trio

    from ._cell import Cell
    from ._reply import Ask


@final
class PendingAsks:
    """Whom an actor waits for. Usually one ask; more when its body asks from several tasks of a nursery."""

    __slots__ = ("_asks",)

    def __init__(self) -> None:
        self._asks: dict[Ask, None] = {}

    def begin(self, asker: Cell, ask: Ask) -> None:
        """Note that `asker` is about to wait for `ask`. Raises `AskCycle` if the answer would wait for the asker."""
        target = ask.cell
        if target is asker:
            raise AskCycle((asker.path, asker.path))
        if target.box.waiter is None:
            path = cycle(asker, target)
            if path is not None:
                raise AskCycle(path)
        self.add(ask)

    def add(self, ask: Ask) -> None:
        """Note that the actor waits for `ask`."""
        self._asks[ask] = None

    def remove(self, ask: Ask) -> None:
        """The wait is over, by an answer or by a cancellation."""
        del self._asks[ask]

    def targets(self) -> list[Cell]:
        """The actors that must answer before the body goes on. One that has deferred its answer is free itself."""
        return [ask.cell for ask in self._asks if not (ask.done or ask.deferred)]


def cycle(asker: Cell, target: Cell) -> tuple[str, ...] | None:
    """The path of an ask from `asker` to `target` that would come back to the asker; None if it would not."""
    came_from: dict[Cell, Cell] = {target: asker}
    todo = [target]
    while todo:
        cell = todo.pop()
        for further in cell.asks.targets() if cell.asks is not None else ():
            if further is asker:
                return _path(asker, cell, came_from)
            if further not in came_from:
                came_from[further] = cell
                todo.append(further)
    return None


def _path(asker: Cell, last: Cell, came_from: dict[Cell, Cell]) -> tuple[str, ...]:
    cells = [asker, last]
    while cells[-1] is not asker:
        cells.append(came_from[cells[-1]])
    return tuple(cell.path for cell in reversed(cells))


@final
class Interrupts:
    """Cancels the handlers of abandoned asks one after the other. A handler that is cancelled may wait for an ask
    itself, whose handler is cancelled then, and so on: deeper than Python's stack."""

    __slots__ = ("_busy", "_todo")

    def __init__(self) -> None:
        self._todo: deque[trio.CancelScope] = deque()
        self._busy = False

    def cancel(self, scope: trio.CancelScope) -> None:
        """Cancel `scope`, now or when the one that is being cancelled has been. Sync."""
        self._todo.append(scope)
        if self._busy:
            return
        self._busy = True
        try:
            while self._todo:
                self._todo.popleft().cancel()
        finally:
            self._busy = False
