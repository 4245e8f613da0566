"""The one task of an actor, from its first start to its end.

A *life* begins with a fresh body from the factory and ends when the body does. Between lives the actor waits for the
word of its supervisor; without one, the first life is the only one. Nothing but `Cancelled` and what is no `Exception`
leaves the task: failures go to the supervisor or to the parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio
from trio.lowlevel import current_task

from ._box import uncharge
from ._current import CURRENT
from ._errors import EndedBeforeReady, NoReply
from ._message import Exit

if TYPE_CHECKING:
    from lifecycle import Outcome, StopMode

    from ._actor import Actor
    from ._cell import Cell, Verdict
    from ._supervisor import Supervisor

EXITS = {"drain": Exit("drained"), "stop": Exit("stopped"), "kill": Exit("killed")}
FINISHED = Exit("finished")


async def run(cell: Cell) -> None:
    """The actor's task."""
    cell.task = task = current_task()
    cell.vars = task.context
    CURRENT.set(cell)
    exit_ = EXITS["kill"]
    cut = True
    try:
        try:
            exit_ = await _lives(cell)
        finally:
            exit_ = await _finish(cell, exit_)  # noqa: ASYNC102 (what must await in it is shielded)
        cut = False
    finally:
        _ended(cell, exit_, cut)


async def _lives(cell: Cell) -> Exit:
    fresh = True
    while True:
        exit_ = await _life(cell, fresh)
        supervisor = cell.supervisor
        if supervisor is None or not cell.is_ready:
            return exit_
        if cell.explicit:
            verdict, exit_ = await _while_draining(cell, supervisor, exit_)
        else:
            verdict, exit_ = await _between(cell, supervisor, exit_)
        if verdict == "end":
            return exit_
        fresh = verdict == "restart"


def begin(cell: Cell) -> None:
    """Make what a fresh life starts with: the object of a class actor. Sync; raises what the factory raises."""
    cell.begun = False
    cell.generation += 1
    cell.body.begin(cell)


async def _life(cell: Cell, fresh: bool) -> Exit:
    """Run the body until it ends. Returns how; raises only what must leave the task."""
    cell.judged = False
    early, cell.early = cell.early, False
    if not early:
        cell.state = "starting"
    try:
        if fresh and not early:
            cell.failures = None
            begin(cell)
        elif not early and cell.target is not None:
            cell.bind(cell.target)  # resumed: the crash has switched inline dispatch off
        while True:
            cell.attention = cell.interrupted = False
            cell.leave = cell.halting or bool(cell.failures)
            if not cell.wants_scope and not cell.body.may_await_at_once(cell, fresh):
                if cell.ending != "kill":
                    await cell.body.run(cell, fresh)
                if not cell.wants_scope:
                    return _returned(cell)
                fresh = False
                continue
            with trio.CancelScope() as cell.scope:
                if cell.ending != "kill" and not cell.failures:
                    await cell.body.run(cell, fresh)
                    return _returned(cell)
            if cell.failures:
                return cell.fell()
            if cell.ending == "kill" or not cell.interrupted:  # told to end, or halted by force
                cell.drop_in_hand(cell.cause if cell.halting and cell.ending is None else None)
                return _returned(cell)
            fresh = False
            if cell.in_hand is not None:  # its asker has gone
                cell.skip(cell.in_hand)
                cell.in_hand = None
    except Exception as exc:
        return cell.crashed(exc)
    except BaseExceptionGroup as group:
        failures, rest = group.split(Exception)
        if failures is not None:
            cell.crashed(failures)
        assert rest is not None, "a group without anything else is an Exception"
        raise rest from None
    finally:
        cell.scope = None


def _returned(cell: Cell) -> Exit:
    """The body has returned, or was cancelled without a failure."""
    item, cell.in_hand = cell.in_hand, None
    if item is not None:  # a function actor left its loop in the middle of a message
        cell.handled += 1
        uncharge(item)
        if item[2] is not None:
            item[2].fail(NoReply(cell.path, item[0]))
    if cell.failures:
        return cell.fell()
    if cell.ending is not None:
        return EXITS[cell.ending]
    if cell.halting:
        return EXITS["stop"]
    if not cell.begun:
        raise EndedBeforeReady(cell.path)
    return FINISHED


async def _between(cell: Cell, supervisor: Supervisor, exit_: Exit) -> tuple[Verdict, Exit]:
    """The life is over. Wait for the supervisor's word, and clear the old life away where a new one follows."""
    if not supervisor.may_resume(cell, exit_):
        exit_ = await _end_old_children(cell, exit_)
    supervisor_knows = cell.halting
    reported = 0
    while not cell.explicit:
        reported = len(cell.failures or ())
        verdict = _halted(cell)
        if verdict is None:
            cell.state = "restarting"
            cell.verdict = None
            if not supervisor_knows:
                supervisor_knows = True
                supervisor.child_down(cell, exit_)
            verdict = await cell.wait_verdict()
        if verdict == "forget":
            return "end", exit_
        if cell.explicit:
            break
        if verdict == "resume":
            cell.failures = (cell.failures or [])[reported:]
            return "resume", exit_
        exit_ = await _clear(cell, exit_)
        if cell.ending is not None:
            break
        if verdict == "restart" and not cell.halting:
            return "restart", exit_
    if cell.ending is None or not cell.judged:
        return "end", exit_  # a failure that nobody has decided about stays what it is
    cell.failures = (cell.failures or [])[reported:]
    return "end", EXITS[cell.ending]


def _halted(cell: Cell) -> Verdict | None:
    """Whether the supervisor itself has ended the life, in order to restart the child with others."""
    if not cell.halting:
        return None
    cell.halting = False
    cell.judged = True
    cell.state = "restarting"
    cell.verdict = "clear"
    return "clear"


async def _while_draining(cell: Cell, supervisor: Supervisor, exit_: Exit) -> tuple[Verdict, Exit]:
    """A life is over that was told to end. After a failure, one that drains goes on with the rest of its mailbox."""
    verdict: Verdict = "end"
    if cell.ending == "drain" and exit_.failed:
        verdict = supervisor.while_draining(cell, exit_)
    if verdict == "restart":
        exit_ = await _clear(cell, exit_)
        if cell.ending is not None and cell.ending != "drain":
            return "end", EXITS[cell.ending]
    return verdict, exit_


async def _end_old_children(cell: Cell, exit_: Exit) -> Exit:
    """Nothing of a life that has ended runs on beside the next one."""
    if cell.own is not None:
        await _end_children(cell, "kill")
        cell.group.absorb(cell.own)
        cell.own = None
    return cell.exit_with_failures(exit_)


async def _clear(cell: Cell, exit_: Exit) -> Exit:
    """Clear the life that is over away, once, for one that is to follow."""
    exit_ = await _end_old_children(cell, exit_)
    cell.failures = None
    cell.reopen()
    made = cell.made
    cause = cell.cause if exit_.cause is None else exit_.cause
    if cell.linked is not None:
        cell.linked.end_life(Exit("failed", cause))
    if made is not None and cell.begun:
        await _hook(cell, made, "restarting", cause)
    cell.begun = False
    cell.target = None
    return exit_


async def _finish(cell: Cell, exit_: Exit) -> Exit:
    """What follows the last life, also when the task is being cancelled: children, then the actor's own clean-up."""
    cell.state = "stopping"
    cell.close_box()
    cell.drop_in_hand()
    cell.box.flush("stopped")
    if cell.linked is not None:
        cell.linked.give_up_stash()
        cell.linked.end_timers()
    try:
        if cell.own is not None:
            violent = exit_.kind in ("failed", "killed")
            await _end_children(cell, cell.ending or ("kill" if violent else "stop"))
    finally:
        exit_ = cell.exit_with_failures(exit_)
        made = cell.made
        if made is not None and cell.begun:
            failure = await _hook(cell, made, "stopping", exit_)  # noqa: ASYNC102 (shielded in there)
            if failure is not None:
                cell.failures = [*(cell.failures or ()), failure]
    return exit_


async def _end_children(cell: Cell, mode: StopMode) -> None:
    """End what is below the actor and wait for it: a parent does not end before its children."""
    own = cell.own
    assert own is not None
    try:
        await cell.body.end_children(cell, own, mode)
        await own.wait_over()
    except BaseException:
        own.close("kill")
        with trio.CancelScope(shield=True):
            await own.wait_over()
        raise


async def _hook(cell: Cell, made: Actor[Any], name: str, argument: object) -> Exception | None:
    """Call a hook of the actor's object, shielded. Returns what it raised."""
    if name not in made.hooks_:
        return None
    try:
        with cell.system.cleanup() as scope:
            await getattr(made, name)(argument)
    except Exception as exc:
        cell.system.count_crash(cell, exc)
        return exc
    if scope.cancelled_caught:
        cell.truncated = True
        cell.system.note_cut(cell, name)
    return None


def _ended(cell: Cell, exit_: Exit, cut: bool) -> None:
    """Sync and last: nobody is told of the end before all of it is true."""
    exit_ = cell.exit_with_failures(exit_)
    if exit_.failed and cell.supervisor is not None and cell.is_ready and not cell.is_awaited:
        cell.system.failed_unseen(cell, exit_)
    cell.exit = exit_
    cell.state = "ended"
    cell.target = None
    cell.node.forget(cell)
    if cell.linked is not None:
        cell.linked.ended(exit_)
    if cell.supervisor is not None:
        cell.supervisor.child_gone(cell)
    elif cell.failures and cell.is_ready:
        cell.node.child_failed(cell.failures)
    cancelled = cut or cell.truncated or exit_.kind == "killed"
    late = cancelled and cell.group.deadline.is_past_work(trio.current_time())
    outcome = _outcome(cell, exit_, late)
    cell.group.settle(cell, outcome, timed_out=late and outcome == "aborted", own=cell.own, end=exit_.kind)
    cell.changed()


def _outcome(cell: Cell, exit_: Exit, late: bool) -> Outcome:
    if exit_.failed and cell.is_ready:
        if cell.supervisor is None:
            # Below an actor it is this that has failed, and its supervisor, if it has one, that decides.
            return "panicked" if cell.node.cell is None else "completed"
        # Nobody decides about a failure at the end.
        return "completed" if cell.judged else "failed"
    if late or cell.truncated:
        return "aborted"
    return "cancelled" if exit_.kind == "killed" else "completed"
