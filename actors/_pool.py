"""A pool: several supervised actors from one body, behind a router."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, final

from ._group import Group

if TYPE_CHECKING:
    from ._group import Router
    from ._message import Asked, Exit
    from ._ref import Ref
    from ._supervised import Supervision

M = TypeVar("M")
R = TypeVar("R")


@final
class Pool(Generic[M]):
    """What `pool` returns. Send to it as to a ref: the router picks the member."""

    def __init__(self, name: str, supervision: Supervision, members: tuple[Ref[M], ...]) -> None:
        self.supervision = supervision
        """The supervisor of the members."""
        self.group: Group[M] = Group(name)
        """The members that have not ended."""
        for ref in members:
            self.group.join(ref)
        self.router: Router[M] = self.group.least_loaded()
        """The route in use; assign another one of the group's to change it."""

    def __repr__(self) -> str:
        return f"<Pool {self.group.name}, {len(self.group.members)} members>"

    @property
    def members(self) -> tuple[Ref[M], ...]:
        """The members, in the order of their numbers."""
        return self.group.members

    def tell(self, msg: M, /) -> None:
        """See `Ref.tell`."""
        self.router.tell(msg)

    async def send(self, msg: M, /) -> None:
        """See `Ref.send`."""
        await self.router.send(msg)

    async def ask(self, msg: Asked[M, R], /) -> R:
        """See `Ref.ask`."""
        return await self.router.ask(msg)

    def broadcast(self, msg: M, /) -> int:
        """See `Group.broadcast`."""
        return self.group.broadcast(msg)

    async def stop(self) -> Exit:
        """End the members, then their supervisor. A checkpoint."""
        return await self.supervision.stop()
