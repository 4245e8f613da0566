"""The policy of the metadata writer against a plain model, step by step, without any I/O."""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifecycle import (
    Budget,
    BudgetExhausted,
    CommitOutcomeUnknown,
    Durable,
    FailedBeforeCommit,
    GenerationConflict,
    MetadataBytesExceeded,
    MetadataClosed,
    MetadataFenced,
    MetadataQueueFull,
    MetadataReceipt,
    MetadataSettings,
    MetadataTargets,
)
from lifecycle._metadata_history import digest_of
from lifecycle._metadata_queue import MetadataQueue, Work

from ._metadata import write

NEVER_BEGUN = "never begun"


@attrs.define(eq=False)
class Asked:
    """A receipt, in the model."""

    generation: int
    outcome: Any = None
    first_failure: Any = None
    receipt: Any = None


@attrs.define(eq=False)
class Pending:
    generation: int
    data: bytes
    asked: list[Asked]


@attrs.define
class Resource:
    durable: int | None = None
    content: bytes = b""
    fenced: bool = False
    in_flight: Pending | None = None
    queued: Pending | None = None


class Model:
    """What the writer promises, said plainly: receipts move from list to list, nothing is shared."""

    def __init__(self, limits: MetadataSettings, budget: tuple[int, int]) -> None:
        self.limits = limits
        self.budget = budget
        self.resources: dict[str, Resource] = {}
        self.ready: list[str] = []
        self.closed = False

    @property
    def pending(self) -> list[Pending]:
        both = [(each.in_flight, each.queued) for each in self.resources.values()]
        return [one for pair in both for one in pair if one is not None]

    @property
    def running(self) -> int:
        return sum(each.in_flight is not None for each in self.resources.values())

    def submit(self, name: str, generation: int, data: bytes) -> Asked | type[Exception]:
        if self.closed:
            return MetadataClosed
        each = self.resources.setdefault(name, Resource())
        asked = Asked(generation)
        if each.durable is not None and generation <= each.durable:
            if generation == each.durable and data != each.content:
                return GenerationConflict
            asked.outcome = Durable(each.durable)
            return asked
        if each.fenced:
            return MetadataFenced
        for one in (each.in_flight, each.queued):
            if one is not None and generation <= one.generation:
                if generation == one.generation and data != one.data:
                    return GenerationConflict
                one.asked.append(asked)
                return asked
        replaced = 0 if each.queued is None else len(each.queued.data)
        if each.queued is None and len(self.pending) >= self.limits.max_operations:
            return MetadataQueueFull
        total = sum(len(one.data) for one in self.pending) - replaced + len(data)
        if total > self.limits.max_bytes:
            return MetadataBytesExceeded
        operations = len(self.pending) + (each.queued is None)
        if operations > self.budget[0] or (total > self.budget[1] and len(data) > replaced):
            return BudgetExhausted
        if each.queued is None:
            each.queued = Pending(generation, data, [asked])
            if each.in_flight is None:
                self.ready.append(name)
        else:
            each.queued = Pending(generation, data, [*each.queued.asked, asked])
        return asked

    def take(self) -> tuple[str, int, bytes] | None:
        if not self.ready or self.running >= self.limits.max_concurrent_writes:
            return None
        name = self.ready.pop(0)
        each = self.resources[name]
        each.in_flight, each.queued = each.queued, None
        assert each.in_flight is not None
        return name, each.in_flight.generation, each.in_flight.data

    def settle(self, name: str, outcome: Any) -> None:
        each = self.resources[name]
        ended, each.in_flight = each.in_flight, None
        assert ended is not None
        if isinstance(outcome, Durable):
            each.durable, each.content, each.fenced = ended.generation, ended.data, False
        if isinstance(outcome, CommitOutcomeUnknown):
            each.fenced = True
        for asked in ended.asked:
            if isinstance(outcome, Durable):
                asked.outcome = outcome
            elif asked.first_failure is not None:
                asked.outcome = asked.first_failure
            elif asked.generation == ended.generation or each.queued is None:
                asked.outcome = outcome
            else:
                asked.first_failure = outcome
                each.queued.asked.append(asked)
        if each.queued is not None:
            self.ready.append(name)

    def withdraw(self, name: str) -> None:
        each = self.resources[name]
        ended, each.in_flight = each.in_flight, None
        assert ended is not None
        if each.queued is None:
            each.queued = ended
        else:
            each.queued.asked += ended.asked
        self.ready.insert(0, name)

    def give_up(self) -> None:
        self.closed = True
        self.ready.clear()
        for each in self.resources.values():
            if each.queued is not None:
                outcome = FailedBeforeCommit(each.queued.generation, NEVER_BEGUN)
                for asked in each.queued.asked:
                    asked.outcome = asked.first_failure or outcome
                each.queued = None


SUBMIT = st.tuples(
    st.just("submit"),
    st.sampled_from("ab"),
    st.sampled_from([1, 1, 1, 2, 0, 0, -1, -2]),  # newer, the same, older, than all of the resource
    st.sampled_from([b"", b"", b"x", b"xxx"]),  # of the same generation, mostly the same content
)
TAKE = st.tuples(st.just("take"))
SETTLE = st.tuples(st.just("settle"), st.integers(0, 2), st.sampled_from(["durable", "failed", "failed", "unknown"]))
WITHDRAW = st.tuples(st.just("withdraw"), st.integers(0, 2))
WATCH = st.tuples(st.just("watch"), st.integers(0, 20))
STEPS = st.lists(
    st.one_of(SUBMIT, SUBMIT, SUBMIT, TAKE, TAKE, SETTLE, SETTLE, WITHDRAW, WITHDRAW, WATCH), min_size=16, max_size=60
)
END = st.sampled_from(["stop", "give up", "go on"])


class Pair:
    """The queue and its model, which are told the same."""

    def __init__(self, limits: MetadataSettings, budget: tuple[int, int]) -> None:
        self.targets = MetadataTargets()
        self.root = Budget.root("process", count=budget[0], bytes=budget[1], clock=lambda: 0.0)
        self.idle = 0
        self.queue = MetadataQueue("queue", limits, self.targets, budget=self.root, on_idle=self.note_idle)
        self.model = Model(limits, budget)
        self.asked: list[Asked] = []
        self.works: list[Work] = []
        self.watched: Counter[Any] = Counter()
        self.told: Counter[Any] = Counter()
        self.taken = 0
        self.committed: Counter[str] = Counter()
        self.newest: Counter[str] = Counter()

    def note_idle(self) -> None:
        self.idle += 1

    def submit(self, name: str, step: int, more: bytes) -> None:
        generation = max(1, self.newest[name] + step)
        self.newest[name] = max(generation, self.newest[name])
        data = more + b"." * (generation % 3)
        expected = self.model.submit(name, generation, data)
        before = (self.queue.operations, self.queue.bytes)
        if isinstance(expected, Asked):
            receipt = self.queue.submit(write(name, generation, data))
            assert isinstance(receipt, MetadataReceipt)
            assert (receipt.resource, receipt.generation) == (name, generation)
            expected.receipt = receipt
            self.asked.append(expected)
        else:
            with pytest.raises(expected):
                self.queue.submit(write(name, generation, data))
            assert (self.queue.operations, self.queue.bytes) == before

    def take(self) -> None:
        expected = self.model.take()
        work = self.queue.take()
        if expected is None:
            assert work is None
        else:
            assert work is not None
            assert (work.slot.resource, work.slot.generation, work.slot.data) == expected
            # What may be in the file is never followed by something older.
            assert expected[1] > self.committed[expected[0]]
            self.taken += 1
            self.works.append(work)

    def settle(self, which: int, how: str) -> None:
        if self.works:
            work = self.works.pop(which % len(self.works))
            generation = work.slot.generation
            kinds = {"durable": Durable(generation), "failed": FailedBeforeCommit(generation, "planted")}
            outcome = kinds.get(how, CommitOutcomeUnknown(generation, "planted"))
            if how != "failed":
                self.committed[work.slot.resource] = generation
            self.model.settle(work.slot.resource, outcome)
            self.queue.settle(work, outcome, digest_of(work.slot.data))

    def withdraw(self, which: int) -> None:
        if self.works:
            work = self.works.pop(which % len(self.works))
            self.model.withdraw(work.slot.resource)
            self.queue.withdraw(work)

    def watch(self, which: int) -> None:
        if self.asked:
            asked = self.asked[which % len(self.asked)]
            if asked.outcome is None and self.queue.desk.waiters < self.queue.desk.limit:

                def tell(outcome: Any) -> None:
                    assert outcome == asked.receipt.outcome
                    self.told[asked] += 1

                asked.receipt.notify(tell)
                self.watched[asked] += 1

    def end(self, how: str) -> None:
        if how == "stop":
            self.model.closed = True
            self.queue.stop_admission()
        elif how == "give up":
            self.model.give_up()
            self.queue.give_up()

    def check(self) -> None:
        queue, model = self.queue, self.model
        assert [asked.receipt.outcome for asked in self.asked] == [asked.outcome for asked in self.asked]
        pending = model.pending
        assert (queue.operations, queue.bytes) == (len(pending), sum(len(one.data) for one in pending))
        assert queue.running == model.running == len(self.works)
        held = self.root.snapshot()
        assert (held.current_count, held.current_bytes) == (queue.operations, queue.bytes)
        for name, each in model.resources.items():
            assert self.targets.confirmed(name) == each.durable
        known = [
            each for each in model.resources.values() if each.durable or each.fenced or each.in_flight or each.queued
        ]
        assert self.targets.stats().retained == len(known) == len(queue.known)
        assert queue.desk.waiters <= queue.desk.limit
        if model.closed and not pending:
            assert self.idle

    def finish(self) -> None:
        """Whatever has come before, all receipts get an outcome once what is pending has ended."""
        while True:
            self.take()
            if not self.works:
                break
            self.settle(0, "failed" if self.taken % 3 == 0 else "durable")
            self.check()
        assert all(asked.outcome is not None for asked in self.asked)
        assert self.told == self.watched
        assert (self.queue.operations, self.queue.bytes, self.queue.desk.waiters) == (0, 0, 0)


TIGHT = st.builds(
    MetadataSettings,
    max_operations=st.integers(1, 3),
    max_bytes=st.integers(2, 9),
    max_concurrent_writes=st.integers(1, 2),
    max_waiters=st.integers(1, 3),
)
WIDE = st.builds(MetadataSettings, max_concurrent_writes=st.integers(1, 2))
BUDGETS = st.one_of(st.just((1000, 1000)), st.tuples(st.integers(1, 3), st.integers(2, 9)))


@settings(max_examples=400)
@given(steps=STEPS, limits=st.one_of(WIDE, TIGHT), budget=BUDGETS, end=END)
def test_the_queue_does_what_its_model_says(
    steps: list[Any], limits: MetadataSettings, budget: tuple[int, int], end: str
) -> None:
    pair = Pair(limits, budget)
    for name, *args in steps:
        getattr(pair, name)(*args)
        pair.check()
    pair.end(end)
    pair.check()
    pair.finish()


def test_what_was_not_tried_itself_follows_the_next_write_once() -> None:
    pair = Pair(MetadataSettings(), (100, 1000))
    queue = pair.queue
    receipts: dict[int, MetadataReceipt] = {}

    def submit(generation: int) -> None:
        receipt = queue.submit(write("a", generation))
        assert isinstance(receipt, MetadataReceipt)
        receipts[generation] = receipt

    def fail() -> FailedBeforeCommit:
        work = queue.take()
        assert work is not None
        submit(work.slot.generation + 2)
        outcome = FailedBeforeCommit(work.slot.generation, "planted")
        queue.settle(work, outcome)
        return outcome

    submit(2)
    submit(3)
    third = fail()
    assert (receipts[3].outcome, receipts[2].outcome) == (third, None)
    submit(4)  # older than 5, which is queued
    fifth = fail()
    assert (receipts[5].outcome, receipts[2].outcome) == (fifth, third)
    assert receipts[4].outcome is None
    seventh = fail()
    assert (receipts[7].outcome, receipts[4].outcome, receipts[2].outcome) == (seventh, fifth, third)
    work = queue.take()
    assert work is not None
    queue.settle(work, Durable(9))
    assert [receipts[n].outcome for n in (2, 3, 4, 5, 7, 9)] == [third, third, fifth, fifth, seventh, Durable(9)]


def test_what_followed_a_write_that_never_began_follows_the_one_that_takes_it_along() -> None:
    queue = Pair(MetadataSettings(), (100, 1000)).queue

    def submit(generation: int) -> MetadataReceipt:
        receipt = queue.submit(write("a", generation))
        assert isinstance(receipt, MetadataReceipt)
        return receipt

    def take() -> Work:
        work = queue.take()
        assert work is not None
        return work

    first = submit(1)
    second = submit(2)
    work = take()
    third = submit(3)
    failure = FailedBeforeCommit(2, "planted")
    queue.settle(work, failure)  # 1 follows 3
    work = take()
    fourth = submit(4)
    queue.withdraw(work)  # 3, and 1 with it, follows 4
    assert [receipt.outcome for receipt in (first, second, third, fourth)] == [None, failure, None, None]
    queue.settle(take(), Durable(4))
    outcomes = [receipt.outcome for receipt in (first, second, third, fourth)]
    assert outcomes == [Durable(4), failure, Durable(4), Durable(4)]
    assert (queue.operations, queue.bytes) == (0, 0)
