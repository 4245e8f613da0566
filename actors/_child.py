"""A child specification: what a supervisor starts, and when it starts it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Never, TypeAlias, TypeVar, TypeVarTuple, final, overload

from ._actor import is_actor
from ._backoff import is_number
from ._errors import InvalidStrategy, NotABody
from ._node import check_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._actor import Actor
    from ._inbox import Inbox
    from ._mailbox import Mailbox
    from ._supervision import RestartKind

M_contra = TypeVar("M_contra", contravariant=True)
Ts = TypeVarTuple("Ts")


@final
class Child(Generic[M_contra]):
    """One child of a supervisor: a body with its arguments, and how it is to be supervised.

    `restart`: a *permanent* child is always started again, a *transient* one after a failure, a *temporary* one never.
    `shutdown` is how many seconds it may take to end before the child started before it is told to end too.
    """

    @overload
    def __init__(
        self, body: Callable[[*Ts], Actor[M_contra]], /, *args: *Ts, name: str | None = None,
        restart: RestartKind = "permanent", shutdown: float | None = None, mailbox: Mailbox | None = None,
        inline: bool | None = None,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self, body: Callable[[Inbox[M_contra], *Ts], Awaitable[None]], /, *args: *Ts, name: str | None = None,
        restart: RestartKind = "permanent", shutdown: float | None = None, mailbox: Mailbox | None = None,
        inline: bool | None = None,
    ) -> None: ...  # fmt: skip
    def __init__(
        self, body: Callable[..., object], /, *args: object, name: str | None = None,
        restart: RestartKind = "permanent", shutdown: float | None = None, mailbox: Mailbox | None = None,
        inline: bool | None = None,
    ) -> None:  # fmt: skip
        if is_actor(body) and restart != "temporary":
            raise NotABody(repr(body), "an object, which cannot be made afresh at a restart")
        if name is not None:
            check_name(name)
        if restart not in ("permanent", "transient", "temporary"):
            raise InvalidStrategy(f"restart is permanent, transient or temporary, not {restart!r}")
        if shutdown is not None and not (is_number(shutdown) and shutdown >= 0):
            raise InvalidStrategy(f"shutdown is a number of seconds, 0 or more, not {shutdown!r}")
        self.body = body
        self.args = args
        self.name = name
        self.restart: RestartKind = restart
        self.shutdown = shutdown
        self.mailbox = mailbox
        self.inline = inline

    def __repr__(self) -> str:
        body = getattr(self.body, "__qualname__", repr(self.body))
        return f"<Child {self.name or body} {self.restart}>"


AnyChild: TypeAlias = Child[Never]
"""A child of any kind."""
