"""How work is owned, bounded and ended: the runtime, its tree of task groups, the one deadline, the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "ENVELOPE_FORMAT",
    "LAST_GENERATION",
    "MEMORY_VARIABLE",
    "AlreadyInTrio",
    "AlreadyRun",
    "AmountInvalid",
    "AnswerTooLarge",
    "BlockingState",
    "BlockingTask",
    "Budget",
    "BudgetClosed",
    "BudgetExhausted",
    "BudgetInvalid",
    "BudgetKey",
    "BudgetKeyInUse",
    "BudgetKeysExhausted",
    "BudgetLimits",
    "BudgetRefusal",
    "BudgetRule",
    "BudgetSnapshot",
    "BudgetedItem",
    "BudgetedQueue",
    "BudgetsSection",
    "CommitOutcomeUnknown",
    "Committed",
    "ComponentSection",
    "ComponentState",
    "ConfigInvalid",
    "ContractViolation",
    "CriticalFailure",
    "CriticalFailures",
    "CriticalKind",
    "Cron",
    "CronUnavailable",
    "DedicatedThread",
    "DedicatedThreadsExhausted",
    "DependenciesExhausted",
    "DetailsSection",
    "DiagnosticsInvalid",
    "DiagnosticsOptions",
    "DiagnosticsSampler",
    "DiagnosticsSnapshot",
    "DiagnosticsSources",
    "DifferentTree",
    "Dimension",
    "DirectoryInUse",
    "DirectoryLock",
    "DrainLease",
    "Durable",
    "Envelope",
    "EnvelopeCorrupt",
    "EnvelopeMissing",
    "EnvelopeUnreadable",
    "EventLog",
    "FailedBeforeCommit",
    "FenceReason",
    "FenceStands",
    "FileData",
    "FileKind",
    "FileLayer",
    "FileStatus",
    "FileStore",
    "FixedDelay",
    "FixedRate",
    "FormatTooNew",
    "GenerationConflict",
    "GenerationsExhausted",
    "GroupClosed",
    "GroupPoisoned",
    "GroupTask",
    "Histogram",
    "InvalidSchedule",
    "IsolatedLane",
    "KeyRetirement",
    "KindCounts",
    "Lane",
    "LaneCallCancelled",
    "LaneClosed",
    "LaneFull",
    "LaneKind",
    "LaneManaged",
    "LaneMisused",
    "LaneName",
    "LanePolicy",
    "LaneQueueTimedOut",
    "LaneRefusal",
    "LaneSet",
    "LaneSettings",
    "LaneSettingsInvalid",
    "LaneShutdown",
    "LaneSnapshot",
    "LaneTask",
    "LaneTaskTimedOut",
    "LaneTimedOut",
    "Lanes",
    "LanesGone",
    "LanesSection",
    "LanesSnapshot",
    "LanesSource",
    "LeaseExhausted",
    "LeaseExpired",
    "LifecycleError",
    "LoadedMetadata",
    "LocalFiles",
    "LocalMachine",
    "LongRunningRefused",
    "MachineView",
    "MemoryInvalid",
    "MemoryLimit",
    "MemoryPolicy",
    "MemorySection",
    "MemorySource",
    "MemoryTooSmall",
    "MemoryUndetected",
    "MemoryVariableInvalid",
    "MetadataAlreadyRunning",
    "MetadataBytesExceeded",
    "MetadataClosed",
    "MetadataCommitUnknown",
    "MetadataDeadlineExceeded",
    "MetadataFenced",
    "MetadataObservation",
    "MetadataOutcome",
    "MetadataQueueFull",
    "MetadataReceipt",
    "MetadataRequestInvalid",
    "MetadataResource",
    "MetadataSection",
    "MetadataSettings",
    "MetadataShutdown",
    "MetadataSnapshot",
    "MetadataSource",
    "MetadataStore",
    "MetadataTargetTaken",
    "MetadataTargets",
    "MetadataTargetsFull",
    "MetadataTargetsStats",
    "MetadataWaitersFull",
    "MetadataWrite",
    "MetadataWriteFailed",
    "MetadataWriter",
    "MetricsUnavailable",
    "MissedTicks",
    "MonitorMisplaced",
    "NameBlank",
    "ObserverRefused",
    "OpenFile",
    "Operation",
    "OperationBound",
    "OperationClosed",
    "OperationEnd",
    "OperationOutcome",
    "OperationOutcomes",
    "OperationalError",
    "Outcome",
    "Outcomes",
    "Permit",
    "PermitSpent",
    "PersistFailed",
    "PersistStep",
    "ProcessLane",
    "Pushed",
    "QueueClosed",
    "QueueInvalid",
    "QueuePolicy",
    "QueueSnapshot",
    "Rate",
    "RecoveryPolicy",
    "Rejected",
    "RemainingTask",
    "ReportMalformed",
    "Reserve",
    "Retirement",
    "RunBlocking",
    "RunNowAnswer",
    "Runtime",
    "RuntimeConfig",
    "RuntimeHandle",
    "RuntimeMetrics",
    "RuntimePlan",
    "RuntimeResources",
    "Schedule",
    "ScheduleControl",
    "ScheduleInUse",
    "ScheduleNotRunning",
    "ScheduleObserver",
    "ScheduleSettings",
    "ScheduleSnapshot",
    "ScheduleState",
    "Schedules",
    "SchedulesActive",
    "SchedulesSection",
    "SchedulesSource",
    "Scope",
    "ServiceContext",
    "ServiceLifecycle",
    "ServiceObserverRefused",
    "ServiceSection",
    "ServiceServer",
    "ServiceSettings",
    "ServiceStarted",
    "ServiceState",
    "ServiceTransition",
    "Settled",
    "ShutdownDeadline",
    "ShutdownReason",
    "ShutdownReport",
    "ShutdownRequest",
    "ShutdownSection",
    "SignalsUnavailable",
    "SpawnedTask",
    "StopMode",
    "StopToken",
    "SubscribersExhausted",
    "SweptTemporaries",
    "TargetConflict",
    "TargetsSection",
    "TaskDetail",
    "TaskDidNotComplete",
    "TaskGroup",
    "TaskHandle",
    "TaskKind",
    "TaskRecord",
    "TaskSpawner",
    "TasksSection",
    "ThreadStop",
    "TooManySchedules",
    "TransitionRefused",
    "Trigger",
    "Unobserved",
    "Wait",
    "WaitExpired",
    "WatchedTask",
    "WorkFailed",
    "WorkNotPortable",
    "WorkerDied",
    "available_parallelism",
    "bounded_catch_up",
    "close_slow_consumer",
    "coalesce",
    "coalesce_latest",
    "current_trace_id",
    "detect_memory_limit",
    "diagnose",
    "drop_stale",
    "ensure_directory",
    "leaves",
    "lock_directory",
    "open_runtime",
    "persist",
    "read_envelope",
    "scope_until",
    "seal_envelope",
    "spawn_critical",
    "spawn_critical_service",
    "spawn_monitor",
    "sweep_temporaries",
    "task_stack",
]

if TYPE_CHECKING:
    from ._budget import Budget
    from ._budget_errors import (
        AmountInvalid,
        BudgetClosed,
        BudgetExhausted,
        BudgetInvalid,
        BudgetKeyInUse,
        BudgetKeysExhausted,
        BudgetRefusal,
        BudgetRule,
        DifferentTree,
        Dimension,
        PermitSpent,
        QueueClosed,
        QueueInvalid,
        WaitExpired,
    )
    from ._budget_key import BudgetKey, KeyRetirement
    from ._budget_limits import BudgetLimits, Rate, Reserve
    from ._budget_snapshot import BudgetSnapshot
    from ._config import RuntimeConfig, RuntimePlan
    from ._context import ServiceContext
    from ._critical import (
        CriticalFailure,
        CriticalFailures,
        CriticalKind,
        spawn_critical,
        spawn_critical_service,
        spawn_monitor,
    )
    from ._cron import Cron
    from ._deadline import ShutdownDeadline
    from ._diagnostics import DiagnosticsOptions, DiagnosticsSnapshot, diagnose
    from ._diagnostics_errors import DiagnosticsInvalid, MetricsUnavailable
    from ._diagnostics_sampler import DiagnosticsSampler
    from ._diagnostics_sections import (
        BudgetsSection,
        ComponentSection,
        ComponentState,
        DetailsSection,
        KindCounts,
        LanesSection,
        MemorySection,
        MetadataSection,
        SchedulesSection,
        Scope,
        ServiceSection,
        ShutdownReason,
        ShutdownSection,
        TargetsSection,
        TaskDetail,
        TasksSection,
    )
    from ._diagnostics_sources import DiagnosticsSources, LanesSource, MetadataSource, SchedulesSource
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
    from ._files import FileData, FileKind, FileLayer, FileStatus, LocalFiles, OpenFile
    from ._files_envelope import ENVELOPE_FORMAT, Envelope, read_envelope, seal_envelope
    from ._files_errors import (
        Committed,
        DirectoryInUse,
        EnvelopeCorrupt,
        EnvelopeMissing,
        EnvelopeUnreadable,
        PersistFailed,
        PersistStep,
    )
    from ._files_persist import ensure_directory, persist
    from ._files_sweep import DirectoryLock, SweptTemporaries, lock_directory, sweep_temporaries
    from ._group import TaskGroup
    from ._lane import Lane
    from ._lane_errors import (
        AnswerTooLarge,
        DedicatedThreadsExhausted,
        LaneCallCancelled,
        LaneClosed,
        LaneFull,
        LaneManaged,
        LaneMisused,
        LaneQueueTimedOut,
        LaneRefusal,
        LaneSettingsInvalid,
        LanesGone,
        LaneTaskTimedOut,
        LaneTimedOut,
        LeaseExhausted,
        LeaseExpired,
        LongRunningRefused,
        WorkerDied,
        WorkFailed,
        WorkNotPortable,
    )
    from ._lane_isolated import IsolatedLane, LaneShutdown
    from ._lane_lease import DrainLease
    from ._lane_policy import LaneKind, LaneName, LanePolicy, LaneSettings
    from ._lane_process import ProcessLane
    from ._lane_snapshot import LaneSnapshot, LanesSnapshot, LaneTask
    from ._lane_thread import DedicatedThread, ThreadStop
    from ._lanes import Lanes, LaneSet
    from ._logs import EventLog, current_trace_id
    from ._machine import LocalMachine, MachineView
    from ._machine_parallelism import available_parallelism
    from ._memory import MemoryLimit, MemoryPolicy, MemorySource
    from ._memory_detection import detect_memory_limit
    from ._memory_errors import MEMORY_VARIABLE, MemoryInvalid, MemoryTooSmall, MemoryUndetected, MemoryVariableInvalid
    from ._metadata_errors import (
        FenceReason,
        FenceStands,
        GenerationConflict,
        GenerationsExhausted,
        MetadataAlreadyRunning,
        MetadataBytesExceeded,
        MetadataClosed,
        MetadataCommitUnknown,
        MetadataDeadlineExceeded,
        MetadataFenced,
        MetadataQueueFull,
        MetadataRequestInvalid,
        MetadataTargetsFull,
        MetadataTargetTaken,
        MetadataWaitersFull,
        MetadataWriteFailed,
    )
    from ._metadata_receipt import MetadataReceipt
    from ._metadata_store import FileStore, MetadataStore
    from ._metadata_targets import MetadataTargets
    from ._metadata_types import (
        LAST_GENERATION,
        CommitOutcomeUnknown,
        Durable,
        FailedBeforeCommit,
        LoadedMetadata,
        MetadataObservation,
        MetadataOutcome,
        MetadataResource,
        MetadataSettings,
        MetadataShutdown,
        MetadataSnapshot,
        MetadataTargetsStats,
        MetadataWrite,
        Retirement,
        Settled,
        TargetConflict,
        Unobserved,
    )
    from ._metadata_writer import MetadataWriter, RunBlocking
    from ._metrics import RuntimeMetrics
    from ._operation import Operation, OperationEnd, OperationOutcome, OperationOutcomes
    from ._outcomes import Outcome, Outcomes
    from ._permit import Permit
    from ._queue import BudgetedQueue
    from ._queue_item import BudgetedItem, Pushed, QueueSnapshot, Rejected
    from ._queue_policies import QueuePolicy, Wait, close_slow_consumer, coalesce, coalesce_latest, drop_stale
    from ._report import BlockingState, BlockingTask, RemainingTask, ShutdownReport
    from ._resources import RuntimeResources
    from ._runtime import Runtime, RuntimeHandle, open_runtime
    from ._schedule import Schedule
    from ._schedule_backlog import MissedTicks, RunNowAnswer, bounded_catch_up
    from ._schedule_errors import (
        CronUnavailable,
        InvalidSchedule,
        ScheduleInUse,
        ScheduleNotRunning,
        SchedulesActive,
        TooManySchedules,
    )
    from ._schedule_run import ScheduleControl
    from ._schedule_settings import ScheduleSettings, Trigger
    from ._schedule_snapshot import Histogram, ScheduleSnapshot, ScheduleState
    from ._schedules import ScheduleObserver, Schedules
    from ._service import RecoveryPolicy, ServiceLifecycle, ShutdownRequest
    from ._service_errors import (
        DependenciesExhausted,
        MonitorMisplaced,
        ServiceObserverRefused,
        ServiceStarted,
        SubscribersExhausted,
        TransitionRefused,
    )
    from ._service_settings import ServiceSettings
    from ._service_state import ServiceState, ServiceTransition
    from ._service_tasks import ServiceServer
    from ._spawner import SpawnedTask, StopToken, TaskSpawner
    from ._stack import task_stack
    from ._task import GroupTask, StopMode, TaskHandle, TaskKind, TaskRecord, WatchedTask
    from ._trigger import FixedDelay, FixedRate
    from ._until import scope_until
else:
    from ._lazy import lazily

    # A name is loaded with its module when it is first used: an import of the package alone costs little.
    _PLACES = {
        "_budget": "Budget",
        "_budget_errors": (
            "AmountInvalid BudgetClosed BudgetExhausted BudgetInvalid BudgetKeyInUse BudgetKeysExhausted "
            "BudgetRefusal BudgetRule DifferentTree Dimension PermitSpent QueueClosed QueueInvalid WaitExpired"
        ),
        "_budget_key": "BudgetKey KeyRetirement",
        "_budget_limits": "BudgetLimits Rate Reserve",
        "_budget_snapshot": "BudgetSnapshot",
        "_config": "RuntimeConfig RuntimePlan",
        "_context": "ServiceContext",
        "_critical": (
            "CriticalFailure CriticalFailures CriticalKind spawn_critical spawn_critical_service spawn_monitor"
        ),
        "_cron": "Cron",
        "_deadline": "ShutdownDeadline",
        "_diagnostics": "DiagnosticsOptions DiagnosticsSnapshot diagnose",
        "_diagnostics_errors": "DiagnosticsInvalid MetricsUnavailable",
        "_diagnostics_sampler": "DiagnosticsSampler",
        "_diagnostics_sections": (
            "BudgetsSection ComponentSection ComponentState DetailsSection KindCounts LanesSection "
            "MemorySection MetadataSection SchedulesSection Scope ServiceSection ShutdownReason "
            "ShutdownSection TargetsSection TaskDetail TasksSection"
        ),
        "_diagnostics_sources": "DiagnosticsSources LanesSource MetadataSource SchedulesSource",
        "_errors": (
            "AlreadyInTrio AlreadyRun ConfigInvalid ContractViolation FormatTooNew GroupClosed GroupPoisoned "
            "LifecycleError NameBlank ObserverRefused OperationBound OperationClosed OperationalError "
            "ReportMalformed SignalsUnavailable TaskDidNotComplete"
        ),
        "_exceptions": "leaves",
        "_files": "FileData FileKind FileLayer FileStatus LocalFiles OpenFile",
        "_files_envelope": "ENVELOPE_FORMAT Envelope read_envelope seal_envelope",
        "_files_errors": (
            "Committed DirectoryInUse EnvelopeCorrupt EnvelopeMissing EnvelopeUnreadable PersistFailed PersistStep"
        ),
        "_files_persist": "ensure_directory persist",
        "_files_sweep": "DirectoryLock SweptTemporaries lock_directory sweep_temporaries",
        "_group": "TaskGroup",
        "_lane": "Lane",
        "_lane_errors": (
            "AnswerTooLarge DedicatedThreadsExhausted LaneCallCancelled LaneClosed LaneFull LaneManaged "
            "LaneMisused LaneQueueTimedOut LaneRefusal LaneSettingsInvalid LaneTaskTimedOut LaneTimedOut "
            "LanesGone LeaseExhausted LeaseExpired LongRunningRefused WorkFailed WorkNotPortable WorkerDied"
        ),
        "_lane_isolated": "IsolatedLane LaneShutdown",
        "_lane_lease": "DrainLease",
        "_lane_policy": "LaneKind LaneName LanePolicy LaneSettings",
        "_lane_process": "ProcessLane",
        "_lane_snapshot": "LaneSnapshot LaneTask LanesSnapshot",
        "_lane_thread": "DedicatedThread ThreadStop",
        "_lanes": "LaneSet Lanes",
        "_logs": "EventLog current_trace_id",
        "_machine": "LocalMachine MachineView",
        "_machine_parallelism": "available_parallelism",
        "_memory": "MemoryLimit MemoryPolicy MemorySource",
        "_memory_detection": "detect_memory_limit",
        "_memory_errors": "MEMORY_VARIABLE MemoryInvalid MemoryTooSmall MemoryUndetected MemoryVariableInvalid",
        "_metadata_errors": (
            "FenceReason FenceStands GenerationConflict GenerationsExhausted MetadataAlreadyRunning "
            "MetadataBytesExceeded MetadataClosed MetadataCommitUnknown MetadataDeadlineExceeded "
            "MetadataFenced MetadataQueueFull MetadataRequestInvalid MetadataTargetTaken MetadataTargetsFull "
            "MetadataWaitersFull MetadataWriteFailed"
        ),
        "_metadata_receipt": "MetadataReceipt",
        "_metadata_store": "FileStore MetadataStore",
        "_metadata_targets": "MetadataTargets",
        "_metadata_types": (
            "CommitOutcomeUnknown Durable FailedBeforeCommit LAST_GENERATION LoadedMetadata "
            "MetadataObservation MetadataOutcome MetadataResource MetadataSettings MetadataShutdown "
            "MetadataSnapshot MetadataTargetsStats MetadataWrite Retirement Settled TargetConflict Unobserved"
        ),
        "_metadata_writer": "MetadataWriter RunBlocking",
        "_metrics": "RuntimeMetrics",
        "_operation": "Operation OperationEnd OperationOutcome OperationOutcomes",
        "_outcomes": "Outcome Outcomes",
        "_permit": "Permit",
        "_queue": "BudgetedQueue",
        "_queue_item": "BudgetedItem Pushed QueueSnapshot Rejected",
        "_queue_policies": "QueuePolicy Wait close_slow_consumer coalesce coalesce_latest drop_stale",
        "_report": "BlockingState BlockingTask RemainingTask ShutdownReport",
        "_resources": "RuntimeResources",
        "_runtime": "Runtime RuntimeHandle open_runtime",
        "_schedule": "Schedule",
        "_schedule_backlog": "MissedTicks RunNowAnswer bounded_catch_up",
        "_schedule_errors": (
            "CronUnavailable InvalidSchedule ScheduleInUse ScheduleNotRunning SchedulesActive TooManySchedules"
        ),
        "_schedule_run": "ScheduleControl",
        "_schedule_settings": "ScheduleSettings Trigger",
        "_schedule_snapshot": "Histogram ScheduleSnapshot ScheduleState",
        "_schedules": "ScheduleObserver Schedules",
        "_service": "RecoveryPolicy ServiceLifecycle ShutdownRequest",
        "_service_errors": (
            "DependenciesExhausted MonitorMisplaced ServiceObserverRefused ServiceStarted SubscribersExhausted "
            "TransitionRefused"
        ),
        "_service_settings": "ServiceSettings",
        "_service_state": "ServiceState ServiceTransition",
        "_service_tasks": "ServiceServer",
        "_spawner": "SpawnedTask StopToken TaskSpawner",
        "_stack": "task_stack",
        "_task": "GroupTask StopMode TaskHandle TaskKind TaskRecord WatchedTask",
        "_trigger": "FixedDelay FixedRate",
        "_until": "scope_until",
    }

    __getattr__, __dir__ = lazily(globals(), _PLACES)
