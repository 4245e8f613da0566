"""How work is owned, bounded and ended: the runtime, its tree of task groups, the one deadline, the report."""

from __future__ import annotations

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
    OperationalError,
    ReportMalformed,
    SignalsUnavailable,
)
from ._exceptions import leaves
from ._group import StopMode, TaskGroup, TaskHandle, TaskRecord
from ._outcomes import Outcome, Outcomes
from ._report import RemainingTask, ShutdownReport
from ._runtime import Runtime, RuntimeHandle, open_runtime
from ._stack import task_stack
from ._until import scope_until

__all__ = [
    "AlreadyInTrio",
    "AlreadyRun",
    "ConfigInvalid",
    "ContractViolation",
    "FormatTooNew",
    "GroupClosed",
    "GroupPoisoned",
    "LifecycleError",
    "NameBlank",
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
    "TaskGroup",
    "TaskHandle",
    "TaskRecord",
    "leaves",
    "open_runtime",
    "scope_until",
    "task_stack",
]
