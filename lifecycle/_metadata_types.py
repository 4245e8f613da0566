"""The values of the metadata writer: what it takes, what it answers, what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias

import attrs

from ._errors import ConfigInvalid

LAST_GENERATION: Final = 2**64 - 1
"""The largest generation. There is none after it."""


@attrs.frozen
class MetadataWrite:
    """A snapshot to be made durable: the whole content of one small file."""

    resource: str
    """The name of what is described, unique among the writers that share a registry of targets."""

    generation: int
    """Which state of the resource this is; 1 to `LAST_GENERATION`. A newer one supersedes every older one."""

    target: Path
    """The file. The resource keeps it until it is retired."""

    data: bytes = attrs.field(repr=False)
    """The content. Held, not copied."""


@attrs.frozen
class MetadataSettings:
    """Limits of one writer. All are at least 1."""

    max_operations: int = 1024
    """Writes that may be pending: those that run and those that are queued."""

    max_bytes: int = 64 * 1024 * 1024
    """Bytes of content that may be pending, counted apart from the operations."""

    max_concurrent_writes: int = 1
    """Resources that are written at a time. Generations of one resource are always written one after the other."""

    max_waiters: int | None = None
    """Tasks that may wait for receipts at a time; None for four times `max_operations`."""

    file_mode: int | None = None
    """Permission bits of a new target; None leaves them to the process. A target that exists keeps its own."""

    def __attrs_post_init__(self) -> None:
        mistakes = tuple(_mistakes(self))
        if mistakes:
            raise ConfigInvalid(mistakes)

    @property
    def waiters(self) -> int:
        """How many tasks may wait for receipts."""
        return 4 * self.max_operations if self.max_waiters is None else self.max_waiters


def _mistakes(settings: MetadataSettings) -> Iterator[str]:
    values: dict[str, object] = attrs.asdict(settings)
    for name in ("max_operations", "max_bytes", "max_concurrent_writes", "max_waiters"):
        value = values[name]
        if name == "max_waiters" and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            yield f"{name} must be a whole number, not {type(value).__name__}"
        elif value < 1:
            yield f"{name} must be at least 1, not {value}"
    mode = values["file_mode"]
    if mode is not None and (isinstance(mode, bool) or not isinstance(mode, int) or not 0 <= mode <= 0o777):
        yield "file_mode must be None or permission bits from 0 to 0o777"


# -- how a write ends


@attrs.frozen
class Durable:
    """The target holds `generation`, and holds it after a power cut. It may be newer than what was asked for."""

    generation: int


@attrs.frozen
class FailedBeforeCommit:
    """The write of `generation` ended with the target as it was. `step` is where, `cause` why."""

    generation: int
    step: str
    cause: BaseException | None = attrs.field(default=None, eq=False)


@attrs.frozen
class CommitOutcomeUnknown:
    """The write of `generation` ended and the target holds either it or what was there before."""

    generation: int
    step: str
    cause: BaseException | None = attrs.field(default=None, eq=False)


MetadataOutcome: TypeAlias = Durable | FailedBeforeCommit | CommitOutcomeUnknown
"""How a write ended, for a receipt of it."""


@attrs.frozen
class Settled:
    """An observation that saw the end. `generation` is the receipt's."""

    generation: int
    outcome: MetadataOutcome

    @property
    def requires_reconciliation(self) -> bool:
        """Whether somebody must find out what the target holds before anything can be said of it."""
        return isinstance(self.outcome, CommitOutcomeUnknown)


@attrs.frozen
class Unobserved:
    """An observation that ran out of time. It says nothing about the file: the write goes on, and may succeed."""

    generation: int

    @property
    def requires_reconciliation(self) -> bool:
        """Always: what becomes of the write was not seen."""
        return True


MetadataObservation: TypeAlias = Settled | Unobserved
"""What a wait for the end of a write has seen."""

ConflictWhy = Literal[
    "the resource has another target", "the target belongs to another resource", "another writer holds it"
]


@attrs.frozen
class TargetConflict:
    """The request was not admitted, since its resource or its target is bound otherwise. It is unchanged."""

    request: MetadataWrite
    why: ConflictWhy

    @property
    def resource(self) -> str:
        """The resource of the request."""
        return self.request.resource


# -- what is shown


@attrs.frozen
class MetadataResource:
    """One resource in a snapshot. A generation that is not there is None."""

    resource: str
    target: Path
    durable: int | None
    in_flight: int | None
    queued: int | None
    waiters: int
    """Tasks that wait for a receipt of what is pending."""
    fenced: int | None
    """The generation of which it is unknown whether it was committed."""


@attrs.frozen
class MetadataSnapshot:
    """What a writer holds now, and what it has done since it was made. `resources` is in the order of the names."""

    name: str
    accepting: bool
    pending_operations: int
    pending_bytes: int
    waiters: int
    max_operations: int
    max_bytes: int
    submitted: int
    """Contents admitted, each a generation that was new."""
    coalesced: int
    """Admitted contents that a newer one replaced before they were written."""
    written: int
    """Writes that ended durable."""
    failed: int
    """Writes that ended otherwise."""
    resources: tuple[MetadataResource, ...]


@attrs.frozen
class MetadataShutdown:
    """How far a writer's shutdown has come. `unfinished` are the resources with work, in the order of the names."""

    timed_out: bool
    pending_operations: int
    pending_bytes: int
    unfinished: tuple[MetadataResource, ...]


@attrs.frozen
class MetadataTargetsStats:
    """How full a registry is. No paths, no names."""

    capacity: int
    retained: int
    """Resources that are known: `live` + `idle`."""
    live: int
    """Of these, those with a writer that admits more for them, or with work."""
    idle: int
    """Those kept for their history alone."""
    fenced: int
    remaining: int


Retirement = Literal[
    "retired", "not_found", "admission_open", "work_in_progress", "reconciliation_required", "history_changed"
]
"""Whether a resource was retired, and if not, what is in the way: it is not known, is still admitted, has work, is
fenced, or another writer has taken it over."""


@attrs.frozen
class LoadedMetadata:
    """What a target holds: a whole file, whose checksum was right."""

    generation: int
    data: bytes = attrs.field(repr=False)
