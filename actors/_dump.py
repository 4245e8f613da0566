"""The tree as it stands, for people and programs that ask what the actors are doing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, final

import attrs

from lifecycle import task_stack

from ._cell import Cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lifecycle import TaskGroup

    from ._system import System

MAX_ACTORS = 100_000

DEEPEST_INDENT = 32
"""Levels that the drawing indents; deeper ones stand below one another."""

_MACHINERY = tuple(os.path.join("actors", f"{module}.py:") for module in ("_lives", "_body", "_loop"))
"""Where the frames are that every actor's stack has."""


@attrs.frozen
class ActorDump:
    """One actor at one moment."""

    path: str
    level: int
    """How deep it is in the tree; 0 for the top."""
    body: str
    state: str
    generation: int
    queued: int
    handled: int
    abandoned: int
    message: str | None
    """The class of the message in hand."""
    age: float
    """Seconds since the message in hand was taken."""
    stack: tuple[str, ...]
    """Where its code stands, innermost last; empty for an idle actor."""


@final
@attrs.frozen
class TreeDump:
    """A whole system at one moment. `str()` draws it."""

    name: str
    actors: tuple[ActorDump, ...]
    omitted: int = 0

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"system {self.name}: {len(self.actors) + self.omitted} actors"
        for actor in self.actors:
            indent = "  " * min(actor.level + 1, DEEPEST_INDENT)
            line = f"{indent}{actor.path}  {actor.body}  {actor.state}  {actor.queued} queued, {actor.handled} handled"
            if actor.generation > 1:
                line += f", started {actor.generation} times"
            if actor.message is not None:
                line += f", {actor.message} in hand for {actor.age:.3f} s"
            yield line
            for frame in actor.stack:
                yield f"{indent}    at {frame}"
        if self.omitted:
            yield f"  and {self.omitted} more"


def dump_system(system: System) -> TreeDump:
    """Take the dump: parents before their children, siblings in start order. Sync, so it is one moment."""
    actors: list[ActorDump] = []
    omitted = 0
    todo: list[tuple[Cell, int, str]] = [(cell, 0, "") for cell in _cells(system.group)]
    while todo:
        cell, level, above = todo.pop()
        path = f"{above}/{cell.name}"
        if len(actors) < MAX_ACTORS:
            actors.append(_dump(cell, level, path))
        else:
            omitted += 1
        if cell.own is not None:
            below = above if cell.body.transparent else path
            todo.extend((child, level + 1, below) for child in _cells(cell.own))
    return TreeDump(system.name, tuple(actors), omitted)


def _cells(group: TaskGroup) -> list[Cell]:
    """The actors of a group, last first."""
    return [record for record in group.records() if isinstance(record, Cell)][::-1]


def _dump(cell: Cell, level: int, path: str) -> ActorDump:
    item = cell.in_hand
    busy = cell.box.waiter is None and cell.task is not None
    factory = cell.body.factory
    return ActorDump(
        path=path,
        level=level,
        body=getattr(factory, "__qualname__", type(factory).__qualname__),
        state="idle" if cell.state == "running" and not busy else cell.state,
        generation=cell.generation,
        queued=cell.box.depth,
        handled=cell.handled,
        abandoned=cell.abandoned,
        message=None if item is None else type(item[0]).__qualname__,
        age=cell.age,
        stack=_stack(cell) if busy and not cell.waits else (),
    )


def _stack(cell: Cell) -> tuple[str, ...]:
    return tuple(line for line in task_stack(cell.task) if not any(place in line for place in _MACHINERY))
