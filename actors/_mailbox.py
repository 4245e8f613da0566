"""The settings of a mailbox: how much it takes, and what happens beyond that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import attrs

from ._backoff import is_number
from ._errors import InvalidMailbox

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from lifecycle import Budget

_PLAIN_POLICIES = ("wait", "reject", "drop_newest", "drop_oldest")


@attrs.frozen
class Coalesce:
    """Keep the newest message of each key: a newer one takes the place of the one that is queued."""

    key: Callable[[Any], Hashable]

    def __attrs_post_init__(self) -> None:
        if not callable(self.key):
            raise InvalidMailbox(f"coalesce(key) takes a function of the message, not {self.key!r}")


@attrs.frozen
class DropStale:
    """Drop messages that have been queued for longer than `age` seconds; when full, refuse like `reject`."""

    age: float

    def __attrs_post_init__(self) -> None:
        if not is_number(self.age) or self.age <= 0:
            raise InvalidMailbox(f"drop_stale(age) must be a finite number of seconds above 0, not {self.age!r}")


def coalesce(key: Callable[[Any], Hashable]) -> Coalesce:
    """The policy that keeps only the newest queued message of each `key(message)`.

    A message for which `key` raises, or gives something that cannot be hashed, takes nobody's place.
    """
    return Coalesce(key)


def drop_stale(age: float) -> DropStale:
    """The policy that drops what has waited for longer than `age` seconds."""
    return DropStale(age)


Policy = Literal["wait", "reject", "drop_newest", "drop_oldest"] | Coalesce | DropStale


@attrs.frozen
class Mailbox:
    """How much an actor's mailbox takes, and what happens beyond that.

    `wait`: `tell` raises `MailboxFull`, `send` and `ask` wait for room, first come, first served. `reject`: all three
    raise. `drop_newest`, `drop_oldest`, `coalesce(key)` and `drop_stale(age)` never make anyone wait: a displaced ask
    is answered with `MessageDropped`, a displaced tell is a dead letter. Under `coalesce`, a message with a new key is
    refused with `MailboxFull` when `limit` keys are queued; under `drop_stale`, every message when `limit` fresh ones
    are.
    """

    limit: int = 1000
    """Messages in the data lane, at most."""

    policy: Policy = "wait"

    control_limit: int = 100
    """Messages in the control lane, at most; beyond it `MailboxFull` is raised under every policy."""

    budget: Budget | None = None
    """What each message is charged to, one and its bytes, from when it is accepted until it is out of hand: handled,
    promised an answer by `later`, or given up. One that is stashed stays charged. Control messages are control work
    there. Where the budget has no room, `policy` says what happens, as it does at `limit`; under `wait`, no message
    passes those of other mailboxes that wait for the budget."""

    size: Callable[[Any], int] | None = None
    """The bytes of a message, for the budget; None: they are not counted. A message that it raises for, or gives no
    whole number of at least 0, counts none."""

    def __attrs_post_init__(self) -> None:
        _check_limit("limit", self.limit)
        _check_limit("control_limit", self.control_limit)
        if not isinstance(self.policy, (Coalesce, DropStale)) and self.policy not in _PLAIN_POLICIES:
            names = ", ".join(_PLAIN_POLICIES)
            raise InvalidMailbox(
                f"policy must be one of {names}, coalesce(key) or drop_stale(age), not {self.policy!r}"
            )

        _check_budget(self.budget, self.size)

    @property
    def policy_name(self) -> str:
        """The policy as counters and errors name it."""
        if isinstance(self.policy, Coalesce):
            return "coalesce"
        return "drop_stale" if isinstance(self.policy, DropStale) else self.policy


def _check_limit(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidMailbox(f"{name} must be a whole number of at least 1, not {value!r}")


def _check_budget(budget: object, size: object) -> None:
    if budget is not None:
        from lifecycle import Budget

        if not isinstance(budget, Budget):
            raise InvalidMailbox(f"budget is a lifecycle.Budget, not {budget!r}")
    if size is not None and (budget is None or not callable(size)):
        raise InvalidMailbox("size is a function of the message, for a mailbox that has a budget")
