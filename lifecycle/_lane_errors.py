"""What blocking lanes refuse, and why."""

from __future__ import annotations

from ._errors import ContractViolation, OperationalError


class LaneSettingsInvalid(ContractViolation):
    """Lanes were described in a way that cannot work. `mistakes` has one sentence for each rule that was broken."""

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes

    def __str__(self) -> str:
        return f"these settings of blocking lanes have {len(self.mistakes)} mistake(s): " + "; ".join(self.mistakes)


class LaneMisused(ContractViolation):
    """A lane was used in a way that can never work. `lane` is its name, `problem` says what and what to do."""

    def __init__(self, lane: str, problem: str) -> None:
        super().__init__(lane, problem)
        self.lane = lane
        self.problem = problem

    def __str__(self) -> str:
        return f"lane {self.lane!r}: {self.problem}"


class LaneManaged(ContractViolation):
    """A lane that a whole runtime shares was to be closed through one scope's handle. `lane` is its name."""

    def __init__(self, lane: str) -> None:
        super().__init__(lane)
        self.lane = lane

    def __str__(self) -> str:
        return (
            f"lane {self.lane!r} is shared by the whole runtime and is not closed by one of its users: "
            "close your own scope, or use an isolated lane"
        )


class LongRunningRefused(ContractViolation):
    """A call that says of itself that it runs long was given to a lane. Nothing of it ran."""

    def __init__(self, lane: str, call: str) -> None:
        super().__init__(lane, call)
        self.lane = lane
        self.call = call

    def __str__(self) -> str:
        return (
            f"lane {self.lane!r} does not take the long-running {self.call!r}, which would hold a slot for good: "
            "give it a thread of its own with lanes.start_thread(), or make it many short calls"
        )


class LaneRefusal(OperationalError):
    """Root of what a lane answers when it does not give a result. `lane` is its name, `call` the name of the call."""

    def __init__(self, lane: str, call: str, *more: object) -> None:
        super().__init__(lane, call, *more)
        self.lane = lane
        self.call = call


class LaneFull(LaneRefusal):
    """The queue of a lane had no room, `depth` is its limit. The closure never runs."""

    def __init__(self, lane: str, call: str, depth: int) -> None:
        super().__init__(lane, call, depth)
        self.depth = depth

    def __str__(self) -> str:
        return f"lane {self.lane!r} refused {self.call!r}: {self.depth} calls wait already, its max_queue; shed load"


class LaneClosed(LaneRefusal):
    """The scope that the call was made in has closed, `scope` is its path. The closure never runs."""

    def __init__(self, lane: str, call: str, scope: str) -> None:
        super().__init__(lane, call, scope)
        self.scope = scope

    def __str__(self) -> str:
        return (
            f"lane {self.lane!r} takes no more calls from {self.scope!r}, which has closed, and did not run "
            f"{self.call!r}: for last calls take a drain lease while it is open"
        )


class LaneCallCancelled(LaneRefusal):
    """A call from another thread or program was in hand when its scope, `scope`, was cancelled. Its outcome is unknown:
    the closure may not have started, and runs on if it has."""

    def __init__(self, lane: str, call: str, scope: str) -> None:
        super().__init__(lane, call, scope)
        self.scope = scope

    def __str__(self) -> str:
        return (
            f"{self.call!r} was in hand in lane {self.lane!r} when its scope {self.scope!r} was cancelled: its outcome "
            "is unknown; ask earlier, or have somebody in the scope wait for it"
        )


class LanesGone(LaneRefusal):
    """The Trio program that the lane belongs to has ended, or has not begun. The closure never runs."""

    def __str__(self) -> str:
        return f"lane {self.lane!r} did not run {self.call!r}: the Trio program that it belongs to is not running"


class LaneTimedOut(LaneRefusal):
    """Root of the two time-outs, whose meaning differs. `waited` are the seconds since the call was made;
    `by_deadline` tells whether an absolute deadline ended it, and no time-out of the lane or the call."""

    def __init__(self, lane: str, call: str, waited: float, by_deadline: bool, *more: object) -> None:
        super().__init__(lane, call, waited, by_deadline, *more)
        self.waited = waited
        self.by_deadline = by_deadline

    @property
    def _by(self) -> str:
        return "its deadline came" if self.by_deadline else "its time-out came"


class LaneQueueTimedOut(LaneTimedOut):
    """A call got no slot in time, or its deadline had come before it could start. The closure never runs."""

    def __str__(self) -> str:
        return (
            f"lane {self.lane!r} did not run {self.call!r}: {self._by} {self.waited:.3f} s after the call, before "
            "it had a slot; shed load, or look in the lane's snapshot for what holds them"
        )


class LaneTaskTimedOut(LaneTimedOut):
    """A closure that had started did not return in time. Its outcome is unknown; `still_running` tells whether it was
    running still when this was raised: then it holds its slot until it has returned."""

    def __init__(self, lane: str, call: str, waited: float, by_deadline: bool, still_running: bool = True) -> None:
        super().__init__(lane, call, waited, by_deadline, still_running)
        self.still_running = still_running

    def __str__(self) -> str:
        return (
            f"{self.call!r} in lane {self.lane!r} had not returned when {self._by} {self.waited:.3f} s after the call: "
            "its outcome is unknown, and it keeps its slot for as long as it runs"
        )


class LeaseExhausted(LaneRefusal):
    """A drain lease has been used up, `allowance` is how many calls it was for. The closure never runs."""

    def __init__(self, lane: str, call: str, allowance: int) -> None:
        super().__init__(lane, call, allowance)
        self.allowance = allowance

    def __str__(self) -> str:
        return (
            f"the drain lease of lane {self.lane!r} is used up and {self.call!r} did not run: it was for "
            f"{self.allowance} call(s); take one for more while the scope is open"
        )


class LeaseExpired(LaneRefusal):
    """A drain lease was taken or used when its deadline had come. The closure never runs."""

    def __str__(self) -> str:
        return (
            f"the drain lease of lane {self.lane!r} is past its deadline and {self.call!r} did not run: "
            "no time is left for clean-up"
        )


class WorkNotPortable(ContractViolation):
    """A function or its arguments cannot be sent to another process. `lane` is the process lane, `problem` says why."""

    def __init__(self, lane: str, problem: str) -> None:
        super().__init__(lane, problem)
        self.lane = lane
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"process lane {self.lane!r} cannot send this call: {self.problem}; give it a function of an importable "
            "module, and arguments that pickle takes"
        )


class WorkerDied(LaneRefusal):
    """The process of a call ended before it answered: the outcome is unknown. `status` is its exit status, negative for
    the number of a signal."""

    def __init__(self, lane: str, call: str, status: int | None) -> None:
        super().__init__(lane, call, status)
        self.status = status

    def __str__(self) -> str:
        return (
            f"the process of {self.call!r} in lane {self.lane!r} ended with status {self.status} and gave no answer: "
            "the outcome is unknown; the next call has a new process"
        )


class AnswerTooLarge(LaneRefusal):
    """A call was done, and its result was not taken since it has more bytes than `limit`. The process was ended."""

    def __init__(self, lane: str, call: str, size: int, limit: int) -> None:
        super().__init__(lane, call, size, limit)
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the result of {self.call!r} in process lane {self.lane!r} has {self.size} bytes and the limit is "
            f"{self.limit}: return less, or raise max_bytes"
        )


class WorkFailed(LaneRefusal):
    """A function in another process failed in a way that cannot be sent: `kind` is the type of what it raised, `text`
    the traceback there."""

    def __init__(self, lane: str, call: str, kind: str, text: str) -> None:
        super().__init__(lane, call, kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return f"{self.call!r} in process lane {self.lane!r} raised {self.kind}, which cannot be sent: see .text"


class DedicatedThreadsExhausted(OperationalError):
    """A runtime has as many dedicated threads as it may. `thread` is the name of the one that was not started."""

    def __init__(self, thread: str, limit: int) -> None:
        super().__init__(thread, limit)
        self.thread = thread
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"thread {self.thread!r} was not started: the runtime has {self.limit} dedicated threads, its limit; "
            "end some, or raise LaneSettings.dedicated_threads"
        )
