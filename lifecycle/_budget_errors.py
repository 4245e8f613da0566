"""What budgets and queues refuse, and why."""

from __future__ import annotations

from typing import Literal

from ._errors import ContractViolation, OperationalError

Dimension = Literal["count", "bytes", "rate"]
"""What a budget limits: how many at a time, how many bytes at a time, how many per second."""

BudgetRule = Literal[
    "name_blank",
    "name_has_slash",
    "name_in_use",
    "not_a_number",
    "capacity_zero",
    "rate_zero",
    "max_age_zero",
    "reserve_exceeds_capacity",
    "reserve_without_capacity",
    "child_exceeds_parent",
    "child_max_age_exceeds_parent",
]
"""The rules for the limits of a budget."""

_RULES: dict[BudgetRule, str] = {
    "name_blank": "has a blank name: give it one that people can find",
    "name_has_slash": "has a name with a slash, which separates the names of a path: leave it out",
    "name_in_use": "is there already: give each child of a budget a name of its own",
    "not_a_number": "has a limit ({what}) that is no finite number of the right kind: see Budget.child",
    "capacity_zero": "has a limit ({what}) below 1: it would admit nothing; leave it out if there is to be none",
    "rate_zero": "has a rate or a burst below or at 0: it would admit nothing",
    "max_age_zero": "has a max_age below or at 0 seconds: everything would be stale at once",
    "reserve_exceeds_capacity": "reserves more ({what}) for control than it has: lower the reserve",
    "reserve_without_capacity": "reserves a share ({what}) for control of what it does not limit: limit that too",
    "child_exceeds_parent": "is to admit more ({what}) than the budgets above it: lower the limit, or leave it out",
    "child_max_age_exceeds_parent": "has a max_age above that of the budgets above it: lower it, or leave it out",
}


class BudgetInvalid(ContractViolation):
    """A budget was described in a way that breaks a rule. `path` is its place, `rule` which rule, `dimension` of what
    (None where the rule is about no dimension)."""

    def __init__(self, path: str, rule: BudgetRule, dimension: Dimension | None = None) -> None:
        super().__init__(path, rule, dimension)
        self.path = path
        self.rule: BudgetRule = rule
        self.dimension: Dimension | None = dimension

    def __str__(self) -> str:
        return f"budget {self.path!r} " + _RULES[self.rule].format(what=self.dimension or "max_age")


class AmountInvalid(ContractViolation):
    """A share was asked for that is none: `count` must be a whole number of at least 1, `bytes` of at least 0. `path`
    is the budget."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"budget {self.path!r} was asked for a count below 1 or for bytes below 0: ask for whole numbers"


class DifferentTree(ContractViolation):
    """A permit was to be moved to a budget of another tree. `path` is where it stays, `target` where it was to go."""

    def __init__(self, path: str, target: str) -> None:
        super().__init__(path, target)
        self.path = path
        self.target = target

    def __str__(self) -> str:
        return (
            f"a permit of budget {self.path!r} cannot be moved to {self.target!r}, which belongs to another tree: "
            "reserve there, then release here"
        )


class PermitSpent(ContractViolation):
    """A permit was used that holds nothing any more: it was released, or moved into a queue."""

    def __str__(self) -> str:
        return "this permit was released, or moved on with its payload, and holds nothing: reserve another one"


class QueueInvalid(ContractViolation):
    """A queue was described or used in a way that cannot work. `path` is its budget, `problem` what is wrong."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"the queue on budget {self.path!r} refuses this: {self.problem}"


class BudgetRefusal(OperationalError):
    """Root of what an overloaded or closed budget or queue answers. `path` is the budget that was asked; `item` what
    was to be pushed (None where nothing was): it is not in the queue."""

    item: object = None

    def __init__(self, path: str, *more: object) -> None:
        super().__init__(path, *more)
        self.path = path


class BudgetExhausted(BudgetRefusal):
    """There is no room. `exhausted` is the path of the budget that has none, which may be one above `path`;
    `dimension` of what; `never_fits` is true if there would be none if all were free. `policy` is that of the queue."""

    def __init__(
        self, path: str, exhausted: str, dimension: Dimension, never_fits: bool = False, policy: str = "reject"
    ) -> None:
        super().__init__(path, exhausted, dimension, never_fits, policy)
        self.exhausted = exhausted
        self.dimension: Dimension = dimension
        self.never_fits = never_fits
        self.policy = policy

    def __str__(self) -> str:
        who = f"budget {self.path!r}" + ("" if self.exhausted == self.path else f" asked {self.exhausted!r}, which")
        if self.never_fits:
            return f"{who} can never admit this, its {self.dimension} limit is lower: split it, or raise the limit"
        return f"{who} has reached its {self.dimension} limit (policy {self.policy}): shed load, or try again later"


class BudgetClosed(BudgetRefusal):
    """A budget takes nothing more. `closed` is the path of the key that was closed, `path` itself or one above."""

    def __init__(self, path: str, closed: str) -> None:
        super().__init__(path, closed)
        self.closed = closed

    def __str__(self) -> str:
        return f"budget {self.path!r} takes nothing more, {self.closed!r} is closed: what it holds may still be used"


class BudgetKeyInUse(BudgetRefusal):
    """A key was to be registered under a name that another one has. `generation` is that of the other."""

    def __init__(self, path: str, generation: int) -> None:
        super().__init__(path, generation)
        self.generation = generation

    def __str__(self) -> str:
        return f"the key {self.path!r} is registered (generation {self.generation}): retire that one first"


class BudgetKeysExhausted(BudgetRefusal):
    """A tree has as many keys as it may. `path` is the key that was refused, `capacity` the limit."""

    def __init__(self, path: str, capacity: int) -> None:
        super().__init__(path, capacity)
        self.capacity = capacity

    def __str__(self) -> str:
        return f"the key {self.path!r} is one more than the {self.capacity} that its tree takes: retire idle keys first"


class QueueClosed(BudgetRefusal):
    """A queue takes no more items. `slow_consumer` is true if it closed itself because nobody emptied it in time."""

    def __init__(self, path: str, slow_consumer: bool = False) -> None:
        super().__init__(path, slow_consumer)
        self.slow_consumer = slow_consumer

    def __str__(self) -> str:
        why = "its consumer was too slow" if self.slow_consumer else "close() was called"
        return f"the queue on budget {self.path!r} takes nothing more, {why}"


class WaitExpired(BudgetRefusal):
    """The deadline that was given for a wait had come. `path` is the budget."""

    def __str__(self) -> str:
        return f"budget {self.path!r} had no room before the deadline of the wait: shed load, or allow more time"
