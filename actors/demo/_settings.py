"""What a run is told."""

from __future__ import annotations

import hashlib
import os
import sysconfig
import tempfile
from pathlib import Path
from typing import TextIO

import attrs


def standard_library() -> Path:
    """Where the sources of Python's own library are."""
    return Path(sysconfig.get_path("stdlib"))


@attrs.frozen
class Settings:
    """A run of the pipeline."""

    path: Path = attrs.field(factory=standard_library)
    """The directory to count."""
    checkpoint: Path | None = None
    """Where the checkpoint is; None for a file in the user's cache that belongs to the directory."""
    workers: int = 4
    fault_rate: float = 0.02
    """The share of tries that crash a worker on purpose."""
    seed: int = 1
    """Which tries these are."""
    within: float = 10.0
    """Seconds from Ctrl-C to the end of everything."""
    limit: int | None = None
    """How many files are counted at most."""
    every: float = 1.0
    """Seconds from one checkpoint to the next."""
    pace: float = 0.0
    """Seconds over which the files are spread, so that there is something to watch; 0: as fast as it goes."""
    fresh: bool = False
    """Start anew, whatever the checkpoint says."""
    terminal: TextIO | None = None
    """Where the progress line is drawn, and remarks during the run are written."""

    def checkpoint_path(self) -> Path:
        """The checkpoint's file."""
        if self.checkpoint is not None:
            return self.checkpoint.absolute()
        root = os.fsencode(self.path.resolve())
        return _cache() / "tenure" / f"demo-{hashlib.blake2s(root, digest_size=6).hexdigest()}.json"


def _cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return Path(named)
    try:
        return Path.home() / ".cache"
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir())
