"""The envelope of a small durable file: a line with format, generation, length and checksum, then the content.

    tenure 1 42 17 3f0c…\n
    the content, as it is

It finds damage, not forgery: the checksum is XXH3, 128 bits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ._errors import FormatTooNew
from ._files_errors import EnvelopeCorrupt, EnvelopeMissing, EnvelopeUnreadable

if TYPE_CHECKING:
    from pathlib import Path

    from ._files import FileData, FileLayer

ENVELOPE_FORMAT: Final = 1
"""The format of the envelopes that `seal_envelope` makes, and the newest that `read_envelope` reads."""

# "tenure ", then at most 20 digits each for format, generation and length, 32 for the checksum, and the separators.
_LONGEST_HEAD: Final = 104
_MAGIC: Final = re.compile(rb"tenure ([1-9][0-9]{0,19}) ")
_HEAD: Final = re.compile(rb"tenure 1 (0|[1-9][0-9]{0,19}) (0|[1-9][0-9]{0,19}) ([0-9a-f]{32})\n")
_NUMBERS: Final = 2**64


class Envelope(NamedTuple):
    """What a sealed file holds, checked."""

    generation: int
    data: bytes


def seal_envelope(generation: int, data: FileData) -> bytes:
    """The bytes of a file that holds `data` as generation `generation`, 0 to 2**64 - 1, for `read_envelope`."""
    if not 0 <= generation < _NUMBERS:
        raise ValueError(f"a generation is a number from 0 to 2**64 - 1, not {generation!r}")
    numbers = b"%d %d" % (generation, memoryview(data).nbytes)
    head = b"tenure %d %b %b\n" % (ENVELOPE_FORMAT, numbers, _digest(numbers, data))
    return b"".join((head, data))


def read_envelope(layer: FileLayer, target: Path, *, settle: bool = False) -> Envelope:
    """What the file `target` holds: generation and content, both checked. Links are followed.

    What is read need not be on the disk yet, when it was written by somebody who died or failed before the last step.
    With `settle` the file and its directory are synced first, so that a power cut does not take back what this returns:
    for an owner's start, and after a write whose outcome is unknown.

    Blocking; takes as much memory as the file has bytes. Raises `EnvelopeMissing`, `EnvelopeCorrupt`,
    `EnvelopeUnreadable`, and `FormatTooNew` for a file of a later version. Changes nothing.
    """
    try:
        return open_envelope(target, _read(layer, target, settle))
    except FileNotFoundError as error:
        raise EnvelopeMissing(target) from error
    except OSError as error:
        raise EnvelopeUnreadable(target) from error


def open_envelope(target: Path, sealed: bytes) -> Envelope:
    """The same for bytes that were read already; `target` is for the errors alone."""
    magic = _MAGIC.match(sealed)
    if magic is None:
        raise EnvelopeCorrupt(target, "it does not begin as a sealed file does" if sealed else "it is empty")
    found = int(magic[1])
    if found > ENVELOPE_FORMAT:
        raise FormatTooNew(f"file {str(target)!r}", found, ENVELOPE_FORMAT)
    head = _HEAD.match(sealed, 0, _LONGEST_HEAD)
    if head is None:
        raise EnvelopeCorrupt(target, "its first line is not that of a sealed file")
    generation, length = int(head[1]), int(head[2])
    data = sealed[head.end() :]
    if len(data) != length:
        raise EnvelopeCorrupt(target, f"it has {len(data)} bytes of content and should have {length}")
    if _digest(b"%d %d" % (generation, length), data) != head[3]:
        raise EnvelopeCorrupt(target, "its checksum is not that of its content")
    return Envelope(generation, data)


def _read(layer: FileLayer, target: Path, settle: bool) -> bytes:
    place = layer.resolve(target)
    with layer.open(place) as file:
        if settle:
            file.sync()
            layer.sync_directory(place.parent)
        return file.read(file.status().size, 0)


def _digest(numbers: bytes, data: FileData) -> bytes:
    import xxhash

    digest = xxhash.xxh3_128(numbers + b"\n")
    digest.update(data)
    return digest.hexdigest().encode()
