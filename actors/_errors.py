"""What can go wrong with actors: one class per mistake, each with the facts as fields.

The text is built from the fields when it is asked for (an error that is only counted costs no formatting), and
names a message by its class alone: the message itself, which may be large or private, is in the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self, TypeVar, cast, overload

import attrs

if TYPE_CHECKING:
    from lifecycle import ShutdownReport

    from ._message import Exit

E = TypeVar("E", bound=Exception)
B = TypeVar("B", bound=BaseException)

CAUSES_KEPT = 64
"""A `RestartLimitExceeded` holds this many causes, or one more than its supervisor's `max_restarts` if that is more."""


class ActorError(Exception):
    """The root of every error that the actor model raises."""


# Messages and mailboxes


@attrs.define(eq=False)
class MailboxFull(ActorError):
    """The mailbox has no room and its policy refuses; the message was not accepted. `name` is the actor's path and
    `budget` that of the budget without room, None if it is the mailbox's own limit."""

    name: str
    limit: int
    depth: int
    budget: str | None = None

    def __str__(self) -> str:
        if self.budget is not None:
            return (
                f"the mailbox of {self.name} gets no room from budget {self.budget!r} ({self.depth} messages queued): "
                "await send() to wait for room, raise the budget, or give the mailbox a policy that drops"
            )
        return (
            f"the mailbox of {self.name} is full ({self.depth} messages, limit {self.limit}): await send() to wait for "
            "room, raise the limit, or give the mailbox a policy that drops"
        )


@attrs.define(eq=False)
class MessageDropped(ActorError):
    """The mailbox's policy displaced this ask before the actor took it; it was never handled."""

    path: str
    policy: str

    def __str__(self) -> str:
        return f"the mailbox of {self.path} dropped the request unread (policy {self.policy}): ask again, or later"


@attrs.define(eq=False)
class MessageRefused(ActorError):
    """The actor takes no message of this class; the message is a dead letter and the actor goes on."""

    path: str
    message_type: type[object]

    def __str__(self) -> str:
        return (
            f"{self.path} does not take {_named(self.message_type)}: add a handler for it, or send it to an actor that "
            "takes it (a type checker finds this beforehand)"
        )


@attrs.define(eq=False)
class StashFull(ActorError):
    """The actor may put no more messages aside."""

    path: str
    limit: int

    def __str__(self) -> str:
        return f"{self.path} has stashed {self.limit} messages, its limit: call unstash_all() earlier, or refuse some"


# Asks and replies


@attrs.define(eq=False)
class ActorStopped(ActorError):
    """The actor has ended, or takes nothing more because it is ending (`exit` is None until it has)."""

    path: str
    exit: Exit | None = None

    def __str__(self) -> str:
        if self.exit is None:
            how = "is stopping"
        elif self.exit.cause is None:
            how = f"has ended ({self.exit.kind})"
        else:
            how = f"has ended ({self.exit.kind}: {_said(self.exit.cause)})"
        return f"{self.path} {how} and takes no more messages: watch() it to be told of its end, or spawn it again"


@attrs.define(eq=False)
class ActorCrashed(ActorError):
    """The handler of this request raised `cause`, which is the `__cause__` too. The actor may be restarted after it."""

    path: str
    message: object
    cause: BaseException

    def __attrs_post_init__(self) -> None:
        self.__cause__: BaseException | None = self.cause

    def __str__(self) -> str:
        return (
            f"{self.path} crashed while it handled {_class_of(self.message)} ({_said(self.cause)}): the request may be "
            "done in part; ask again only if doing it twice is harmless"
        )


@attrs.define(eq=False)
class NoReply(ActorError):
    """The request was handled to its end, or its `Later` let go, without an answer."""

    path: str
    message: object

    def __str__(self) -> str:
        return (
            f"{self.path} gave no answer to {_class_of(self.message)}: reply to every request, or keep its later() and "
            "set it"
        )


@attrs.define(eq=False)
class AlreadyReplied(ActorError):
    """This request has its answer; the second one went nowhere."""

    path: str
    message: object

    def __str__(self) -> str:
        return f"{self.path} has answered {_class_of(self.message)} before: answer each request exactly once"


@attrs.define(eq=False)
class NotInHand(ActorError):
    """A message was to be answered or put aside that is not in hand: it was deferred, or its turn is over."""

    path: str
    message_type: type[object]

    def __str__(self) -> str:
        return (
            f"{self.path} has no {_named(self.message_type)} in hand: answer a message before the next one is taken, "
            "or keep what later() returned"
        )


@attrs.define(eq=False)
class WrongThread(ActorError):
    """The actor lives in another thread."""

    path: str

    def __str__(self) -> str:
        how = "trio.from_thread.run() or trio.from_thread.run_sync()"
        return f"{self.path} lives in another thread: call it there, by {how}"


@attrs.define(eq=False)
class AskCycle(ActorError):
    """The ask would wait for itself. `path` leads from the asker through the asks in hand back to the asker."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"the ask would wait for itself for ever ({' -> '.join(self.path)}): use tell() for one of the steps, or "
            "answer with context.later() so that the request is no longer in hand"
        )


@attrs.define(eq=False)
class WouldDeadlock(ActorError):
    """The actor would wait for its own end. `operation` is the call that was made."""

    path: str
    operation: str

    def __str__(self) -> str:
        return (
            f"{self.operation} within {self.path} would wait for its own end: call context.stop() or context.drain(), "
            "which only ask for it"
        )


# Spawning and finding


@attrs.define(eq=False)
class NameTaken(ActorError):
    """A living actor below `parent` (a path) has this name."""

    name: str
    parent: str

    def __str__(self) -> str:
        return (
            f"the name {self.name!r} is taken below {self.parent}: choose another, leave it out, or wait for the end "
            "of the actor that has it"
        )


@attrs.define(eq=False)
class NameInvalid(ActorError):
    """The text cannot be a name in the tree; `mistake` says why."""

    name: str
    mistake: str

    def __str__(self) -> str:
        return f"{self.name[:80]!r} cannot be a name: {self.mistake}"


@attrs.define(eq=False)
class NoSuchActor(ActorError):
    """Nothing alive has this path."""

    path: str

    def __str__(self) -> str:
        return f"there is no actor at {self.path}: spawn it first, or look at str(system.dump()) for what is there"


@attrs.define(eq=False)
class WrongSpecimen(ActorError):
    """The actor at the path is not made from the body that the lookup named."""

    path: str
    wanted: str
    found: str

    def __str__(self) -> str:
        return f"the actor at {self.path} is {self.found}, not {self.wanted}: look it up with the body it was made from"


@attrs.define(eq=False)
class StartFailed(ActorError):
    """The actor ended before it was ready. `cause` is the `__cause__` too; nothing of the actor is left."""

    path: str
    cause: BaseException

    def __attrs_post_init__(self) -> None:
        self.__cause__: BaseException | None = self.cause

    def __str__(self) -> str:
        return f"{self.path} did not start ({_said(self.cause)}): its name is free again, mend the cause and spawn it"


@attrs.define(eq=False)
class EndedBeforeReady(ActorError):
    """The body returned before it first waited on its inbox; the cause of a `StartFailed`."""

    path: str

    def __str__(self) -> str:
        return f"the body of {self.path} returned before it was ready: loop over the inbox (async for message in inbox)"


@attrs.define(eq=False)
class NotABody(ActorError):
    """An actor cannot be made from this. `what` is what was given, `found` what it is or gave (both as text)."""

    what: str
    found: str

    def __str__(self) -> str:
        return (
            f"{self.what[:200]} is no body of an actor ({self.found[:200]}): give an Actor class, a function that "
            "returns an Actor, or an async function over an Inbox"
        )


@attrs.define(eq=False)
class SystemStopped(ActorError):
    """The system takes no new actors: it is stopping or has ended."""

    name: str

    def __str__(self) -> str:
        return f"the system {self.name} is stopping or has ended and spawns nothing: use it inside its block only"


@attrs.define(eq=False)
class HandlerMissing(ActorError):
    """The actor class declares messages that no method handles."""

    actor_class: type[object]
    messages: tuple[type[object], ...]

    def __str__(self) -> str:
        names = ", ".join(_named(message) for message in self.messages)
        return (
            f"{_named(self.actor_class)} has no handler for {names}: add a method with @handles for each, or take it "
            "out of Actor[...]"
        )


@attrs.define(eq=False)
class HandlerDoubled(ActorError):
    """Two methods of the actor class handle one message class."""

    actor_class: type[object]
    message: type[object]
    methods: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{_named(self.actor_class)} handles {_named(self.message)} in {' and '.join(self.methods)}: keep one of "
            "them"
        )


# Supervision


@attrs.define(eq=False)
class ChildEnded(ActorError):
    """Stands for the cause where a permanent child ended without a failure; it is never raised by itself."""

    name: str

    def __str__(self) -> str:
        return f"the permanent child {self.name} ended without a failure: let it run, or make it transient or temporary"


class RestartLimitExceeded(ActorError, ExceptionGroup[Exception]):
    """A supervisor gave up: the restart after this failure would have been one too many.

    The members are the failures inside the window, oldest first. It is an exception group in full: `except*`,
    `split` and `subgroup` give parts that keep `supervisor` (a path), `max_restarts`, `within` (seconds) and `omitted`
    (older causes that are not held).
    """

    supervisor: str
    max_restarts: int
    within: float
    omitted: int
    report: ShutdownReport | None = None
    """How the tree ended, where this has left the block of its system."""

    def __new__(
        cls, supervisor: str, max_restarts: int, within: float, causes: Sequence[Exception], omitted: int = 0
    ) -> Self:
        rate = f"more than {max_restarts} restart{'' if max_restarts == 1 else 's'} within {within:g} s"
        more = f" ({omitted} older causes left out)" if omitted else ""
        text = f"supervisor {supervisor} gave up, {rate}: mend the causes below, or allow more restarts{more}"
        return super().__new__(cls, text, causes)

    def __init__(
        self, supervisor: str, max_restarts: int, within: float, causes: Sequence[Exception], omitted: int = 0
    ) -> None:
        super().__init__(self.message, causes)
        self.supervisor = supervisor
        self.max_restarts = max_restarts
        self.within = within
        self.omitted = omitted

    @classmethod
    def flat(cls, supervisor: str, max_restarts: int, within: float, causes: Iterable[Exception]) -> Self:
        """The error with the causes themselves: one that is, or wraps, a `RestartLimitExceeded` is taken apart.

        A group of another kind stays whole. Supervisors that give up one above the other multiply their causes, so
        only the newest are held (see `CAUSES_KEPT`) and the others counted in `omitted`.
        """
        found, omitted = _flattened(causes)
        surplus = max(0, len(found) - max(CAUSES_KEPT, max_restarts + 1))
        return cls(supervisor, max_restarts, within, found[surplus:], omitted + surplus)

    @overload
    def derive(self, excs: Sequence[E], /) -> ExceptionGroup[E]: ...
    @overload
    def derive(self, excs: Sequence[B], /) -> BaseExceptionGroup[B]: ...
    def derive(self, excs: Sequence[BaseException], /) -> BaseExceptionGroup[BaseException]:
        """The same failure with other members; `split`, `subgroup` and `except*` make their parts with it."""
        members = [exc for exc in excs if isinstance(exc, Exception)]
        if len(members) < len(excs):
            return BaseExceptionGroup(self.message, excs)
        return type(self)(self.supervisor, self.max_restarts, self.within, members, self.omitted)


# Settings


@attrs.define(eq=False)
class ExtraMissing(ActorError):
    """Something optional was asked for whose package is not installed."""

    what: str
    package: str
    extra: str

    def __str__(self) -> str:
        return (
            f"{self.what} needs the package {self.package}, which is not installed: pip install 'tenure[{self.extra}]'"
        )


@attrs.define(eq=False)
class InvalidSetting(ActorError):
    """A value that cannot work, found when it is given; `mistake` names it, its bounds and what was given."""

    mistake: str

    def __str__(self) -> str:
        return self.mistake


class InvalidBackoff(InvalidSetting):
    """A `Backoff` that cannot work."""


class InvalidIntensity(InvalidSetting):
    """A restart intensity (`max_restarts`, `within`) that cannot work."""


class InvalidStrategy(InvalidSetting):
    """A supervision strategy whose parts cannot work: its kind, its back-off, its choices by exception type."""


class InvalidMailbox(InvalidSetting):
    """A `Mailbox` that cannot work."""


class InvalidRoute(InvalidSetting):
    """A route that cannot work, or a key that it cannot route by."""


class TimerInvalid(InvalidSetting):
    """A delay or a period that cannot work."""


@attrs.define(eq=False)
class TooManyTimers(ActorError):
    """The actor has as many timers as it may have."""

    path: str
    limit: int

    def __str__(self) -> str:
        return f"{self.path} has {self.limit} timers, its limit: cancel() those that are no longer needed"


@attrs.define(eq=False)
class NoMembers(ActorError):
    """There is nobody to route to."""

    name: str

    def __str__(self) -> str:
        return f"{self.name} has no members to route to: join one first, or wait until one has joined"


def _flattened(causes: Iterable[Exception]) -> tuple[list[Exception], int]:
    # By a stack, not by recursion: a chain of groups may be deeper than Python's.
    found: list[Exception] = []
    omitted = 0
    rest = list(causes)[::-1]
    while rest:
        cause = rest.pop()
        members = _members(cause)
        if isinstance(cause, RestartLimitExceeded):
            omitted += cause.omitted
            rest.extend(reversed(members))
        elif _holds_limit(members):
            rest.extend(reversed(members))
        else:
            found.append(cause)
    return found, omitted


def _members(exc: Exception) -> tuple[Exception, ...]:
    return cast("ExceptionGroup[Exception]", exc).exceptions if isinstance(exc, ExceptionGroup) else ()


def _holds_limit(causes: tuple[Exception, ...]) -> bool:
    rest = list(causes)
    while rest:
        cause = rest.pop()
        if isinstance(cause, RestartLimitExceeded):
            return True
        rest.extend(_members(cause))
    return False


def _named(cls: type[object]) -> str:
    return cls.__qualname__


def _class_of(message: object) -> str:
    return _named(type(message))


def _said(cause: BaseException) -> str:
    # A failing __str__ of somebody's exception must not hide the failure that it stands for.
    try:
        text = str(cause)
    except Exception:
        text = ""
    return f"{type(cause).__qualname__}: {text[:200]}" if text else type(cause).__qualname__
