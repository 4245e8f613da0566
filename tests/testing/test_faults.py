"""Fault plans: the decisions, and what they do to actors of every form."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors import (
    Actor,
    ActorCrashed,
    ActorError,
    Child,
    Inbox,
    InvalidSetting,
    Later,
    Mailbox,
    MessageDropped,
    NotABody,
    Ref,
    Request,
    Supervisor,
    System,
    Terminated,
    handles,
    one_for_one,
)
from actors.testing import Fault, FaultPlan, InjectedCrash, open_probe, run_virtual, simulated
from actors.testing._open import open_test_system

if TYPE_CHECKING:
    from collections.abc import Callable


@attrs.frozen
class Add(Request[int]):
    amount: int


@attrs.frozen
class Note:
    amount: int


class Counting(Actor[Add | Note]):
    """Adds up in a list outside, which outlives crashes."""

    mailbox = Mailbox(limit=7)

    def __init__(self, handled: list[int]) -> None:
        self.handled = handled

    @handles(Add)
    def add(self, msg: Add) -> int:
        self.handled.append(msg.amount)
        return sum(self.handled)

    @handles(Note)
    async def note(self, msg: Note) -> None:
        await trio.lowlevel.checkpoint()
        self.handled.append(msg.amount)


async def counting(inbox: Inbox[Add | Note], handled: list[int]) -> None:
    async for msg in inbox:
        handled.append(msg.amount)
        if isinstance(msg, Add):
            inbox.reply(msg, sum(handled))


class Reading(Actor[Add | Note]):
    """A class that reads its inbox itself."""

    def __init__(self, handled: list[int]) -> None:
        self.handled = handled

    async def __call__(self, inbox: Inbox[Add | Note]) -> None:
        await counting(inbox, self.handled)


def make_counting(handled: list[int]) -> Counting:
    return Counting(handled)


FORMS: list[Any] = [Counting, make_counting, counting, Reading]


async def start(system: System, body: Any, handled: list[int]) -> Ref[Add | Note]:
    supervision = await system.supervise(one_for_one(max_restarts=1000), Child(body, handled, name="target"))
    return supervision.child("target", body)


@pytest.fixture(params=FORMS, ids=lambda form: form.__name__)
def form(request: pytest.FixtureRequest) -> Any:
    return request.param


# ---------------------------------------------------------------- decisions


def fates(seed: int, path: str = "/a", count: int = 200, **odds: float) -> list[Fault | None]:
    plan = FaultPlan(seed, **odds)
    return [plan.decide(path, Note(number)) for number in range(count)]


MIXED = {"crash": 0.1, "delay": 0.1, "drop": 0.1, "duplicate": 0.1}


def test_the_same_seed_means_the_same_faults() -> None:
    assert fates(5, **MIXED) == fates(5, **MIXED)
    assert fates(5, **MIXED) != fates(6, **MIXED)
    assert fates(5, "/a", **MIXED) != fates(5, "/b", **MIXED)


def test_odds_are_kept() -> None:
    kinds = Counter(fault.kind for fault in fates(1, count=4000, **MIXED) if fault is not None)
    assert set(kinds) == {"crash", "delay", "drop", "duplicate"}
    assert all(300 < count < 500 for count in kinds.values())
    assert fates(1) == [None] * 200
    assert all(fault is not None and fault.kind == "drop" for fault in fates(1, drop=1.0))


def test_an_actor_has_its_faults_whatever_the_others_do() -> None:
    alone = FaultPlan(3, **MIXED)
    beside = FaultPlan(3, **MIXED)
    expected = [alone.decide("/a", Note(number)) for number in range(50)]
    found = []
    for number in range(50):
        beside.decide("/b", Note(number))
        found.append(beside.decide("/a", Note(number)))
    assert found == expected


def test_the_log_has_all_faults_in_order() -> None:
    plan = FaultPlan(3, **MIXED)
    decided = [plan.decide("/a", Note(number)) for number in range(50)]
    assert list(plan.log) == [fault for fault in decided if fault is not None]
    assert all(fault.path == "/a" and fault.message == Note(fault.number - 1) for fault in plan.log)
    assert all(0 <= fault.seconds <= 1 for fault in plan.log)
    assert {fault.after for fault in plan.log if fault.kind == "crash"} == {True, False}
    assert repr(plan) == f"<FaultPlan seed=3, {len(plan.log)} faults>"


def test_only_some_classes_go_wrong_and_only_so_often() -> None:
    plan = FaultPlan(1, drop=1.0, only=(Note,), limit=2)
    assert plan.decide("/a", Add(1)) is None
    faults = [plan.decide("/a", Note(number)) for number in range(4)]
    assert [fault is not None for fault in faults] == [True, True, False, False]
    assert [fault.number for fault in plan.log] == [2, 3]


@pytest.mark.parametrize("odds", [{"crash": 1.5}, {"drop": -0.1}, {"crash": 0.6, "drop": 0.6}, {"longest": -1.0}])
def test_odds_that_cannot_be_are_refused(odds: dict[str, float]) -> None:
    with pytest.raises(InvalidSetting):
        FaultPlan(1, **odds)


# ---------------------------------------------------------------- application


async def test_without_faults_all_is_as_ever(actor_system_both: System, form: Any) -> None:
    handled: list[int] = []
    ref = await start(actor_system_both, FaultPlan(1).wrap(form), handled)
    ref.tell(Note(1))
    assert await ref.ask(Add(2)) == 3
    assert handled == [1, 2]


async def test_crashes_come_before_and_after(actor_system_both: System, form: Any) -> None:
    plan = FaultPlan(2, crash=1.0)
    handled: list[int] = []
    ref = await start(actor_system_both, plan.wrap(form), handled)
    for amount in range(1, 21):
        try:
            await ref.ask(Add(amount))
        except ActorCrashed as crash:
            assert isinstance(crash.cause, InjectedCrash)
            assert crash.cause.number == amount
        else:  # a body that reads its inbox itself crashes after its answer
            assert form in (counting, Reading)
            assert plan.log[-1].after
    await trio.sleep(1)
    assert handled == [fault.number for fault in plan.log if fault.after]
    assert 0 < len(handled) < 20
    assert ref.generation == 21


async def test_a_told_message_that_crashes_is_a_dead_letter(actor_system_both: System, form: Any) -> None:
    ref = await start(actor_system_both, FaultPlan(2, crash=1.0, limit=3).wrap(form), [])
    for amount in range(5):
        ref.tell(Note(amount))
    await trio.sleep(1)
    assert actor_system_both.dead_letters.by_reason == {"crashed": 3}


async def test_dropped_messages_are_accounted_for(actor_system_both: System, form: Any) -> None:
    handled: list[int] = []
    probe = await open_probe(actor_system_both, Note)
    ref = await start(actor_system_both, FaultPlan(2, drop=1.0, limit=2).wrap(form), handled)
    ref.tell(Note(1))
    await trio.sleep(1)
    with pytest.raises(MessageDropped, match="fault plan"):
        await ref.ask(Add(2))
    assert await ref.ask(Add(3)) == 3
    assert handled == [3]
    assert actor_system_both.dead_letters.by_reason == {"displaced": 1}
    assert actor_system_both.dead_letters.recent[0].message == Note(1)
    await probe.expect_none()


async def test_duplicates_come_again_behind_the_others(actor_system_both: System, form: Any) -> None:
    plan = FaultPlan(2, duplicate=1.0)
    handled: list[int] = []
    ref = await start(actor_system_both, plan.wrap(form), handled)
    for amount in (1, 2, 3):
        ref.tell(Note(amount))
    await trio.sleep(1)
    assert handled == [1, 2, 3, 1, 2, 3]
    assert await ref.ask(Add(4)) == 16
    await trio.sleep(1)
    assert handled[6:] == [4, 4]
    assert len(plan.log) == 4


async def test_a_full_mailbox_takes_no_duplicate(actor_system: System) -> None:
    handled: list[int] = []
    ref = await start(actor_system, FaultPlan(2, duplicate=1.0).wrap(Counting), handled)
    assert Counting.mailbox.limit == 7
    for amount in range(7):
        ref.tell(Note(amount))
    await trio.sleep(1)
    assert handled[:7] == [0, 1, 2, 3, 4, 5, 6]
    assert len(handled) <= 14


async def test_delays_take_time_and_keep_the_order(actor_system_both: System, form: Any) -> None:
    plan = FaultPlan(2, delay=1.0, longest=10.0)
    handled: list[int] = []
    ref = await start(actor_system_both, plan.wrap(form), handled)
    for amount in range(5):
        ref.tell(Note(amount))
    assert await ref.ask(Add(5)) == 15
    assert handled == [0, 1, 2, 3, 4, 5]
    assert trio.current_time() == pytest.approx(sum(fault.seconds for fault in plan.log))
    assert len(plan.log) == 6


async def test_an_ask_that_is_given_up_during_its_delay_is_not_handled(actor_system: System) -> None:
    handled: list[int] = []
    ref = await start(actor_system, FaultPlan(2, delay=1.0, longest=1000.0, limit=1).wrap(Counting), handled)
    with trio.move_on_after(0.1):
        await ref.ask(Add(1))
    assert await ref.ask(Add(2)) == 2
    assert handled == [2]


# ---------------------------------------------------------------- what stays


async def test_names_and_lookups_of_a_class_stay(actor_system: System) -> None:
    plan = FaultPlan(1, crash=0.5)
    faulty: Callable[[list[int]], Counting] = plan.wrap(Counting)
    assert faulty.__name__ == "Counting"
    assert issubclass(plan.wrap(Counting), Counting)
    ref = await actor_system.spawn(plan.wrap(Counting), [], name="one")
    assert actor_system.find("/one", Counting) is ref
    unnamed = await actor_system.spawn(plan.wrap(counting), [])
    assert unnamed.name.startswith("counting-")


async def test_the_original_is_not_changed(actor_system: System) -> None:
    plan = FaultPlan(1, crash=1.0)
    plan.wrap(Counting)
    original = Counting([])
    factory = plan.wrap(lambda: original)
    ref = await actor_system.spawn(Counting, [])
    assert await ref.ask(Add(1)) == 1
    assert factory() is original
    assert plan.log == ()


async def test_function_actors_still_refuse_what_they_do_not_take(actor_system: System) -> None:
    ref: Ref[Any] = await actor_system.spawn(FaultPlan(1).wrap(counting), [])
    ref.tell("nonsense")
    await trio.sleep(1)
    assert actor_system.dead_letters.by_reason == {"refused": 1}


class Watching(Actor[Add | Terminated]):
    def __init__(self, ended: list[str]) -> None:
        self.ended = ended
        self.waiting: list[Later[int]] = []

    @handles(Add)
    def add(self, msg: Add) -> Later[int]:
        later = self.context.later(msg)
        self.waiting.append(later)
        if len(self.waiting) == 2:
            for number, waiting in enumerate(self.waiting):
                waiting.set(number)
        return later

    @handles(Terminated)
    def on_terminated(self, msg: Terminated) -> None:
        self.ended.append(msg.reason.kind)


async def test_what_the_framework_sends_never_goes_wrong(actor_system: System) -> None:
    ended: list[str] = []
    watching = await actor_system.spawn(FaultPlan(1, drop=1.0).wrap(Watching), ended)
    other = await open_probe(actor_system, Note)
    watching.box_.cell.context.watch(other.ref)
    await other.ref.stop()
    await trio.sleep(1)
    assert ended == ["stopped"]


async def test_deferred_replies_work_with_faults(actor_system_both: System) -> None:
    watching = await actor_system_both.spawn(FaultPlan(1, duplicate=1.0, limit=1).wrap(Watching), [])
    assert await watching.ask(Add(1)) == 0


def test_what_cannot_be_wrapped_is_refused() -> None:
    for nonsense in (Supervisor, int, Counting([])):
        with pytest.raises(NotABody):
            FaultPlan(1).wrap(nonsense)  # type: ignore[type-var]


# ---------------------------------------------------------------- properties


@given(
    st.integers(0, 2**16),
    st.lists(st.booleans(), max_size=25),
    st.sampled_from(["crash", "delay", "drop", "duplicate", "mixed"]),
    st.sampled_from(FORMS),
)
@simulated(inline="both")
async def test_every_message_is_handled_or_accounted_for(
    system: System, seed: int, asked: list[bool], kind: str, form: Any
) -> None:
    odds = MIXED if kind == "mixed" else {kind: 0.5}
    handled: list[int] = []
    plan = FaultPlan(seed, longest=0.1, **odds)
    ref = await start(system, plan.wrap(form), handled)
    errors = 0
    for number, is_asked in enumerate(asked):
        if is_asked:
            try:
                await ref.ask(Add(number))
            except ActorError:
                errors += 1
        else:
            await ref.send(Note(number))
    await trio.sleep(100)
    lost = {fault.number for fault in plan.log if fault.kind == "drop" or (fault.kind == "crash" and not fault.after)}
    assert errors <= len(plan.log)
    assert set(handled) <= set(range(len(asked)))
    # Copies are counted by the plan as little as the handled ones are lost.
    assert len(set(handled)) == len(asked) - len(lost)
    assert system.dead_letters.count <= len(plan.log)


def run_with_faults(seed: int) -> tuple[tuple[Fault, ...], tuple[int, ...], float]:
    handled: list[int] = []
    plan = FaultPlan(seed, **MIXED)

    async def main() -> float:
        async with open_test_system(seed=seed) as system:
            ref = await start(system, plan.wrap(Counting), handled)
            for number in range(40):
                await ref.send(Note(number))
            await ref.drain()
            return trio.current_time()

    end = run_virtual(main, seed=seed)
    return plan.log, tuple(handled), end


def test_a_run_with_faults_repeats_with_its_seed() -> None:
    assert [run_with_faults(seed) for seed in range(5)] == [run_with_faults(seed) for seed in range(5)]
    assert len({run_with_faults(seed) for seed in range(5)}) == 5
