"""The registry of targets: which resource has which file, and what is known of it. Shared by the writers of a process.

It outlives the writers: while a late closure of one still runs, no other may write the same file, and a successor goes
on at the generation where the one before it stopped.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, final

from ._errors import ConfigInvalid
from ._metadata_errors import MetadataTargetsFull
from ._metadata_history import History
from ._metadata_types import MetadataTargetsStats

if TYPE_CHECKING:
    from ._metadata_history import Owner
    from ._metadata_types import ConflictWhy


def _resolve(path: Path) -> Path:
    return Path(os.path.realpath(path))


@final
class MetadataTargets:
    """The resources of a process that are known, at most `capacity` at a time: those with work and those whose history
    is kept. A resource that has never been durable is forgotten with its last failure; others when they are retired.
    `resolve` makes a path absolute and free of symbolic links, to tell whether two are one; by default on this machine.

    A runtime has one, `context.resources.targets`; programs without a runtime make their own.
    """

    def __init__(self, capacity: int = 4096, *, resolve: Callable[[Path], Path] = _resolve) -> None:
        if capacity < 1:
            raise ConfigInvalid((f"capacity must be at least 1, not {capacity}",))
        self.capacity: int = capacity
        self.last_generation: int = 0
        """The last one that `submit_next` gave out, over all resources. There is no way back."""
        self._resolve = resolve
        self._resources: dict[str, History] = {}
        self._paths: dict[Path, History] = {}

    def __repr__(self) -> str:
        return f"<MetadataTargets {len(self._resources)} of {self.capacity}>"

    def confirmed(self, resource: str) -> int | None:
        """The newest generation of `resource` that is known to be durable. None if there is none. Sync."""
        history = self._resources.get(resource)
        return None if history is None else history.durable

    def stats(self) -> MetadataTargetsStats:
        """How full the registry is. Sync; looks at every resource."""
        known = self._resources.values()
        live = sum(history.live for history in known)
        return MetadataTargetsStats(
            capacity=self.capacity,
            retained=len(known),
            live=live,
            idle=len(known) - live,
            fenced=sum(bool(history.fence) for history in known),
            remaining=self.capacity - len(known),
        )

    # -- for writers

    def get_(self, resource: str) -> History | None:
        """What is known of a resource."""
        return self._resources.get(resource)

    def bind_(self, resource: str, target: Path, owner: Owner) -> History | ConflictWhy:
        """The history of a resource at this target, for `owner`; or why it cannot have it. `MetadataTargetsFull`.

        Looks up symbolic links, so that two names of one file are one target.
        """
        path = self._resolve(target)
        history = self._resources.get(resource)
        if history is None:
            if path in self._paths:
                return "the target belongs to another resource"
            if len(self._resources) >= self.capacity:
                raise MetadataTargetsFull(resource, self.capacity)
            history = History(resource, target, path, owner)
            self._resources[resource] = self._paths[path] = history
        elif history.path != path:
            return "the resource has another target"
        elif history.owner is not owner:
            if history.live:
                return "another writer holds it"
            history = history.handed_to(owner)
            self._resources[resource] = self._paths[path] = history
        history.target = target
        return history

    def forget_(self, history: History) -> None:
        """Let the name and the target be free."""
        if self._resources.get(history.resource) is history:
            del self._resources[history.resource]
            del self._paths[history.path]
