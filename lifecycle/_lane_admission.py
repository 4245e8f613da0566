"""Who may start: the admission policy of a set of lanes, without threads, clock or waiting.

One capacity is shared by all lanes, and each lane has a ceiling and a reservation. Idle capacity is lent to any lane.
A lane's reservation is protected while it has calls waiting: a slot that becomes free goes to a waiting lane below its
reservation, and only without one to whoever came first. Slots on loan are never taken back.

Since each free slot is handed on in the step that frees it, two things hold between steps: nobody waits who could
start, and no slot is free while a lane waits below its reservation. So a newcomer that finds a free slot, its lane
below the ceiling and nobody of its lane waiting takes nothing from anybody, and a waiter that goes away lets nobody in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal, final

import attrs

Place = Literal["outside", "overflow", "queued", "holding"]
"""Where a ticket is: nowhere, waiting for room in the queue, waiting for a slot, or holding one."""


@attrs.frozen
class LaneRule:
    """What the policy has to know of one lane."""

    limit: int
    """Its ceiling: slots that it holds at most."""
    depth: int
    """Tickets in its queue, at most."""
    reserved: int
    """Slots not lent to others while it has tickets waiting."""


class LaneTicket:
    """One call's place in the admission of lane number `lane`. Made for one `offer`."""

    __slots__ = ("arrival", "lane", "place", "since")

    def __init__(self, lane: int) -> None:
        self.lane: int = lane
        self.place: Place = "outside"
        self.arrival: int = 0
        self.since: float = 0.0


@final
class LaneShare:
    """What one lane holds and who waits for it."""

    __slots__ = ("depth", "limit", "overflow", "queue", "reserved", "running")

    def __init__(self, rule: LaneRule) -> None:
        self.limit = rule.limit
        self.depth = rule.depth
        self.reserved = rule.reserved
        self.running: int = 0
        self.queue: OrderedDict[LaneTicket, None] = OrderedDict()
        self.overflow: OrderedDict[LaneTicket, None] = OrderedDict()

    @property
    def borrowed(self) -> int:
        """Slots held beyond the reservation."""
        return max(0, self.running - self.reserved)

    @property
    def waiting(self) -> int:
        """Tickets in the queue, and those that wait for room in it."""
        return len(self.queue) + len(self.overflow)

    def oldest_wait(self, now: float) -> float:
        """Seconds for which the first in the queue has waited; 0.0 if nobody waits."""
        for ticket in self.queue:
            return max(0.0, now - ticket.since)
        return 0.0


@final
class LaneAdmission:
    """The policy. Every step is complete: it returns with every slot held or not wanted."""

    __slots__ = ("_arrivals", "capacity", "running", "shares")

    def __init__(self, capacity: int, rules: Sequence[LaneRule]) -> None:
        self.capacity: int = capacity
        self.running: int = 0
        self.shares: tuple[LaneShare, ...] = tuple(LaneShare(rule) for rule in rules)
        self._arrivals = 0

    def offer(self, ticket: LaneTicket, now: float, *, overflow: bool = False) -> Place:
        """Take in a ticket, and say where it is then. `outside` is a refusal: the queue is full.

        With `overflow` it is never refused; it waits for room in the queue, ahead of all who come later. Whoever allows
        that has to bound it.
        """
        share = self.shares[ticket.lane]
        ticket.since = now
        self._arrivals += 1
        ticket.arrival = self._arrivals
        if share.running < share.limit and self.running < self.capacity and not share.queue:
            self.running += 1
            share.running += 1
            ticket.place = "holding"
        elif len(share.queue) < share.depth:
            share.queue[ticket] = None
            ticket.place = "queued"
        elif overflow:
            share.overflow[ticket] = None
            ticket.place = "overflow"
        return ticket.place

    def leave(self, ticket: LaneTicket) -> LaneTicket | None:
        """Take out a ticket, wherever it is. Returns the one that its slot went to, which holds it now, if any."""
        share = self.shares[ticket.lane]
        place = ticket.place
        ticket.place = "outside"
        if place == "holding":
            self.running -= 1
            share.running -= 1
            return self._hand_on()
        if place == "queued":
            del share.queue[ticket]
            self._refill(share)
        elif place == "overflow":
            del share.overflow[ticket]
        return None

    def _hand_on(self) -> LaneTicket | None:
        """Give the slot that has become free to one waiter: of a lane below its reservation, then by arrival."""
        best: LaneTicket | None = None
        best_rank = (True, 0)
        for share in self.shares:
            if share.queue and share.running < share.limit:
                first = next(iter(share.queue))
                rank = (share.running >= share.reserved, first.arrival)
                if best is None or rank < best_rank:
                    best, best_rank = first, rank
        if best is not None:
            share = self.shares[best.lane]
            del share.queue[best]
            self._refill(share)
            self.running += 1
            share.running += 1
            best.place = "holding"
        return best

    @staticmethod
    def _refill(share: LaneShare) -> None:
        """Let the first of those without a place in the queue have the one that has become free."""
        if share.overflow:
            ticket, _ = share.overflow.popitem(last=False)
            share.queue[ticket] = None
            ticket.place = "queued"
