"""Property test: what a mailbox keeps, and in which order, against a model of it in a list."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from actors import Actor, Mailbox, MailboxFull, MessageDropped, Request, coalesce, drop_stale, handles, open_system
from actors.testing import run_virtual

from ._systems import Hold, cell_of

AGE = 2.0


@attrs.frozen
class Item(Request[int]):
    key: int
    n: int


@attrs.frozen
class Early(Item):
    """Put aside the first time."""


class Keeper(Actor[Item | Early | Hold]):
    def __init__(self, log: list[int]) -> None:
        self.log = log
        self.aside: set[int] = set()

    @handles(Item)
    def item(self, msg: Item) -> int:
        self.log.append(msg.n)
        return msg.n

    @handles(Early)
    def early(self, msg: Early) -> int:
        if msg.n not in self.aside:
            self.aside.add(msg.n)
            self.context.stash()
            return 0
        return self.item(msg)

    @handles(Hold)
    async def hold(self, msg: Hold) -> None:
        await msg.until.wait()


@attrs.define(eq=False)
class Entry:
    key: int
    n: int
    since: float
    asked: bool
    gone: bool = False


class Model:
    """A mailbox as its documentation tells it."""

    def __init__(self, policy: str, limit: int) -> None:
        self.policy = policy
        self.limit = limit
        self.queue: list[Entry] = []
        self.waiting: list[Entry] = []
        self.dropped: set[int] = set()

    def offer(self, entry: Entry, *, waits: bool) -> bool:
        """False if `MailboxFull` is raised."""
        queue = self.queue
        if len(queue) >= self.limit:
            queue[:] = [other for other in queue if not other.gone]
            self.admit()
        if self.policy == "drop_stale":
            self.drop_stale(entry.since)
        elif self.policy == "coalesce":
            same = [index for index, other in enumerate(queue) if other.key == entry.key]
            if same:
                self.drop(queue[same[-1]])
                queue[same[-1]] = entry
                return True
        if len(queue) < self.limit:
            queue.append(entry)
        elif self.policy == "wait" and waits:
            self.waiting.append(entry)
        elif self.policy == "drop_newest":
            self.drop(entry)
        elif self.policy == "drop_oldest":
            self.drop(queue.pop(0))
            queue.append(entry)
        else:
            return False
        return True

    def admit(self) -> None:
        while self.waiting and len(self.queue) < self.limit:
            entry = self.waiting.pop(0)
            if not entry.gone:
                self.queue.append(entry)

    def drop(self, entry: Entry) -> None:
        if not entry.gone:
            self.dropped.add(entry.n)

    def drop_stale(self, now: float) -> None:
        while self.queue and now - self.queue[0].since > AGE:
            self.drop(self.queue.pop(0))

    def unstash(self, entries: list[Entry], now: float) -> None:
        for entry in entries:
            entry.since = now
        self.queue[:0] = entries

    def drain(self, now: float) -> list[int]:
        """The numbers that are handled, in order."""
        taken: list[Entry] = []
        while True:
            if self.policy == "drop_stale":
                self.drop_stale(now)
            if not self.queue:
                return [entry.n for entry in [*taken, *self.waiting] if not entry.gone]
            taken.append(self.queue.pop(0))


POLICIES: dict[str, Any] = {
    "wait": "wait",
    "reject": "reject",
    "drop_newest": "drop_newest",
    "drop_oldest": "drop_oldest",
    "coalesce": coalesce(lambda msg: msg.key),
    "drop_stale": drop_stale(AGE),
}

KEY = st.integers(0, 3)
STEPS = (
    st.tuples(st.sampled_from(["tell", "send", "ask", "ask"]), KEY)
    | st.tuples(st.just("give_up"), st.integers(0, 30))
    | st.tuples(st.just("unstash"), st.just(0))
    | st.tuples(st.just("sleep"), st.sampled_from([0.5, 1.0, 1.5]))
)


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=150)
@given(st.integers(1, 4), st.lists(KEY, max_size=4), st.lists(STEPS, max_size=40))
def test_a_mailbox_agrees_with_its_model(
    policy: str, limit: int, early: list[int], steps: list[tuple[str, Any]]
) -> None:
    run_virtual(lambda: follow(policy, limit, early[:limit], steps))


async def follow(policy: str, limit: int, early: list[int], steps: list[tuple[str, Any]]) -> None:
    log: list[int] = []
    dropped: set[int] = set()
    model = Model(policy, limit)
    scopes: dict[int, trio.CancelScope] = {}
    entries: list[Entry] = []
    with trio.fail_after(1000):
        async with open_system(slices="count", inline=False) as system, trio.open_nursery() as nursery:

            async def wait(call: Any, message: Item) -> None:
                with trio.CancelScope() as scopes[message.n]:
                    try:
                        await call(message)
                    except MessageDropped:
                        dropped.add(message.n)
                    except MailboxFull:
                        refused.add(message.n)

            refused: set[int] = set()
            target: Any = await system.spawn(Keeper, log, mailbox=Mailbox(limit=limit, policy=POLICIES[policy]))
            links = cell_of(target).links
            until = trio.Event()
            stashed: list[Entry] = []
            for n, key in enumerate(early):
                target.tell(Early(key, n))
                stashed.append(Entry(key, n, 0.0, asked=False))
                await wait_all_tasks_blocked()
            target.tell(Hold(until))
            await wait_all_tasks_blocked()
            for n, (step, what) in enumerate(steps, len(early)):
                now = trio.current_time()
                if step == "sleep":
                    await trio.sleep(what)
                elif step == "give_up":
                    waiting = [entry for entry in entries if not entry.gone and entry.n in scopes]
                    if waiting:
                        entry = waiting[what % len(waiting)]
                        entry.gone = entry.asked or entry in model.waiting
                        scopes.pop(entry.n).cancel()
                        await wait_all_tasks_blocked()
                elif step == "unstash":
                    links.unstash_all()
                    model.unstash(stashed, now)
                    stashed = []
                else:
                    entry = Entry(what, n, now, asked=step == "ask")
                    expected = model.offer(entry, waits=step != "tell")
                    if step == "tell":
                        try:
                            target.tell(Item(what, n))
                        except MailboxFull:
                            refused.add(n)
                    else:
                        entries.append(entry)
                        nursery.start_soon(wait, getattr(target, step), Item(what, n))
                        await wait_all_tasks_blocked()
                    assert (n not in refused) is expected, (n, step)
            expected_log = model.drain(trio.current_time())
            until.set()
            await wait_all_tasks_blocked()
            assert log == expected_log
            letters = {letter.message.n for letter in system.dead_letters.recent}  # type: ignore[attr-defined]
            assert dropped | letters == model.dropped
            assert cell_of(target).box.dropped == len(model.dropped)
