"""The pipeline: which actors there are, who needs whom, and what keeps them busy.

main ──Read──▶ readers ──Count──▶ workers, which crash now and then and are started again
                  │
                  └────Counted──▶ tally ──▶ checkpoint

Read and Count are asked: who asks waits for the answer, so nothing piles up anywhere. Counted is sent.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final

import attrs
import trio

from actors import ActorStopped, Backoff, Ref, StartFailed, System, SystemStopped, one_for_one, open_system
from lifecycle import ServiceContext

from ._checkpoint import Checkpoint
from ._display import Display, say
from ._errors import DemoError, PathUnusable
from ._faults import Faults
from ._files import Listing, list_files
from ._messages import Count, Read
from ._reader import Reader
from ._settings import Settings
from ._tally import Tally
from ._worker import Worker

READERS = 4

# Crashes are expected here, so many are allowed; the back-off keeps a storm of them slow.
HEALING = one_for_one(max_restarts=1000, within=5, backoff=Backoff(0.01, max=0.1, jitter=0.2))


@final
@attrs.define
class Pipeline:
    """One run. `main` is what a runtime runs; the rest can be read when it has ended."""

    settings: Settings
    earlier: Checkpoint
    """What earlier runs have counted."""
    resumed: int = 0
    """Files taken over from earlier runs."""
    expected: int = 0
    """Files that are to be counted in all."""
    system: System | None = None
    workers: tuple[Ref[Count], ...] = ()
    has_saved: bool = False
    """Whether the checkpoint on disk is of this run."""

    async def main(self, context: ServiceContext) -> None:
        """List the files, then let the actors count them."""
        settings = self.settings
        listing = await trio.to_thread.run_sync(list_files, settings.path, settings.limit, abandon_on_cancel=True)
        _check(settings.path, listing)
        resumed = Checkpoint(
            self.earlier.root,
            counted={path: each for path, each in self.earlier.counted.items() if listing.files.get(path) == each.file},
            failed=listing.unseen,
        )
        self.resumed = len(resumed.counted)
        self.expected = len(listing.files)
        context.group.spawn_service(self._announce_interrupt, context, name="announcer")
        async with open_system(context, name="pipeline", shutdown_within=settings.within, seed=settings.seed) as system:
            self.system = system
            with until_stopped(system):
                await self._count(system, listing, resumed)

    async def _count(self, system: System, listing: Listing, resumed: Checkpoint) -> None:
        settings = self.settings
        threads = trio.CapacityLimiter(READERS)
        tally = await system.spawn(
            Tally, listing.files, resumed, settings.checkpoint_path(), settings.every, name="tally"
        )
        self.has_saved = True
        workers = await system.pool(
            Worker, Faults(settings.seed, settings.fault_rate), size=settings.workers, name="workers", strategy=HEALING
        )
        self.workers = workers.members
        readers = [
            await system.spawn(
                Reader, settings.path, workers, tally, threads, name=f"reader-{number}",
                # At the end the readers go first, so that what they have in hand reaches the workers and the tally.
                needs=[tally, workers.supervision.ref],
            )
            for number in range(1, READERS + 1)
        ]  # fmt: skip
        if settings.terminal is not None and settings.terminal.isatty():
            await system.spawn(Display, tally, settings.terminal, name="display", needs=[tally])
        began = trio.current_time()
        step = settings.pace / self.expected
        left = (path for path in listing.files if path not in resumed.counted)
        work = ((path, began + number * step) for number, path in enumerate(left))
        async with trio.open_nursery() as nursery:
            for reader in readers:
                nursery.start_soon(self._feed, reader, work, system)
        system.service.runtime.request_shutdown("finished")  # the same way to the end as Ctrl-C

    async def _feed(self, reader: Ref[Read], work: Iterator[tuple[str, float]], system: System) -> None:
        """Give a reader one file after the other, when it has done with the one before and the next one is due."""
        with until_stopped(system):
            for path, due in work:
                await trio.sleep_until(due)
                await reader.ask(Read(path))

    async def _announce_interrupt(self, context: ServiceContext) -> None:
        await context.stopping.wait()
        if context.deadline.reason == "signal" and self.settings.terminal is not None:
            limit = f"within {self.settings.within:g} s (again: end at once)"
            say(self.settings.terminal, f"interrupted: finishing what is in hand, {limit}\n")


@contextmanager
def until_stopped(system: System) -> Generator[None, None, None]:
    """Leave the block when the system has been told to stop: it takes no more work, and ends with what it has."""
    try:
        yield
    except (SystemStopped, ActorStopped, StartFailed) as error:
        if not system.stopping.is_set() or isinstance(error.__cause__, DemoError):
            raise


def _check(root: Path, listing: Listing) -> None:
    if not listing.files:
        why = listing.unseen.get(".")
        raise PathUnusable(root, "holds no files" if why is None else f"cannot be read ({why})")
