"""Messages: what an actor is sent, and the few that the framework itself sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

import attrs

if TYPE_CHECKING:
    from ._ref import AnyRef
    from ._topic import Topic

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
M_co = TypeVar("M_co", covariant=True)

ExitKind = Literal["finished", "stopped", "drained", "killed", "failed"]
DeadReason = Literal["stopped", "refused", "crashed", "killed", "displaced", "stale", "full"]


class Request(Generic[R]):
    """A message that is answered with an `R`. Derive from it: `class Balance(Request[int])`.

    Any class is a message; one that derives from `Request` may be asked. Make messages immutable
    (`@attrs.frozen`): sender and receiver share the object. The options below are class attributes of any message
    class, requests or not.
    """

    __slots__ = ()

    shield: ClassVar[bool] = False
    """Finish handling this message even if its asker has gone."""

    control: ClassVar[bool] = False
    """Put this message ahead of all data, in the control lane of the mailbox."""

    def _pair(self) -> tuple[Self, R]:
        raise NotImplementedError  # for type checkers only


class Asked(Protocol[M_co, R_co]):
    """For type checkers: a message of type `M` that is answered with an `R`."""

    def _pair(self) -> tuple[M_co, R_co]: ...


@attrs.frozen
class Exit:
    """How an actor ended."""

    kind: ExitKind
    """*finished*: it returned; *stopped*, *drained*, *killed*: it was told to; *failed*: an exception left it."""

    cause: BaseException | None = None
    """What it failed with."""

    @property
    def failed(self) -> bool:
        """Whether it was an exception that ended the actor."""
        return self.kind == "failed"


@attrs.frozen(eq=False)
class Terminated:
    """A watched actor has ended. Delivered exactly once per watch, in the control lane, ahead of data."""

    ref: AnyRef
    reason: Exit


@attrs.frozen
class DeadLetter:
    """A message that was accepted or offered and will not be handled."""

    message: object
    sender: AnyRef | None
    """The actor that sent it; None for a sender outside the actors."""
    recipient: str
    """The path of the actor that it was for."""
    reason: DeadReason


@attrs.frozen(eq=False)
class Lagged:
    """A subscriber of a topic has missed this many messages since the last one that it was given."""

    topic: Topic[Any]
    missed: int


def is_control(message_type: type[object]) -> bool:
    """Whether messages of this class go into the control lane."""
    return getattr(message_type, "control", False) is True


def is_shielded(message: object) -> bool:
    """Whether this message is handled to its end when its asker has gone."""
    return getattr(type(message), "shield", False) is True


class ControlTypes(dict[type[object], bool]):
    """Which message classes go into the control lane, looked up once per class and system."""

    LIMIT = 4096

    def __missing__(self, message_type: type[object]) -> bool:
        if len(self) >= self.LIMIT:
            self.clear()
        answer = self[message_type] = is_control(message_type)
        return answer
