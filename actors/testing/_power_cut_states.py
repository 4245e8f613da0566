"""The states that a power cut may leave: a recording is gone through again, up to each moment that matters."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, final

import attrs

from ._memory_changes import Synced
from ._memory_files import MemoryFiles
from ._power_cut_disk import Disk
from ._power_cut_moment import Moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lifecycle import FileLayer

    from ._memory_changes import Change
    from ._power_cut_disk import Entries
    from ._power_cut_moment import Image


@attrs.frozen
class Begun:
    """From here on a value may be found."""

    value: object


@attrs.frozen
class Acknowledged:
    """From here on a value must be found, or a later one."""

    value: object


@attrs.frozen
class Called:
    """A change, and the call that made it, in words."""

    change: Change
    call: str


Event: TypeAlias = Begun | Acknowledged | Called


@final
@attrs.frozen
class CutState:
    """What a power cut may have left, and what had been promised when it came."""

    number: int
    """From 1, in the order in which the states come."""
    after: int
    """How many changing calls had been carried out, or at least been begun."""
    call: str
    """The last of them; empty if there was none."""
    begun: tuple[object, ...]
    """All values that had been begun, in order."""
    acknowledged: tuple[object, ...]
    """All values that had been acknowledged, in order."""
    lost: tuple[str, ...]
    """What is missing of what had been done."""
    _files: tuple[tuple[Path, bytes, int], ...] = attrs.field(repr=False)
    _directories: tuple[Path, ...] = attrs.field(repr=False)

    @property
    def files(self) -> Mapping[Path, bytes]:
        """The content of each file."""
        return {path: content for path, content, _ in self._files}

    @property
    def possible(self) -> tuple[object, ...]:
        """What a register may hold: the value acknowledged last (None without one), or one that was begun after it."""
        if not self.acknowledged:
            return (None, *self.begun)
        last = self.acknowledged[-1]
        place = max(place for place, value in enumerate(self.begun) if value == last)
        return self.begun[place:]

    def layer(self) -> FileLayer:
        """These files, in memory. A new tree with each call: recovery may change it."""
        return MemoryFiles({path: (content, mode) for path, content, mode in self._files}, self._directories)

    def write_to(self, directory: Path) -> None:
        """Put these files, by their paths from the root, below a real directory: for recovery by another program."""
        for path in self._directories:
            (directory / path.relative_to("/")).mkdir(parents=True, exist_ok=True)
        for path, content, mode in self._files:
            place = directory / path.relative_to("/")
            place.write_bytes(content)
            place.chmod(mode)


@attrs.define
class Recording:
    """What was there at the start, durable, and all that has happened since."""

    files: Mapping[int, tuple[bytes, int]]
    directories: Entries
    block: int
    events: list[Event] = attrs.field(factory=list)


@final
class CutStates:
    """The states that a power cut could leave: an iterable, to be gone through as often as you like."""

    def __init__(self, recording: Recording, seed: int, limit: int) -> None:
        self.seed = seed
        self.limit = limit
        self._recording = recording
        self._events = tuple(recording.events)
        self._counts = [moment.count() for moment, _ in self._moments()]

    def __repr__(self) -> str:
        kind = "all" if self.exhaustive else f"by seed {self.seed}, {self.limit} of"
        return f"<CutStates {kind} {self.total}>"

    @property
    def total(self) -> int:
        """How many there are, alike ones counted apart; at most so many if there are very many."""
        return sum(self._counts)

    @property
    def exhaustive(self) -> bool:
        """Whether all of them come. Otherwise at most `limit` do, chosen by the seed, and these always the same."""
        return self.total <= self.limit

    def __iter__(self) -> Iterator[CutState]:
        dice = random.Random(self.seed)
        shares = self._counts if self.exhaustive else _shares(self._counts, self.limit, dice)
        seen: set[int] = set()
        number = 0
        for (moment, told), share, count in zip(self._moments(), shares, self._counts, strict=True):
            images = moment.every() if share >= count else moment.some(share, dice) if share else ()
            for image in images:
                key = hash((len(told.begun), len(told.acknowledged), image.files, image.directories))
                if key not in seen:
                    seen.add(key)
                    number += 1
                    yield told.state(number, image)

    def _moments(self) -> Iterator[tuple[Moment, _Told]]:
        """Each moment at which a cut may leave what no later cut can.

        Changes only add to what may be left, so it is enough to look before something narrows it or is promised.
        """
        disk = Disk(self._recording.files, self._recording.directories, self._recording.block)
        told = _Told()
        for event in self._events:
            if not isinstance(event, Called) or isinstance(event.change, Synced):
                yield Moment(disk), told
            told.take(event)
            if isinstance(event, Called):
                disk.apply(event.change, event.call)
        yield Moment(disk), told


@attrs.define
class _Told:
    """What has happened up to a moment."""

    calls: int = 0
    call: str = ""
    begun: tuple[object, ...] = ()
    acknowledged: tuple[object, ...] = ()

    def take(self, event: Event) -> None:
        match event:
            case Called(call=call):
                self.calls += 1
                self.call = call
            case Begun(value=value):
                self.begun += (value,)
            case Acknowledged(value=value):
                self.acknowledged += (value,)

    def state(self, number: int, image: Image) -> CutState:
        return CutState(
            number,
            self.calls,
            self.call,
            self.begun,
            self.acknowledged,
            image.lost,
            image.files,
            image.directories,
        )


def _shares(counts: list[int], limit: int, dice: random.Random) -> list[int]:
    """How many states each moment gets: small ones all of theirs, the others the same number of the rest."""
    shares = [0] * len(counts)
    order = sorted(range(len(counts)), key=counts.__getitem__)
    if len(order) > limit:
        last = len(counts) - 1
        order = sorted([*dice.sample(range(last), limit - 1), last], key=counts.__getitem__)
    for place, moment in enumerate(order):
        shares[moment] = min(counts[moment], limit // (len(order) - place))
        limit -= shares[moment]
    return shares
