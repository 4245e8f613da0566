"""Handlers: which method of an actor class takes which message class."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final, get_args, get_origin, overload

import attrs
import trio

from ._errors import HandlerDoubled, HandlerMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ._message import Asked
    from ._reply import Later

R = TypeVar("R")
S = TypeVar("S")
Q = TypeVar("Q")

_MARK = "__tenure_handles__"


@final
class _Handles(Generic[Q, R]):
    def __init__(self, message_type: type[object]) -> None:
        self._message_type = message_type

    @overload
    def __call__(self, fn: Callable[[S, Q], Later[R]], /) -> Callable[[S, Q], Later[R]]: ...
    @overload
    def __call__(self, fn: Callable[[S, Q], Coroutine[Any, Any, R]], /) -> Callable[[S, Q], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, fn: Callable[[S, Q], Coroutine[Any, Any, R | Later[R]]], /
    ) -> Callable[[S, Q], Coroutine[Any, Any, R | Later[R]]]: ...
    @overload
    def __call__(self, fn: Callable[[S, Q], R], /) -> Callable[[S, Q], R]: ...
    @overload
    def __call__(self, fn: Callable[[S, Q], R | Later[R]], /) -> Callable[[S, Q], R | Later[R]]: ...
    def __call__(self, fn: Callable[[S, Q], object], /) -> Callable[[S, Q], object]:
        setattr(fn, _MARK, self._message_type)
        if inspect.isfunction(fn):
            # The message loop is protected from KeyboardInterrupt so that it loses no message; user code is not.
            trio.lowlevel.disable_ki_protection(fn)
        return fn


@overload
def handles(message_type: type[Asked[Q, R]], /) -> _Handles[Q, R]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # the first that fits is meant
@overload
def handles(message_type: type[Q], /) -> _Handles[Q, None]: ...
def handles(message_type: object, /) -> object:
    """Mark a method of an `Actor` class as the handler of messages of `message_type` (and of classes derived from it).

    A plain `def` handler cannot suspend; an idle actor runs it inline for an `ask`. An `async def` handler may await,
    and the actor's next message waits for it. For a `Request[R]` the handler returns an `R`, or `context.later(msg)`.
    """
    if not inspect.isclass(message_type):
        raise TypeError(f"@handles takes a message class, not {message_type!r}: one method for each class of a union")
    return _Handles[Any, Any](message_type)


@attrs.frozen(eq=False)
class HandlerTable:
    """The handlers of one actor class, compiled when the class is made."""

    plain: dict[type[object], Callable[[Any, Any], Any]]
    awaiting: dict[type[object], Callable[[Any, Any], Coroutine[Any, Any, Any]]]

    def takes(self, message_type: type[object]) -> bool:
        """Whether there is a handler for messages of this class."""
        return any(base in self.plain or base in self.awaiting for base in message_type.__mro__)

    def adopt(self, message_type: type[object]) -> bool:
        """Let the handler of a base class take messages of this class from now on. False if there is none."""
        for base in message_type.__mro__:
            if base in self.plain:
                self.plain[message_type] = self.plain[base]
                return True
            if base in self.awaiting:
                self.awaiting[message_type] = self.awaiting[base]
                return True
        return False


def compile_handlers(cls: type[object]) -> HandlerTable:
    """Collect the `@handles` methods of `cls` and its bases. `HandlerDoubled` if two methods take one message class."""
    found: dict[type[object], tuple[str, Any]] = {}
    for name in _method_names(cls):
        fn = getattr(cls, name)
        if not callable(fn):
            continue  # a derived class has taken the handler away
        message_type = getattr(fn, _MARK, None)
        if message_type is None:
            message_type = _inherited_mark(cls, name)
        if message_type is None:
            continue
        if message_type in found:
            raise HandlerDoubled(cls, message_type, (found[message_type][0], name))
        found[message_type] = (name, fn)
    plain: dict[type[object], Any] = {}
    awaiting: dict[type[object], Any] = {}
    for message_type, (_, fn) in found.items():
        (awaiting if _is_async(fn) else plain)[message_type] = fn
    return HandlerTable(plain, awaiting)


def check_complete(cls: type[object], protocol: object, table: HandlerTable) -> None:
    """Raise `HandlerMissing` for message classes of `Actor[...]` that no method of a concrete class takes."""
    missing = tuple(t for t in message_classes(protocol) if not table.takes(t))
    if missing:
        raise HandlerMissing(cls, missing)


def message_classes(protocol: object) -> tuple[type[object], ...]:
    """The classes of a union of messages, as far as they are classes."""
    if isinstance(protocol, type):
        return () if protocol is object else (protocol,)
    origin = get_origin(protocol)
    if isinstance(origin, type) and not get_args(protocol):
        return (origin,)
    classes: list[type[object]] = []
    for part in get_args(protocol):
        classes.extend(message_classes(get_origin(part) if isinstance(get_origin(part), type) else part))
    return tuple(classes)


def _method_names(cls: type[object]) -> list[str]:
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if callable(value):
                names[name] = None
    return list(names)


def _is_async(fn: Any) -> bool:
    """Whether to await what `fn` returns: also if it wraps a coroutine function (`functools.wraps`)."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(inspect.unwrap(fn))


def _inherited_mark(cls: type[object], name: str) -> type[object] | None:
    """An override without a decorator of its own handles what the method that it overrides handles."""
    for base in cls.__mro__:
        mark = getattr(vars(base).get(name), _MARK, None)
        if isinstance(mark, type):
            return mark
    return None
