"""The class form of an actor: state in `self`, a method for each message class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeGuard, TypeVar, get_args, get_origin

from ._handlers import HandlerTable, check_complete, compile_handlers
from ._mailbox import Mailbox

if TYPE_CHECKING:
    from ._context import ActorContext
    from ._inbox import Inbox
    from ._message import Exit

M_contra = TypeVar("M_contra", contravariant=True)


class Actor(Generic[M_contra]):
    """Derive from `Actor[A | B | ...]` and write a `@handles` method for each message class.

    One message is in hand at a time. An exception that leaves a handler is a crash: the supervisor decides, and a
    restart makes a new object from the factory. An instance is itself a body over an inbox, so it can be spawned too.
    A class that takes messages without a handler for one of them raises `HandlerMissing` when it is defined.
    """

    mailbox: ClassVar[Mailbox] = Mailbox()
    """Limit and policy of the mailbox; `spawn(mailbox=...)` overrides it."""

    cancel_abandoned: ClassVar[bool] = True
    """Whether an async handler is cancelled when its asker has gone. A message class can say `shield = True`
    instead."""

    inline: ClassVar[bool] = True
    """Whether an idle actor of this class may run plain handlers on the stack of the asker."""

    handlers_: ClassVar[HandlerTable] = HandlerTable({}, {})
    hooks_: ClassVar[frozenset[str]] = frozenset()
    interrupt_on_stop_: ClassVar[bool] = False

    context: ActorContext[M_contra]
    """What the actor may do to the world around it. There from `started` on."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.handlers_ = compile_handlers(cls)
        hooks = ("started", "stopping", "restarting", "__call__")
        cls.hooks_ = frozenset(hook for hook in hooks if getattr(cls, hook) is not getattr(Actor, hook))
        if "__call__" not in cls.hooks_:
            for base in getattr(cls, "__orig_bases__", ()):
                if isinstance(get_origin(base), type) and issubclass(get_origin(base), Actor):
                    for protocol in get_args(base):
                        check_complete(cls, protocol, cls.handlers_)

    async def started(self) -> None:
        """Called before the first message, at every start. `spawn` returns after it; if it raises, the start has
        failed."""

    async def stopping(self, reason: Exit) -> None:
        """Called once at the end, when the mailbox is closed and the children have ended. May await: it is shielded,
        and cancelled at the shutdown deadline."""

    async def restarting(self, cause: BaseException) -> None:
        """Called on the old object before a new one takes its place, shielded like `stopping`."""

    async def __call__(self, inbox: Inbox[M_contra], /) -> None:
        """The body: take messages from the inbox and give each to its handler, until the actor is told to end."""
        await inbox.serve_(self)


def is_actor(what: object) -> TypeGuard[Actor[Any]]:
    """Whether this is the object of a class actor."""
    return isinstance(what, Actor)
