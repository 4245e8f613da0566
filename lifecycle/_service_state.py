"""The states of a service and the ways between them. Knows no task and no clock: the time is passed in.

starting -> ready <-> maintenance -> draining -> stopped, or failed from any of them but stopped
"""

from __future__ import annotations

from typing import Literal, final

import attrs

from ._service_errors import DependenciesExhausted, TransitionRefused

ServiceState = Literal["starting", "ready", "maintenance", "draining", "stopped", "failed"]
"""Where a service is on its way. `stopped` and `failed` are ends: whichever comes first stays."""

ServiceCall = Literal[
    "mark_ready", "begin_maintenance", "end_maintenance", "request_shutdown", "mark_stopped", "mark_failed"
]

SERVICE_STATES: tuple[ServiceState, ...] = ("starting", "ready", "maintenance", "draining", "stopped", "failed")

MAX_DEGRADED = 64
"""How many degraded dependencies a service keeps by name."""

# The state that a call leads to. The state itself: nothing to do. None: refused.
_TABLE: dict[ServiceCall, dict[ServiceState, ServiceState]] = {
    "mark_ready": {"starting": "ready", "ready": "ready", "maintenance": "maintenance"},
    "begin_maintenance": {"ready": "maintenance", "maintenance": "maintenance"},
    "end_maintenance": {"maintenance": "ready", "ready": "ready"},
    "request_shutdown": {
        "starting": "draining", "ready": "draining", "maintenance": "draining",
        "draining": "draining", "stopped": "stopped", "failed": "failed",
    },
    "mark_stopped": {
        "starting": "stopped", "ready": "stopped", "maintenance": "stopped",
        "draining": "stopped", "stopped": "stopped", "failed": "failed",
    },
    "mark_failed": {
        "starting": "failed", "ready": "failed", "maintenance": "failed",
        "draining": "failed", "stopped": "stopped", "failed": "failed",
    },
}  # fmt: skip


@attrs.frozen
class ServiceTransition:
    """One step of a service, as its observer sees it: the `next` of each is the `previous` of the one after it."""

    previous: ServiceState
    next: ServiceState
    at: float
    """When, on Trio's clock."""
    why: str = ""
    """The reason of a shutdown, or what a failure was declared with."""


@final
class ServiceStates:
    """Where one service is, when it last made progress, and which of its dependencies are degraded."""

    __slots__ = ("_degraded", "counts", "failure", "progress_at", "stale_after", "state")

    def __init__(self, stale_after: float, now: float) -> None:
        self.state: ServiceState = "starting"
        self.stale_after = stale_after
        self.progress_at = now
        self.failure: str | None = None
        self.counts: dict[ServiceState, int] = {}
        self._degraded: dict[str, None] = {}

    def apply(self, call: ServiceCall, now: float, why: str = "") -> ServiceTransition | None:
        """Take one step; None if there was none to take. Raises `TransitionRefused`, with nothing changed."""
        previous = self.state
        following = _TABLE[call].get(previous)
        if following is None:
            raise TransitionRefused(previous, call)
        if following == previous:
            return None
        self.state = following
        self.counts[following] = self.counts.get(following, 0) + 1
        if following == "failed":
            self.failure = why
        self.record_progress(now)
        return ServiceTransition(previous, following, now, why)

    def check_startable(self) -> None:
        """Raise `TransitionRefused` if there is nothing left to start for."""
        if self.state not in ("starting", "ready", "maintenance"):
            raise TransitionRefused(self.state, "start")

    @property
    def terminal(self) -> bool:
        """Whether this is an end."""
        return self.state in ("stopped", "failed")

    # -- liveness

    def record_progress(self, now: float) -> None:
        """Something has moved."""
        self.progress_at = max(self.progress_at, now)

    def is_live(self, now: float) -> bool:
        """Whether the service is worth leaving alone: no end is reached, and progress is not stale."""
        return not self.terminal and now - self.progress_at <= self.stale_after

    # -- readiness

    @property
    def is_ready(self) -> bool:
        """Whether work may be sent here."""
        return self.state == "ready" and not self._degraded

    @property
    def degraded(self) -> tuple[str, ...]:
        """The names of the degraded dependencies, the oldest first."""
        return tuple(self._degraded)

    def degrade(self, dependency: str) -> bool:
        """A dependency does not serve; True if it did before. Raises `DependenciesExhausted`."""
        if dependency in self._degraded:
            return False
        if len(self._degraded) >= MAX_DEGRADED:
            raise DependenciesExhausted(MAX_DEGRADED)
        self._degraded[dependency] = None
        return True

    def degrade_always(self, dependency: str) -> None:
        """`degrade` for the one name that has a place of its own, whatever the others take."""
        self._degraded[dependency] = None

    def restore(self, dependency: str) -> bool:
        """A dependency serves again; True if it did not before."""
        if dependency not in self._degraded:
            return False
        del self._degraded[dependency]
        return True
