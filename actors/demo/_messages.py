"""The messages of the pipeline, in the order in which a file meets them."""

from __future__ import annotations

import attrs

from actors import Request

from ._counts import Counts
from ._files import File


@attrs.frozen
class Read(Request[None]):
    """To a reader: read this file and see to it that it is counted. Answered when the tally has been told."""

    path: str


@attrs.frozen
class Count(Request[Counts]):
    """To a worker: count this part of a file."""

    text: bytes
    kind: str
    place: str
    """Which part it is, for the fault plan."""
    attempt: int


@attrs.frozen
class Counted:
    """To the tally: this is what the file holds."""

    file: File
    kind: str
    counts: Counts
    crashes: int = 0
    """Crashes of workers that it took."""


@attrs.frozen
class Failed:
    """To the tally: the file cannot be counted."""

    path: str
    reason: str


@attrs.frozen
class Save:
    """To the tally, from its own timer: write a checkpoint."""


@attrs.frozen
class Progress:
    """How far the tally is."""

    settled: int
    expected: int
    lines: int
    healed: int


@attrs.frozen
class HowFar(Request[Progress]):
    """To the tally: how far are you?"""
