"""A job: the blocking part of one write, and who settles it when nobody waits for its thread any more.

Whoever calls it may stop waiting: by a time-out of the lane, by cancellation. The thread is not stopped by that. So the
end of a job is not the end of the call: it is *withdrawn* if the thread had not begun, and then never begins; *done*;
or *late*, and then the thread itself tells when it has ended.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Literal, final

from ._files_errors import PersistFailed
from ._metadata_history import digest_of
from ._metadata_types import CommitOutcomeUnknown, Durable, FailedBeforeCommit

if TYPE_CHECKING:
    from ._metadata_queue import Work
    from ._metadata_store import MetadataStore
    from ._metadata_types import MetadataOutcome

State = Literal["waiting", "running", "done", "withdrawn"]


@final
class Job:
    """One write. Called once, in a thread."""

    __slots__ = ("_data", "_error", "_generation", "_lock", "_path", "_state", "_store", "_tell", "digest", "work")

    def __init__(self, work: Work, store: MetadataStore) -> None:
        self.work = work
        self.digest = b""
        self._path = work.history.path
        self._generation = work.slot.generation
        self._data = work.slot.data
        self._store = store
        self._lock = Lock()
        self._state: State = "waiting"
        self._error: BaseException | None = None
        self._tell: Callable[[], object] | None = None

    def __call__(self) -> None:
        """Write. Blocks; raises nothing."""
        with self._lock:
            if self._state != "waiting":
                return
            self._state = "running"
        try:
            self.digest = digest_of(self._data)
            self._store.write(self._path, self._generation, self._data)
        except BaseException as exc:  # noqa: ASYNC103 (a thread has nobody else to tell)
            self._error = exc
        with self._lock:
            self._state = "done"
            tell = self._tell
        if tell is not None:
            tell()

    def leave(self, tell: Callable[[], object]) -> Literal["done", "withdrawn", "late"]:
        """The call has ended, in whatever way. If the write still runs, `tell` is called in its thread at its end."""
        with self._lock:
            if self._state == "running":
                self._tell = tell
                return "late"
            if self._state == "waiting":
                self._state = "withdrawn"
                return "withdrawn"
            return "done"

    def outcome(self) -> MetadataOutcome:
        """What the result of a job that is done means."""
        error, self._error = self._error, None
        self._data = b""
        if error is None:
            return Durable(self._generation)
        forget_values(error)
        if isinstance(error, PersistFailed):
            if error.committed == "no":
                return FailedBeforeCommit(self._generation, error.step, error)
            return CommitOutcomeUnknown(self._generation, error.step, error)
        # Nobody knows how far a write came that broke in a way that its author did not foresee.
        return CommitOutcomeUnknown(self._generation, "unexpected error", error)


def forget_values(error: BaseException) -> None:
    """Drop the local variables that the tracebacks of an error keep alive, which hold the content. The lines stay."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        exc = todo.pop()
        if exc is not None and id(exc) not in seen:
            seen.add(id(exc))
            traceback.clear_frames(exc.__traceback__)
            todo += [exc.__cause__, exc.__context__]
