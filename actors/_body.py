"""Bodies: what an actor runs. A class, an instance, a factory of actors, or a function over an inbox."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, final, get_args, get_origin, get_type_hints

from ._actor import Actor, is_actor
from ._errors import InvalidMailbox, NotABody
from ._handlers import message_classes
from ._inbox import Inbox
from ._loop import serve
from ._mailbox import Mailbox
from ._message import is_shielded

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle import StopMode, TaskGroup

    from ._cell import Cell


class Body:
    """How to make and run one life of an actor. One object serves all lives."""

    __slots__ = ("args", "factory", "inline", "transparent")

    interrupt_on_stop = False
    begins_early = False
    """Whether the spawner may begin the first life: nothing of it can await."""

    def __init__(self, factory: Any, args: tuple[Any, ...], inline: bool) -> None:
        self.factory: Any = factory
        self.args: tuple[Any, ...] = args
        self.inline: bool = inline
        self.transparent: bool = False

    @property
    def name(self) -> str:
        """What the actor is called where nobody gave it a name."""
        name: str = getattr(self.factory, "__name__", type(self.factory).__name__)
        return "actor" if name == "<lambda>" else name.lstrip("_")

    def begin(self, cell: Cell) -> None:
        """Make what a fresh life starts with."""

    async def run(self, cell: Cell, fresh: bool) -> None:
        """Run a life to its end; `fresh` is False where it goes on after an interruption."""
        raise NotImplementedError

    def may_await_at_once(self, cell: Cell, fresh: bool) -> bool:
        """Whether a life may run code that awaits before a message says so, and so needs a scope from the start."""
        return True

    def may_interrupt(self, cell: Cell, message: object) -> bool:
        """Whether the handler of this message may be cancelled because its asker has gone."""
        return False

    def can_resume(self, cell: Cell) -> bool:
        """Whether the life that has just failed can go on with the next message."""
        return False

    async def end_children(self, cell: Cell, own: TaskGroup, mode: StopMode) -> None:
        """Tell the children to end, all at once."""
        own.close(mode)

    def end_children_harder(self, cell: Cell) -> bool:
        """The actor that waits for its children was told to end more strongly. True if they are to be told directly."""
        return True

    def is_made_from(self, specimen: object) -> bool:
        """Whether a lookup that names `specimen` means such an actor."""
        return self.factory is specimen


@final
class FunctionBody(Body):
    """`async def body(inbox, *args)`."""

    __slots__ = ()

    async def run(self, cell: Cell, fresh: bool) -> None:
        cell.accepts = cell.system.accepted_by(self.factory)
        tracer = cell.system.tracer
        if tracer is None:
            await self.factory(Inbox(cell), *self.args)
            return
        from ._traced import TracedInbox

        with TracedInbox(tracer, cell, Inbox(cell)) as inbox:
            await self.factory(inbox, *self.args)


class ClassBody(Body):
    """An `Actor` class, a function that returns an `Actor`, or an instance."""

    __slots__ = ("interrupt_on_stop",)

    begins_early = True

    def __init__(self, factory: Any, args: tuple[Any, ...], inline: bool) -> None:
        super().__init__(factory, args, inline)
        self.interrupt_on_stop = bool(getattr(factory, "interrupt_on_stop_", False))

    def begin(self, cell: Cell) -> None:
        target: object = self.factory if is_actor(self.factory) else self.factory(*self.args)
        if not is_actor(target):
            raise NotABody(repr(self.factory), repr(type(target)))
        context = getattr(target, "context", None)
        if context is not None and context.cell_ is not cell and context.cell_.exit is None:
            raise NotABody(repr(target), f"an object that {context.path} runs already")
        cell.bind(target)

    async def run(self, cell: Cell, fresh: bool) -> None:
        target = cell.target
        assert target is not None
        if "__call__" in target.hooks_:
            await target(Inbox(cell, fresh))
            return
        if fresh and "started" in target.hooks_:
            await target.started()
        if cell.state == "starting":
            cell.ready()
        await serve(cell)

    def may_await_at_once(self, cell: Cell, fresh: bool) -> bool:
        target = cell.target
        return target is None or "__call__" in target.hooks_ or (fresh and "started" in target.hooks_)

    def may_interrupt(self, cell: Cell, message: object) -> bool:
        target = cell.target
        made = target if cell.linked is None else cell.linked.made()
        return (
            target is not None
            and target.cancel_abandoned
            # A plain handler is done before a cancellation reaches it; a loop of the actor's own would be cut with it.
            and type(message) in cell.awaiting
            and (made is None or "__call__" not in made.hooks_)
            and not is_shielded(message)
        )

    def can_resume(self, cell: Cell) -> bool:
        # One with a body of its own keeps its state in that, as a function does.
        made = cell.made
        return made is not None and cell.begun and "__call__" not in made.hooks_

    async def end_children(self, cell: Cell, own: TaskGroup, mode: StopMode) -> None:
        end = getattr(cell.target, "end_children_", None)
        if end is None or mode == "kill":
            own.close(mode)
        else:
            await end()
            own.close("kill")

    def end_children_harder(self, cell: Cell) -> bool:
        harder = getattr(cell.target, "end_children_harder_", None)
        if harder is None:
            return True
        harder()
        return False

    def is_made_from(self, specimen: object) -> bool:
        factory: object = self.factory
        if inspect.isclass(specimen):
            if is_actor(factory):
                return isinstance(factory, specimen)
            if inspect.isclass(factory):
                return issubclass(factory, specimen)
        return factory is specimen


def body_of(what: Any, args: tuple[Any, ...], inline: bool) -> Body:
    """The body for what was given to `spawn` or `Child`. Raises `NotABody` where it is none."""
    if is_actor(what):
        return ClassBody(what, args, inline)
    if inspect.isclass(what):
        if not issubclass(what, Actor):
            raise NotABody(repr(what), "a class that does not derive from Actor")
        return ClassBody(what, args, inline)
    call: Any = getattr(what, "__call__", None)  # noqa: B004 - the method itself is looked at
    if inspect.iscoroutinefunction(what) or inspect.iscoroutinefunction(call):
        return FunctionBody(what, args, inline)
    if callable(what):
        return ClassBody(what, args, inline)
    raise NotABody(repr(what), f"an object of {type(what).__qualname__}")


def mailbox_of(what: Any, given: Mailbox | None) -> Mailbox:
    """The mailbox that was asked for, or that of the class. Raises `InvalidMailbox` for anything else."""
    spec: object = given if given is not None else getattr(what, "mailbox", Actor.mailbox)
    if not isinstance(spec, Mailbox):
        raise InvalidMailbox(f"mailbox is a Mailbox, such as Mailbox(limit=100), not {spec!r}")
    return spec


def accepted_types(fn: Callable[..., object]) -> tuple[type[object], ...] | None:
    """The message classes in the `Inbox[...]` annotation of a function actor; None where they cannot be told."""
    try:
        hints = get_type_hints(fn)
    except Exception:  # an annotation that only a type checker understands
        return None
    for hint in hints.values():
        if get_origin(hint) is Inbox:
            (protocol,) = get_args(hint)
            classes = message_classes(protocol)
            return classes or None
    return None
