"""Guarantees: shutdown and the deadline. D is 10 s after the request, W a second before it."""

from __future__ import annotations

import functools

import pytest
import trio

from actors import Child, Exit, Inbox, InvalidSetting, Ref, one_for_one
from lifecycle import ShutdownReport

from ._systems import Crash, Do, Doer, Note, Recorder, cell_of, outcome_of, supervised
from ._trees import (
    Member,
    calls,
    deaf,
    kinds,
    settled,
    sleeps,
    small_system,
    spawns,
    virtual,
)


class Cleaner(Member):
    """Notes how long its clean-up got, of the time that it wants."""

    def __init__(self, journal: list[str], wants: float) -> None:
        super().__init__(journal)
        self.wants = wants

    async def stopping(self, reason: Exit) -> None:
        try:
            await trio.sleep(self.wants)
        finally:
            self.journal.append(f"{reason.kind} {self.context.name} at {trio.current_time():g}")


@virtual
async def test_leaving_the_block_drains_it() -> None:
    log: list[int] = []
    async with small_system() as system:
        ref = await system.spawn(Recorder, log)
        for n in range(500):
            ref.tell(Note(n))
        assert system.report is None
    assert log == list(range(500))
    assert cell_of(ref).exit == Exit("drained")
    assert system.report.is_healthy()
    assert system.report.reason == "finished"


@virtual
async def test_leaving_the_block_by_an_exception_kills_it() -> None:
    journal: list[str] = []
    with pytest.raises(Crash) as raised:
        async with small_system() as system:
            ref = await system.spawn(Cleaner, journal, 1.0, name="a")
            ref.tell(sleeps(100))
            ref.tell(calls(lambda actor: actor.write("handled")))
            await settled()
            raise Crash
    assert journal == ["started a", "killed a at 1"]
    assert raised.value.report is system.report  # type: ignore[attr-defined]
    assert system.report.reason == "failed"
    assert kinds(system) == {"cancelled": 1, "panicked": 1}  # the latter is the block


@virtual
async def test_the_block_may_be_cancelled_from_outside() -> None:
    journal: list[str] = []
    with trio.move_on_after(5) as scope:
        async with small_system() as system:
            await system.spawn(Cleaner, journal, 2.0, name="a")
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert journal == ["started a", "killed a at 7"]
    assert system.report.reason == "cancelled"
    assert system.report.is_healthy()


@pytest.mark.parametrize(
    ("end", "kind", "log"),
    [("drain", "drained", [1, 2]), ("stop", "stopped", []), ("kill", "killed", [])],
)
@virtual
async def test_the_system_ends_as_an_actor_does(end: str, kind: str, log: list[int]) -> None:
    handled: list[int] = []
    body_went_on = False
    async with small_system() as system:
        ref = await system.spawn(Recorder, handled)
        for n in (1, 2):
            ref.tell(Note(n))
        getattr(system, end)()
        assert system.stopping.is_set()
        await system.wait_stopped()
        await trio.lowlevel.checkpoint()
        body_went_on = True
    assert not body_went_on  # it is cancelled when all have ended, and leaves in silence
    assert (handled, cell_of(ref).exit) == (log, Exit(kind))  # type: ignore[arg-type]
    assert system.report.reason == end


@virtual
async def test_at_w_what_still_works_is_cancelled() -> None:
    async with small_system() as system:
        slow = await system.spawn(Doer)
        quick = await system.spawn(Doer)
        for ref, seconds in ((slow, 100), (quick, 8)):
            ref.tell(sleeps(seconds))
            ref.tell(sleeps(0.5))
        await settled()
        start = trio.current_time()
    assert trio.current_time() == start + 9
    assert (cell_of(slow).exit, cell_of(quick).exit) == (Exit("killed"), Exit("drained"))
    assert kinds(system) == {"completed": 1, "timed_out": 1, "aborted": 1}
    assert not system.report.is_healthy()


@virtual
async def test_clean_up_may_await_until_d() -> None:
    journal: list[str] = []
    async with small_system() as system:
        for name, wants in (("short", 0.5), ("long", 50.0)):
            ref = await system.spawn(Cleaner, journal, wants, name=name)
            ref.tell(sleeps(100))
        await settled()
    assert journal[2:] == ["killed short at 9.5", "killed long at 10"]
    assert system.report.still_running() == ()
    assert kinds(system) == {"timed_out": 2, "aborted": 2}


@virtual
async def test_clean_up_that_d_cuts_short_has_timed_out() -> None:
    journal: list[str] = []
    async with small_system() as system:
        await system.spawn(Cleaner, journal, 50.0, name="a")
    assert journal == ["started a", "drained a at 10"]
    assert kinds(system) == {"timed_out": 1, "aborted": 1}


@virtual
async def test_clean_up_of_a_function_may_await_until_d() -> None:
    times: list[float] = []

    async def body(inbox: Inbox[Note]) -> None:
        try:
            async for _ in inbox:
                await trio.sleep(100)
        finally:
            with inbox.context.cleanup():
                await trio.sleep(0.25)  # noqa: ASYNC102 (the scope ends by itself)
                times.append(trio.current_time())
                await trio.sleep(100)  # noqa: ASYNC102 (the scope ends by itself)
            times.append(trio.current_time())

    async with small_system() as system:
        (await system.spawn(body)).tell(Note(1))
        await settled()
    assert times == [9.25, 10]


@virtual
async def test_clean_up_that_is_under_way_ends_at_d_too() -> None:
    journal: list[str] = []
    async with small_system() as system:
        ref = await system.spawn(Cleaner, journal, 100.0, name="a")
        with trio.move_on_after(5):
            await ref.stop()
        system.deadline.freeze(trio.current_time(), 2, "sooner")
    assert journal[1:] == ["stopped a at 7"]


@virtual
async def test_an_overrun_is_reported_by_d_and_then_waited_for() -> None:
    async with trio.open_nursery() as nursery:
        async with small_system() as system:
            ref = await system.spawn(Doer, name="top")
            child = await ref.ask(spawns(Doer, name="stuck"))
            child.tell(deaf(30))
            await settled()
            reports: list[ShutdownReport | None] = []

            async def look() -> None:
                await trio.sleep(10.001)
                reports.append(system.report)

            nursery.start_soon(look)
        assert trio.current_time() == 30
    report = reports[0]
    assert report is not None
    assert report.outcome == "overrun"
    assert report.totals().nonzero() == {"timed_out": 2, "leaked": 2}
    top, stuck = sorted(report.still_running(), key=lambda task: len(task.path))
    assert (top.path, top.detail) == ("/top", "waiting for the end of its children, 0 queued")
    assert (stuck.path, stuck.detail) == ("/top/stuck", "handling Do for 10.000 s, 0 queued")
    assert any("_trees.py" in line and "deaf" in line for line in stuck.stack)
    assert "30.000" not in report.render()
    assert system.report.outcome == "overrun"


@virtual
async def test_a_swallowed_cancellation_is_an_overrun_too() -> None:
    async def swallows(actor: Doer) -> None:
        for _ in range(300):
            with trio.move_on_after(100):
                try:
                    await trio.sleep(0.1)
                except trio.Cancelled:  # noqa: ASYNC103 (that is what is wrong with it)
                    with trio.CancelScope(shield=True):
                        await trio.sleep(0.1)

    async with small_system() as system:
        (await system.spawn(Doer, name="mule")).tell(Do(swallows))
        await settled()
    assert trio.current_time() > 10
    assert [task.path for task in system.report.still_running()] == ["/mule"]


@virtual
async def test_a_later_request_moves_the_deadline_only_earlier() -> None:
    async with small_system() as system:
        ref = await system.spawn(Doer)
        ref.tell(sleeps(100))
        await settled()
        system.drain()
        assert (system.deadline.work, system.deadline.end) == (9, 10)
        with trio.CancelScope(shield=True):
            await trio.sleep(3)
            system.stop()
            assert (system.deadline.work, system.deadline.end) == (9, 10)
            await trio.sleep(1)
            system.kill()
            assert (system.deadline.work, system.deadline.end) == (4, 10)
    assert trio.current_time() == 4
    assert kinds(system) == {"cancelled": 1}  # told to, and not overtaken by the deadline


@virtual
async def test_top_level_actors_are_told_all_at_once() -> None:
    journal: list[str] = []
    async with small_system() as system:
        for name in "abc":
            await system.spawn(Cleaner, journal, 2.0, name=name)
        del journal[:]
    assert sorted(journal) == [f"drained {name} at 2" for name in "abc"]


@virtual
async def test_supervised_children_end_in_reverse_order_a_rank_at_a_time() -> None:
    journal: list[str] = []
    async with small_system() as system:
        await system.supervise(one_for_one(), *(Child(Cleaner, journal, 1.0, name=name) for name in "abc"))
        del journal[:]
    assert journal == ["drained c at 1", "drained b at 2", "drained a at 3"]


@virtual
async def test_a_rank_that_uses_up_its_share_holds_up_nobody() -> None:
    """Three ranks in 9 s, of which the first takes 3 at most; then two in 6 s, of which the next takes its own 1 s."""
    told: list[tuple[str, float]] = []

    class Told(Doer):
        def __init__(self, seconds: float) -> None:
            self.seconds = seconds

        async def stopping(self, reason: Exit) -> None:
            told.append((self.context.name, trio.current_time()))

    async with small_system() as system:
        supervision = await system.supervise(
            one_for_one(),
            Child(Told, 0.0, name="a"),
            Child(Told, 100.0, name="b", shutdown=1.0),
            Child(Told, 100.0, name="c"),
        )
        for name in "bc":
            supervision.child(name, Told).tell(sleeps(100))
        await settled()
    assert sorted(told) == [("a", 4), ("b", 9), ("c", 9)]
    assert kinds(system) == {"completed": 2, "timed_out": 2, "aborted": 2}


@virtual
async def test_without_a_deadline_a_share_is_five_seconds_and_then_a_kill() -> None:
    async with small_system() as system:
        children = [Child(Doer, name="a"), Child(Doer, name="b"), Child(Doer, name="c", shutdown=1.0)]
        supervision = await system.supervise(one_for_one(), *children)
        refs = [supervision.child(name, Doer) for name in "abc"]
        for ref in refs[1:]:
            ref.tell(sleeps(100))
        await settled()
        await supervision.stop()
        assert trio.current_time() == 6
        assert [cell_of(ref).exit.kind for ref in refs] == ["stopped", "killed", "killed"]


@virtual
async def test_what_is_needed_ends_after_those_that_need_it() -> None:
    journal: list[str] = []
    async with small_system() as system:
        store = await system.spawn(Cleaner, journal, 1.0, name="store")
        cache = await system.spawn(Cleaner, journal, 1.0, name="cache", needs=[store])
        user = await system.spawn(Cleaner, journal, 1.0, name="user", needs=[cache, store])
        await user.ask(calls(lambda _: None))
        del journal[:]
    assert journal == ["drained user at 1", "drained cache at 2", "drained store at 3"]


@virtual
async def test_what_is_needed_waits_for_half_of_the_time() -> None:
    async with small_system() as system:
        store = await system.spawn(Doer, name="store")
        user = await system.spawn(Doer, name="user", needs=[store])
        user.tell(sleeps(100))
        await settled()
        async with trio.open_nursery() as nursery:

            async def look() -> None:
                with trio.CancelScope(shield=True):
                    await store.wait_stopped()
                    assert trio.current_time() == 4.5

            nursery.start_soon(look)
            system.stop()
    assert trio.current_time() == 9


@virtual
async def test_a_request_that_waits_for_others_is_kept_as_the_strongest() -> None:
    async with small_system() as system:
        store = await system.spawn(Doer)
        user = await system.spawn(Doer, needs=[store])
        user.tell(sleeps(1))
        await settled()
        system.drain()
        system.stop()
        await settled()
        assert store.alive
        await store.wait_stopped()
        assert cell_of(store).exit == Exit("stopped")


@pytest.mark.parametrize("how", ["stop", "drain", "itself"])
@virtual
async def test_an_actor_that_is_stopped_alone_waits_for_nobody(how: str) -> None:
    async with small_system() as system:
        store = await supervised(system, Doer, restart="temporary")
        user = await system.spawn(Doer, needs=[store])
        if how == "itself":
            await store.ask(calls(lambda actor: actor.context.stop()))
            await store.wait_stopped()
        else:
            await getattr(store, how)()
        assert (store.alive, user.alive) == (False, True)


@virtual
async def test_a_cycle_of_needs_is_refused() -> None:
    async def tries(actor: Doer, needed: object) -> object:
        return await outcome_of(functools.partial(actor.context.spawn, Doer, needs=[needed]))

    async with small_system() as system:
        a = await system.spawn(Doer, name="a")
        b = await system.spawn(Doer, name="b")
        errors = [await a.ask(Do(lambda actor: tries(actor, a)))]  # its own parent
        assert isinstance(await a.ask(Do(lambda actor: tries(actor, b))), Ref)
        errors.append(await b.ask(Do(lambda actor: tries(actor, a))))
    assert [type(error) for error in errors] == [InvalidSetting] * 2
    assert "cannot need /a" in str(errors[1])
    assert system.report.is_healthy()
