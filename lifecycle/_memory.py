"""How much memory this process may use, and how much of it the budgets hand out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import attrs

from ._memory_errors import MemoryInvalid, MemoryTooSmall

MemorySource = Literal["configured", "environment", "cgroup_v2", "cgroup_v1", "physical"]
"""Who said it: the program, the environment, a control group of version 2 or 1, or the size of the machine."""

MEMORY_SOURCES: tuple[MemorySource, ...] = get_args(MemorySource)


@attrs.frozen
class MemoryLimit:
    """How much memory this process may use. `MemoryInvalid` if `bytes` is no whole number, or less than 1."""

    bytes: int
    source: MemorySource = "configured"

    def __attrs_post_init__(self) -> None:
        mistakes = tuple(_whole(self.bytes, "bytes", least=1))
        if self.source not in MEMORY_SOURCES:
            mistakes += (f"source must be one of {', '.join(MEMORY_SOURCES)}",)
        if mistakes:
            raise MemoryInvalid(mistakes)

    def fraction(self, numerator: int, denominator: int) -> int:
        """That share of the bytes, rounded down; exact for every size. `MemoryInvalid` unless 0 < share <= 1."""
        mistakes = tuple(_share(numerator, denominator))
        if mistakes:
            raise MemoryInvalid(mistakes)
        return self.bytes * numerator // denominator


@attrs.frozen(kw_only=True)
class MemoryPolicy:
    """How much of a process's memory limit is managed, that is, handed out by the budget of the process.

    Either all of it, at most `bytes` of it, or the share `numerator / denominator`; in each case `headroom` bytes of
    the limit stay out of it, for what no budget counts: the interpreter, the code, the allocator.

    Made by `whole`, `explicit` and `fraction`. Constructing one checks nothing: `mistakes` says what is wrong with it,
    and `Runtime.plan` asks it. Budgets count what is admitted; nothing here limits what the process really uses.
    """

    bytes: int | None = None
    numerator: int = 1
    denominator: int = 1
    headroom: int = 0

    @staticmethod
    def whole(*, headroom: int = 0) -> MemoryPolicy:
        """All of the limit but `headroom` bytes."""
        return MemoryPolicy(headroom=headroom)

    @staticmethod
    def explicit(bytes: int, *, headroom: int = 0) -> MemoryPolicy:
        """That many bytes, or what the limit leaves beside `headroom` if that is less."""
        return MemoryPolicy(bytes=bytes, headroom=headroom)

    @staticmethod
    def fraction(numerator: int, denominator: int, *, headroom: int = 0) -> MemoryPolicy:
        """That share of the whole limit, or what the limit leaves beside `headroom` if that is less."""
        return MemoryPolicy(numerator=numerator, denominator=denominator, headroom=headroom)

    def mistakes(self) -> tuple[str, ...]:
        """Every rule that this policy breaks, each a sentence naming its field; empty if it is valid."""
        return tuple(self._mistakes())

    def _mistakes(self) -> Iterator[str]:
        if self.bytes is not None:
            yield from _whole(self.bytes, "bytes", least=1)
        yield from _share(self.numerator, self.denominator)
        yield from _whole(self.headroom, "headroom", least=0)

    def managed(self, limit: MemoryLimit) -> int:
        """How many bytes of `limit` are managed: at least 1, at most the limit less the headroom.

        Raises `MemoryTooSmall` if nothing would be left, `MemoryInvalid` for a policy with mistakes. Pure.
        """
        mistakes = self.mistakes()
        if mistakes:
            raise MemoryInvalid(mistakes)
        requested = limit.fraction(self.numerator, self.denominator) if self.bytes is None else self.bytes
        managed = min(requested, limit.bytes - self.headroom)
        if managed < 1:
            raise MemoryTooSmall(limit.bytes, limit.source, self.headroom)
        return managed


def _whole(value: object, name: str, least: int) -> Iterator[str]:
    # The types are checked too: limits often come from a file. Hence `object`.
    if isinstance(value, bool) or not isinstance(value, int):
        yield f"{name} must be a whole number of bytes, not {type(value).__name__}"
    elif value < least:
        yield f"{name} must be at least {least}"


def _share(numerator: object, denominator: object) -> Iterator[str]:
    whole = [isinstance(part, int) and not isinstance(part, bool) for part in (numerator, denominator)]
    if not all(whole):
        yield "a fraction must be given as two whole numbers, numerator and denominator"
    elif not 0 < numerator <= denominator:  # type: ignore[operator]
        yield "a fraction must be more than 0 and at most 1"
