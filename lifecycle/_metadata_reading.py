"""What a re-read of a target means for its resource: its generation is taken over, or its fence is cleared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._metadata_errors import FenceStands, MetadataTargetTaken
from ._metadata_slot import Slot
from ._metadata_types import LAST_GENERATION, Durable, MetadataWrite, TargetConflict

if TYPE_CHECKING:
    from pathlib import Path

    from ._metadata_history import History
    from ._metadata_queue import MetadataQueue


def begin_load(queue: MetadataQueue, resource: str, target: Path) -> History:
    """Bind a resource for a read of its target. `end_read` lets go. Raises what `submit` raises, and
    `MetadataTargetTaken`."""
    found = queue.find(MetadataWrite(resource, LAST_GENERATION, target, b""))
    if isinstance(found, TargetConflict):
        raise MetadataTargetTaken(resource, found.why)
    found.reads += 1
    return found


def begin_clearing(queue: MetadataQueue, resource: str) -> History | None:
    """Bind a fenced resource for a re-read, also when admission has ended. None if it has no fence."""
    history = queue.targets.get_(resource)
    if history is None or not history.fence:
        return None
    if history.owner is not queue:
        bound = queue.targets.bind_(resource, history.target, queue)
        if isinstance(bound, str):
            raise MetadataTargetTaken(resource, bound)
        history = queue.known[resource] = bound
    if history.in_flight or history.queued:
        raise FenceStands(resource, max(history.fence), "work in progress")
    history.reads += 1
    return history


def end_read(queue: MetadataQueue, history: History) -> None:
    """The read has ended, in whatever way."""
    history.reads -= 1
    queue.tidy(history)


def loaded(queue: MetadataQueue, history: History, generation: int, digest: bytes) -> None:
    """The target holds this, on the disk. Counts only while nothing is pending or unknown."""
    pending = history.in_flight or history.queued
    if not (history.fence or pending or generation <= (history.durable or 0)):
        _confirm(queue, history, generation, digest)


def clear(queue: MetadataQueue, history: History, found: tuple[int, bytes] | None) -> bool:
    """The target of a fenced resource holds `found`, generation and digest, on the disk, or there is none. True if that
    is what one of its writes left, and the fence is gone; otherwise it stays."""
    if found is None:
        if history.durable is not None:
            return False
    elif history.fence.get(found[0]) == found[1]:
        _confirm(queue, history, *found)
    elif found != (history.durable, history.digest):
        return False
    history.fence = {}
    return True


def _confirm(queue: MetadataQueue, history: History, generation: int, digest: bytes) -> None:
    slot = Slot(history.resource, generation, b"", queue.desk)
    slot.settle(Durable(generation), durable=True, heir=None)
    history.confirm(generation, digest, slot)
