"""The tally: the one place where the counts meet, and the only state of the pipeline. It is what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import trio

from actors import Actor, Exit, handles

from ._checkpoint import Checkpoint, save
from ._files import File
from ._messages import Counted, Failed, HowFar, Progress, Save


class Tally(Actor[Counted | Failed | Save | HowFar]):
    """Keeps the counts by file and writes them to disk, first when it starts, then every `every` seconds, last at its
    end. A checkpoint that cannot be written is a failure, and ends the run."""

    def __init__(self, expected: Mapping[str, File], resumed: Checkpoint, path: Path, every: float) -> None:
        self._root = resumed.root
        self._counted = dict(resumed.counted)
        self._failed = dict(resumed.failed)
        self._open = expected.keys() - self._counted.keys() - self._failed.keys()
        self._expected = len(expected)
        self._lines = sum(each.counts.lines for each in self._counted.values())
        self._healed = 0
        self._path = path
        self._every = every
        self._unsaved = False

    async def started(self) -> None:
        await self._save()
        self.context.send_every(self._every, Save())

    async def stopping(self, reason: Exit) -> None:
        if not reason.failed:
            await self._save()

    @handles(Counted)
    def add(self, msg: Counted) -> None:
        if msg.file.path in self._open:
            self._counted[msg.file.path] = msg
            self._lines += msg.counts.lines
            self._healed += msg.crashes
            self._settle(msg.file.path)

    @handles(Failed)
    def add_failed(self, msg: Failed) -> None:
        if msg.path in self._open:
            self._failed[msg.path] = msg.reason
            self._settle(msg.path)

    def _settle(self, path: str) -> None:
        self._open.discard(path)
        self._unsaved = True

    @handles(HowFar)
    def how_far(self, _: HowFar) -> Progress:
        return Progress(self._expected - len(self._open), self._expected, self._lines, self._healed)

    @handles(Save)
    async def save(self, _: Save) -> None:
        if self._unsaved:
            await self._save()

    async def _save(self) -> None:
        self._unsaved = False
        # Copies, since the write is in a thread. What they hold never changes.
        moment = Checkpoint(self._root, not self._open, dict(self._counted), dict(self._failed))
        await trio.to_thread.run_sync(save, self._path, moment)
