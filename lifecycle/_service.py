"""The lifecycle of a service: whether it is ready, whether it is live, and the one request to shut it down."""

from __future__ import annotations

import logging
from collections import deque
from contextlib import ExitStack
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, final

import attrs
import trio

from ._service_errors import ServiceObserverRefused, ServiceStarted
from ._service_settings import ServiceSettings
from ._service_state import ServiceStates
from ._service_tasks import ServiceTasks
from ._signals import take_signals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from ._conductor import RuntimeHandle
    from ._context import ServiceContext
    from ._critical import CriticalFailure
    from ._deadline import ShutdownDeadline
    from ._service_state import ServiceCall, ServiceState, ServiceTransition
    from ._service_tasks import ServiceServer

RecoveryPolicy = Literal["revoke_readiness", "fail", "fail_and_shutdown"]
"""What a critical failure does to its service: it is not ready; it has failed; it has failed and all is to end."""

CRITICAL = "critical"
"""The dependency that a critical failure degrades. Restore it when the service is whole again."""

_log = logging.getLogger("tenure.lifecycle")


@attrs.frozen
class ShutdownRequest:
    """The first request to shut down, frozen. All who ask later get this same object."""

    reason: str
    """Why: "pre_stop" for a drain asked by a probe, "signal", "internal", or whatever the caller gave."""
    at: float
    """When it came, on Trio's clock."""
    end: float
    """The end of everything, on Trio's clock, as fixed then. The runtime's deadline may have moved earlier since."""

    def remaining(self, now: float) -> float:
        """Seconds from `now` until the end; 0.0 once it has passed."""
        return max(0.0, self.end - now)


@final
class ServiceLifecycle:
    """Where one service is between its start and its end. Make it and use it in the runtime's own thread.

    Readiness says whether work may be sent here, liveness whether the process is worth keeping: a service that drains
    is not ready and is live. Every change is sync, and is complete when the call returns.
    """

    def __init__(
        self, settings: ServiceSettings | None = None, *, clock: Callable[[], float] = trio.current_time
    ) -> None:
        self._settings = ServiceSettings() if settings is None else settings
        self._clock = clock
        self._states = ServiceStates(self._settings.stale_after, clock())
        self._request: ShutdownRequest | None = None
        self._requested = trio.Event()
        self._component: str | None = None
        self._runtime: RuntimeHandle | None = None
        self._observer: Callable[[ServiceTransition], object] | None = None
        self._untold: deque[ServiceTransition] = deque()
        self._held = False

    def __repr__(self) -> str:
        return f"<ServiceLifecycle {self.state}>"

    # -- what it is

    @property
    def state(self) -> ServiceState:
        """Where the service is."""
        return self._states.state

    @property
    def is_ready(self) -> bool:
        """Whether work may be sent here: marked ready, not in maintenance, no dependency degraded, and nothing wrong
        in the runtime."""
        return self._states.is_ready and (self._runtime is None or self._runtime.ready)

    @property
    def is_live(self) -> bool:
        """Whether the service is worth leaving alone: it has neither stopped nor failed, and its last progress is
        not older than `ServiceSettings.stale_after`. A service that drains is live."""
        return self._states.is_live(self._clock())

    @property
    def degraded(self) -> tuple[str, ...]:
        """The names of the dependencies that do not serve now."""
        return self._states.degraded

    @property
    def failure(self) -> str | None:
        """What the failure was declared with; None unless the state is `failed`."""
        return self._states.failure

    @property
    def shutdown_request(self) -> ShutdownRequest | None:
        """The frozen request; None until there is one."""
        return self._request

    @property
    def entered(self) -> Mapping[ServiceState, int]:
        """How often each state has been entered, those never entered absent."""
        return MappingProxyType(self._states.counts)

    def observe(self, observer: Callable[[ServiceTransition], object]) -> None:
        """Call `observer(transition)` after each transition, in order, when it is complete.

        Once only, and while the state is `starting`: raises `ServiceObserverRefused`. The observer may call back; what
        that changes is told after it returns. What it raises is logged and changes nothing.
        """
        if self._observer is not None or self.state != "starting":
            raise ServiceObserverRefused(self.state, self._observer is not None)
        self._observer = observer

    # -- the start

    async def start(self, context: ServiceContext, *servers: ServiceServer) -> None:
        """Run the heartbeat and the servers in a component of `context`, and follow its runtime's shutdown.

        Servers are bound first. When one of them raises, or the call is cancelled, nothing is left: no task, no port,
        state and gate as before, and `start` may be called again. After it went well, it raises `ServiceStarted`. Also
        raises `GroupClosed` or `GroupPoisoned`, and `TransitionRefused` once a shutdown was requested.

        In a shutdown they go on answering until everything else in `context` has ended (then the state is `stopped`)
        or the work deadline comes. A server that fails fails the service, and poisons the component.
        """
        if self._component is not None:
            raise ServiceStarted(self._component)
        self._states.check_startable()
        tasks = ServiceTasks(context, servers, self.record_progress, self.mark_stopped, self.mark_failed)
        self._component = tasks.context.path
        releases: list[Callable[[], None]] = []
        try:
            await tasks.start(lambda: [release() for release in releases])
        except BaseException:
            self._component = None
            raise
        self._runtime = context.runtime
        deadline, group = context.runtime.deadline, tasks.context.group
        releases.append(deadline.subscribe(lambda: self._follow(deadline)))
        group.at_stop(lambda: self._follow(group.deadline, stopped=True))
        self.record_progress()

    def _follow(self, deadline: ShutdownDeadline, stopped: bool = False) -> None:
        """Somebody has shut down the runtime, or the component that this runs in."""
        if self._request is None and (stopped or deadline.frozen):
            self._freeze(deadline.reason or "stopped", deadline.end)

    # -- transitions

    def mark_ready(self) -> bool:
        """Work may be sent here from now on; True if that is new. Never after a shutdown was requested:
        `TransitionRefused`."""
        return self._step("mark_ready")

    def begin_maintenance(self) -> bool:
        """Take no work for a while; True if that is new. Only from `ready`: `TransitionRefused`."""
        return self._step("begin_maintenance")

    def end_maintenance(self) -> bool:
        """Be ready again; True if that is new. Raises `TransitionRefused` once a shutdown was requested."""
        return self._step("end_maintenance")

    def mark_stopped(self) -> bool:
        """The service has ended; True if that is new. A service that has failed stays failed."""
        return self._step("mark_stopped")

    def mark_failed(self, why: str = "") -> bool:
        """The service has failed for good; True if that is new. One that has stopped stays stopped."""
        return self._step("mark_failed", why)

    def record_progress(self) -> None:
        """Something has moved. The heartbeat calls it each second."""
        self._states.record_progress(self._clock())

    def degrade(self, dependency: str) -> bool:
        """A dependency does not serve, so the service is not ready; True if that is new. Raises
        `DependenciesExhausted` beyond 64 names."""
        return self._states.degrade(dependency)

    def restore(self, dependency: str) -> bool:
        """A dependency serves again; True if that is new."""
        return self._states.restore(dependency)

    def _step(self, call: ServiceCall, why: str = "") -> bool:
        transition = self._states.apply(call, self._clock(), why)
        if transition is None:
            return False
        level = logging.ERROR if transition.next == "failed" else logging.INFO
        _log.log(level, "service: %s -> %s %s", transition.previous, transition.next, why)
        self._untold.append(transition)
        self._tell()
        return True

    def _tell(self) -> None:
        """Deliver in order, one at a time, never from the middle of a change."""
        if self._held:
            return
        self._held = True
        try:
            while self._untold:
                transition = self._untold.popleft()
                if self._observer is not None:
                    try:
                        self._observer(transition)
                    except Exception:
                        _log.exception("the observer of the service failed at %s", transition.next)
        finally:
            self._held = False

    # -- the shutdown

    def request_shutdown(self, reason: str = "requested", within: float | None = None) -> ShutdownRequest:
        """Drain the service, and shut down the runtime that it was started in.

        Sync. The first request, made here or to the runtime, is frozen with its reason and its end: a later one gets
        the same object and changes nothing. A service that has stopped or failed stays so, and has a request all the
        same. The time is `within`, else the settings', else the runtime's `shutdown_within`.
        """
        if self._request is None:
            if within is None:
                within = self._settings.shutdown_within
            if self._runtime is None:
                self._freeze(reason, inf if within is None else self._clock() + max(0.0, within))
            else:
                self._request_of(self._runtime, reason, within)
        assert self._request is not None, "the runtime's deadline tells of it"
        return self._request

    def _request_of(self, runtime: RuntimeHandle, reason: str, within: float | None) -> None:
        held, self._held = self._held, True
        try:
            runtime.request_shutdown(reason, within)
            self._follow(runtime.deadline)
        finally:
            self._held = held
        self._tell()

    def _freeze(self, reason: str, end: float) -> None:
        self._request = ShutdownRequest(reason, self._clock(), end)
        self._requested.set()
        self._step("request_shutdown", reason)

    async def wait_for_shutdown(self) -> ShutdownRequest:
        """Wait for the request to shut down, at most until it is there already. A checkpoint."""
        await self._requested.wait()
        assert self._request is not None
        return self._request

    async def wait_for_shutdown_signal(self) -> ShutdownRequest:
        """Wait for SIGINT, SIGTERM or another request to shut down, and return the request; at once if there is one.

        A runtime that takes signals goes on doing so, and a second one ends everything at once. Otherwise signals
        are taken over for the time of this call, and the first is a request with reason "signal". Raises
        `SignalsUnavailable` where they cannot be; never makes one up. A checkpoint; cancelling ends only the wait.
        """
        taken = self._runtime is not None and self._runtime.config.signals
        if taken or self._request is not None:
            return await self.wait_for_shutdown()
        name = self._runtime.name if self._runtime is not None else "none"
        with ExitStack() as stack:
            signals = take_signals(stack, name)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._drain_by, signals)
                request = await self.wait_for_shutdown()
                nursery.cancel_scope.cancel()
        return request

    async def _drain_by(self, signals: AsyncIterator[int]) -> None:
        async for _ in signals:
            self.request_shutdown("signal")

    # -- critical failures

    def recovery(self, policy: RecoveryPolicy) -> Callable[[CriticalFailure], None]:
        """The function for `spawn_monitor` that carries out `policy`. Each degrades the dependency "critical" first;
        "fail_and_shutdown" requests the shutdown with reason "internal"."""

        def recover(failure: CriticalFailure) -> None:
            self._states.degrade_always(CRITICAL)
            if policy != "revoke_readiness":
                self.mark_failed(f"critical task {failure.task}: {failure.kind}")
            if policy == "fail_and_shutdown":
                self.request_shutdown("internal")

        return recover
