"""The errors of the metadata writer. None of them shows a byte of what was to be written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ._errors import ContractViolation, OperationalError

if TYPE_CHECKING:
    from ._metadata_types import ConflictWhy


class MetadataRequestInvalid(ContractViolation):
    """A request breaks a rule. `resource` is its resource, `mistake` the rule; nothing was admitted."""

    def __init__(self, resource: str, mistake: str) -> None:
        super().__init__(resource, mistake)
        self.resource = resource
        self.mistake = mistake

    def __str__(self) -> str:
        return f"the metadata request for {self.resource!r} cannot be taken: {self.mistake}"


class GenerationConflict(ContractViolation):
    """Two different contents were given the same generation. The first one stands, the second was not admitted."""

    def __init__(self, resource: str, generation: int) -> None:
        super().__init__(resource, generation)
        self.resource = resource
        self.generation = generation

    def __str__(self) -> str:
        return (
            f"generation {self.generation} of {self.resource!r} is taken by other content: "
            "give every content a generation of its own, submit_next() does so"
        )


class GenerationsExhausted(OperationalError):
    """There is no generation after the last one of `resource`. They never start again at 1."""

    def __init__(self, resource: str, last: int) -> None:
        super().__init__(resource, last)
        self.resource = resource
        self.last = last

    def __str__(self) -> str:
        return (
            f"{self.resource!r} has used the last generation, {self.last}, and generations do not wrap: "
            "retire the resource and begin another one"
        )


class MetadataClosed(OperationalError):
    """The writer admits nothing more, or not for this resource. `writer` and `resource` are names."""

    def __init__(self, writer: str, resource: str) -> None:
        super().__init__(writer, resource)
        self.writer = writer
        self.resource = resource

    def __str__(self) -> str:
        return (
            f"metadata writer {self.writer!r} admits nothing more for {self.resource!r}: it is shutting down or retired"
        )


class MetadataQueueFull(OperationalError):
    """As many writes as allowed are pending. `limit` is that number; nothing was admitted."""

    def __init__(self, writer: str, limit: int) -> None:
        super().__init__(writer, limit)
        self.writer = writer
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"metadata writer {self.writer!r} has {self.limit} writes pending, its limit: "
            "wait for a receipt, or raise max_operations"
        )


class MetadataBytesExceeded(OperationalError):
    """The pending bytes would pass the limit. `requested` is what they would come to; nothing was admitted."""

    def __init__(self, writer: str, requested: int, limit: int) -> None:
        super().__init__(writer, requested, limit)
        self.writer = writer
        self.requested = requested
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"metadata writer {self.writer!r} would hold {self.requested} bytes and may hold {self.limit}: "
            "wait for a receipt, or raise max_bytes"
        )


class MetadataWaitersFull(OperationalError):
    """As many tasks as allowed wait for receipts. The write itself goes on; `limit` is that number."""

    def __init__(self, writer: str, limit: int) -> None:
        super().__init__(writer, limit)
        self.writer = writer
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"{self.limit} waits for metadata writer {self.writer!r} are open, its limit: "
            "look at receipt.outcome later, or raise max_waiters"
        )


class MetadataDeadlineExceeded(OperationalError):
    """The deadline of the call had passed. `operation` is the call; it has had no effect."""

    def __init__(self, resource: str, operation: str) -> None:
        super().__init__(resource, operation)
        self.resource = resource
        self.operation = operation

    def __str__(self) -> str:
        return f"{self.operation} of {self.resource!r} came after its own deadline and did nothing: give it more time"


class MetadataTargetsFull(OperationalError):
    """As many resources as allowed are known. `capacity` is that number; nothing was admitted."""

    def __init__(self, resource: str, capacity: int) -> None:
        super().__init__(resource, capacity)
        self.resource = resource
        self.capacity = capacity

    def __str__(self) -> str:
        return (
            f"{self.resource!r} would be one more than the {self.capacity} resources that may be known at a time: "
            "retire those that are done with, or raise the capacity"
        )


class MetadataTargetTaken(OperationalError):
    """A target cannot be read for this resource, since one of the two is bound otherwise. `why` says how."""

    def __init__(self, resource: str, why: ConflictWhy) -> None:
        super().__init__(resource, why)
        self.resource = resource
        self.why: ConflictWhy = why

    def __str__(self) -> str:
        return f"{self.resource!r} cannot be read at this target, since {self.why}: retire the one that is done with"


class MetadataAlreadyRunning(ContractViolation):
    """`run` was called while another call of it runs. `writer` is its name."""

    def __init__(self, writer: str) -> None:
        super().__init__(writer)
        self.writer = writer

    def __str__(self) -> str:
        return f"metadata writer {self.writer!r} is running already: one run() at a time"


class MetadataFenced(OperationalError):
    """It is unknown whether `generation` was committed, so the resource takes no new content."""

    def __init__(self, resource: str, generation: int) -> None:
        super().__init__(resource, generation)
        self.resource = resource
        self.generation = generation

    def __str__(self) -> str:
        return (
            f"{self.resource!r} is fenced: whether generation {self.generation} was committed is unknown; "
            "await clear_fence(), which reads the target again"
        )


FenceReason = Literal["work in progress", "corrupt", "missing", "unexpected"]
"""Why a re-read did not clear a fence, see `FenceStands`."""


class FenceStands(OperationalError):
    """The re-read did not settle what the target holds; the fence stays.

    `why`: *work in progress* — a write is pending, whose end may settle it; *corrupt*, *missing* — the target is not
    what any write of this resource leaves; *unexpected* — it is a whole one, of `found`, a generation that it should
    not hold.
    """

    def __init__(self, resource: str, generation: int, why: FenceReason, found: int | None = None) -> None:
        super().__init__(resource, generation, why, found)
        self.resource = resource
        self.generation = generation
        self.why: FenceReason = why
        self.found = found

    def __str__(self) -> str:
        holds = "" if self.found is None else f" (it holds generation {self.found})"
        return (
            f"the fence of {self.resource!r} at generation {self.generation} stays, the target is {self.why}{holds}: "
            "put the file right, then await clear_fence() again"
        )


class MetadataWriteFailed(OperationalError):
    """A write ended before its commit: the target is as it was. `step` is where. The cause is the `__cause__`."""

    def __init__(self, resource: str, generation: int, step: str) -> None:
        super().__init__(resource, generation, step)
        self.resource = resource
        self.generation = generation
        self.step = step

    def __str__(self) -> str:
        return (
            f"generation {self.generation} of {self.resource!r} was not written ({self.step}) and the target is as it "
            "was: mend the cause, then submit it again"
        )


class MetadataCommitUnknown(OperationalError):
    """A write may or may not have been committed. `step` is where it ended. The cause is the `__cause__`."""

    def __init__(self, resource: str, generation: int, step: str) -> None:
        super().__init__(resource, generation, step)
        self.resource = resource
        self.generation = generation
        self.step = step

    def __str__(self) -> str:
        return (
            f"whether generation {self.generation} of {self.resource!r} is durable is unknown ({self.step}): "
            "the resource is fenced; await clear_fence(), which reads the target again"
        )
