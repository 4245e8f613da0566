"""What all components of one runtime share: memory, the budget of the process, the blocking lanes, metadata targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import trio

from ._lane_policy import LaneSettings
from ._machine_parallelism import available_parallelism
from ._memory import MemoryLimit

if TYPE_CHECKING:
    from ._budget import Budget
    from ._config import RuntimeConfig
    from ._lanes import Lanes
    from ._metadata_targets import MetadataTargets


@final
class RuntimeResources:
    """Made by `RuntimePlan.build` and `open_runtime`. Reached as `context.resources`; the same for every context.

    The limits are fixed when it is made. What keeps to them is made at its first use, so that a program which uses no
    lanes loads none.
    """

    __slots__ = (
        "_budget",
        "_key_capacity",
        "_lanes",
        "_owner",
        "_target_capacity",
        "_targets",
        "lane_settings",
        "managed",
        "memory",
    )

    def __init__(self, config: RuntimeConfig, /) -> None:
        limit = config.memory_limit
        self.memory: MemoryLimit = config.detect_memory() if limit is None else MemoryLimit(limit)
        """How much memory the process may use, and who said so."""
        self.managed: int = config.memory.managed(self.memory)
        """How much of that, in bytes, the root budget hands out."""
        lanes = config.lanes
        if lanes is None:
            parallelism = available_parallelism() if config.parallelism is None else config.parallelism
            lanes = LaneSettings.for_parallelism(parallelism)
        self.lane_settings: LaneSettings = lanes
        """The limits of the blocking lanes."""
        self._key_capacity = config.budget_keys
        self._target_capacity = config.metadata_targets
        self._owner: trio.lowlevel.TrioToken | None = None
        self._budget: Budget | None = None
        self._lanes: Lanes | None = None
        self._targets: MetadataTargets | None = None

    def __repr__(self) -> str:
        return f"<RuntimeResources memory={self.memory.bytes} ({self.memory.source})>"

    def attach(self) -> None:
        """Belong to the Trio program that runs in this thread. The runtime calls this at its opening, so that also a
        thread may be the first to ask for a lane."""
        self._owner = trio.lowlevel.current_trio_token()

    @property
    def budget(self) -> Budget:
        """The root of the budget tree, "process": no limit on counts, and the managed part of the memory in bytes."""
        if self._budget is None:
            from ._budget import Budget

            self._budget = Budget.root("process", bytes=self.managed, key_capacity=self._key_capacity)
        return self._budget

    @property
    def lanes(self) -> Lanes:
        """The blocking lanes, bounded together. A component calls them as `context.lanes`."""
        if self._lanes is None:
            from ._lanes import Lanes

            self._lanes = Lanes(self.lane_settings)
            if self._owner is not None:
                self._lanes.attach(self._owner)
        return self._lanes

    @property
    def lanes_in_use(self) -> Lanes | None:
        """The blocking lanes; None if nobody has asked for them."""
        return self._lanes

    @property
    def targets(self) -> MetadataTargets:
        """Which resource has which file; for every `MetadataWriter` of this runtime."""
        if self._targets is None:
            from ._metadata_targets import MetadataTargets

            self._targets = MetadataTargets(self._target_capacity)
        return self._targets
