"""Spawning: from a body to a ref of an actor that is ready."""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import trio

from ._body import body_of, mailbox_of
from ._cell import Cell
from ._current import CURRENT
from ._errors import ActorStopped, StartFailed, SystemStopped
from ._links import declare_needs
from ._lives import begin, run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lifecycle import TaskGroup

    from ._mailbox import Mailbox
    from ._node import Node
    from ._ref import AnyRef, Ref
    from ._supervisor import Supervisor


def start_cell(
    node: Node,
    what: Any,
    args: tuple[Any, ...],
    name: str | None = None,
    mailbox: Mailbox | None = None,
    inline: bool | None = None,
    needs: Iterable[AnyRef] = (),
    supervisor: Supervisor | None = None,
    transparent: bool = False,
    stem: str | None = None,
) -> Cell:
    """Make the cell, give it its place in the tree, start its task. Raises without a trace left when it cannot."""
    system = node.system
    body = body_of(what, args, system.inline if inline is None else inline and system.inline)
    body.transparent = transparent
    group = node.group()
    cell = Cell(node.free_name(name, stem or body.name), node, body, mailbox_of(what, mailbox), supervisor, group)
    if supervisor is None and body.begins_early:
        # In a context of its own, which the actor's task inherits: the factory runs as the actor.
        copy_context().run(_begin_early, cell, needs, group)
    else:
        _enter_tree(cell, needs, group)
    return cell


def _begin_early(cell: Cell, needs: Iterable[AnyRef], group: TaskGroup) -> None:
    """Make the object of a class actor at once. One without `started` is ready then, before its task has run."""
    CURRENT.set(cell)
    try:
        begin(cell)
    except Exception as exc:
        raise StartFailed(cell.path, exc) from exc
    cell.early = True
    _enter_tree(cell, needs, group)
    if not cell.body.may_await_at_once(cell, fresh=True):
        cell.ready()


def _enter_tree(cell: Cell, needs: Iterable[AnyRef], group: TaskGroup) -> None:
    if needs:
        declare_needs(cell, tuple(ref.box_.cell for ref in needs))
    cell.node.take(cell)
    group.adopt(cell, run, cell)


async def await_ready(cell: Cell) -> None:
    """Wait until the cell is ready. A failed start raises `StartFailed`; a cancelled one leaves nothing behind."""
    try:
        await cell.wait_ready()
    except BaseException:
        cell.end("kill")
        with cell.system.cleanup():
            await cell.wait_ended()  # noqa: ASYNC102 (shielded by cleanup(), which ends)
        raise
    if not cell.is_ready:
        assert cell.exit is not None
        cause = cell.exit.cause
        if isinstance(cause, StartFailed | SystemStopped):
            raise cause  # of a child that it starts with: one failure, not a chain
        if cause is None:
            if cell.system.stopping.is_set():
                raise SystemStopped(cell.system.name)
            cause = ActorStopped(cell.path, cell.exit)
        raise StartFailed(cell.path, cause) from cause


async def spawn(node: Node, what: Any, args: tuple[Any, ...], **options: Any) -> Ref[Any]:
    """Start an actor below `node` and return its ref when it is ready. A cancel point, and a schedule point at least
    once per slice."""
    slice_ = node.system.slice
    slice_.left -= 1
    if slice_.left < 0 or slice_.clock() > slice_.end:
        await trio.lowlevel.checkpoint()
        slice_.renew()
    else:
        await trio.lowlevel.checkpoint_if_cancelled()
    cell = start_cell(node, what, args, **options)
    if not cell.is_ready:
        await await_ready(cell)
        slice_.renew()
    return cell.ref
