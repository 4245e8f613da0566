"""What the tests of the tree need: members that keep a journal, and calls that they are told to make."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio
from trio.testing import wait_all_tasks_blocked

from actors import Exit, Ref, System, open_system
from actors.testing import run_virtual

from ._systems import Crash, Do, Doer, DoNow, cell_of

T = TypeVar("T")


class Member(Doer):
    """Does what it is told, and notes in a journal what happens to it. `restarting` and `stopping` take `takes` s."""

    def __init__(self, journal: list[str], takes: float = 0.0) -> None:
        self.journal = journal
        self.takes = takes
        self.state = 0

    def write(self, event: str) -> None:
        self.journal.append(f"{event} {self.context.name}")

    async def started(self) -> None:
        self.write("started")

    async def restarting(self, cause: BaseException) -> None:
        await trio.sleep(self.takes)
        self.write("restarting")

    async def stopping(self, reason: Exit) -> None:
        await trio.sleep(self.takes)
        self.write(reason.kind)


def raises(exc: Exception | None = None) -> DoNow:
    """Crash in a plain handler."""

    def fn(_: object) -> None:
        raise Crash if exc is None else exc

    return DoNow(fn)


def sleeps(seconds: float) -> Do:
    """Be busy for so long."""

    async def fn(_: object) -> None:
        await trio.sleep(seconds)

    return Do(fn)


def deaf(seconds: float) -> Do:
    """Be busy for so long, whatever is cancelled."""

    async def fn(_: object) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)

    return Do(fn)


def spawns(body: Any, *args: Any, **options: Any) -> Do:
    """Spawn a child; answered with its ref."""

    async def fn(actor: Doer) -> Ref[Any]:
        return await actor.context.spawn(body, *args, **options)

    return Do(fn)


def supervises(*args: Any, **options: Any) -> Do:
    """Start a supervisor; answered with its `Supervision`."""

    async def fn(actor: Doer) -> object:
        return await actor.context.supervise(*args, **options)

    return Do(fn)


def calls(fn: Callable[[Any], object]) -> DoNow:
    """Answered with `fn(actor)`."""
    return DoNow(fn)


async def settled(seconds: float = 0.0) -> None:
    """Let everything happen that needs no more than `seconds`."""
    if seconds:
        await trio.sleep(seconds)
    await wait_all_tasks_blocked()


async def crash(ref: Ref[Any], exc: Exception | None = None) -> None:
    """Let the actor crash, and whatever follows at once follow."""
    ref.tell(raises(exc))
    await settled()


async def until_ended(ref: Ref[Any], mode: str, exits: list[tuple[float, Exit]]) -> None:
    """Tell the actor to end, and note when and how it did."""
    exit_ = await getattr(ref, mode)()
    exits.append((trio.current_time(), exit_))


def state_of(ref: Ref[Any]) -> str:
    """The actor's state, as the dump names it."""
    return cell_of(ref).state


def virtual(test: Callable[..., Awaitable[T]]) -> Callable[..., T]:
    """A test that opens its systems itself, on a virtual clock from 0 and with a seeded scheduler."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> T:
        return run_virtual(functools.partial(test, **fixtures))

    return run


def small_system(context: Any = None, *, shutdown_within: float = 10.0, **options: Any) -> Any:
    """`open_system` for such a test. By default D is 10 s after the request, and W a second before."""
    return open_system(context, shutdown_within=shutdown_within, slices="count", seed=0, **options)


def kinds(system: System) -> dict[str, int]:
    """The outcomes in the report, those that are not 0."""
    assert system.report is not None
    return system.report.totals().nonzero()
