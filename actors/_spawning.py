"""What a system and an actor's context have in common: both spawn below themselves, and look actors up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, overload

import trio

from ._actor import is_actor
from ._errors import InvalidSetting, NoSuchActor, NotABody
from ._spawn import await_ready, spawn, start_cell

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Concatenate

    from ._actor import Actor
    from ._child import AnyChild
    from ._inbox import Inbox
    from ._mailbox import Mailbox
    from ._node import Node
    from ._pool import Pool
    from ._ref import AnyRef, Ref
    from ._supervised import Supervision
    from ._supervision import RestartKind, Strategy

M = TypeVar("M")
Ts = TypeVarTuple("Ts")


class Spawner:
    """Spawns actors below one place of the tree. `System` and `ActorContext` are such."""

    __slots__ = ()

    def node_(self) -> Node:
        raise NotImplementedError

    @overload
    async def spawn(
        self, body: Callable[[*Ts], Actor[M]], /, *args: *Ts, name: str | None = None, mailbox: Mailbox | None = None,
        inline: bool | None = None, needs: Iterable[AnyRef] = (),
    ) -> Ref[M]: ...  # fmt: skip
    @overload
    async def spawn(
        self, body: Callable[[Inbox[M], *Ts], Awaitable[None]], /, *args: *Ts, name: str | None = None,
        mailbox: Mailbox | None = None, inline: bool | None = None, needs: Iterable[AnyRef] = (),
    ) -> Ref[M]: ...  # fmt: skip
    async def spawn(
        self, body: Callable[..., object], /, *args: object, name: str | None = None, mailbox: Mailbox | None = None,
        inline: bool | None = None, needs: Iterable[AnyRef] = (),
    ) -> Ref[Any]:  # fmt: skip
        """Start an actor without a supervisor and return its ref when it is ready.

        A class actor is ready after `started`, a function actor at its first wait on the inbox. If it fails before
        that, `StartFailed` is raised here and nothing of it is left; if it fails later, its parent fails with it.
        `needs` names actors that a shutdown tells to end only after this one has ended. Raises `NameTaken`,
        `NameInvalid`, `NotABody`, `SystemStopped` or `ActorStopped`. Always a cancel point, and a schedule point at
        least once per slice; cancelling it ends the half-started actor first.
        """
        return await spawn(self.node_(), body, args, name=name, mailbox=mailbox, inline=inline, needs=tuple(needs))

    async def supervise(self, strategy: Strategy, /, *children: AnyChild, name: str | None = None) -> Supervision:
        """Start a supervisor with its children, in order, and return when all are ready.

        Without a name the supervisor adds no level to the paths: its child `till` is found at `/till`. A child that
        does not start raises `StartFailed` here, after those before it have been stopped again. A checkpoint.
        """
        from ._supervised import Supervision
        from ._supervisor import Supervisor

        await trio.lowlevel.checkpoint_if_cancelled()
        cell = start_cell(
            self.node_(), Supervisor, (strategy, *children), name, transparent=name is None, stem="supervisor"
        )
        await await_ready(cell)
        return Supervision(cell)

    @overload
    async def pool(
        self, body: Callable[[*Ts], Actor[M]], /, *args: *Ts, size: int, name: str | None = None,
        strategy: Strategy | None = None, restart: RestartKind = "permanent", mailbox: Mailbox | None = None,
        inline: bool | None = None,
    ) -> Pool[M]: ...  # fmt: skip
    @overload
    async def pool(
        self, body: Callable[[Inbox[M], *Ts], Awaitable[None]], /, *args: *Ts, size: int, name: str | None = None,
        strategy: Strategy | None = None, restart: RestartKind = "permanent", mailbox: Mailbox | None = None,
        inline: bool | None = None,
    ) -> Pool[M]: ...  # fmt: skip
    async def pool(
        self, body: Callable[..., object], /, *args: object, size: int, name: str | None = None,
        strategy: Strategy | None = None, restart: RestartKind = "permanent", mailbox: Mailbox | None = None,
        inline: bool | None = None,
    ) -> Pool[Any]:  # fmt: skip
        """Start `size` supervised actors from one body and return them behind a router (at first: the least loaded).

        `strategy` is one_for_one by default. Members are named by number, below `name` if there is one. A checkpoint.
        """
        from ._body import body_of
        from ._child import Child
        from ._pool import Pool
        from ._supervision import one_for_one

        _check_size(size)
        if is_actor(body):
            raise NotABody(repr(body), "one object, which the members would share")
        factory: Any = body
        stem = body_of(body, args, inline=True).name
        children = [
            Child[Any](factory, *args, name=number, restart=restart, mailbox=mailbox, inline=inline)
            for number in (f"{number}" if name else None for number in range(1, size + 1))
        ]
        supervision = await self.supervise(strategy or one_for_one(), *children, name=name)
        return Pool[Any](name or stem, supervision, supervision.children())

    def find(
        self, path: str, specimen: type[Actor[M]] | Callable[Concatenate[Inbox[M], ...], Awaitable[None]], /
    ) -> Ref[M]:
        """The living actor at `path`, like `/bank/alice` (or `alice`, below this actor), made from `specimen`. Sync.

        Raises `NoSuchActor`, or `WrongSpecimen` if the actor there is made from another body.
        """
        from ._supervised import check_specimen

        node = self.node_()
        root = node.system.root if path.startswith("/") else node.namespace
        cell = root.find(path)
        if cell is None:
            raise NoSuchActor(path)
        check_specimen(cell, specimen)
        return cell.ref


def _check_size(size: object) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InvalidSetting(f"the size of a pool is a whole number of at least 1, not {size!r}")
