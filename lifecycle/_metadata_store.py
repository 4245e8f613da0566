"""Where the metadata writer keeps its contents: files, each in an envelope with its generation and a checksum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, final

from ._files import LocalFiles
from ._files_envelope import read_envelope, seal_envelope
from ._files_errors import EnvelopeMissing
from ._files_persist import persist
from ._files_sweep import sweep_temporaries
from ._metadata_types import LoadedMetadata

if TYPE_CHECKING:
    from pathlib import Path

    from ._files import FileLayer

MOST_DIRECTORIES: Final = 4096
"""So many directories are remembered as swept; one that was forgotten is swept again, which only takes time."""


class MetadataStore(Protocol):
    """What the writer needs of a place to write to. Both methods block, and are called in threads, several at a time
    for different targets. `FileStore` is the one for files; tests have others."""

    def write(self, target: Path, generation: int, data: bytes) -> None:
        """Make `data` the content of `target`, so that a power cut does not undo it. Raises `PersistFailed`; whatever
        else it raises is taken for an unknown outcome."""
        ...

    def read(self, target: Path) -> LoadedMetadata | None:
        """What `target` holds, and holds after a power cut; None if there is none. Raises `EnvelopeCorrupt`,
        `EnvelopeUnreadable`, `FormatTooNew`."""
        ...


@final
class FileStore:
    """Files of a `FileLayer`, in the envelope that `read_envelope` reads. What a dead process left of its writes is
    swept from each directory before it is first used."""

    def __init__(self, layer: FileLayer | None = None, *, file_mode: int | None = None) -> None:
        self._layer: FileLayer = LocalFiles() if layer is None else layer
        self._file_mode = file_mode
        self._swept: set[Path] = set()  # each step on it is atomic; two threads may sweep one directory, to no harm

    def write(self, target: Path, generation: int, data: bytes) -> None:
        """See `MetadataStore.write`."""
        self._sweep(target.parent)
        persist(self._layer, target, seal_envelope(generation, data), mode=self._file_mode)

    def read(self, target: Path) -> LoadedMetadata | None:
        """See `MetadataStore.read`. Syncs the file and its directory first; makes nothing."""
        try:
            if self._layer.status(target.parent) is not None:
                self._sweep(target.parent)
            found = read_envelope(self._layer, target, settle=True)
        except EnvelopeMissing:
            return None
        return LoadedMetadata(found.generation, found.data)

    def _sweep(self, directory: Path) -> None:
        if directory not in self._swept:
            try:
                sweep_temporaries(self._layer, directory)
            except OSError:
                return  # what is wrong with the directory is said by the write or the read itself
            if len(self._swept) >= MOST_DIRECTORIES:
                self._swept.clear()
            self._swept.add(directory)
