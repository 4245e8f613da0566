"""Drives one tree from its opening to its report.

body leaves, signal, failure, request_shutdown
    -> the deadline is fixed, the gate closes, everything is told to drain
    -> work deadline: what still works is cancelled; the body too, or earlier if the tree has ended
    -> end: clean-up is cancelled; what runs on is an overrun: reported first, then waited for or ended with the process
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, final

import attrs
import trio

from ._context import ServiceContext
from ._exceptions import leaves, split_cancelled
from ._group import TaskGroup, last_turns
from ._logs import place
from ._outcomes import Outcomes
from ._publish import end_process, publish, say_still_running
from ._report import RemainingTask
from ._signals import watch_signals
from ._stack import task_stack
from ._tree import Tree
from ._until import scope_until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from ._config import OnOverrun, RuntimeConfig
    from ._deadline import ShutdownDeadline
    from ._report import BlockingTask, ShutdownReport
    from ._resources import RuntimeResources
    from ._task import TaskRecord

MAX_FAILURES = 64
"""How many failures of tasks are kept to be raised at the end; all of them are logged when they happen."""

SAY_AGAIN_EVERY = 5.0
"""Seconds between two reminders that a runtime which should have ended still waits."""

_log = logging.getLogger("tenure.lifecycle")


@final
class RuntimeHandle:
    """What a service context may see and ask of its runtime. Use it in the runtime's own thread."""

    __slots__ = ("_conductor",)

    def __init__(self, conductor: Conductor, /) -> None:
        self._conductor = conductor

    def __repr__(self) -> str:
        return f"<RuntimeHandle {self.name!r} {self._conductor.root.state}>"

    @property
    def name(self) -> str:
        """The runtime's name."""
        return self._conductor.config.name

    @property
    def config(self) -> RuntimeConfig:
        """What the runtime was told."""
        return self._conductor.config

    @property
    def resources(self) -> RuntimeResources:
        """What all components share."""
        return self._conductor.resources

    @property
    def deadline(self) -> ShutdownDeadline:
        """The one deadline of the whole tree; `inf` until a shutdown is requested."""
        return self._conductor.tree.deadline

    @property
    def ready(self) -> bool:
        """Whether no shutdown was requested and no task has failed."""
        return not self._conductor.degraded and not self.deadline.frozen

    @property
    def report(self) -> ShutdownReport | None:
        """The shutdown report, once there is one."""
        return self._conductor.report

    def request_shutdown(self, reason: str = "requested", within: float | None = None) -> bool:
        """Close every gate and tell everything to drain, within the configured time or `within` seconds.

        Sync; True if this was the first request. A later one keeps the reason and may only shorten the time.
        """
        return self._conductor.request_shutdown(reason, within)


class _Body:
    """The block or function that holds the runtime open."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.over = trio.Event()
        self.task: trio.lowlevel.Task | None = None
        self.error: BaseException | None = None
        self.timed_out = False

    @property
    def running(self) -> bool:
        return not self.over.is_set()

    def outcomes(self) -> Outcomes:
        """It is not a task of the tree, so it counts only if something was wrong with it."""
        if self.running:
            return Outcomes(leaked=1, timed_out=1)
        if isinstance(self.error, Exception):
            return Outcomes(panicked=1)
        if self.timed_out:
            return Outcomes(aborted=1, timed_out=1)
        return Outcomes()


@final
class Conductor:
    """Owns the tree of one runtime and its way from `opened` to `report`."""

    def __init__(self, config: RuntimeConfig, on_overrun: OnOverrun, resources: RuntimeResources) -> None:
        self.config = config
        self.resources = resources
        self.tree: Tree = Tree(config.shutdown_within, self._task_failed)
        self.root: TaskGroup = TaskGroup(config.name, None, self.tree)
        self.context: ServiceContext = ServiceContext(self.root, RuntimeHandle(self))
        self.report: ShutdownReport | None = None
        self.degraded: bool = False
        self._on_overrun = on_overrun
        self._body = _Body()
        self._requested = trio.Event()
        self._ended = trio.Event()
        self._failures: list[Exception] = []
        self._failed_paths: list[str] = []
        self._failed = 0
        self.tree.deadline.subscribe(self._deadline_moved)

    # -- requests

    def request_shutdown(self, reason: str, within: float | None = None) -> bool:
        """See `RuntimeHandle.request_shutdown`."""
        given = self.config.shutdown_within if within is None else within
        first = self.tree.deadline.freeze(trio.current_time(), given, reason)
        if first:
            _log.info(
                "runtime %s: shutdown requested (%s), to end within %.3g s",
                self.config.name,
                reason,
                given,
                extra=place("/"),
            )
        self._requested.set()
        self.root.close("drain")
        return first

    def _deadline_moved(self) -> None:
        # A bound that was set before anybody has asked for the end is no request.
        if self.tree.deadline.frozen:
            self._requested.set()

    def _drain_by_signal(self) -> None:
        self.request_shutdown("signal")

    def _end_by_signal(self) -> None:
        _log.warning("runtime %s: a further signal, everything ends now", self.config.name, extra=place("/"))
        self.request_shutdown("signal")
        self.tree.deadline.expire(trio.current_time())

    def _task_failed(self, record: TaskRecord, cause: Exception) -> None:
        self.degraded = True
        self._failed += 1
        if len(self._failures) < MAX_FAILURES:
            self._failures.append(cause)
            self._failed_paths.append(record.path)
        if self.config.on_poison == "shutdown":
            self.request_shutdown("internal")

    # -- the block

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[ServiceContext, None]:
        """Open the tree, give its root to the block, and end the tree after it.

        Leaving the block normally drains the tree, by an exception cancels it. What the block raises leaves as it
        is; failures of tasks leave as one flat exception group, as from a nursery. Either has the report at `report`.
        """
        stray: BaseException | None = None
        self.resources.attach()
        try:
            async with trio.open_nursery() as outer:
                if self.config.signals:
                    await outer.start(watch_signals, self.config.name, self._drain_by_signal, self._end_by_signal)
                outer.start_soon(self._conduct)
                async with trio.open_nursery() as nursery:
                    self.root.open_with(nursery)
                    self._body.task = trio.lowlevel.current_task()
                    cancelled: BaseException | None = None
                    try:
                        with self._body.scope:
                            yield self.context
                    except BaseException as exc:  # noqa: ASYNC103 (its parts are raised below, after the shutdown)
                        cancelled = self._body_raised(exc)
                    self._body_left()
                    with trio.CancelScope(shield=True):
                        await self._ended.wait()
                    if cancelled is not None:
                        # The scope that it belongs to is outside, and is the one to take it.
                        raise cancelled
                outer.cancel_scope.cancel()
        except BaseException as exc:  # noqa: ASYNC103 (raised below, with what else there is)
            stray = exc
        leaving = self._leaving(stray)
        if leaving is not None:
            raise leaving

    def _body_raised(self, exc: BaseException) -> BaseException | None:
        """Keep what the body raised, and return the part of it that is a cancellation from outside."""
        cancelled, error = split_cancelled(exc)
        self._body.error = error
        self.request_shutdown("failed" if error is not None else "cancelled")
        self.tree.deadline.kill(trio.current_time())
        return cancelled

    def _body_left(self) -> None:
        self._body.over.set()
        self.request_shutdown("finished")

    def _leaving(self, stray: BaseException | None) -> BaseException | None:
        """The exception that leaves the block, if any, with the report attached."""
        errors = [] if self._body.error is None else [self._body.error]
        if stray is not None:
            errors.extend(leaves(stray))
        if not errors and not self._failures:
            return None
        leaving = errors[0] if len(errors) == 1 and not self._failures else self._grouped(errors)
        try:
            leaving.report = self.report  # type: ignore[attr-defined]
        except Exception:
            _log.debug("%s takes no attribute: the report is in the log only", type(leaving).__name__)
        return leaving

    def _grouped(self, errors: list[BaseException]) -> BaseException:
        group = BaseExceptionGroup(f"unhandled failures in runtime {self.config.name!r}", [*errors, *self._failures])
        if self._failed > len(self._failures):
            group.add_note(f"and {self._failed - len(self._failures)} more failures of tasks, which are in the log")
        return group

    # -- the way to the end

    async def _conduct(self) -> None:
        try:
            await self._to_the_end()
        finally:
            # Also when an exit or an interrupt comes up in here, from the report sink say: the block waits for it.
            self._ended.set()

    async def _to_the_end(self) -> None:
        deadline = self.tree.deadline
        with trio.CancelScope(shield=True):
            await self._requested.wait()
            self.root.close("drain")
            await self._wait_until(lambda: deadline.work, self.root.wait_over)
            if not self.root.over:
                # What a kill cuts short is cancelled, and not overtaken by the deadline.
                self._body.timed_out = self._body.running and deadline.is_past_work(trio.current_time())
                self.root.close("kill")
            self._body.scope.cancel()
            await self._wait_until(lambda: deadline.end, self._all_over)
            await last_turns(lambda: not self._running())
            self.report = self._make_report()
            try:
                publish(self.report, self.config.report_sink)
            finally:
                if self._running():
                    await self._overrun(self.report)  # noqa: ASYNC102 (all of this is shielded, and may take long)

    async def _wait_until(self, limit: Callable[[], float], wait: Callable[[], Awaitable[None]]) -> None:
        """Wait, at most until `limit()`, which may move earlier meanwhile."""
        with scope_until(self.tree.deadline, limit):
            await wait()

    async def _all_over(self) -> None:
        await self.root.wait_over()
        await self._body.over.wait()
        lanes = self.resources.lanes_in_use
        if lanes is not None:
            await lanes.wait_idle()

    def _running(self) -> bool:
        lanes = self.resources.lanes_in_use
        blocking = lanes is not None and lanes.blocking_still_running > 0
        return self._body.running or not self.root.over or blocking

    def _blocking(self) -> tuple[BlockingTask, ...]:
        lanes = self.resources.lanes_in_use
        return () if lanes is None else lanes.running_closures()

    async def _overrun(self, report: ShutdownReport) -> None:
        """The report is out. End the process, or wait on and say so again until everything has ended after all."""
        if self._on_overrun == "exit":
            end_process(self.config.overrun_status)
        end = self.tree.deadline.end
        while self._running():
            with trio.move_on_after(SAY_AGAIN_EVERY):
                await self._all_over()
            if self._running():
                now = self._make_report()
                waited_for = [task.path for task in now.still_running()[:8]]
                waited_for += [f"{call.name} in lane {call.lane}" for call in now.blocking[:8]]
                say_still_running(self.config.name, waited_for, trio.current_time() - end)
        late = f"everything had ended {trio.current_time() - end:.3f} s after the deadline"
        _log.warning("runtime %s: %s", self.config.name, late)
        self.report = attrs.evolve(report, annotations=(*report.annotations, late))

    # -- the report

    def _make_report(self) -> ShutdownReport:
        report = self.root.report(self.tree.deadline.reason)
        remaining = report.remaining
        if self._body.running:
            stack = task_stack(self._body.task)
            remaining = (RemainingTask("/", "the body of the runtime", stack), *remaining)
        return attrs.evolve(
            report,
            outcome=self._outcome(),
            outcomes=report.outcomes + self._body.outcomes(),
            remaining=remaining,
            blocking=self._blocking(),
            annotations=(*report.annotations, *self._annotations()),
        )

    def _outcome(self) -> str:
        if self._running():
            return "overrun"
        if isinstance(self._body.error, Exception):
            return "failed"
        return "poisoned" if self._failed else "completed"

    def _annotations(self) -> list[str]:
        notes: list[str] = []
        if self._body.error is not None:
            notes.append(f"the body raised {self._body.error!r}")
        notes += [f"task {path} failed: {exc!r}" for path, exc in zip(self._failed_paths, self._failures, strict=True)]
        if self._failed > len(self._failures):
            notes.append(f"{self._failed - len(self._failures)} more tasks failed; they are in the log")
        if self.tree.closed_component_requests:
            notes.append(f"{self.tree.closed_component_requests} components were asked of parents that were closed")
        return notes
