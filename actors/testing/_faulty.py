"""Applying a fault plan to actors: in front of their handlers, or of their inbox."""

from __future__ import annotations

import functools
import inspect
import types
from typing import TYPE_CHECKING, Any, Self, cast, final

import trio

from actors import Actor, MessageDropped, NotABody, Supervisor
from actors._handlers import HandlerTable

from ._errors import InjectedCrash

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from actors import Inbox
    from actors._cell import Cell

    from ._faults import Body, Fault, FaultPlan


def with_faults(plan: FaultPlan, body: Body) -> Body:
    """See `FaultPlan.wrap`."""
    injector = Injector(plan)
    given: object = body
    if isinstance(given, type):
        if not issubclass(given, Actor) or issubclass(given, Supervisor):
            raise NotABody(repr(body), "a class that takes no faults: wrap the actors that it starts")
        return cast("Body", _faulty_class(injector, body))
    if isinstance(given, Actor):
        raise NotABody(repr(body), "an actor already: give its class, or a function that makes one")
    if inspect.iscoroutinefunction(given):
        return cast("Body", _faulty_function(injector, given))
    return cast("Body", _faulty_factory(injector, body))


def _faulty_class(injector: Injector, cls: Any) -> object:
    names: dict[str, Any] = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    if cls.__call__ is not vars(Actor)["__call__"]:  # it reads its inbox itself

        async def call(self: Any, inbox: Inbox[Any]) -> None:
            await cls.__call__(self, injector.inbox(inbox))

        names["__call__"] = call
    faulty: Any = types.new_class(cls.__name__, (cls,), exec_body=lambda namespace: namespace.update(names))
    faulty.handlers_ = injector.table(cls.handlers_)
    return faulty


def _faulty_factory(injector: Injector, make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def factory(*args: Any, **kwargs: Any) -> Any:
        actor = make(*args, **kwargs)
        table = getattr(actor, "handlers_", None)
        if isinstance(table, HandlerTable):
            vars(actor)["handlers_"] = injector.table(table)  # of this one object
        return actor

    return factory


def _faulty_function(injector: Injector, body: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(body)
    async def faulty(inbox: Inbox[Any], *args: Any, **kwargs: Any) -> None:
        await body(injector.inbox(inbox), *args, **kwargs)

    return faulty


@final
class Injector:
    """Does to messages in hand what the plan decides. One for each body that is wrapped."""

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan
        self._copies: dict[int, list[object]] = {}  # by identity; holds them, so that no other message gets their id

    def decide(self, cell: Cell, message: object) -> Fault | None:
        copies = self._copies.get(id(message))
        if copies:
            copies.pop()
            if not copies:
                del self._copies[id(message)]
            return None
        return self._plan.decide(cell.path, message)

    def table(self, table: HandlerTable) -> HandlerTable:
        """The same handlers with faults before them."""
        plain: dict[type[object], Any] = {}
        awaiting = {cls: self._awaiting(handler) for cls, handler in table.awaiting.items()}
        for cls, handler in table.plain.items():
            if self._plan.odds["delay"]:
                awaiting[cls] = self._awaiting(handler)
            else:
                plain[cls] = self._plain(handler)
        return HandlerTable(plain, awaiting)

    def inbox(self, inbox: Inbox[Any]) -> Inbox[Any]:
        """The same inbox with faults in front of it."""
        return cast("Inbox[Any]", _FaultyInbox(self, inbox))

    def _plain(self, handler: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        @functools.wraps(handler)
        def faulty(actor: Actor[Any], message: object) -> Any:
            cell = actor.context.cell_
            fault = self.decide(cell, message)
            if fault is not None and self.spoil(cell, fault):
                return None
            answer = handler(actor, message)
            crash_after(fault)
            return answer

        return _unprotected(faulty)

    def _awaiting(self, handler: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        @functools.wraps(handler)
        async def faulty(actor: Actor[Any], message: object) -> Any:
            cell = actor.context.cell_
            fault = self.decide(cell, message)
            if fault is not None:
                if self.spoil(cell, fault):
                    return None
                if fault.kind == "delay":
                    await trio.sleep(fault.seconds)
            answer = handler(actor, message)
            if inspect.isawaitable(answer):
                answer = await answer
            crash_after(fault)
            return answer

        return _unprotected(faulty)

    def spoil(self, cell: Cell, fault: Fault) -> bool:
        """Do what is to be done before the message in hand is handled. True if it is not to be handled any more."""
        if fault.kind == "crash" and not fault.after:
            raise InjectedCrash(fault.path, fault.message, fault.number)
        if fault.kind == "duplicate":
            self._duplicate(cell, fault.message)
        elif fault.kind == "drop":
            _drop(cell, fault.message)
            return True
        return False

    def _duplicate(self, cell: Cell, message: object) -> None:
        item = cell.in_hand
        sender = cell.links.sender_of(item) if item is not None else None
        if cell.box.offer_quietly((message, sender, None)):
            self._copies.setdefault(id(message), []).append(message)


def _unprotected(handler: Any) -> Callable[[Any, Any], Any]:
    """As `@handles` does for the handlers themselves: Ctrl-C may interrupt them, unlike the message loop."""
    trio.lowlevel.disable_ki_protection(handler)
    return cast("Callable[[Any, Any], Any]", handler)


def crash_after(fault: Fault | None) -> None:
    """The second half of the crashes: the message has been handled."""
    if fault is not None and fault.kind == "crash":
        raise InjectedCrash(fault.path, fault.message, fault.number)


def _drop(cell: Cell, message: object) -> None:
    item = cell.in_hand
    assert item is not None, "a fault is injected into the message in hand"
    _, sender, ask = item
    later = cell.links.later(message)
    if ask is None and later.abandoned:  # it was told
        cell.dead(message, sender, "displaced")
    later.fail(MessageDropped(cell.path, "fault plan"))


@final
class _FaultyInbox:
    """Stands in for the inbox of a function actor."""

    def __init__(self, injector: Injector, inbox: Inbox[Any]) -> None:
        self._injector = injector
        self._inbox = inbox
        self._fault: Fault | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inbox, name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        fault, self._fault = self._fault, None
        crash_after(fault)  # the body is done with the message, which is still in hand
        cell = self._inbox.context.cell_
        while True:
            message = await self._inbox.__anext__()
            self._fault = fault = self._injector.decide(cell, message)
            if fault is None:
                return message
            if self._injector.spoil(cell, fault):
                continue
            if fault.kind == "delay":
                await trio.sleep(fault.seconds)
            return message
