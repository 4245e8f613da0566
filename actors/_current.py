"""Who is running: the actor whose code the present task runs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._cell import Cell

CURRENT: ContextVar[Cell | None] = ContextVar("tenure_actor", default=None)
"""Set in the context of each actor's task, and inherited by the helper tasks that it starts."""

current_cell = CURRENT.get
