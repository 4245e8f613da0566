"""A service context: a component's place in the tree, and all that it may do there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, final

from ._errors import GroupClosed, GroupPoisoned, NameBlank
from ._group import TaskGroup
from ._logs import EventLog
from ._spawner import TaskSpawner

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import trio

    from ._budget import Budget
    from ._deadline import ShutdownDeadline
    from ._diagnostics import DiagnosticsOptions, DiagnosticsSnapshot
    from ._diagnostics_sources import DiagnosticsSources
    from ._lanes import LaneSet
    from ._resources import RuntimeResources
    from ._runtime import RuntimeHandle
    from ._schedules import Schedules


@final
class ServiceContext:
    """A component's place in the tree. Made by the runtime and by `component`, never by hand.

    Copies of the reference share everything; a child has its own gate and its own end. Dropping a context stops
    nothing: its tasks run until they end or the tree does.
    """

    __slots__ = ("_group", "_lanes", "_runtime")

    def __init__(self, group: TaskGroup, runtime: RuntimeHandle, /) -> None:
        if not isinstance(group, TaskGroup):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("a ServiceContext is made by the runtime or by component(), not by hand")
        self._group = group
        self._runtime = runtime
        self._lanes: LaneSet | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ServiceContext is one place in one tree: it cannot be copied or pickled, pass it on")

    def __repr__(self) -> str:
        return f"<ServiceContext {self.path} {self._group.state}>"

    @property
    def name(self) -> str:
        """The component's label. Labels need not be unique."""
        return self._group.name

    @property
    def path(self) -> str:
        """The labels from the root to here, like `/system/till`; `/` is the root."""
        return self._group.path

    @property
    def runtime(self) -> RuntimeHandle:
        """The runtime that this context belongs to."""
        return self._runtime

    @property
    def group(self) -> TaskGroup:
        """The tasks of this component."""
        return self._group

    @property
    def spawner(self) -> TaskSpawner:
        """The right to start tasks here and nothing else, for code that should not close or cancel the component."""
        return TaskSpawner(self._group)

    @property
    def resources(self) -> RuntimeResources:
        """What all components of the runtime share."""
        return self._runtime.resources

    @property
    def lanes(self) -> LaneSet:
        """The blocking lanes of the runtime, for calls that end with this component: when it is told to stop they take
        no more of its calls, and those that wait for a slot are refused. What runs goes on."""
        if self._lanes is None:
            self._lanes = self._runtime.resources.lanes.bind(self._group)
        return self._lanes

    @property
    def budget(self) -> Budget:
        """The budget of the process, the root of the budget tree: make children of it for what this component holds.

        It is not this component's: owning a task charges nothing, and belonging here is no share of it."""
        return self._runtime.resources.budget

    def schedules(self, name: str, *, capacity: int | None = None) -> Schedules:
        """A registry of schedules in a child component of that name. Raises `NameBlank`; below a closed component it
        takes no schedule."""
        from ._schedules import CAPACITY, Schedules

        return Schedules(self.component(name).group, capacity=CAPACITY if capacity is None else capacity)

    @property
    def log(self) -> EventLog:
        """The log of this component: events with its path and the trace they happened in."""
        return EventLog(self.path)

    def diagnostics(
        self, options: DiagnosticsOptions | None = None, sources: DiagnosticsSources | None = None
    ) -> DiagnosticsSnapshot:
        """What this component and all below it are doing now; see `diagnose`. Sync."""
        from ._diagnostics import DEFAULT_OPTIONS, diagnose

        return diagnose(self, DEFAULT_OPTIONS if options is None else options, sources)

    @property
    def stopping(self) -> trio.Event:
        """Set when the component is told to stop. Services wait for it and clean up in their own order."""
        return self._group.stopping

    @property
    def deadline(self) -> ShutdownDeadline:
        """The shutdown deadline that holds here. Its times are `inf` until a shutdown is requested."""
        return self._group.deadline

    def component(self, name: str) -> ServiceContext:
        """A child component. Never fails for a closed parent: the child is then closed already, every spawn on it
        raises `GroupClosed`, and the request is counted. A blank name raises `NameBlank`."""
        try:
            return self.try_component(name)
        except (GroupClosed, GroupPoisoned):
            tree = self._group.tree
            tree.closed_component_requests += 1
            group = TaskGroup(name, self._group, tree)
            group.close()
            return ServiceContext(group, self._runtime)

    def try_component(self, name: str) -> ServiceContext:
        """A child component. Raises `GroupClosed` or `GroupPoisoned` if this one is closed, `NameBlank` for no name."""
        if not name.strip():
            raise NameBlank(self.path)
        return ServiceContext(self._group.child(name), self._runtime)

    def cleanup(self, within: float | None = None) -> AbstractContextManager[trio.CancelScope]:
        """A shielded scope for clean-up that must await. It ends at the shutdown deadline, or after `within` seconds
        (default: the runtime's `shutdown_within`), whichever is first."""
        return self._group.tree.cleanup(self._group, within)
