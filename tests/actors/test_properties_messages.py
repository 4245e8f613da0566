"""Property tests: whatever is sent, cancelled, crashed and ended, every message has exactly one fate, in order."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from actors import (
    Actor,
    ActorCrashed,
    ActorStopped,
    Backoff,
    Child,
    DeadLetter,
    Inbox,
    Mailbox,
    MailboxFull,
    MessageDropped,
    NoReply,
    Ref,
    System,
    coalesce,
    drop_stale,
    handles,
    one_for_all,
    one_for_one,
    open_system,
)
from actors.testing import run_virtual

from ._fates import KINDS, Aside, Crashing, Message, Promise, Slow, Target, World, function_target
from ._systems import Crash, Do, Doer, cell_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class Sibling(Actor[Crashing]):
    @handles(Crashing)
    def crash(self, msg: Crashing) -> int:
        raise Crash


@attrs.frozen
class Op:
    """One message: how it is sent, after which pause, and for how long its sender waits (None: as long as it takes)."""

    how: str
    kind: type[Message]
    pause: float
    patience: float | None


@attrs.frozen
class Plan:
    senders: list[list[Op]]
    mailbox: Mailbox
    end: str
    end_at: float
    sibling_crashes: list[float]
    backoff: float
    as_actors: bool
    inline: bool
    function: bool
    seed: int


# Mostly bursts of messages that do not make their sender wait, so that many are queued when something happens.
BURST = st.builds(Op, st.sampled_from(["tell", "tell", "send"]), st.sampled_from(KINDS), st.just(0), st.just(0.5))
OTHER = st.builds(
    Op,
    how=st.sampled_from(["tell", "send", "ask", "ask"]),
    kind=st.sampled_from([*KINDS, Slow, Promise, Aside]),
    pause=st.sampled_from([0, 0, 0.1, 0.5]),
    patience=st.sampled_from([None, 0, 0.1, 0.1, 0.5, 1.0, 1.5]),
)
OPS = BURST | OTHER
POLICIES = st.sampled_from(
    ["wait", "wait", "reject", "drop_newest", "drop_oldest", coalesce(lambda msg: msg.n % 3), drop_stale(0.7)]
)
PLANS = st.builds(
    Plan,
    senders=st.lists(st.lists(OPS, min_size=1, max_size=20), min_size=1, max_size=4),
    mailbox=st.builds(Mailbox, limit=st.integers(1, 6), policy=POLICIES, control_limit=st.integers(1, 3)),
    end=st.sampled_from(["drain", "stop", "kill"]),
    end_at=st.sampled_from([0.0, 0.2, 0.5, 1.2, 2.7, 6.0]),
    sibling_crashes=st.lists(st.sampled_from([0.3, 1.0, 2.5]), max_size=2),
    backoff=st.sampled_from([0.0, 0.4]),
    as_actors=st.booleans(),
    inline=st.booleans(),
    function=st.booleans(),
    seed=st.integers(0, 3),
)


async def listen(inbox: Inbox[DeadLetter], world: World) -> None:
    async for letter in inbox:
        if isinstance(letter.message, Message):
            world.dead[letter.message.n].append(letter.reason)


async def send_all(world: World, target: Ref[Any], sender: int, ops: list[Op]) -> None:
    for serial, op in enumerate(ops):
        await trio.sleep(op.pause)
        n = sender * 1000 + serial
        message = op.kind(n)
        outcome: Any = "cancelled"
        with trio.move_on_after(float("inf") if op.patience is None else op.patience):
            try:
                outcome = target.tell(message) if op.how == "tell" else await getattr(target, op.how)(message)
            except Exception as exc:
                outcome = exc
        world.outcomes[n] = (op.how, outcome)
        world.gone_at[n] = trio.current_time()


async def run_plan(plan: Plan) -> World:
    world = World()
    async with open_system(inline=plan.inline, slices="count", seed=plan.seed) as system:
        listener = await system.spawn(listen, world, mailbox=Mailbox(limit=100_000))
        system.dead_letters.subscribe(listener)
        target, sibling = await start(system, plan, world)
        with trio.fail_after(1000):
            async with trio.open_nursery() as nursery:
                for sender, ops in enumerate(plan.senders, 1):
                    if plan.as_actors:
                        doer = await system.spawn(Doer)
                        nursery.start_soon(doer.ask, Do(lambda _, s=sender, o=ops: send_all(world, target, s, o)))
                    else:
                        nursery.start_soon(send_all, world, target, sender, ops)
                if sibling is not None:
                    for at in plan.sibling_crashes:
                        nursery.start_soon(crash_at, sibling, at)
                await trio.sleep(plan.end_at)
                await getattr(target, plan.end)()
            await wait_all_tasks_blocked()
        check(plan, world, target)
    return world


async def start(system: System, plan: Plan, world: World) -> tuple[Ref[Any], Ref[Any] | None]:
    backoff = Backoff(plan.backoff) if plan.backoff else None
    kind = one_for_all if plan.sibling_crashes else one_for_one
    body: Any = function_target if plan.function else Target
    children = [Child(body, world, name="target", mailbox=plan.mailbox)]
    if plan.sibling_crashes:
        children.append(Child(Sibling, name="sibling"))
    supervision = await system.supervise(kind(max_restarts=10_000, backoff=backoff), *children)
    target = supervision.child("target", body)
    return target, supervision.child("sibling", Sibling) if plan.sibling_crashes else None


async def crash_at(sibling: Ref[Any], at: float) -> None:
    await trio.sleep(at)
    sibling.tell(Crashing(-1))


def check(plan: Plan, world: World, target: Ref[Any]) -> None:
    dropped = 0
    for n, (how, outcome) in world.outcomes.items():
        started, completed, dead = world.started[n], world.completed[n], world.dead[n]
        facts = n, how, outcome, started, completed, dead
        assert started <= 1, facts
        assert completed <= 1, facts
        dropped += sum(reason in ("displaced", "stale") for reason in dead)
        if isinstance(outcome, MessageDropped):
            dropped += 1
        if how != "ask":
            if outcome is None:  # accepted, or a tell to an actor that has ended
                assert completed + len(dead) == 1, facts
                assert (dead == ["crashed"]) <= (started == 1), facts
            else:
                assert outcome == "cancelled" or isinstance(outcome, (MailboxFull, ActorStopped)), facts
                assert (started, completed, dead) == (0, 0, []), facts
            continue
        assert dead == [], facts
        if outcome == "cancelled":
            assert not started or world.started_at[n] <= world.gone_at[n], facts
            if completed and n in world.interruptible and not plan.function:
                assert world.completed_at[n] <= world.gone_at[n], facts
            continue
        if isinstance(outcome, int):
            assert (outcome, started, completed) == (n, 1, 1), facts
            continue
        assert isinstance(outcome, (ActorCrashed, ActorStopped, MailboxFull, MessageDropped, NoReply)), facts
        assert completed == 0, facts
        if isinstance(outcome, (MailboxFull, MessageDropped)):
            assert started == 0, facts
        if isinstance(outcome, (ActorCrashed, NoReply)):
            assert started == 1, facts
    check_order(plan, world)
    cell = cell_of(target)
    assert cell.box.dropped == dropped
    assert cell.box.depth == 0
    assert not cell.box.waiting
    assert cell.asks is None
    assert cell.exit is not None
    assert world.started.total() == len(set(world.started))


def check_order(plan: Plan, world: World) -> None:
    if not isinstance(plan.mailbox.policy, str) and hasattr(plan.mailbox.policy, "key"):
        return  # a newer message takes the place of an older one
    for sender in range(1, len(plan.senders) + 1):
        for controls in (False, True):
            taken = [n for n in world.taken if n // 1000 == sender and (n in world.controls) is controls]
            assert taken == sorted(taken), (sender, taken)
        aside = [n for n in world.aside if n // 1000 == sender]
        assert aside == sorted(aside), (sender, aside)


@settings(max_examples=300)
@given(PLANS)
def test_every_message_has_one_fate(plan: Plan) -> None:
    async def main() -> None:
        await run_plan(plan)

    with quiet():
        run_virtual(main, seed=plan.seed)


@contextmanager
def quiet() -> Iterator[None]:
    """Crashes are logged, and here there are thousands."""
    logger = logging.getLogger("tenure")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
