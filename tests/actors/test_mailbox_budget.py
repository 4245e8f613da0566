"""Guarantees: mailboxes whose messages are charged to a budget."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors import (
    Actor,
    ActorStopped,
    Inbox,
    InvalidMailbox,
    Later,
    Mailbox,
    MailboxFull,
    MessageDropped,
    Ref,
    Request,
    System,
    Topic,
    coalesce,
    drop_stale,
    handles,
)
from lifecycle import Budget, BudgetClosed, BudgetExhausted, Rate, Reserve

from ._systems import (
    Ask,
    AskSlowly,
    Break,
    BreakSlowly,
    Do,
    Doer,
    DoNow,
    Note,
    Recorder,
    Urgent,
    busy,
    cell_of,
    outcome_of,
)


@pytest.fixture
def system(actor_system_both: System) -> System:
    return actor_system_both


def held(budget: Budget) -> tuple[int, int]:
    shot = budget.snapshot()
    return shot.current_count, shot.current_bytes


def size(message: Any) -> int:
    return int(message.n)


def nothing_left(budget: Budget) -> bool:
    shot = budget.snapshot()
    return (shot.current_count, shot.current_bytes, shot.control_count, shot.leaked_count) == (0, 0, 0, 0)


async def recorder(
    system: System, budget: Budget, policy: Any = "wait", limit: int = 100, **more: Any
) -> tuple[Ref[Any], list[int], trio.Event]:
    """A busy actor; the message that it is busy with is charged, and counts no bytes."""
    log: list[int] = []
    mailbox = Mailbox(limit=limit, policy=policy, budget=budget, size=size, **more)
    target = await system.spawn(Recorder, log, name="target", mailbox=mailbox)
    return target, log, await busy(target)


async def test_a_message_is_charged_until_it_has_been_handled(system: System) -> None:
    root = Budget.root("root", count=10, bytes=100)
    budget = root.child("mailbox")
    target, log, release = await recorder(system, budget)
    assert held(budget) == (1, 0)  # in hand
    target.tell(Note(30))
    await target.send(Note(20))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.ask, Ask(10))
        await wait_all_tasks_blocked()
        assert held(root) == held(budget) == (4, 60)
        release.set()
    assert log == [30, 20, 10]
    assert nothing_left(root)
    assert root.snapshot().admitted_count == 4


async def test_a_message_in_hand_is_charged_and_the_next_one_is_not_its_holder(
    system: System, autojump_clock: MockClock
) -> None:
    budget = Budget.root("root", count=2)
    target, log, release = await recorder(system, budget)
    target.tell(AskSlowly(7))
    assert held(budget) == (2, 7)
    release.set()
    await trio.sleep(0.5)
    assert (log, held(budget)) == ([7], (1, 7))
    await trio.sleep(1)
    assert (log, held(budget)) == ([7, -7], (0, 0))


@pytest.mark.parametrize("policy", ["wait", "reject"])
async def test_where_the_budget_is_full_tell_raises_and_names_it(system: System, policy: Any) -> None:
    root = Budget.root("root", bytes=50)
    budget = root.child("mailbox", count=2)
    target, log, release = await recorder(system, budget, policy)
    target.tell(Note(10))
    with pytest.raises(MailboxFull) as caught:
        target.tell(Note(1))
    assert (caught.value.name, caught.value.limit, caught.value.depth) == ("/target", 100, 1)
    assert caught.value.budget == "root/mailbox"
    assert "'root/mailbox'" in str(caught.value)
    release.set()
    await wait_all_tasks_blocked()
    with root.reserve(45), pytest.raises(MailboxFull) as caught:
        await target.ask(Ask(10)) if policy == "reject" else target.tell(Note(10))
    assert caught.value.budget == "root"
    assert log == [10]
    assert nothing_left(root)


async def test_the_limit_of_the_mailbox_holds_too_and_names_no_budget(system: System) -> None:
    budget = Budget.root("root")
    target, _, release = await recorder(system, budget, "reject", limit=1)
    target.tell(Note(1))
    with pytest.raises(MailboxFull) as caught:
        target.tell(Note(1))
    assert (caught.value.budget, caught.value.limit) == (None, 1)
    assert held(budget) == (2, 1)
    release.set()


async def test_send_and_ask_wait_for_the_budget_in_order(system: System) -> None:
    root = Budget.root("root", bytes=10)
    target, log, release = await recorder(system, root.child("mailbox"))
    permit = root.reserve(9)
    async with trio.open_nursery() as nursery:
        for number, call in ((5, target.send), (4, target.ask), (1, target.send)):
            nursery.start_soon(call, Ask(number))
            await wait_all_tasks_blocked()
        assert (target.depth, root.snapshot().waiting) == (0, 1)  # the first stands in line for the mailbox
        with pytest.raises(MailboxFull) as caught:
            target.tell(Note(0))  # would fit, and does not pass those that wait
        assert caught.value.budget is not None
        release.set()
        await wait_all_tasks_blocked()
        assert log == []
        permit.split(1, 4).release() if permit.count > 1 else permit.release()
    assert log == [5, 4, 1]
    assert nothing_left(root)


async def test_mailboxes_that_share_a_budget_wait_for_each_other(system: System) -> None:
    root = Budget.root("root", count=1)
    logs: list[list[int]] = [[], []]
    refs = [
        await system.spawn(Recorder, log, mailbox=Mailbox(budget=root.child(f"m{n}"))) for n, log in enumerate(logs)
    ]
    permit = root.reserve()
    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(refs[number % 2].send, Note(number))
            await wait_all_tasks_blocked()
        assert root.snapshot().waiting == 2
        permit.release()
    await wait_all_tasks_blocked()
    assert logs == [[0, 2, 4], [1, 3, 5]]
    assert nothing_left(root)


async def test_a_message_does_not_pass_one_that_waits_for_the_same_budget_elsewhere(system: System) -> None:
    root = Budget.root("root", bytes=10)
    log: list[int] = []
    refs = [await system.spawn(Recorder, log, mailbox=Mailbox(budget=root, size=size)) for _ in range(2)]
    permit = root.reserve(5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(refs[0].send, Note(9))
        await wait_all_tasks_blocked()
        nursery.start_soon(refs[1].send, Note(1))  # would fit
        await wait_all_tasks_blocked()
        with pytest.raises(MailboxFull):
            refs[1].tell(Note(1))
        assert log == []
        permit.release()
    await wait_all_tasks_blocked()
    assert sorted(log) == [1, 9]
    assert nothing_left(root)


async def test_what_can_never_fit_and_a_closed_budget_do_not_make_anyone_wait(system: System) -> None:
    root = Budget.root("root", bytes=100)
    key = root.key("tenant", bytes=10)
    target, _, release = await recorder(system, key.budget)
    for call in (target.send, target.ask):
        error = await outcome_of(call, Ask(11))
        assert isinstance(error, MailboxFull)
        assert isinstance(error.__cause__, BudgetExhausted)
        assert error.__cause__.never_fits
    errors: list[Any] = []

    async def note(call: Any, message: Any) -> None:
        errors.append(await outcome_of(call, message))

    target.tell(Note(10))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(note, target.send, Note(1))
        nursery.start_soon(note, target.ask, Ask(1))
        await wait_all_tasks_blocked()
        key.close()
    for error in [*errors, await outcome_of(target.send, Note(1))]:
        assert isinstance(error, MailboxFull)
        assert error.budget == "root/tenant"
        assert isinstance(error.__cause__, BudgetClosed)
    assert len(errors) == 2
    release.set()
    assert (await key.retire()).released


async def test_those_that_give_up_waiting_for_the_budget_let_others_pass(system: System) -> None:
    root = Budget.root("root", bytes=10)
    target, log, release = await recorder(system, root)
    async with trio.open_nursery() as nursery:
        with root.reserve(5):
            for call in (target.send, target.ask):
                async with trio.open_nursery() as large:
                    large.start_soon(call, Ask(9))
                    await wait_all_tasks_blocked()
                    nursery.start_soon(target.send, Note(3 if call == target.send else 2))
                    await wait_all_tasks_blocked()
                    large.cancel_scope.cancel()
                await wait_all_tasks_blocked()
            assert target.depth == 2
        release.set()
    await wait_all_tasks_blocked()
    assert log == [3, 2]
    assert cell_of(target).abandoned == 1
    assert nothing_left(root)
    assert root.snapshot().waiting == 0


async def test_a_mailbox_waits_for_the_rate_of_its_budget(system: System, autojump_clock: MockClock) -> None:
    root = Budget.root("root", rate=Rate(per_second=2, burst=1))
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=Mailbox(budget=root))
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(target.ask, Ask(number))
            await wait_all_tasks_blocked()
    assert log == [0, 1, 2, 3, 4]
    assert trio.current_time() - start == pytest.approx(2, abs=0.01)
    with pytest.raises(MailboxFull):
        target.tell(Note(5))


async def test_drop_newest_drops_what_the_budget_has_no_room_for(system: System) -> None:
    budget = Budget.root("root", bytes=10)
    target, log, release = await recorder(system, budget, "drop_newest")
    for number in (6, 5, 4, 1):
        target.tell(Note(number))
    assert isinstance(await outcome_of(target.ask, Ask(9)), MessageDropped)
    release.set()
    await wait_all_tasks_blocked()
    assert log == [6, 4]
    assert cell_of(target).box.dropped == 3
    assert nothing_left(budget)


async def test_drop_oldest_drops_as_few_as_it_takes_and_none_in_vain(system: System) -> None:
    root = Budget.root("root", bytes=20)
    budget = root.child("mailbox", bytes=10, count=6)
    target, log, release = await recorder(system, budget, "drop_oldest", limit=4)
    for number in (1, 2, 3, 4):
        target.tell(Note(number))
    target.tell(Note(1))  # by the limit: 1 makes room
    target.tell(Note(5))  # by bytes and limit: 2 and 3 do
    assert (target.depth, held(budget)) == (3, (4, 10))
    with root.reserve(10):
        target.tell(Note(0))
    target.tell(Note(11))  # can never fit
    with budget.reserve():
        assert (target.depth, held(budget)) == (4, (6, 10))
        target.tell(Note(0))  # by count, and by the limit
    release.set()
    await wait_all_tasks_blocked()
    assert log == [1, 5, 0, 0]
    assert nothing_left(root)
    permit = root.reserve(20)
    target.tell(Note(1))  # nothing is queued that it could take the place of
    await wait_all_tasks_blocked()
    assert log[4:] == []
    permit.release()


async def test_coalesce_needs_room_for_the_difference_only(system: System) -> None:
    budget = Budget.root("root", bytes=10)
    mailbox = Mailbox(policy=coalesce(lambda msg: msg.n % 10), budget=budget, size=lambda msg: int(msg.n) // 10)
    log: list[int] = []
    target = await system.spawn(Recorder, log, mailbox=mailbox)
    release = await busy(target)
    target.tell(Note(51))
    target.tell(Note(42))
    target.tell(Note(61))
    assert held(budget) == (3, 10)
    with pytest.raises(MailboxFull):
        target.tell(Note(71))
    with pytest.raises(MailboxFull) as caught:
        target.tell(Note(13))
    assert caught.value.budget == "root"
    target.tell(Note(12))
    assert held(budget) == (3, 7)
    release.set()
    await wait_all_tasks_blocked()
    assert log == [61, 12]
    assert nothing_left(budget)


async def test_stale_messages_give_their_charge_back(system: System, autojump_clock: MockClock) -> None:
    budget = Budget.root("root", count=3)
    target, log, release = await recorder(system, budget, drop_stale(5))
    target.tell(Note(1))
    await trio.sleep(3)
    target.tell(Note(2))
    with pytest.raises(MailboxFull) as caught:
        target.tell(Note(3))
    assert caught.value.budget == "root"
    await trio.sleep(3)
    target.tell(Note(4))
    release.set()
    await wait_all_tasks_blocked()
    assert log == [2, 4]
    assert nothing_left(budget)


async def test_control_messages_use_the_control_reserve(system: System) -> None:
    budget = Budget.root("root", count=3, control_reserve=Reserve(count=1))
    target, log, release = await recorder(system, budget)
    target.tell(Note(1))
    with pytest.raises(MailboxFull):
        target.tell(Note(2))
    target.tell(Urgent(3))
    assert budget.snapshot().control_count == 1
    with pytest.raises(MailboxFull) as caught:
        target.tell(Urgent(4))
    assert caught.value.budget == "root"
    release.set()
    await wait_all_tasks_blocked()
    assert log == [3, 1]
    assert nothing_left(budget)


# ---------------------------------------------------------------- the ways out of hand


async def test_a_handler_that_raises_leaves_no_charge(system: System, autojump_clock: MockClock) -> None:
    from ._systems import supervised

    budget = Budget.root("root")
    log: list[int] = []
    target = await supervised(system, Recorder, log, mailbox=Mailbox(budget=budget))
    for message in (Break(1), Note(2), BreakSlowly(3), Note(4)):
        target.tell(message)
    await trio.sleep(100)
    assert log == [1, 2, 3, 4]
    assert nothing_left(budget)


async def test_abandoned_asks_give_their_charge_back(system: System, autojump_clock: MockClock) -> None:
    budget = Budget.root("root", count=3)
    target, log, release = await recorder(system, budget)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.ask, Ask(1))
        nursery.start_soon(target.ask, Ask(2))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    target.tell(Note(3))  # there is room again, by what was abandoned
    assert held(budget) == (2, 3)
    with trio.move_on_after(1):
        await target.ask(AskSlowly(4, 100))
    release.set()
    with trio.move_on_after(1):
        await target.ask(AskSlowly(5, 100))  # cancelled while it is in hand
    await wait_all_tasks_blocked()
    assert log == [3, 5]
    assert nothing_left(budget)


class Keeper(Actor[Note | Ask | Urgent]):
    """Puts notes aside until it is told something urgent, and promises to answer what it is asked."""

    def __init__(self, log: list[int]) -> None:
        self.log = log
        self.later: list[Later[int]] = []
        self.keeps = True

    @handles(Note)
    def note(self, msg: Note) -> None:
        if self.keeps:
            self.context.stash()
        else:
            self.log.append(msg.n)

    @handles(Ask)
    def ask(self, msg: Ask) -> Later[int]:
        later = self.context.later(msg)
        self.later.append(later)
        return later

    @handles(Urgent)
    def urgent(self, msg: Urgent) -> None:
        self.keeps = not self.keeps
        self.context.unstash_all()
        for later in self.later:
            later.set(1)
        self.later.clear()


async def test_what_is_stashed_stays_charged_and_what_is_promised_does_not(system: System) -> None:
    budget = Budget.root("root")
    log: list[int] = []
    keeper = await system.spawn(Keeper, log, mailbox=Mailbox(budget=budget, size=size))
    keeper.tell(Note(3))
    keeper.tell(Note(4))
    await wait_all_tasks_blocked()
    assert held(budget) == (2, 7)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.ask, Ask(5))
        await wait_all_tasks_blocked()
        assert held(budget) == (2, 7)
        keeper.tell(Urgent(0))
    await wait_all_tasks_blocked()
    assert log == [3, 4]
    assert nothing_left(budget)
    keeper.tell(Urgent(0))
    keeper.tell(Note(6))
    await wait_all_tasks_blocked()
    assert held(budget) == (1, 6)
    await keeper.stop()
    assert nothing_left(budget)


@pytest.mark.parametrize("mode", ["stop", "drain", "kill"])
async def test_the_end_of_an_actor_gives_all_charges_back(system: System, mode: str) -> None:
    budget = Budget.root("root", count=4)
    target, _, release = await recorder(system, budget)
    target.tell(Note(1))
    target.tell(Urgent(1))
    outcomes: list[Any] = []

    async def note(call: Any) -> None:
        outcomes.append(await outcome_of(call, Ask(1)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(note, target.ask)
        await wait_all_tasks_blocked()
        nursery.start_soon(note, target.ask)  # waits for room
        nursery.start_soon(note, target.send)
        await wait_all_tasks_blocked()
        assert budget.snapshot().waiting == 1
        nursery.start_soon(getattr(target, mode))
        await wait_all_tasks_blocked()
        release.set()
    assert sum(isinstance(outcome, ActorStopped) for outcome in outcomes) == (2 if mode == "drain" else 3)
    assert budget.snapshot().waiting == 0
    assert nothing_left(budget)


async def test_a_function_actor_that_promises_an_answer_has_no_charge_any_more(system: System) -> None:
    budget = Budget.root("root")
    go = trio.Event()

    async def body(inbox: Inbox[Ask]) -> None:
        async for msg in inbox:
            later = inbox.later(msg)
            assert held(budget) == (0, 0)
            await go.wait()
            later.set(msg.n)

    target = await system.spawn(body, mailbox=Mailbox(budget=budget))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(target.ask, Ask(4))
        await wait_all_tasks_blocked()
        go.set()
    assert nothing_left(budget)


async def test_the_charge_of_a_function_actor_ends_with_its_turn(system: System) -> None:
    budget = Budget.root("root")
    steps: list[tuple[int, int]] = []
    go = trio.Event()

    async def body(inbox: Inbox[Note | Ask]) -> None:
        async for msg in inbox:
            steps.append(held(budget))
            if isinstance(msg, Ask):
                inbox.reply(msg, 1)
            elif msg.n == 2:
                inbox.refuse(msg)
                steps.append(held(budget))
            elif msg.n == 9:
                return
            await go.wait()

    target = await system.spawn(body, mailbox=Mailbox(budget=budget, size=size))
    target.tell(Note(1))
    target.tell(Note(2))
    await wait_all_tasks_blocked()
    assert steps == [(2, 3)]
    go.set()
    await wait_all_tasks_blocked()
    assert steps == [(2, 3), (1, 2), (0, 0)]
    assert await target.ask(Ask(4)) == 1
    await wait_all_tasks_blocked()
    assert nothing_left(budget)
    target.tell(Note(9))
    target.tell(Note(10))
    await target.wait_stopped()
    assert nothing_left(budget)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_function_actor_that_fails_or_is_killed_with_a_message_in_hand_leaves_no_charge(
    system: System, fails: bool
) -> None:
    from ._systems import supervised

    budget = Budget.root("root")

    async def body(inbox: Inbox[Note]) -> None:
        async for msg in inbox:
            if fails and msg.n == 1:
                raise ZeroDivisionError
            await trio.sleep_forever()

    target = await supervised(system, body, mailbox=Mailbox(budget=budget))
    target.tell(Note(1))
    target.tell(Note(2))
    await wait_all_tasks_blocked()
    if fails:
        await trio.sleep(10)
    await target.kill()
    assert nothing_left(budget)


@attrs.frozen
class Base(Request[int]):
    n: int


@attrs.frozen
class Derived(Base):
    pass


async def test_messages_of_derived_classes_and_unknown_ones_leave_no_charge(system: System) -> None:
    class Takes(Actor[Base]):
        @handles(Base)
        def base(self, msg: Base) -> int:
            assert held(budget) == (1, msg.n)
            return msg.n

    budget = Budget.root("root")
    target: Any = await system.spawn(Takes, mailbox=Mailbox(budget=budget, size=size))
    assert await target.ask(Derived(3)) == 3
    assert await target.ask(Derived(4)) == 4
    target.tell(Note(1))
    await wait_all_tasks_blocked()
    assert nothing_left(budget)
    assert budget.snapshot().admitted_count == 3


async def test_become_keeps_the_charges_right(system: System) -> None:
    class Other(Actor[DoNothing]):
        @handles(DoNothing)
        def nothing(self, msg: DoNothing) -> int:
            return held(budget)[0]

    budget = Budget.root("root")
    doer: Any = await system.spawn(Doer, mailbox=Mailbox(budget=budget))
    assert await doer.ask(DoNow(lambda _: held(budget)[0])) == 1
    await doer.ask(Do(lambda actor: become(actor, Other())))
    assert await doer.ask(DoNothing()) == 1
    assert nothing_left(budget)


class DoNothing(Request[int]):
    pass


async def become(actor: Doer, other: Any) -> None:
    actor.context.become(other)


async def test_a_topic_counts_what_the_budget_refused_as_missed(system: System) -> None:
    budget = Budget.root("root", count=3)
    target, log, release = await recorder(system, budget, "drop_oldest")
    topic: Topic[Any] = Topic("news")
    topic.subscribe(target)
    with budget.reserve(count=2):
        assert topic.publish(Note(1)) == 0  # nothing is queued that it could take the place of
    assert topic.missed(target) == 1
    assert topic.publish(Note(2)) == 1
    release.set()
    await wait_all_tasks_blocked()
    assert log == [2]
    assert nothing_left(budget)


async def test_a_message_that_has_no_size_counts_no_bytes(system: System) -> None:
    budget = Budget.root("root", bytes=1)
    for measure in (lambda _: 1 // 0, lambda _: "1", lambda _: -5):
        target = await system.spawn(Recorder, [], mailbox=Mailbox(budget=budget, size=measure))  # type: ignore[arg-type]
        target.tell(Note(1))
        assert held(budget) == (1, 0)
        await wait_all_tasks_blocked()
    assert nothing_left(budget)


@pytest.mark.parametrize("settings", [{"budget": "root"}, {"size": len}, {"budget": Budget.root("root"), "size": 3}])
def test_a_budget_that_is_none_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidMailbox):
        Mailbox(**settings)
