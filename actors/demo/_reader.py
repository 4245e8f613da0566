"""The reader: it takes one file at a time through the workers to the tally."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import trio

from actors import Actor, ActorCrashed, ActorStopped, NoMembers, Pool, Ref, handles

from ._counts import Counts, Sum, is_binary
from ._errors import FileChanged, FileError, WorkersCrashed
from ._files import open_file, read_block, reason_of
from ._messages import Count, Counted, Failed, Read

TRIES = 5
"""How often a block is counted that crashes its worker, and a file is read that changes meanwhile."""


class Reader(Actor[Read]):
    """Reads in threads, asks the workers, asks again after a crash, and reports each file to the tally exactly once.

    If the others have ended, it ends too: the file in hand is not reported and is counted by the next run.
    """

    def __init__(
        self, root: Path, workers: Pool[Count], tally: Ref[Counted | Failed], threads: trio.CapacityLimiter
    ) -> None:
        self._root = root
        self._workers = workers
        self._tally = tally
        # A read that is no longer wanted may end by itself: it holds nothing that anybody else uses.
        self._in_thread = partial(trio.to_thread.run_sync, limiter=threads, abandon_on_cancel=True)

    @handles(Read)
    async def read(self, msg: Read) -> None:
        try:
            await self._tally.send(await self._outcome(msg.path))
        except (ActorStopped, NoMembers):
            self.context.stop()

    async def _outcome(self, path: str) -> Counted | Failed:
        try:
            for _ in range(TRIES - 1):
                try:
                    return await self._count_file(path)
                except FileChanged:
                    pass  # it may be a log in use
            return await self._count_file(path)
        except FileError as error:
            return Failed(path, str(error))
        except OSError as error:
            return Failed(path, reason_of(error))

    async def _count_file(self, path: str) -> Counted:
        file, block = await self._in_thread(open_file, self._root, path)
        kind = "binary" if is_binary(block) else file.kind
        total = Sum()
        crashes = position = 0
        while block and kind != "binary":
            counts, crashed = await self._count_block(block, kind, f"{path}:{position}")
            total.add(counts)
            crashes += crashed
            position += len(block)
            block = await self._in_thread(read_block, self._root, file, position) if position < file.size else b""
        return Counted(file, kind, total.of_a_file(), crashes)

    async def _count_block(self, block: bytes, kind: str, place: str) -> tuple[Counts, int]:
        attempt = 1
        while True:
            try:
                return await self._workers.ask(Count(block, kind, place, attempt)), attempt - 1
            except ActorCrashed as crash:
                if attempt == TRIES:
                    raise WorkersCrashed(TRIES, crash.cause) from crash
                attempt += 1  # the worker is started again; meanwhile there are others
