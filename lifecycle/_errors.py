"""The errors of this package, in two families that never mix.

A `ContractViolation` is a mistake in the calling program: correct the call, retrying cannot help. An `OperationalError`
is a state of the running system that a correct program meets. Texts name fields and rules, never the value of a string.
"""

from __future__ import annotations


class LifecycleError(Exception):
    """Root of all errors that this package raises."""


class ContractViolation(LifecycleError):
    """The caller broke a rule of the interface; the same call will always fail."""


class OperationalError(LifecycleError):
    """The system is in a state in which the call cannot succeed."""


class ConfigInvalid(ContractViolation):
    """A configuration was refused. `mistakes` holds every one of them, each a sentence that names its field."""

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__(mistakes)
        self.mistakes = mistakes

    def __str__(self) -> str:
        return f"the configuration has {len(self.mistakes)} mistake(s): " + "; ".join(self.mistakes)


class AlreadyInTrio(ContractViolation):
    """`Runtime.run` was called inside a running Trio program, which it would have to block."""

    def __str__(self) -> str:
        return "Runtime.run() starts a Trio program and one is already running in this thread: use open_runtime() here"


class AlreadyRun(ContractViolation):
    """A runtime was run a second time. `runtime` is its name."""

    def __init__(self, runtime: str) -> None:
        super().__init__(runtime)
        self.runtime = runtime

    def __str__(self) -> str:
        return f"runtime {self.runtime!r} has been run and cannot run again: build another one from the same plan"


class SignalsUnavailable(ContractViolation):
    """A runtime was to take signals where the interpreter does not deliver them. `runtime` is its name."""

    def __init__(self, runtime: str) -> None:
        super().__init__(runtime)
        self.runtime = runtime

    def __str__(self) -> str:
        return (
            f"runtime {self.runtime!r} cannot take signals outside the main thread: "
            "run it there, or give it RuntimeConfig(signals=False) and call request_shutdown() yourself"
        )


class NameBlank(ContractViolation):
    """A component was asked for under a blank name. `parent` is the path of the component it was asked of."""

    def __init__(self, parent: str) -> None:
        super().__init__(parent)
        self.parent = parent

    def __str__(self) -> str:
        return f"a component of {self.parent!r} was asked for under a blank name: give it one that people can find"


class GroupClosed(OperationalError):
    """A task group takes no more work. `group` is its path, `state` the state that closed its gate."""

    def __init__(self, group: str, state: str) -> None:
        super().__init__(group, state)
        self.group = group
        self.state = state

    def __str__(self) -> str:
        return f"task group {self.group!r} is {self.state} and takes no new work: its owner is shutting down"


class GroupPoisoned(OperationalError):
    """A task group takes no more work since one of its tasks failed. `cause` is what that task raised."""

    def __init__(self, group: str, cause: BaseException | None) -> None:
        super().__init__(group, cause)
        self.group = group
        self.cause = cause

    def __str__(self) -> str:
        kind = "an unhandled failure" if self.cause is None else f"an unhandled {type(self.cause).__name__}"
        return f"task group {self.group!r} is poisoned by {kind} of one of its tasks and takes no new work: see .cause"


class TaskDidNotComplete(OperationalError):
    """A task that somebody joined was cancelled before it returned. `task` is its path, `outcome` how it ended."""

    def __init__(self, task: str, outcome: str) -> None:
        super().__init__(task, outcome)
        self.task = task
        self.outcome = outcome

    def __str__(self) -> str:
        return f"task {self.task!r} has no result, it ended as {self.outcome}: its work may have been done in part"


class OperationClosed(OperationalError):
    """An operation takes no more tasks. `kind` is its label, `why` is "closed", "cancelled" or "past its deadline"."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(kind, why)
        self.kind = kind
        self.why = why

    def __str__(self) -> str:
        return f"the operation ({self.kind}) is {self.why} and takes no new task: begin another one for further work"


class OperationBound(ContractViolation):
    """An operation was used with a second group. `kind` is its label; `owner` and `group` are the paths of the two."""

    def __init__(self, kind: str, owner: str, group: str) -> None:
        super().__init__(kind, owner, group)
        self.kind = kind
        self.owner = owner
        self.group = group

    def __str__(self) -> str:
        return (
            f"the operation ({self.kind}) belongs to group {self.owner!r} and was used with {self.group!r}: "
            "an operation has one owner, make one for each group"
        )


class ObserverRefused(ContractViolation):
    """An operation was given a second observer, or one after its first task. `kind` is its label."""

    def __init__(self, kind: str, taken: bool) -> None:
        super().__init__(kind, taken)
        self.kind = kind
        self.taken = taken

    def __str__(self) -> str:
        why = "has an observer already" if self.taken else "has been given tasks already"
        return f"the operation ({self.kind}) {why}: set one observer, before the first task"


class FormatTooNew(OperationalError):
    """Stored data was written by a newer version; nothing was changed. `found` and `supported` are format numbers."""

    def __init__(self, what: str, found: int, supported: int) -> None:
        super().__init__(what, found, supported)
        self.what = what
        self.found = found
        self.supported = supported

    def __str__(self) -> str:
        return (
            f"the {self.what} has format {self.found} and this version reads up to {self.supported}: "
            "read it with the version that wrote it, or a later one"
        )


class ReportMalformed(OperationalError):
    """A text given to `ShutdownReport.from_json` is not a report. `problem` says where it differs."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"this is not a shutdown report: {self.problem}"
