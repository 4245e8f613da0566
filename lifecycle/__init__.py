"""How work is owned, bounded and ended: the runtime, its tree of task groups, the one deadline, the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "AlreadyInTrio",
    "AlreadyRun",
    "BlockingState",
    "BlockingTask",
    "ConfigInvalid",
    "ContractViolation",
    "FormatTooNew",
    "GroupClosed",
    "GroupPoisoned",
    "LifecycleError",
    "NameBlank",
    "ObserverRefused",
    "Operation",
    "OperationBound",
    "OperationClosed",
    "OperationEnd",
    "OperationOutcome",
    "OperationOutcomes",
    "OperationalError",
    "Outcome",
    "Outcomes",
    "RemainingTask",
    "ReportMalformed",
    "Runtime",
    "RuntimeConfig",
    "RuntimeHandle",
    "RuntimePlan",
    "ServiceContext",
    "ShutdownDeadline",
    "ShutdownReport",
    "SignalsUnavailable",
    "StopMode",
    "TaskDidNotComplete",
    "TaskGroup",
    "TaskHandle",
    "TaskKind",
    "TaskRecord",
    "leaves",
    "open_runtime",
    "scope_until",
    "task_stack",
]

if TYPE_CHECKING:
    from ._config import RuntimeConfig, RuntimePlan
    from ._context import ServiceContext
    from ._deadline import ShutdownDeadline
    from ._errors import (
        AlreadyInTrio,
        AlreadyRun,
        ConfigInvalid,
        ContractViolation,
        FormatTooNew,
        GroupClosed,
        GroupPoisoned,
        LifecycleError,
        NameBlank,
        ObserverRefused,
        OperationalError,
        OperationBound,
        OperationClosed,
        ReportMalformed,
        SignalsUnavailable,
        TaskDidNotComplete,
    )
    from ._exceptions import leaves
    from ._group import TaskGroup
    from ._operation import Operation, OperationEnd, OperationOutcome, OperationOutcomes
    from ._outcomes import Outcome, Outcomes
    from ._report import BlockingState, BlockingTask, RemainingTask, ShutdownReport
    from ._runtime import Runtime, RuntimeHandle, open_runtime
    from ._stack import task_stack
    from ._task import StopMode, TaskHandle, TaskKind, TaskRecord
    from ._until import scope_until
else:
    # A name is loaded with its module when it is first used: an import of the package alone costs little.
    _PLACES = {
        "_config": "RuntimeConfig RuntimePlan",
        "_context": "ServiceContext",
        "_deadline": "ShutdownDeadline",
        "_errors": (
            "AlreadyInTrio AlreadyRun ConfigInvalid ContractViolation FormatTooNew GroupClosed GroupPoisoned "
            "LifecycleError NameBlank ObserverRefused OperationalError OperationBound OperationClosed "
            "ReportMalformed SignalsUnavailable TaskDidNotComplete"
        ),
        "_exceptions": "leaves",
        "_group": "TaskGroup",
        "_operation": "Operation OperationEnd OperationOutcome OperationOutcomes",
        "_outcomes": "Outcome Outcomes",
        "_report": "BlockingState BlockingTask RemainingTask ShutdownReport",
        "_runtime": "Runtime RuntimeHandle open_runtime",
        "_stack": "task_stack",
        "_task": "StopMode TaskHandle TaskKind TaskRecord",
        "_until": "scope_until",
    }

    def __getattr__(name):
        from importlib import import_module

        for place, names in _PLACES.items():
            if name in names.split():
                value = globals()[name] = getattr(import_module(f"{__name__}.{place}"), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted(__all__)
