"""What the tests of the metadata writer need: a store whose writes wait at gates, fail or break as they are told."""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event, Lock
from typing import Any

import trio

from actors.testing import eventually
from lifecycle import (
    Budget,
    LoadedMetadata,
    LocalFiles,
    MetadataReceipt,
    MetadataSettings,
    MetadataTargets,
    MetadataWrite,
    MetadataWriter,
    PersistFailed,
)

PLACE = Path("/nowhere")


def target(name: str) -> Path:
    return PLACE / name


def write(resource: str, generation: int, data: bytes | None = None, *, at: Path | None = None) -> MetadataWrite:
    """Generation `generation` of a resource, in the file of its name."""
    data = b"%s %d" % (resource.encode(), generation) if data is None else data
    return MetadataWrite(resource, generation, target(resource) if at is None else at, data)


def disk_full(path: Path) -> PersistFailed:
    error = PersistFailed(path, "write_temporary", "no")
    error.__cause__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return error


def commit_unknown(path: Path) -> PersistFailed:
    error = PersistFailed(path, "sync_parent", "unknown")
    error.__cause__ = OSError(errno.EIO, os.strerror(errno.EIO))
    return error


class Store:
    """Files in memory. A write of a name that is held waits in its thread, and is begun before that."""

    def __init__(self) -> None:
        self.files: dict[Path, LoadedMetadata] = {}
        self.begun: list[tuple[str, int]] = []
        self.done: list[tuple[str, int]] = []
        self.failures: dict[tuple[str, int], Callable[[Path], BaseException]] = {}
        self.most_at_once = 0
        self.most_of_one = 0
        self.reads = 0
        self.damaged: Exception | None = None
        self._gates: dict[str, Event] = defaultdict(Event)
        self._held: set[str] = set()
        self._inside: list[Path] = []
        self._lock = Lock()

    def hold(self, *names: str) -> None:
        for name in names:
            self._held.add(name)
            self._gates[name].clear()

    def let_go(self, *names: str) -> None:
        for name in names or tuple(self._held):
            self._held.discard(name)
            self._gates[name].set()

    def write(self, target: Path, generation: int, data: bytes) -> None:
        with self._lock:
            self.begun.append((target.name, generation))
            self._inside.append(target)
            self.most_at_once = max(self.most_at_once, len(self._inside))
            self.most_of_one = max(self.most_of_one, self._inside.count(target))
        try:
            if target.name in self._held and not self._gates[target.name].wait(20):
                raise AssertionError(f"nobody let {target.name} go")
            failure = self.failures.get((target.name, generation))
            if failure is not None:
                raise failure(target)
            self.files[target] = LoadedMetadata(generation, data)
        finally:
            with self._lock:
                self._inside.remove(target)
                self.done.append((target.name, generation))

    def read(self, target: Path) -> LoadedMetadata | None:
        self.reads += 1
        if self.damaged is not None:
            raise self.damaged
        return self.files.get(target)

    async def until_begun(self, name: str, generation: int) -> None:
        await eventually(lambda: (name, generation) in self.begun)

    def content(self, name: str) -> LoadedMetadata | None:
        return self.files.get(target(name))


def writer(
    store: Any, targets: MetadataTargets | None = None, *, name: str = "writer", budget: Budget | None = None,
    run_blocking: Any = None, **settings: Any,
) -> MetadataWriter:  # fmt: skip
    options = {} if run_blocking is None else {"run_blocking": run_blocking}
    return MetadataWriter(
        name,
        MetadataTargets() if targets is None else targets,
        store=store,
        settings=MetadataSettings(**settings),
        budget=budget,
        **options,
    )


@asynccontextmanager
async def running(*writers: MetadataWriter) -> AsyncGenerator[trio.Nursery, None]:
    """Run the writers; at the end of the block what they hold is written."""
    async with trio.open_nursery() as nursery:
        for one in writers:
            nursery.start_soon(one.run)
        yield nursery
        for one in writers:
            one.stop_admission()


def accepted(answer: object) -> MetadataReceipt:
    assert isinstance(answer, MetadataReceipt), answer
    return answer


class SteppedFiles:
    """The real files, whose `rename` and `sync_directory` wait for a word, or fail."""

    def __init__(self) -> None:
        self.files = LocalFiles()
        self.steps = {"rename": Event(), "sync_directory": Event()}
        self.reached: list[str] = []
        self.armed = False
        self.broken: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.files, name)

    def _wait(self, step: str) -> None:
        if self.armed:
            self.reached.append(step)
            assert self.steps[step].wait(20)
        if step in self.broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def rename(self, source: Path, target: Path) -> None:
        self._wait("rename")
        self.files.rename(source, target)

    def sync_directory(self, path: Path) -> None:
        self._wait("sync_directory")
        self.files.sync_directory(path)


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def at_once(fn: Callable[..., Any], *args: Any) -> Any:
    """A lane without threads."""
    await trio.lowlevel.checkpoint()
    return fn(*args)
