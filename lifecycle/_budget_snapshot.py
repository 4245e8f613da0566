"""What a budget tells of itself."""

from __future__ import annotations

import attrs

from ._budget_limits import BudgetLimits


@attrs.frozen
class BudgetSnapshot:
    """A budget at one moment. The counters include what was done through the budgets below it, except for refusals,
    which are counted where they were met and where they were asked."""

    path: str
    generation: int
    """Of a key, which one of its name it is; 0 for a budget that is no key."""
    limits: BudgetLimits
    closed: bool
    current_count: int
    """What is held now. When nothing is in progress, `admitted_count - released_count`."""
    current_bytes: int
    control_count: int
    """The part of `current_count` that is control work."""
    control_bytes: int
    admitted_count: int
    released_count: int
    rejected_count: int
    throttled_count: int
    """Of the rejections, those by rate."""
    dropped_count: int
    """Items that queues on this budget have dropped as stale or cleared."""
    coalesced_count: int
    """Items that queues on this budget have replaced by newer ones."""
    closed_slow_consumer_count: int
    """Queues on this budget that closed themselves."""
    leaked_count: int
    """Permits that were collected and not released; their shares have been freed."""
    waiting: int
    """Tasks and mailboxes that wait for a share."""
