"""A runtime from its opening to its report, also when things go wrong."""

from __future__ import annotations

import gc
import logging
import threading
import time

import attrs
import pytest
import trio
import trio.testing

from lifecycle import (
    AlreadyInTrio,
    AlreadyRun,
    ConfigInvalid,
    GroupClosed,
    Outcomes,
    Runtime,
    RuntimeConfig,
    RuntimePlan,
    ServiceContext,
    ShutdownReport,
    SignalsUnavailable,
    open_runtime,
)

QUIET = RuntimeConfig(signals=False, on_overrun="wait", shutdown_within=10)


def built(**changes: object) -> Runtime:
    """A runtime on a virtual clock, which neither takes signals nor ends the process."""
    config = attrs.evolve(QUIET, **changes)  # type: ignore[arg-type]
    return Runtime.plan(config).build(clock=trio.testing.MockClock(autojump_threshold=0))


def report_of(context: ServiceContext) -> ShutdownReport:
    report = context.runtime.report
    assert report is not None
    return report


def report_at(exc: BaseException) -> ShutdownReport:
    report = getattr(exc, "report", None)
    assert isinstance(report, ShutdownReport)
    return report


async def test_a_bound_that_is_set_before_anybody_asks_for_the_end_is_no_request(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_runtime(QUIET) as context:
        begun = trio.current_time()
        context.runtime.deadline.tighten(begun + 60, begun + 120)
        await trio.sleep(1)
        assert context.runtime.ready
        assert not context.stopping.is_set()
        context.group.spawn_cancellable(trio.sleep_forever)
        context.runtime.request_shutdown("asked", within=1000)
        assert (context.deadline.reason, context.deadline.end) == ("asked", begun + 120)
    assert report_of(context).reason == "asked"


async def until_stopping(context: ServiceContext) -> None:
    await context.stopping.wait()


async def deaf(seconds: float) -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)


async def fail(message: str = "planted") -> None:
    raise ValueError(message)


# -- running


def test_plan_is_pure_and_names_every_mistake() -> None:
    assert Runtime.plan() == RuntimePlan(RuntimeConfig())
    with pytest.raises(ConfigInvalid) as caught:
        Runtime.plan(RuntimeConfig(name="", shutdown_within=-1))
    assert len(caught.value.mistakes) == 2


def test_run_gives_main_the_root_context_and_its_arguments_and_returns_the_report() -> None:
    seen: list[object] = []

    async def main(context: ServiceContext, number: int, text: str) -> None:
        seen.extend([context.path, number, text, context.runtime.ready, context.runtime.report])

    report = built(name="shop").run(main, 3, "x")
    assert seen == ["/", 3, "x", True, None]
    assert (report.name, report.reason, report.outcome) == ("shop", "finished", "completed")
    assert report.totals() == Outcomes()
    assert report.is_healthy()


def test_leaving_main_drains_the_tree() -> None:
    async def slow(context: ServiceContext) -> None:
        await context.stopping.wait()
        await trio.sleep(3)

    async def main(context: ServiceContext) -> None:
        context.component("a").group.spawn_service(slow, context)
        context.group.spawn_cancellable(trio.sleep_forever)

    report = built().run(main)
    assert report.totals() == Outcomes(cancelled=2)
    assert report.elapsed == 3
    assert report.is_healthy()


def test_a_runtime_runs_once_and_its_plan_builds_another() -> None:
    async def main(context: ServiceContext) -> None:
        pass

    plan = Runtime.plan(QUIET)
    runtime = plan.build()
    runtime.run(main)
    with pytest.raises(AlreadyRun) as caught:
        runtime.run(main)
    assert caught.value.runtime == "tenure"
    assert plan.build().run(main).is_healthy()


@pytest.mark.row("runtime:R7")
async def test_run_inside_a_trio_program_is_refused_and_the_runtime_then_says_that_it_was_never_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(context: ServiceContext) -> None:
        raise AssertionError

    runtime = Runtime.plan(QUIET).build()
    with pytest.raises(AlreadyInTrio):
        runtime.run(main)
    del runtime
    gc.collect()
    assert [record.getMessage() for record in caplog.records if "never run" in record.getMessage()]


@pytest.mark.row("runtime:R8")
def test_a_runtime_that_is_never_run_or_left_by_an_exception_logs_one_report() -> None:
    reports: list[ShutdownReport] = []
    contexts: list[ServiceContext] = []

    async def main(context: ServiceContext) -> None:
        contexts.append(context)
        await fail()

    async def fine(context: ServiceContext) -> None:
        pass

    config = attrs.evolve(QUIET, report_sink=reports.append)
    Runtime.plan(config).build()
    gc.collect()
    assert [(report.reason, report.outcome) for report in reports] == [("dropped", "never run")]
    reports.clear()
    with pytest.raises(ValueError, match="planted"):
        Runtime.plan(config).build().run(main)
    gc.collect()
    assert [report.outcome for report in reports] == ["failed"]
    with pytest.raises(GroupClosed):
        contexts[0].group.spawn_service(trio.sleep, 0)
    reports.clear()
    Runtime.plan(config).build().run(fine)
    gc.collect()
    assert [report.outcome for report in reports] == ["completed"]


# -- what leaves


def test_what_main_raises_leaves_as_it_is_with_the_report_and_the_tree_is_cancelled_not_drained() -> None:
    planted = KeyError("planted")

    async def main(context: ServiceContext) -> None:
        context.group.spawn_service(trio.sleep_forever)
        await trio.sleep(1)
        raise planted

    with pytest.raises(KeyError) as caught:
        built().run(main)
    assert caught.value is planted
    report = report_at(planted)
    assert (report.reason, report.outcome, report.elapsed) == ("failed", "failed", 0)
    assert report.totals() == Outcomes(cancelled=1, panicked=1)
    assert "the body raised KeyError('planted')" in report.annotations
    assert not report.is_healthy()


def test_cleanup_has_its_time_when_main_raises() -> None:
    async def body(context: ServiceContext) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with context.cleanup():
                await trio.sleep(2)  # noqa: ASYNC102 (the scope is one that ends)

    async def main(context: ServiceContext) -> None:
        context.group.spawn_service(body, context)
        await trio.sleep(1)
        await fail()

    with pytest.raises(ValueError, match="planted") as caught:
        built().run(main)
    report = report_at(caught.value)
    assert report.elapsed == 2
    assert report.totals() == Outcomes(cancelled=1, panicked=1)


def test_a_group_that_main_raises_leaves_as_it_is() -> None:
    async def main(context: ServiceContext) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail, "one")
            nursery.start_soon(fail, "two")

    with pytest.RaisesGroup(ValueError, ValueError) as caught:
        built().run(main)
    assert not report_at(caught.value).is_healthy()


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_exit_leaves_as_it_is_from_main_and_from_a_task(kind: type[BaseException]) -> None:
    async def leave() -> None:
        raise kind

    async def main_leaves(context: ServiceContext) -> None:
        context.group.spawn_service(trio.sleep_forever)
        await trio.sleep(1)
        raise kind

    async def task_leaves(context: ServiceContext) -> None:
        context.component("part").group.spawn_service(leave)
        context.group.spawn_service(trio.sleep_forever)
        await trio.sleep_forever()

    for main in (main_leaves, task_leaves):
        with pytest.raises(kind) as caught:
            built().run(main)
        assert report_at(caught.value).outcome == "completed"


def test_an_unhandled_failure_of_a_task_drains_the_tree_and_leaves_in_a_flat_group(
    caplog: pytest.LogCaptureFixture,
) -> None:
    times: list[tuple[str, float]] = []

    async def drains(context: ServiceContext) -> None:
        await context.stopping.wait()
        await trio.sleep(3)
        times.append(("drained", trio.current_time()))

    async def main(context: ServiceContext) -> None:
        context.group.spawn_service(drains, context)
        context.component("a").component("b").group.spawn_service(fail)
        try:
            await trio.sleep_forever()
        finally:
            times.append(("main", trio.current_time()))

    with pytest.RaisesGroup(ValueError) as caught:
        built().run(main)
    assert times == [("drained", 3.0), ("main", 3.0)]
    report = report_at(caught.value)
    assert (report.reason, report.outcome) == ("internal", "poisoned")
    assert report.totals() == Outcomes(cancelled=1, panicked=1)
    assert "task /a/b/fail failed: ValueError('planted')" in report.annotations
    (record,) = [record for record in caplog.records if record.exc_info]
    assert "/a/b/fail" in record.getMessage()
    assert "ValueError: planted" in caplog.text


def test_degrade_lets_the_rest_go_on_and_the_failure_still_leaves_at_the_end() -> None:
    ready: list[bool] = []

    async def main(context: ServiceContext) -> None:
        part = context.component("part")
        ready.append(context.runtime.ready)
        await part.group.spawn_service(fail).wait()
        ready.append(context.runtime.ready)
        assert not context.stopping.is_set()
        assert await context.component("other").group.spawn_service(trio.sleep, 5).wait() == "completed"

    with pytest.RaisesGroup(ValueError) as caught:
        built(on_poison="degrade").run(main)
    assert ready == [True, False]
    report = report_at(caught.value)
    assert (report.reason, report.outcome) == ("finished", "poisoned")
    assert report.totals() == Outcomes(completed=1, panicked=1)


def test_main_and_a_task_that_both_fail_leave_in_one_group() -> None:
    async def main(context: ServiceContext) -> None:
        context.group.spawn_service(fail, "task")
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("main")

    with pytest.RaisesGroup(KeyError, ValueError) as caught:
        built().run(main)
    assert report_at(caught.value).totals() == Outcomes(panicked=2)


def test_thousands_of_failures_are_counted_and_a_bounded_number_is_kept() -> None:
    async def main(context: ServiceContext) -> None:
        for number in range(1000):
            await context.component("part").group.spawn_service(fail, str(number)).wait()

    with pytest.RaisesGroup(*[ValueError] * 64) as caught:
        built(on_poison="degrade").run(main)
    assert caught.value.__notes__ == ["and 936 more failures of tasks, which are in the log"]
    report = report_at(caught.value)
    assert report.totals() == Outcomes(panicked=1000)
    assert len(report.annotations) == 65


# -- the way to the end


def test_main_sees_the_stop_and_is_cancelled_only_when_the_tree_has_ended() -> None:
    times: list[tuple[str, float]] = []

    async def slow(context: ServiceContext) -> None:
        await context.stopping.wait()
        await trio.sleep(4)
        times.append(("tree", trio.current_time()))

    async def main(context: ServiceContext) -> None:
        context.group.spawn_service(slow, context)
        assert context.runtime.request_shutdown("asked")
        assert context.stopping.is_set()
        await trio.sleep(2)
        times.append(("main goes on", trio.current_time()))
        try:
            await trio.sleep_forever()
        finally:
            times.append(("main", trio.current_time()))

    report = built().run(main)
    assert times == [("main goes on", 2.0), ("tree", 4.0), ("main", 4.0)]
    assert report.reason == "asked"
    assert report.is_healthy()


def test_main_and_what_does_not_drain_are_cancelled_at_the_work_deadline() -> None:
    times: list[tuple[str, float]] = []

    async def ignores(name: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            times.append((name, trio.current_time()))

    async def main(context: ServiceContext) -> None:
        context.group.spawn_service(ignores, "task")
        context.runtime.request_shutdown()
        await ignores("main")

    report = built().run(main)
    assert sorted(times) == [("main", 9.0), ("task", 9.0)]
    assert report.totals() == Outcomes(aborted=2, timed_out=2)
    assert not report.is_healthy()
    assert report.outcome == "completed"


@pytest.mark.row("runtime:R9")
def test_clean_up_gets_what_work_has_left_of_the_one_deadline() -> None:
    seen: list[float] = []

    async def body(context: ServiceContext) -> None:
        await context.stopping.wait()
        await trio.sleep(0.8)
        with context.cleanup():
            await trio.sleep_forever()
        seen.append(trio.current_time())

    async def main(context: ServiceContext) -> None:
        context.group.spawn_service(body, context)

    report = built(shutdown_within=1).run(main)
    assert seen == [1.0]
    assert report.elapsed == 1.0


def test_the_first_reason_and_deadline_stay_and_a_later_request_may_only_shorten() -> None:
    async def main(context: ServiceContext) -> None:
        context.group.spawn_service(trio.sleep_forever)
        assert context.runtime.request_shutdown("first", within=8)
        await trio.sleep(1)
        assert not context.runtime.request_shutdown("second", within=60)
        assert context.deadline.end == 8
        assert not context.runtime.request_shutdown("third", within=3)
        assert context.deadline.end == 4
        await trio.sleep_forever()

    report = built().run(main)
    assert report.reason == "first"
    assert report.elapsed == pytest.approx(3.7)


def test_expire_ends_everything_at_once_cleanup_included() -> None:
    async def body(context: ServiceContext) -> None:
        with context.cleanup():
            await trio.sleep_forever()

    async def main(context: ServiceContext) -> None:
        context.group.spawn_service(body, context)
        context.group.spawn_service(trio.sleep_forever)
        context.runtime.request_shutdown()
        await trio.sleep(2)
        context.deadline.expire(trio.current_time())
        await trio.sleep_forever()

    report = built().run(main)
    assert report.elapsed == 2
    assert report.totals().leaked == 0
    assert report.outcome == "completed"


def test_a_whole_second_of_nothing_given_still_ends_with_everything_accounted_for() -> None:
    async def main(context: ServiceContext) -> None:
        for number in range(50):
            context.component(str(number)).group.spawn_service(trio.sleep_forever)
        await trio.testing.wait_all_tasks_blocked()

    report = built(shutdown_within=0).run(main)
    assert report.totals() == Outcomes(aborted=50, timed_out=50)
    assert report.elapsed == 0


# -- inside a host


async def test_open_runtime_leaves_the_report_after_the_block(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime() as context:
        context.group.spawn_service(until_stopping, context)
        assert context.runtime.report is None
        assert context.runtime.name == "tenure"
        assert context.runtime.config.shutdown_within == 30
    assert report_of(context).totals() == Outcomes(cancelled=1)
    assert not context.runtime.ready


async def test_a_requested_shutdown_ends_the_block_without_an_exception(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def asks(context: ServiceContext) -> None:
        await trio.sleep(5)
        context.runtime.request_shutdown("asked")

    async with open_runtime() as context:
        context.group.spawn_service(asks, context)
        await trio.sleep_forever()
    assert trio.current_time() == 5
    assert report_of(context).reason == "asked"
    await trio.sleep(1)


async def test_a_time_out_of_the_host_cancels_the_tree_and_is_the_hosts_own(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def cleans(context: ServiceContext) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with context.cleanup():
                await trio.sleep(3)  # noqa: ASYNC102 (the scope is one that ends)

    with pytest.raises(trio.TooSlowError):
        with trio.fail_after(1):
            async with open_runtime() as context:
                context.group.spawn_service(cleans, context)
                context.component("a").group.spawn_service(trio.sleep_forever)
                await trio.sleep_forever()
    assert trio.current_time() == 4
    report = report_of(context)
    assert report.reason == "cancelled"
    assert report.totals() == Outcomes(cancelled=2)
    assert report.is_healthy()


async def test_a_time_out_of_the_host_while_the_tree_drains_cancels_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with trio.move_on_after(1) as scope:
        async with open_runtime() as context:
            context.group.spawn_service(trio.sleep_forever)
    assert scope.cancelled_caught
    assert trio.current_time() == 1
    assert report_of(context).totals() == Outcomes(cancelled=1)


async def test_an_exception_in_the_block_keeps_its_traceback_and_its_identity() -> None:
    planted = ValueError("planted")
    with pytest.raises(ValueError, match="planted") as caught:
        async with open_runtime():
            raise planted
    assert caught.value is planted
    assert caught.traceback[-1].name == "test_an_exception_in_the_block_keeps_its_traceback_and_its_identity"
    assert report_at(planted).outcome == "failed"


async def test_two_runtimes_side_by_side_have_nothing_in_common(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime() as one, open_runtime() as two:
        one.group.spawn_service(until_stopping, one)
        handle = two.group.spawn_service(until_stopping, two)
        one.runtime.request_shutdown(within=1)
        await trio.sleep(2)
        assert not two.stopping.is_set()
        assert handle.outcome is None
        assert two.deadline.end == float("inf")


# -- overrun


async def test_an_overrun_is_reported_at_the_end_and_then_waited_for_and_told_again(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    published: list[tuple[float, ShutdownReport]] = []

    def sink(report: ShutdownReport) -> None:
        published.append((trio.current_time(), report))

    async with open_runtime(attrs.evolve(QUIET, report_sink=sink)) as context:
        context.component("part").group.spawn_service(deaf, 27, name="deaf")
    assert trio.current_time() == 27
    ((when, first),) = published
    assert when == 10
    assert first.outcome == "overrun"
    assert first.totals() == Outcomes(leaked=1, timed_out=1)
    (task,) = first.still_running()
    assert task.path == "/part/deaf"
    assert any(line.endswith("in deaf") for line in task.stack)
    reminders = [record for record in caplog.records if "should have ended" in record.getMessage()]
    assert [round(getattr(record, "late", 0)) for record in reminders] == [5, 10, 15]
    assert all("/part/deaf" in record.getMessage() for record in reminders)
    assert report_of(context).annotations[-1] == "everything had ended 17.000 s after the deadline"
    assert report_of(context).totals() == first.totals()


async def test_a_body_that_overruns_is_named_with_its_stack(autojump_clock: trio.testing.MockClock) -> None:
    async with open_runtime(QUIET) as context:
        context.runtime.request_shutdown()
        await deaf(20)
    report = report_of(context)
    assert report.totals() == Outcomes(leaked=1, timed_out=1)
    (task,) = report.still_running()
    assert (task.path, task.detail) == ("/", "the body of the runtime")
    assert any(line.endswith("in deaf") for line in task.stack)


async def test_a_blocked_thread_is_named_with_the_frames_of_the_thread() -> None:
    release = threading.Event()

    def blocks() -> None:
        release.wait()

    async with open_runtime(attrs.evolve(QUIET, shutdown_within=0.05, report_sink=lambda _: release.set())) as context:
        context.group.spawn_service(trio.to_thread.run_sync, blocks, name="blocked")
        await trio.testing.wait_all_tasks_blocked(0.02)
    (task,) = report_of(context).still_running()
    assert task.path == "/blocked"
    assert any("to_thread_run_sync" in line for line in task.stack)
    assert any(line.startswith("in thread 'blocks from") for line in task.stack)
    assert any(line.endswith("blocks") and "test_runtime.py" in line for line in task.stack)


async def test_the_report_is_there_at_the_deadline_on_the_real_clock() -> None:
    when: list[float] = []
    began = time.perf_counter()
    config = attrs.evolve(QUIET, shutdown_within=0.1, report_sink=lambda _: when.append(time.perf_counter() - began))
    async with open_runtime(config) as context:
        context.group.spawn_service(deaf, 1)
    assert 0.1 <= when[0] < 0.9


async def test_a_sink_that_raises_is_logged_and_the_report_is_still_there(caplog: pytest.LogCaptureFixture) -> None:
    def sink(report: ShutdownReport) -> None:
        raise OSError("disk full")

    async with open_runtime(attrs.evolve(QUIET, report_sink=sink)) as context:
        pass
    assert report_of(context).is_healthy()
    assert "disk full" in caplog.text


async def test_the_log_tells_the_request_and_the_report_with_structured_fields(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="tenure.lifecycle")
    async with open_runtime(attrs.evolve(QUIET, name="shop")):
        pass
    request, report = caplog.records
    assert request.getMessage() == "runtime shop: shutdown requested (finished), to end within 10 s"
    assert report.levelno == logging.INFO
    assert report.getMessage().startswith("shutdown of shop: healthy")
    fields = ("runtime", "reason", "outcome", "healthy", "totals")
    assert [getattr(report, field) for field in fields] == ["shop", "finished", "completed", True, {}]


# -- signals that cannot be taken


@pytest.mark.row("runtime:R128")
def test_signals_outside_the_main_thread_are_a_typed_error_and_never_a_false_signal() -> None:
    raised: list[BaseException] = []
    reports: list[ShutdownReport] = []

    async def main(context: ServiceContext) -> None:
        pass

    def work(signals: bool) -> None:
        runtime = Runtime.plan(attrs.evolve(QUIET, name="shop", signals=signals)).build()
        try:
            reports.append(runtime.run(main))
        except SignalsUnavailable as exc:
            raised.append(exc)

    for signals in (True, False):
        thread = threading.Thread(target=work, args=(signals,))
        thread.start()
        thread.join()
    (error,) = raised
    assert isinstance(error, SignalsUnavailable)
    assert error.runtime == "shop"
    assert isinstance(error.__cause__, RuntimeError)
    assert [report.is_healthy() for report in reports] == [True]
