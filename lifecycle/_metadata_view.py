"""What a metadata writer shows of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._metadata_types import MetadataResource, MetadataSnapshot

if TYPE_CHECKING:
    from ._metadata_history import History
    from ._metadata_queue import MetadataQueue


def snapshot(queue: MetadataQueue) -> MetadataSnapshot:
    """What the queue holds now."""
    return MetadataSnapshot(
        name=queue.name,
        accepting=queue.accepting,
        pending_operations=queue.operations,
        pending_bytes=queue.bytes,
        waiters=queue.desk.waiters,
        max_operations=queue.settings.max_operations,
        max_bytes=queue.settings.max_bytes,
        submitted=queue.submitted,
        coalesced=queue.coalesced,
        written=queue.written,
        failed=queue.failed,
        resources=resources(queue),
    )


def resources(queue: MetadataQueue) -> tuple[MetadataResource, ...]:
    """The resources of the queue that are known, in the order of their names."""
    known = sorted(queue.known.items())
    return tuple(_view(history) for name, history in known if queue.targets.get_(name) is history)


def _view(history: History) -> MetadataResource:
    in_flight, queued = history.in_flight, history.queued
    return MetadataResource(
        resource=history.resource,
        target=history.target,
        durable=history.durable,
        in_flight=None if in_flight is None else in_flight.generation,
        queued=None if queued is None else queued.generation,
        waiters=sum(slot.watching for slot in (in_flight, queued) if slot is not None),
        fenced=max(history.fence, default=None),
    )
