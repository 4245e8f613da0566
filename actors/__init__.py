"""Actors on Trio: typed refs, bounded mailboxes, supervision, and one deadline for the whole tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "Actor",
    "ActorContext",
    "ActorCrashed",
    "ActorDump",
    "ActorError",
    "ActorStopped",
    "AlreadyReplied",
    "AnyChild",
    "AnyRef",
    "AskCycle",
    "Asked",
    "Backoff",
    "Child",
    "ChildEnded",
    "DeadLetter",
    "DeadLetters",
    "EndedBeforeReady",
    "Exit",
    "ExtraMissing",
    "Group",
    "HandlerDoubled",
    "HandlerMissing",
    "Inbox",
    "InvalidBackoff",
    "InvalidIntensity",
    "InvalidMailbox",
    "InvalidRoute",
    "InvalidSetting",
    "InvalidStrategy",
    "Lagged",
    "Later",
    "Mailbox",
    "MailboxFull",
    "MessageDropped",
    "MessageRefused",
    "NameInvalid",
    "NameTaken",
    "NoMembers",
    "NoReply",
    "NoSuchActor",
    "NotABody",
    "NotInHand",
    "Pool",
    "Ref",
    "Request",
    "RestartLimitExceeded",
    "Router",
    "StartFailed",
    "StashFull",
    "Strategy",
    "Supervision",
    "Supervisor",
    "System",
    "SystemStopped",
    "Terminated",
    "Timer",
    "TimerInvalid",
    "TooManyTimers",
    "Topic",
    "TracedAsk",
    "Tracer",
    "TreeDump",
    "WouldDeadlock",
    "WrongSpecimen",
    "WrongThread",
    "coalesce",
    "drop_stale",
    "handles",
    "one_for_all",
    "one_for_one",
    "open_system",
    "rest_for_one",
]

if TYPE_CHECKING:
    from ._actor import Actor
    from ._backoff import Backoff
    from ._block import open_system
    from ._child import AnyChild, Child
    from ._context import ActorContext
    from ._dead_letters import DeadLetters
    from ._dump import ActorDump, TreeDump
    from ._errors import (
        ActorCrashed,
        ActorError,
        ActorStopped,
        AlreadyReplied,
        AskCycle,
        ChildEnded,
        EndedBeforeReady,
        ExtraMissing,
        HandlerDoubled,
        HandlerMissing,
        InvalidBackoff,
        InvalidIntensity,
        InvalidMailbox,
        InvalidRoute,
        InvalidSetting,
        InvalidStrategy,
        MailboxFull,
        MessageDropped,
        MessageRefused,
        NameInvalid,
        NameTaken,
        NoMembers,
        NoReply,
        NoSuchActor,
        NotABody,
        NotInHand,
        RestartLimitExceeded,
        StartFailed,
        StashFull,
        SystemStopped,
        TimerInvalid,
        TooManyTimers,
        WouldDeadlock,
        WrongSpecimen,
        WrongThread,
    )
    from ._group import Group, Router
    from ._handlers import handles
    from ._inbox import Inbox
    from ._mailbox import Mailbox, coalesce, drop_stale
    from ._message import Asked, DeadLetter, Exit, Lagged, Request, Terminated
    from ._pool import Pool
    from ._ref import AnyRef, Ref
    from ._reply import Later
    from ._supervised import Supervision
    from ._supervision import Strategy, one_for_all, one_for_one, rest_for_one
    from ._supervisor import Supervisor
    from ._system import System
    from ._timers import Timer
    from ._topic import Topic
    from ._tracing import TracedAsk, Tracer
else:
    from lifecycle._lazy import lazily

    # A name is loaded on its first use: the command line and the pytest plugin live here too, and want no Trio.
    _PLACES = {
        "_actor": "Actor",
        "_backoff": "Backoff",
        "_block": "open_system",
        "_child": "AnyChild Child",
        "_context": "ActorContext",
        "_dead_letters": "DeadLetters",
        "_dump": "ActorDump TreeDump",
        "_errors": (
            "ActorCrashed ActorError ActorStopped AlreadyReplied AskCycle ChildEnded EndedBeforeReady "
            "ExtraMissing HandlerDoubled HandlerMissing InvalidBackoff InvalidIntensity InvalidMailbox "
            "InvalidRoute InvalidSetting InvalidStrategy MailboxFull MessageDropped MessageRefused "
            "NameInvalid NameTaken NoMembers NoReply NoSuchActor NotABody NotInHand RestartLimitExceeded "
            "StartFailed StashFull SystemStopped TimerInvalid TooManyTimers WouldDeadlock WrongSpecimen "
            "WrongThread"
        ),
        "_group": "Group Router",
        "_handlers": "handles",
        "_inbox": "Inbox",
        "_mailbox": "Mailbox coalesce drop_stale",
        "_message": "Asked DeadLetter Exit Lagged Request Terminated",
        "_pool": "Pool",
        "_ref": "AnyRef Ref",
        "_reply": "Later",
        "_supervised": "Supervision",
        "_supervision": "Strategy one_for_all one_for_one rest_for_one",
        "_supervisor": "Supervisor",
        "_system": "System",
        "_timers": "Timer",
        "_topic": "Topic",
        "_tracing": "TracedAsk Tracer",
    }

    __getattr__, __dir__ = lazily(globals(), _PLACES)
