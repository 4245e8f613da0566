"""What can go wrong with schedules."""

from __future__ import annotations

from ._errors import ContractViolation, OperationalError


class InvalidSchedule(ContractViolation):
    """A schedule was refused before anything was registered or changed. `what` is its kind of part, such as
    `FixedRate` or `schedule`; `mistake` names the field and the rule."""

    def __init__(self, what: str, mistake: str) -> None:
        super().__init__(what, mistake)
        self.what = what
        self.mistake = mistake

    def __str__(self) -> str:
        return f"this {self.what} cannot work: {self.mistake}"


class ScheduleInUse(ContractViolation):
    """A schedule was to be run while it is running already. `schedule` is its name."""

    def __init__(self, schedule: str) -> None:
        super().__init__(schedule)
        self.schedule = schedule

    def __str__(self) -> str:
        return (
            f"schedule {self.schedule!r} is running already: one object has one driver, make another for a second one"
        )


class ScheduleNotRunning(OperationalError):
    """A run was asked of a schedule that nothing drives, or that is ending. It has the name `schedule`."""

    def __init__(self, schedule: str, state: str) -> None:
        super().__init__(schedule, state)
        self.schedule = schedule
        self.state = state

    def __str__(self) -> str:
        return f"schedule {self.schedule!r} is {self.state} and starts no run: it must be driven by run() or a registry"


class SchedulesActive(OperationalError):
    """`clear_completed` was called while schedules are driven or runs of theirs are in hand.

    `group` is the path of their group, `count` how many they are, `active` has the first of their names.
    """

    def __init__(self, group: str, active: tuple[str, ...], count: int) -> None:
        super().__init__(group, active, count)
        self.group = group
        self.active = active
        self.count = count

    def __str__(self) -> str:
        names = ", ".join(map(repr, self.active)) + (", ..." if self.count > len(self.active) else "")
        return (
            f"{self.count} schedule(s) of {self.group!r} have not ended ({names}): nothing was cleared; "
            "remove() them singly, or wait until they have ended"
        )


class TooManySchedules(OperationalError):
    """A registry of schedules is full. `group` is the path of its group, `capacity` the number it takes."""

    def __init__(self, group: str, capacity: int) -> None:
        super().__init__(group, capacity)
        self.group = group
        self.capacity = capacity

    def __str__(self) -> str:
        return (
            f"the registry of {self.group!r} holds {self.capacity} schedules, which is its capacity: "
            "remove() some, clear those that have ended, or give it a larger one"
        )


class CronUnavailable(OperationalError):
    """A `Cron` was made where the package that reads its expressions is not installed."""

    def __str__(self) -> str:
        return "Cron needs the package cronsim, which is not installed: pip install 'tenure[cron]'"
