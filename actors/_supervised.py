"""What `supervise` returns: a handle on the supervisor, and its children by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar, final

import trio

from ._actor import Actor
from ._errors import ActorStopped, NoSuchActor, WrongSpecimen
from ._supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Concatenate

    from ._cell import Cell
    from ._child import Child
    from ._inbox import Inbox
    from ._message import Exit
    from ._ref import AnyRef, Ref

M = TypeVar("M")
Specimen: TypeAlias = "type[Actor[M]] | Callable[Concatenate[Inbox[M], ...], Awaitable[None]]"


@final
class Supervision:
    """What `supervise` returns: the supervisor's ref, and its children by name."""

    def __init__(self, cell: Cell, /) -> None:
        self._cell = cell

    def __repr__(self) -> str:
        return f"<Supervision {self._cell.path}, {len(self.children())} children>"

    @property
    def ref(self) -> AnyRef:
        """The supervisor itself: watch it, stop it."""
        return self._cell.ref

    def children(self) -> tuple[AnyRef, ...]:
        """The living children, in start order. None when the supervisor has ended."""
        supervisor = self._supervisor
        return () if supervisor is None else tuple(cell.ref for cell, _ in supervisor.children)

    def child(self, name: str, specimen: Specimen[M], /) -> Ref[M]:
        """The child with this name, made from `specimen`. Raises `NoSuchActor`, `WrongSpecimen`."""
        supervisor = self._supervisor
        for cell, _ in () if supervisor is None else supervisor.children:
            if cell.name == name:
                check_specimen(cell, specimen)
                return cell.ref
        raise NoSuchActor(self._cell.links.own_node().path_of(name))

    async def start(self, child: Child[M], /) -> Ref[M]:
        """Start one more child, after all others, and return its ref when it is ready.

        Raises `StartFailed`; `ActorStopped` when the supervisor is ending, or is itself being restarted. A checkpoint.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        supervisor = self._supervisor
        if supervisor is None or not self._cell.begun:
            raise ActorStopped(self._cell.path, self._cell.exit)
        return await supervisor.start_child(child)

    async def stop(self) -> Exit:
        """End the children in reverse start order, then the supervisor. A checkpoint."""
        return await self._cell.ref.stop()

    @property
    def _supervisor(self) -> Supervisor | None:
        target = self._cell.target
        return target if isinstance(target, Supervisor) else None


def check_specimen(cell: Cell, specimen: object) -> None:
    """Raise `WrongSpecimen` unless the actor is made from `specimen`."""
    if not cell.body.is_made_from(specimen):
        raise WrongSpecimen(cell.path, _name_of(specimen), _name_of(cell.body.factory))


def _name_of(body: object) -> str:
    return getattr(body, "__qualname__", None) or type(body).__qualname__
