"""The registry of a component's schedules: who drives them, under which names, and what they count."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Literal, final

import attrs

from ._schedule_errors import InvalidSchedule, ScheduleInUse, SchedulesActive, TooManySchedules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._group import TaskGroup
    from ._operation import Operation
    from ._schedule import Schedule
    from ._schedule_snapshot import ScheduleSnapshot
    from ._task import TaskHandle

Registered = Literal["scheduled", "already_present"]

CAPACITY = 1024
"""Schedules that one registry takes unless it is told otherwise."""

MOST_NAMED = 5
"""Names that an error lists."""


@attrs.frozen
class _Entry:
    schedule: Schedule
    driver: TaskHandle[None]

    def is_over(self) -> bool:
        return self.driver.ended and not self.schedule.active


@final
class Schedules:
    """Schedules by name, driven by tasks of one group: the kinds *scheduled_driver* and *scheduled_run*.

    They end with the group: told to stop, each starts no more runs, and those in hand may go on until the work
    deadline. A name stays taken, and its counts are kept, when its schedule has ended, until `remove` or
    `clear_completed`. Dropping the registry stops nothing.
    """

    __slots__ = ("__weakref__", "_capacity", "_entries", "_group")

    def __init__(self, group: TaskGroup, *, capacity: int = CAPACITY) -> None:
        if capacity < 1:
            raise InvalidSchedule("registry of schedules", "capacity must be at least 1")
        self._group = group
        self._capacity = capacity
        self._entries: dict[str, _Entry] = {}

    def __repr__(self) -> str:
        return f"<Schedules of {self._group.path}, {len(self._entries)} schedules>"

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def group(self) -> TaskGroup:
        """The group that the drivers and the runs are tasks of."""
        return self._group

    def add(self, schedule: Schedule, *, operation: Operation | None = None) -> Registered:
        """Drive `schedule` from now on. Sync. For a name that is taken nothing changes: "already_present".

        With an `operation`, its cancel, its deadline and the group's stop cancel the driver together with its runs,
        which are then children of the driver and no tasks of the group.

        Raises `GroupClosed`, `GroupPoisoned`, `OperationClosed`, `OperationBound`, `TooManySchedules` and
        `ScheduleInUse`; nothing is registered then.
        """
        name = schedule.name
        if name in self._entries:
            return "already_present"
        if schedule.state != "idle":
            raise ScheduleInUse(name)
        if len(self._entries) >= self._capacity:
            raise TooManySchedules(self._group.path, self._capacity)
        label = f"scheduled-driver:{name}"
        if operation is None:
            driver = self._group.spawn(schedule.run, self._group, name=label, kind="scheduled_driver")
        else:
            of_driver = operation.with_kind("scheduled_driver")
            driver = self._group.spawn_operation(of_driver, schedule.run, name=label)
        self._entries[name] = _Entry(schedule, driver)
        return "scheduled"

    def find(self, name: str) -> Schedule | None:
        """The schedule of that name, to ask something of it; None if there is none."""
        entry = self._entries.get(name)
        return None if entry is None else entry.schedule

    async def remove(self, name: str) -> bool:
        """Stop a schedule, wait for its end, and forget its name and counts. False if there is none.

        A checkpoint. Cancelling ends only the wait: the schedule stays told to stop and keeps its name.
        """
        entry = self._entries.get(name)
        if entry is None:
            return False
        if entry.schedule.state == "idle":
            entry.driver.cancel()  # it has not had its first turn
        entry.schedule.stop()
        await entry.driver.wait()
        if self._entries.get(name) is entry:
            del self._entries[name]
        return True

    def clear_completed(self) -> int:
        """Forget all names and counts, once all schedules have ended. Returns how many there were. Sync.

        Raises `SchedulesActive` while a driver or a run of one has not ended; then nothing is forgotten.
        """
        active = [name for name, entry in self._entries.items() if not entry.is_over()]
        if active:
            raise SchedulesActive(self._group.path, tuple(active[:MOST_NAMED]), len(active))
        cleared = len(self._entries)
        self._entries.clear()
        return cleared

    def snapshot(self) -> tuple[ScheduleSnapshot, ...]:
        """All schedules, in the order of their registration."""
        return tuple(entry.schedule.snapshot() for entry in self._entries.values())

    def observer(self, names: Iterable[str]) -> ScheduleObserver:
        """A view of the schedules of these names, for diagnostics. It does not keep the registry alive."""
        return ScheduleObserver(self, names)


@final
class ScheduleObserver:
    """A view of some schedules by name, without any power over them. Made by `Schedules.observer`."""

    __slots__ = ("_names", "_schedules")

    def __init__(self, schedules: Schedules, names: Iterable[str]) -> None:
        self._schedules = weakref.ref(schedules)
        self._names = tuple(dict.fromkeys(names))

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it was made for, each once."""
        return self._names

    def snapshot(self) -> tuple[ScheduleSnapshot, ...]:
        """Those that there are at the moment, in the order of the names; none when the registry is gone."""
        schedules = self._schedules()
        if schedules is None:
            return ()
        found = (schedules.find(name) for name in self._names)
        return tuple(schedule.snapshot() for schedule in found if schedule is not None)
