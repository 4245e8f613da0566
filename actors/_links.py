"""What only some actors have: children, watches, timers, a stash, promised answers, behaviours, dependents.

Made on first use, so that an actor without any of it stays small.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any, final

from trio.lowlevel import current_task

from ._actor import Actor
from ._box import INLINE, Charged, Notice, uncharge
from ._cell import STRENGTH
from ._current import CURRENT
from ._errors import (
    ActorCrashed,
    ActorStopped,
    HandlerMissing,
    InvalidSetting,
    MessageRefused,
    NoReply,
    NotInHand,
    StashFull,
    WrongThread,
)
from ._message import Terminated
from ._node import Node
from ._reply import Ask, Later

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle import StopMode

    from ._box import Item
    from ._cell import Cell
    from ._message import Exit
    from ._ref import Ref
    from ._timers import Timer


@final
class Links:
    """The rarely used half of a cell."""

    __slots__ = (
        "_behaviours", "_cell", "_inline_ask", "_postponed", "_share_runs", "_stash", "dependents", "groups", "laters",
        "needs", "node", "timers", "watchers", "watching",
    )  # fmt: skip

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self.node: Node | None = None
        self.watchers: dict[Cell, object] = {}
        self.watching: set[Cell] = set()
        self.timers: set[Timer] = set()
        self.laters: set[Ask] = set()
        self.dependents: set[Cell] = set()
        self.groups: list[Callable[[Ref[Any]], None]] = []
        self.needs: tuple[Cell, ...] = ()
        self._behaviours: list[Actor[Any]] = []
        self._stash: deque[Item] = deque()
        self._inline_ask: Ask | None = None
        self._postponed: tuple[StopMode, bool] | None = None
        self._share_runs = False

    def made(self) -> Actor[Any] | None:
        """The object that the factory made, whatever behaviours have taken over since: the hooks are its."""
        return self._behaviours[0] if self._behaviours else self._cell.target

    def own_node(self) -> Node:
        """The node below which this actor's children are spawned."""
        if self.node is None:
            self.node = Node(self._cell.system, self._cell, transparent=self._cell.body.transparent)
        return self.node

    # -- promised answers

    def later(self, message: object) -> Later[Any]:
        """Take `message` out of hand and promise its answer."""
        item = self._take_in_hand(message)
        uncharge(item)
        ask = self._ask_of(item)
        ask.deferred = True
        self.laters.add(ask)
        return Later(ask)

    def let_go(self, ask: Ask) -> None:
        """The promise was dropped."""
        self.laters.discard(ask)
        ask.fail(NoReply(self._cell.path, ask.message))

    def take_inline_ask(self) -> Ask:
        """The ask that was made for a message which an inline handler took out of hand."""
        ask, self._inline_ask = self._inline_ask, None
        assert ask is not None
        return ask

    def _take_in_hand(self, message: object) -> Item:
        cell = self._cell
        item = cell.in_hand
        if item is None or (message is not None and item[0] is not message):
            raise NotInHand(cell.path, type(message))
        cell.in_hand = None
        if item[1] is INLINE:
            cell.handled += 1  # the loop counts those that it has taken itself
        return item

    def _ask_of(self, item: Item) -> Ask:
        message, sender, ask = item
        if sender is INLINE:
            ask = self._inline_ask = Ask(message, self.sender_of(item), self._cell)
        elif ask is None:
            ask = Ask(message, sender, self._cell)
            ask.abandoned = True  # it was told: nobody waits
        return ask

    # -- stash

    def stash(self) -> None:
        """Put the message in hand aside."""
        cell = self._cell
        limit = cell.box.spec.limit
        if len(self._stash) >= limit:
            raise StashFull(cell.path, limit)
        item = self._take_in_hand(None)
        if item[1] is INLINE:
            ask = self._ask_of(item)
            item = (item[0], ask.sender, ask)
        elif isinstance(item, Charged):
            item.aside = True
        self._stash.append(item)

    def unstash_all(self) -> int:
        """Put everything that was set aside back, ahead of what is queued."""
        items = list(self._stash)
        cell = self._cell
        if cell.box.closed and (cell.ending != "drain" or cell.state == "stopping"):
            self.give_up_stash()
        elif items:
            self._stash.clear()
            cell.box.put_back(items)
        return len(items)

    def give_up_stash(self) -> None:
        """Nobody will handle what was set aside."""
        while self._stash:
            item = self._stash.popleft()
            if isinstance(item, Charged):
                item.aside = False
            self._cell.give_up(item, "stopped")

    def sender_of(self, item: Item) -> Cell | None:
        """The actor that sent the message in hand."""
        sender = item[1]
        return current_task().context.get(CURRENT) if sender is INLINE else sender

    # -- behaviours

    def become(self, behaviour: Actor[Any]) -> None:
        """Let another object handle the messages, until `unbecome`."""
        cell = self._cell
        if cell.target is None:
            raise InvalidSetting(
                f"become() is for class actors: {cell.path} is a function, which can simply go on otherwise"
            )
        self._behaviours.append(cell.target)
        cell.bind(behaviour)

    def unbecome(self) -> bool:
        """Back to the behaviour before. False if there is none."""
        if not self._behaviours:
            return False
        self._cell.bind(self._behaviours.pop())
        return True

    # -- watches

    def watch(self, other: Cell, message: object) -> None:
        """Be told once of the end of `other`."""
        cell = self._cell
        if other.box.slice.thread != cell.box.slice.thread:
            raise WrongThread(other.path)
        self._check_takes(Terminated if message is None else type(message))
        if other.exit is not None:
            if not cell.box.has_notice(other):
                cell.box.post(_notice(other, message), other)
        elif cell not in other.links.watchers:
            other.links.watchers[cell] = message
            self.watching.add(other)

    def _check_takes(self, told: type[object]) -> None:
        cell = self._cell
        target = cell.target
        if target is not None and "__call__" not in target.hooks_:
            if not target.handlers_.takes(told):
                raise HandlerMissing(type(target), (told,))
        elif cell.accepts is not None and not issubclass(told, cell.accepts):
            raise MessageRefused(cell.path, told)

    def unwatch(self, other: Cell) -> None:
        """Not be told any more, not even of an end that is already in the mailbox."""
        self.watching.discard(other)
        if other.linked is not None:
            other.linked.watchers.pop(self._cell, None)
        self._cell.box.take_notices(other)
        kept = [item for item in self._stash if not (isinstance(item, Notice) and item.about is other)]
        self._stash = deque(kept)

    def _watch_nobody(self) -> None:
        for other in self.watching:
            if other.linked is not None:
                other.linked.watchers.pop(self._cell, None)
        self.watching.clear()

    # -- the end

    def postpone_end(self, mode: StopMode, explicit: bool) -> bool:
        """Whether the actor must wait with its end for actors that declared that they need it."""
        if not self.dependents:
            return False
        before = self._postponed
        if before is not None:
            mode = max(mode, before[0], key=STRENGTH.__getitem__)
            explicit = explicit or before[1]
        self._postponed = (mode, explicit)
        cell = self._cell
        share = cell.group.deadline.work - cell.system.now()
        if share < inf and not self._share_runs:
            # Half of the time that is left: the rest is for this actor and for what it needs itself.
            self._share_runs = True
            cell.system.timers.call_after(max(0.0, share / 2), self.end_postponed)
        return True

    def end_postponed(self) -> None:
        """The dependents have ended, or their share of the time is used up."""
        postponed, self._postponed = self._postponed, None
        if postponed is not None:
            self.dependents.clear()
            self._cell.end(postponed[0], explicit=postponed[1])

    def _dependent_ended(self, dependent: Cell) -> None:
        self.dependents.discard(dependent)
        if not self.dependents:
            self.end_postponed()

    def end_life(self, exit_: Exit) -> None:
        """Between two lives: nothing of the old one is left to give its answers, fire its timers or hear of ends."""
        cause = exit_.cause
        for ask in list(self.laters):
            path, message = self._cell.path, ask.message
            ask.fail(NoReply(path, message) if cause is None else ActorCrashed(path, message, cause))
        self.laters.clear()
        self.end_timers()
        self._watch_nobody()
        self._behaviours.clear()
        self.unstash_all()
        self._cell.box.take_notices()

    def leave(self) -> None:
        """The actor takes nothing more: leave all groups and topics."""
        groups, self.groups = self.groups, []
        for leave in groups:
            leave(self._cell.ref)

    def end_timers(self) -> None:
        """Cancel all timers."""
        for timer in list(self.timers):
            timer.cancel()

    def ended(self, exit_: Exit) -> None:
        """The actor has ended: tell those that watch it, and let go of everything."""
        cell = self._cell
        self.give_up_stash()
        for ask in list(self.laters):
            ask.fail(NoReply(cell.path, ask.message))
        self.laters.clear()
        self.end_timers()
        watchers, self.watchers = self.watchers, {}
        for watcher, message in watchers.items():
            if watcher.linked is not None:
                watcher.linked.watching.discard(cell)
            watcher.box.post(_notice(cell, message), cell)
        self._watch_nobody()
        self.leave()
        for needed in self.needs:
            needed.links._dependent_ended(cell)
        self._behaviours.clear()


def _notice(ended: Cell, message: object) -> object:
    if message is not None:
        return message
    assert ended.exit is not None
    return Terminated(ended.ref, ended.exit)


def declare_needs(cell: Cell, needs: tuple[Cell, ...]) -> None:
    """`cell` needs those actors: they are told to end only after it has ended, or when half of the time is used up.
    Raises `ActorStopped` for one that has ended, `InvalidSetting` for one that must end before `cell` does."""
    first = _must_end_before(cell) if needs else set[Cell]()
    for needed in needs:
        if needed.exit is not None:
            raise ActorStopped(needed.path, needed.exit)
        if needed in first:
            raise InvalidSetting(
                f"{cell.path} cannot need {needed.path}, which is told to end before it: leave it out of needs"
            )
    if needs:
        cell.links.needs = needs
        for needed in needs:
            needed.links.dependents.add(cell)


def _must_end_before(cell: Cell) -> set[Cell]:
    """The actors that are told to end, or must have ended, before `cell` is told: those above it, those that need one
    of these, and so on."""
    found: set[Cell] = set()
    todo = [cell]
    while todo:
        each = todo.pop()
        above = each.node.cell
        waited_for = [] if each.linked is None else list(each.linked.dependents)
        for other in [*waited_for, *(child for one in waited_for for child in _children(one))]:
            if other not in found:
                found.add(other)
                todo.append(other)
        if above is not None and above not in found:
            found.add(above)
            todo.append(above)
    return found


def _children(cell: Cell) -> list[Cell]:
    node = None if cell.linked is None else cell.linked.node
    return [] if node is None else list(node.names.values())
