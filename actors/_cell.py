"""The cell: one actor's identity, which outlives its restarts, and what may be asked of it from outside its task.

The ref, the mailbox and the place in the tree belong to the cell and stay. What runs in it, life after life, is in
`_lives`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, final

import trio
from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

from lifecycle import TaskRecord

from ._asks import PendingAsks
from ._box import INLINE, NO_HANDLERS, NONE_INLINE, Box, Notice, uncharge
from ._errors import ActorCrashed, ActorStopped, MessageRefused
from ._message import Exit
from ._ref import Ref

if TYPE_CHECKING:
    import contextvars

    from lifecycle import StopMode, TaskGroup, TaskKind

    from ._actor import Actor
    from ._body import Body
    from ._box import Item
    from ._context import ActorContext
    from ._links import Links
    from ._mailbox import Mailbox
    from ._message import DeadReason
    from ._node import Node
    from ._reply import Ask, Later
    from ._supervisor import Supervisor
    from ._system import System

State = Literal["starting", "running", "restarting", "stopping", "ended"]
Verdict = Literal["clear", "restart", "resume", "forget", "end"]
"""What comes after a life: *forget* is the supervisor's word that it was the last, *end* anybody else's."""

STRENGTH = {"drain": 1, "stop": 2, "kill": 3}


@final
class Cell(TaskRecord):
    """An actor, as the framework sees it. Application code has its `Ref` and its `ActorContext`."""

    __slots__ = (
        "_context", "_links", "_waiters", "abandoned", "accepts", "asks", "attention", "awaiting", "begun", "body",
        "box", "cause", "early", "ending", "exit", "explicit", "failures", "fault", "generation", "halting", "handled",
        "in_hand", "interrupted", "is_ready", "judged", "leave", "node", "outer", "own", "plain", "ref", "scope",
        "since", "state", "supervisor", "system", "target", "truncated", "vars", "verdict", "wants_scope",
    )  # fmt: skip

    kind: TaskKind = "actor"
    task: trio.lowlevel.Task | None

    def __init__(
        self, name: str, node: Node, body: Body, spec: Mailbox, supervisor: Supervisor | None, group: TaskGroup
    ) -> None:
        super().__init__(name, group)
        system = node.system
        self.node: Node = node
        self.system: System = system
        self.body: Body = body
        self.supervisor: Supervisor | None = supervisor
        self.box: Box = make_box(spec, self)
        self.ref: Ref[Any] = Ref(self.box)
        self.own: TaskGroup | None = None
        # The present life.
        self.state: State = "starting"
        self.is_ready: bool = False
        """Whether a life has ever begun."""
        self.begun: bool = False
        """Whether the present life has: its object has been started, and is to be told of the end."""
        self.early: bool = False
        """Whether the spawner has begun the first life, before the actor's task took its first step."""
        self.generation: int = 0
        self.target: Actor[Any] | None = None
        self.plain: dict[type[object], Any] = {}
        self.awaiting: dict[type[object], Any] = {}
        self.accepts: tuple[type[object], ...] | None = None
        self.vars: contextvars.Context = None  # type: ignore[assignment]  # set by the task, before anything reads it
        self.scope: trio.CancelScope | None = None
        """What cancels the message in hand. A class actor has none before its first message that may await."""
        self.wants_scope: bool = False
        self.leave: bool = False
        """Whether the loop is to end this life before it takes another message."""
        self.outer: int = 0
        """Nurseries that the body has open around its loop."""
        # The message in hand.
        self.in_hand: Item | None = None
        self.since: float = 0.0
        self.handled: int = 0
        self.abandoned: int = 0
        self.attention: bool = False
        self.interrupted: bool = False
        self.fault: Exception | None = None
        self.asks: PendingAsks | None = None
        # The end.
        self.ending: StopMode | None = None
        self.explicit: bool = False
        self.halting: bool = False
        self.truncated: bool = False
        """Whether a hook ran out of time."""
        self.failures: list[Exception] | None = None
        """What this life has failed with: its own exception, and those of children without a supervisor."""
        self.exit: Exit | None = None
        # The word of the supervisor.
        self.verdict: Verdict | None = None
        self.cause: Exception | None = None
        self.judged: bool = False
        """Whether the supervisor has decided what follows from the end of the last life."""
        self._waiters: list[trio.lowlevel.Task] | None = None
        self._context: ActorContext[Any] | None = None
        self._links: Links | None = None

    # -- what it is

    @property
    def path(self) -> str:
        return self.node.path_of(self.name)

    @property
    def place(self) -> str:
        return f"{self.system.service.path.rstrip('/')}{self.path}"

    @property
    def context(self) -> ActorContext[Any]:
        """Made on first use: an idle actor that never looks at it has none."""
        if self._context is None:
            from ._context import ActorContext

            self._context = ActorContext(self)
        return self._context

    @property
    def links(self) -> Links:
        """Watches, timers, stash, dependents: what most actors have none of."""
        if self._links is None:
            from ._links import Links

            self._links = Links(self)
        return self._links

    @property
    def linked(self) -> Links | None:
        """The links, if there are any."""
        return self._links

    def describe(self) -> str:
        item = self.in_hand
        if item is None:
            doing = "waiting for the end of its children" if self.waits_for_children else self.state
            return f"{doing}, {self.box.depth} queued"
        return f"handling {type(item[0]).__qualname__} for {self.age:.3f} s, {self.box.depth} queued"

    @property
    def made(self) -> Actor[Any] | None:
        """The object that this life began with, whatever has taken over its messages since."""
        return self.target if self._links is None else self._links.made()

    @property
    def age(self) -> float:
        """Seconds since the message in hand was taken. A plain handler notes no time: nobody else runs meanwhile."""
        item = self.in_hand
        if item is None or type(item[0]) in self.plain:
            return 0.0
        return max(0.0, trio.current_time() - self.since)

    @property
    def waits_for_children(self) -> bool:
        """Whether the actor itself is done and what is below it is not."""
        return self.state == "stopping" and self.own is not None and not self.own.over

    @property
    def waits(self) -> bool:
        """Whether no life runs, and the supervisor has not said yet what comes next."""
        return self.state == "restarting" and self.verdict is None

    @property
    def is_awaited(self) -> bool:
        """Whether somebody will be told of the end: a watcher, or a task that waits for it."""
        return bool(self._waiters) or (self._links is not None and bool(self._links.watchers))

    def owns_task(self, task: trio.lowlevel.Task) -> bool:
        """Whether `task` runs the actor's body, or belongs to a nursery that the body has open."""
        above: trio.lowlevel.Task | None = task
        while above is not None and above is not self.task:
            above = above.parent_nursery.parent_task if above.parent_nursery is not None else None
        return above is not None

    def must_await(self, task: trio.lowlevel.Task) -> bool:
        """Whether the actor takes no further message before `task` has gone on: it runs the body, or belongs to a
        nursery that was opened for the message in hand. One around the body's loop holds up nothing."""
        nursery: trio.Nursery | None = None
        above = task
        own = self.task
        while above is not own:
            nursery = above.parent_nursery
            if nursery is None:
                return False
            above = nursery.parent_task
        return nursery is None or nursery not in above.child_nurseries[: self.outer]

    def is_below(self, other: Cell) -> bool:
        """Whether this actor is a descendant of `other`."""
        node = self.node
        while node.cell is not None:
            if node.cell is other:
                return True
            node = node.cell.node
        return False

    # -- waiting for it

    async def wait_ready(self) -> None:
        """Wait until the first start has succeeded, or the actor has ended."""
        while not self.is_ready and self.exit is None:
            await self.wait_change()

    async def wait_ended(self) -> Exit:
        """Wait until the actor has ended. A checkpoint."""
        if self.exit is not None:
            await trio.lowlevel.checkpoint()
            return self.exit
        while self.exit is None:
            await self.wait_change()
        return self.exit

    async def wait_halted(self) -> None:
        """Wait until no life runs and the last one is cleared away, or the actor has ended."""
        while self.exit is None and not self.waits:
            await self.wait_change()

    async def wait_restarted(self) -> bool:
        """Wait for the outcome of a restart. False when it has failed, and waits for the supervisor again."""
        while self.state == "starting" or (self.state == "restarting" and self.verdict is not None):
            await self.wait_change()
        return not self.waits

    async def wait_verdict(self) -> Verdict:
        """Wait for the word of the supervisor, in the actor's own task."""
        self.changed()
        while self.verdict is None:
            await self.wait_change()
        return self.verdict

    async def wait_change(self) -> None:
        """Wait until `changed` is called. A cancel point."""
        task = current_task()
        waiters = self._waiters
        if waiters is None:
            waiters = self._waiters = []
        waiters.append(task)

        def abort(_: object) -> Abort:
            waiters.remove(task)
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

    def changed(self) -> None:
        """Let those look again that wait for the actor."""
        waiters = self._waiters
        if waiters is not None:
            self._waiters = None
            for task in waiters:
                reschedule(task)

    # -- the present life

    def bind(self, target: Actor[Any]) -> None:
        """Let `target` handle the messages from now on."""
        table = target.handlers_
        self.target = target
        self.plain = table.plain
        self.awaiting = table.awaiting
        tracer = self.system.tracer
        if tracer is not None:
            from ._traced import traced_handlers

            self.plain, self.awaiting = traced_handlers(tracer, self, table)
        if self.box.charged:
            from ._box_charged import charged_handlers

            self.plain, self.awaiting = charged_handlers(self)
        target.context = self.context
        if self.box.inline is not NO_HANDLERS:
            self.dispatch_inline()

    def started_loop(self) -> None:
        """The loop of a class actor is about to take messages."""
        assert self.task is not None
        self.outer = len(self.task.child_nurseries)
        self.dispatch_inline()

    def dispatch_inline(self) -> None:
        """From now on, askers may run the plain handlers while the loop is parked."""
        target = self.target
        if target is not None and not self.box.closed:
            inline = self.body.inline and target.inline and not self.box.charged
            self.box.inline = target.handlers_.plain if inline else NONE_INLINE

    def ready(self) -> None:
        """The body has started: it takes messages from now on."""
        self.is_ready = self.begun = True
        self.state = "running"
        if self.supervisor is not None:
            self.supervisor.child_ready(self)
        self.changed()

    def hand_out(self) -> None:
        """A message goes into the hands of code that may await."""
        self.since = trio.current_time()

    # -- crashes

    def crashed(self, exc: Exception) -> Exit:
        """An exception has left the body: the life is over."""
        self.failures = [exc, *(self.failures or ())]
        self.system.count_crash(self, exc)
        return self.fell()

    def fell(self) -> Exit:
        """The life is over by its failures: answer for the message in hand. The others stay in the mailbox."""
        self.box.inline = NO_HANDLERS
        cause = one_of(self.failures or [])
        item, self.in_hand = self.in_hand, None
        if item is not None:
            uncharge(item)
            message, sender, ask = item
            if ask is not None:
                ask.fail(ActorCrashed(self.path, message, cause))
            elif not isinstance(item, Notice):
                self.dead(message, sender, "crashed")
        return Exit("failed", cause)

    def crashed_inline(self, item: Item, exc: BaseException) -> None:
        """A handler raised on the asker's stack. The crash is dealt with in the actor's own task, before its next
        message. Raises what the asker gets; returns if the message had been put aside, since its answer is still to
        come."""
        aside = self.in_hand is not item
        self.in_hand = None
        if not isinstance(exc, Exception):
            raise exc
        self.box.inline = NO_HANDLERS
        self.fault = exc
        self.box.wake()
        if not aside:
            raise ActorCrashed(self.path, item[0], exc) from exc

    def raise_fault(self) -> None:
        """Let the loop fail with what an inline handler raised."""
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault

    def child_failed(self, causes: list[Exception]) -> None:
        """A child without a supervisor has failed: so does this actor, as a Trio task would in its nursery."""
        self.failures = [*(self.failures or ()), *causes]
        self.leave = self.attention = True
        if self.scope is not None:
            self.scope.cancel()
        self.box.wake()

    def exit_with_failures(self, exit_: Exit) -> Exit:
        """The same exit, or a failed one with all that has failed by now."""
        failures = self.failures
        cause = exit_.cause
        if not failures or (cause is failures[0] and len(failures) == 1):
            return exit_
        known: object = getattr(cause, "exceptions", ())
        return exit_ if known == tuple(failures) else Exit("failed", one_of(failures))

    # -- asks

    def asker_gone(self, ask: Ask) -> None:
        """An ask was cancelled. Unread, it is skipped; in hand, its handler is cancelled unless it is shielded."""
        item = self.in_hand
        if item is None or item[2] is not ask:
            self.box.forget(ask)
        elif self.scope is not None and self.body.may_interrupt(self, ask.message):
            self.interrupted = self.attention = True
            self.system.interrupts.cancel(self.scope)

    def begin_ask(self, ask: Ask) -> PendingAsks | None:
        """The actor asks from its body: refuse what would wait for itself, and remember whom it waits for."""
        asks = self._asks_in_hand()
        if asks is not None:
            asks.begin(self, ask)
        return asks

    def note_ask(self, ask: Ask) -> PendingAsks | None:
        """The actor waits for an ask that is in the other's hands already."""
        asks = self._asks_in_hand()
        if asks is not None:
            asks.add(ask)
        return asks

    def _asks_in_hand(self) -> PendingAsks | None:
        if not self.must_await(current_task()):
            return None
        if self.asks is None:
            self.asks = PendingAsks()
        return self.asks

    def refuse(self, item: Item) -> None:
        """The actor takes no such message: a dead letter with its sender, an error for an asker."""
        self.in_hand = None
        uncharge(item)
        message, sender, ask = item
        self.dead(message, sender, "refused")
        if ask is not None:
            ask.fail(MessageRefused(self.path, type(message)))

    def adopt_subclass(self, item: Item) -> bool:
        """A message of a class without a handler: let that of a base class take it, from now on."""
        self.in_hand = None
        if self.target is None or not self.target.handlers_.adopt(type(item[0])):
            return False
        if self.system.tracer is not None or self.box.charged:
            self.bind(self.target)  # the table in use is a copy
        self.box.put_back([item])
        return True

    def dead(self, message: object, sender: Cell | None, reason: DeadReason) -> None:
        """A message that nobody will handle."""
        self.system.dead_letters.add(self, message, sender, reason)

    def skip(self, item: Item) -> None:
        """A message whose asker has gone is not handled."""
        self.abandoned += 1
        uncharge(item)

    def give_up(self, item: Item, reason: DeadReason) -> None:
        """A message of this mailbox that will not be handled."""
        uncharge(item)
        message, sender, ask = item
        if ask is not None:
            ask.fail(ActorStopped(self.path, self.exit))
            if ask.abandoned:
                self.abandoned += 1
        elif not isinstance(item, Notice):
            self.dead(message, sender, reason)

    # -- the end

    def request_stop(self, mode: StopMode) -> TaskGroup | None:
        return self._tell_end(mode, explicit=True, in_turn=True)

    def end(self, mode: StopMode, *, explicit: bool = True, in_turn: bool = False) -> None:
        """Tell the actor to end; if `in_turn`, when those that need it have. Sync. A stronger request overrules a
        weaker one; others change nothing."""
        below = self._tell_end(mode, explicit, in_turn)
        if below is not None:
            below.close(mode)

    def _tell_end(self, mode: StopMode, explicit: bool, in_turn: bool) -> TaskGroup | None:
        """Returns the group of the children if they are to be told at once, and not by the actor when it has ended."""
        if self.exit is not None:
            return None
        weaker = self.ending is not None and STRENGTH[mode] <= STRENGTH[self.ending]
        if weaker and (self.explicit or not explicit):
            return None
        links = self._links
        if links is not None and in_turn and mode != "kill" and links.postpone_end(mode, explicit):
            return None
        self.explicit = self.explicit or explicit
        if not weaker:
            self.ending = mode
            self.close_box()
            if mode != "drain":
                self.box.flush("killed" if mode == "kill" else "stopped")
            if self.scope is not None and (mode == "kill" or self.body.interrupt_on_stop):
                self.attention = True
                self.interrupted = False
                self.scope.cancel()
        if self.explicit:
            self.decide("end")
        self.box.wake()
        if mode == "kill":
            return self.own
        if self.state == "stopping" and not weaker and self.body.end_children_harder(self):
            return self.own
        return None

    def reopen(self) -> None:
        """The supervisor starts the actor again: the end that it asked for itself is done."""
        if not self.explicit and self.ending is not None:
            self.ending = None
            self.box.reopen()

    def decide(self, verdict: Verdict, cause: Exception | None = None) -> None:
        """The word to an actor that waits between two lives; `cause` is why it is restarted."""
        if self.waits:
            self.verdict = verdict
            self.cause = cause
            self.changed()

    def halt(self, cause: Exception) -> None:
        """End the present life after the message in hand, clear it away, and wait for the supervisor. The mailbox stays
        as it is."""
        if self.waits:
            self.decide("clear", cause)
        elif self.exit is None:
            self.cause = cause
            self.halting = self.leave = self.attention = True
            self.box.inline = NO_HANDLERS
            self.box.wake()

    def halt_now(self) -> None:
        """End the present life by cancelling the message in hand."""
        if self.halting and self.scope is not None:
            self.interrupted = False
            self.scope.cancel()

    def drop_in_hand(self, cause: Exception | None = None) -> None:
        """The message in hand was cancelled; by a restart, if there is a `cause` for that."""
        item, self.in_hand = self.in_hand, None
        if item is not None and item[1] is not INLINE:
            if cause is not None and item[2] is not None:
                item[2].fail(ActorCrashed(self.path, item[0], cause))
            self.give_up(item, "killed")

    @property
    def is_leaving(self) -> bool:
        """Whether the actor will never take messages again. One that has only stopped itself may be started again."""
        return self.exit is not None or (self.box.closed and (self.explicit or self.supervisor is None))

    def close_box(self) -> None:
        """Take nothing more."""
        self.box.close()
        if self._links is not None and self.is_leaving:
            self._links.leave()

    def later(self, message: object) -> Later[Any]:
        """Take the message out of hand and promise an answer to it."""
        return self.links.later(message)

    def deferred_inline(self) -> Ask:
        """The ask that stands for a message which an inline handler has deferred or stashed."""
        return self.links.take_inline_ask()

    def forget_later(self, ask: Ask) -> None:
        """A promised answer has been given."""
        if self._links is not None:
            self._links.laters.discard(ask)

    def let_go(self, ask: Ask) -> None:
        """A promise was dropped without an answer."""
        self.links.let_go(ask)


def one_of(causes: list[Exception]) -> Exception:
    """The failure itself, or a flat group of several."""
    return causes[0] if len(causes) == 1 else ExceptionGroup("several failures of an actor and its children", causes)


def make_box(spec: Mailbox, cell: Cell) -> Box:
    """The mailbox of an actor. What a budget needs is loaded only for one that has a budget."""
    system = cell.system
    if spec.budget is None:
        return Box(spec, cell, system.slice, system.control_types)
    from ._box_charged import ChargedBox

    return ChargedBox(spec, spec.budget, cell, system.slice, system.control_types)
