"""Taking exception groups apart."""

from __future__ import annotations

from typing import cast

import trio


def split_cancelled(exc: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """The part of an exception that is Trio's cancellation, and the rest."""
    if isinstance(exc, trio.Cancelled):
        return exc, None
    if isinstance(exc, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", exc).split(trio.Cancelled)
    return None, exc


def leaves(exc: BaseException) -> list[BaseException]:
    """The exceptions in a group, in order, however deep it is; the exception itself if it is no group."""
    found: list[BaseException] = []
    todo = [exc]
    while todo:
        item = todo.pop()
        if isinstance(item, BaseExceptionGroup):
            todo.extend(reversed(cast("BaseExceptionGroup[BaseException]", item).exceptions))
        else:
            found.append(item)
    return found
