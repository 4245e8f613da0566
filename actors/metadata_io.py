"""The metadata writer as an actor: supervised, and asked by messages.

Give the writer to the child, and not what it is made of: so what was accepted outlives a restart,
`Child(MetadataIo, writer, name="metadata")`.
"""

from __future__ import annotations

import logging
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import attrs

from lifecycle import (
    LifecycleError,
    MetadataReceipt,
    MetadataSnapshot,
    MetadataWaitersFull,
    MetadataWrite,
    TargetConflict,
)

from ._actor import Actor
from ._handlers import handles
from ._message import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle import MetadataOutcome, MetadataWriter

    from ._message import Exit
    from ._reply import Later

__all__ = ["AwaitDurable", "GetSnapshot", "MetadataIo", "Submit", "SubmitNext"]

_log = logging.getLogger("tenure.actors.metadata_io")

FIRST_SWEEP = 64
"""From so many open waits on, those are looked for whose askers have gone."""


@attrs.frozen
class Submit(Request[MetadataReceipt | TargetConflict]):
    """Accept a content; see `MetadataWriter.submit`. The ask raises what that raises; a refusal of what was told is
    logged."""

    request: MetadataWrite
    deadline: float = inf

    shield: ClassVar[bool] = True


@attrs.frozen
class SubmitNext(Request[MetadataReceipt | TargetConflict]):
    """Accept a content as the newest of its resource; see `MetadataWriter.submit_next`."""

    resource: str
    target: Path
    data: bytes = attrs.field(repr=False)
    deadline: float = inf

    shield: ClassVar[bool] = True


@attrs.frozen
class AwaitDurable(Request[int]):
    """Answered with the durable generation when the receipt's content is durable; raises what `receipt.durable()`
    raises. A receipt can be waited for without the actor too; this wait ends with a crash of the actor, and can be
    asked again after it."""

    receipt: MetadataReceipt


@attrs.frozen
class GetSnapshot(Request[MetadataSnapshot]):
    """Answered with what the writer holds."""

    shield: ClassVar[bool] = True


class MetadataIo(Actor[Submit | SubmitNext | AwaitDurable | GetSnapshot]):
    """Runs a metadata writer.

    A crash loses nothing that was accepted: the receipts stay open, a write that was in its thread is settled when it
    has ended, and after the restart the rest is written. Told to end, it admits nothing more and writes what it has, at
    most until the shutdown deadline; what has not begun then has failed, and the receipts say so. The writer is closed
    from then on, for all who have it.
    """

    def __init__(self, writer: MetadataWriter) -> None:
        self.writer = writer
        self._waits: dict[Later[int], Callable[[], None]] = {}
        self._sweep_at = FIRST_SWEEP

    async def started(self) -> None:
        self.context.start_soon(self.writer.run)

    async def stopping(self, reason: Exit) -> None:
        self.writer.stop_admission()
        try:
            await self.writer.run()
        finally:
            failed = self.writer.give_up()
            pending = self.writer.snapshot().pending_operations
            if failed or pending:
                _log.warning(
                    "metadata writer %s ended with work: %d writes had not begun and failed, %d still run and are open",
                    self.writer.name, failed, pending,
                )  # fmt: skip
            self._drop_waits()

    async def restarting(self, cause: BaseException) -> None:
        self._drop_waits()

    @handles(Submit)
    def submit(self, msg: Submit) -> MetadataReceipt | TargetConflict | Later[MetadataReceipt | TargetConflict]:
        """See `Submit`."""
        try:
            return self.writer.submit(msg.request, deadline=msg.deadline)
        except LifecycleError as exc:
            return self._refused(self.context.later(msg), msg.request.resource, exc)

    @handles(SubmitNext)
    def submit_next(
        self, msg: SubmitNext
    ) -> MetadataReceipt | TargetConflict | Later[MetadataReceipt | TargetConflict]:
        """See `SubmitNext`."""
        try:
            return self.writer.submit_next(msg.resource, msg.target, msg.data, deadline=msg.deadline)
        except LifecycleError as exc:
            return self._refused(self.context.later(msg), msg.resource, exc)

    @handles(AwaitDurable)
    def await_durable(self, msg: AwaitDurable) -> Later[int]:
        """See `AwaitDurable`."""
        later = self.context.later(msg)
        if len(self._waits) >= self._sweep_at:
            self._sweep()
        try:
            self._wait(msg.receipt, later)
        except MetadataWaitersFull as exc:
            self._sweep()
            try:
                self._wait(msg.receipt, later)
            except MetadataWaitersFull:
                later.fail(exc)
        return later

    def _wait(self, receipt: MetadataReceipt, later: Later[int]) -> None:
        def tell(_: MetadataOutcome) -> None:
            self._waits.pop(later, None)
            if not later.done:
                _answer(receipt, later)

        if receipt.outcome is None:
            self._waits[later] = receipt.notify(tell)
        else:
            _answer(receipt, later)

    @handles(GetSnapshot)
    def get_snapshot(self, msg: GetSnapshot) -> MetadataSnapshot:
        """See `GetSnapshot`."""
        return self.writer.snapshot()

    def _refused(
        self, later: Later[MetadataReceipt | TargetConflict], resource: str, error: LifecycleError
    ) -> Later[MetadataReceipt | TargetConflict]:
        """A refusal is the answer, and no crash."""
        if later.abandoned:
            _log.warning("metadata writer %s refused %s, which was told: %s", self.writer.name, resource, error)
        later.fail(error)
        return later

    def _sweep(self) -> None:
        """Forget the waits whose askers have gone, so that they take no place of those that have not."""
        for later, take_back in list(self._waits.items()):
            if later.abandoned:
                take_back()
                del self._waits[later]
        self._sweep_at = max(FIRST_SWEEP, 2 * len(self._waits))

    def _drop_waits(self) -> None:
        waits, self._waits = self._waits, {}
        for take_back in waits.values():
            take_back()


def _answer(receipt: MetadataReceipt, later: Later[int]) -> None:
    try:
        generation = receipt.durable_now()
        assert generation is not None, "it is settled"
        later.set(generation)
    except LifecycleError as exc:
        later.fail(exc)
