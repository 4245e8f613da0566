"""The errors of the service lifecycle and of critical services."""

from __future__ import annotations

from ._errors import ContractViolation, OperationalError


class TransitionRefused(OperationalError):
    """A service cannot go where it was sent from the state that it is in. `state` is that state, `call` what was asked.

    Nothing has changed. A correct program meets this when a shutdown overtakes it.
    """

    def __init__(self, state: str, call: str) -> None:
        super().__init__(state, call)
        self.state = state
        self.call = call

    def __str__(self) -> str:
        what = f"{self.call}() was refused: the service is {self.state}"
        if self.state == "starting":
            return f"{what}, call mark_ready() first"
        return f"{what} and does not come back from there: leave off, and let it end"


class ServiceStarted(ContractViolation):
    """`start` was called a second time, or while a first call was under way. `component` is the path it runs at."""

    def __init__(self, component: str) -> None:
        super().__init__(component)
        self.component = component

    def __str__(self) -> str:
        return f"the service lifecycle was started at {self.component!r} and starts once: name all servers there"


class ServiceObserverRefused(ContractViolation):
    """A service was given a second observer, or one after it had left `starting`. `state` is the state it is in."""

    def __init__(self, state: str, taken: bool) -> None:
        super().__init__(state, taken)
        self.state = state
        self.taken = taken

    def __str__(self) -> str:
        why = "has an observer already" if self.taken else f"is {self.state} already"
        return f"the service {why}: attach one observer, before mark_ready()"


class DependenciesExhausted(OperationalError):
    """More dependencies of a service are degraded than it keeps by name. `limit` is how many that is."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"{self.limit} dependencies are degraded and no more are kept: name few of them, such as one per store"


class MonitorMisplaced(ContractViolation):
    """A monitor would stand in a group whose critical tasks it watches. `group` is the path of that group."""

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group

    def __str__(self) -> str:
        return (
            f"group {self.group!r} has critical tasks and would have their monitor: a failure poisons the group, so "
            "spawn the monitor in another one, such as context.component('monitor')"
        )


class SubscribersExhausted(OperationalError):
    """More receivers want notices of critical failures than are kept. `limit` is how many that is."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"{self.limit} receivers of critical failures are open and no more are kept: close those not needed"
