"""What many tests of the actor model need: messages, a recording actor, a supervised one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from actors import Actor, Child, Request, handles, one_for_one

if TYPE_CHECKING:
    from actors import Mailbox, Ref, System
    from actors._cell import Cell


class Crash(Exception):
    """What a test lets a handler raise."""


@attrs.frozen
class Note:
    """Recorded by a `Recorder`."""

    n: int


@attrs.frozen
class Urgent:
    """The same, ahead of data."""

    control = True
    n: int


@attrs.frozen
class Ask(Request[int]):
    """Recorded, and answered with its number."""

    n: int


@attrs.frozen
class AskSlowly(Request[int]):
    """Recorded at the start; answered with its number after `seconds`, which is recorded as its negative."""

    n: int
    seconds: float = 1.0


@attrs.frozen
class Hold:
    """Keeps the actor busy until the event is set."""

    until: trio.Event


@attrs.frozen
class Break(Request[int]):
    """Raises `Crash` in a plain handler."""

    n: int = 0


@attrs.frozen
class BreakSlowly(Request[int]):
    """Raises `Crash` in an async handler, after a second."""

    n: int = 0


Said = Note | Urgent | Ask | AskSlowly | Hold | Break | BreakSlowly


class Recorder(Actor[Said]):
    """Writes down what it handles, in a list that outlives its restarts."""

    def __init__(self, log: list[int]) -> None:
        self.log = log

    @handles(Note)
    def note(self, msg: Note) -> None:
        self.log.append(msg.n)

    @handles(Urgent)
    def urgent(self, msg: Urgent) -> None:
        self.log.append(msg.n)

    @handles(Ask)
    def answer(self, msg: Ask) -> int:
        self.log.append(msg.n)
        return msg.n

    @handles(AskSlowly)
    async def answer_slowly(self, msg: AskSlowly) -> int:
        self.log.append(msg.n)
        await trio.sleep(msg.seconds)
        self.log.append(-msg.n)
        return msg.n

    @handles(Hold)
    async def hold(self, msg: Hold) -> None:
        await msg.until.wait()

    @handles(Break)
    def crash(self, msg: Break) -> int:
        self.log.append(msg.n)
        raise Crash(msg.n)

    @handles(BreakSlowly)
    async def crash_slowly(self, msg: BreakSlowly) -> int:
        self.log.append(msg.n)
        await trio.sleep(1)
        raise Crash(msg.n)


@attrs.frozen
class Do(Request[Any]):
    """Answered with what `fn(actor)` returns, which may be a coroutine."""

    fn: Any


@attrs.frozen
class DoNow(Request[Any]):
    """The same in a plain handler."""

    fn: Any


class Doer(Actor[Do | DoNow]):
    """Does what it is told, as an actor."""

    @handles(Do)
    async def do(self, msg: Do) -> Any:
        return await msg.fn(self)

    @handles(DoNow)
    def do_now(self, msg: DoNow) -> Any:
        return msg.fn(self)


async def supervised(
    system: System, body: Any, *args: Any, restart: Any = "permanent", mailbox: Mailbox | None = None, **strategy: Any
) -> Ref[Any]:
    """An actor that is restarted as often as it takes."""
    strategy.setdefault("max_restarts", 1000)
    child = Child(body, *args, name="child", restart=restart, mailbox=mailbox)
    supervision = await system.supervise(one_for_one(**strategy), child, name="supervisor")
    return supervision.child("child", body)


async def busy(ref: Ref[Any]) -> trio.Event:
    """Keep a `Recorder` busy until the event is set."""
    until = trio.Event()
    ref.tell(Hold(until))
    await wait_all_tasks_blocked()
    return until


def cell_of(ref: Ref[Any]) -> Cell:
    """The inside of an actor, for its counters."""
    return ref.box_.cell


async def outcome_of(call: Any, *args: Any) -> Any:
    """What `await call(*args)` returns, or the exception that it raises."""
    try:
        return await call(*args)
    except Exception as exc:
        return exc
