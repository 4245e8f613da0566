"""One run from its settings to its result."""

from __future__ import annotations

import os
import stat
import time

from actors import StartFailed
from lifecycle import Runtime, RuntimeConfig, ShutdownReport, leaves

from ._checkpoint import Checkpoint, load
from ._errors import CheckpointRefused, CheckpointUnwritable, DemoError, PathUnusable
from ._files import reason_of
from ._pipeline import Pipeline
from ._result import Repairs, Result
from ._settings import Settings


def run(settings: Settings) -> Result:
    """Count the files of a directory, as a program of its own: it takes Ctrl-C, and ends in time.

    Raises `DemoError` if there is nothing to count or the checkpoint cannot be used, else whatever failed.
    """
    began = time.monotonic()
    pipeline = Pipeline(settings, _earlier(settings))
    report = _run(pipeline)
    system = pipeline.system
    return Result(
        settings=settings,
        checkpoint=(load(settings.checkpoint_path()) if pipeline.has_saved else None) or pipeline.earlier,
        expected=pipeline.expected,
        resumed=pipeline.resumed,
        seconds=time.monotonic() - began,
        repairs=Repairs(
            crashes=0 if system is None else system.crashes,
            restarts={ref.path: ref.generation - 1 for ref in pipeline.workers},
            dead_letters=0 if system is None else system.dead_letters.count,
        ),
        report=report,
    )


def _run(pipeline: Pipeline) -> ShutdownReport:
    config = RuntimeConfig(name="demo", shutdown_within=pipeline.settings.within)
    try:
        return Runtime.plan(config).build().run(pipeline.main)
    except StartFailed as failure:
        if isinstance(failure.cause, DemoError):
            raise failure.cause from failure
        raise
    except ExceptionGroup as failures:
        # An actor that fails takes the run with it, and others may have failed for want of it.
        ours = failures.subgroup(DemoError)
        if ours is None:
            raise
        raise leaves(ours)[0] from failures


def _earlier(settings: Settings) -> Checkpoint:
    """What earlier runs have counted, if that is wanted, was not finished, and is of this directory."""
    root, path = settings.path, settings.checkpoint_path()
    try:
        if not stat.S_ISDIR(os.stat(root).st_mode):
            raise PathUnusable(root, "is no directory")
    except OSError as error:
        raise PathUnusable(root, f"cannot be read ({reason_of(error)})") from error
    found = load(path)
    resolved = str(root.resolve())
    if settings.checkpoint is None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointUnwritable(path, reason_of(error)) from error
    if found is None or found.finished or settings.fresh:
        return Checkpoint(resolved)
    if found.root != resolved:
        raise CheckpointRefused(path, f"is of a run over {found.root}: name another, or give --fresh to replace it")
    return found
