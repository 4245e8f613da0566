"""What a power cut can do to files: records what is done to them and rebuilds every state that could be left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, cast, final

import attrs

from actors import InvalidSetting

from ._errors import PowerCutFailed
from ._memory_files import MemoryFiles
from ._power_cut_states import Acknowledged, Begun, Called, CutState, CutStates, Recording

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lifecycle import FileLayer

    from ._memory_changes import Change

T = TypeVar("T")

CutRule: TypeAlias = "Literal['latest', 'log'] | Callable[[CutState, T], object]"
"""What recovery must give: *latest* or *log*, see `PowerCut.check`; or a function that says false if it is wrong."""

_DATA: Final = Path("/data")


@final
@attrs.frozen
class CutReport:
    """How much a check has looked at."""

    states: int
    """Different states that were recovered from."""
    total: int
    """States that there are, alike ones counted apart; at most so many if there are very many."""
    exhaustive: bool
    """Whether these were all. Otherwise they are a choice, by the seed."""
    seed: int

    def __str__(self) -> str:
        if self.exhaustive:
            return f"all states after a power cut, {self.states} different ones"
        return f"{self.states} of at most {self.total} states after a power cut, chosen by seed {self.seed}"


@final
class PowerCut:
    """A `FileLayer` in memory whose power can be cut at any moment.

    Give `layer()` to what writes, tell it `begin(value)` before a value is written and `acknowledge(value)` when its
    writer is told that it is durable, then let `check` recover from every state that a cut, at any moment from the
    first call to the last, could have left:

    - of a file, what was written since its last sync, in any part: each block of `block` bytes as it was, or as any
      write since made it, or one block torn in the middle; the size and the mode as at any moment since; zeros where
      the size came and the data did not;
    - of the directories, any part of what was created, renamed and removed since they were last synced. A rename is
      done or not done; one between two directories needs both synced. Two changes of one file's name do not swap.

    This is more than any file system does at its worst, and all that POSIX leaves open. No state has another file's
    data, a bad sector, or a synced byte that is gone. `directory` is there from the start, durable; or, instead of it,
    the files of `start`, a state of another cut. Any number of threads may use the layer. Raises `InvalidSetting`.
    """

    def __init__(self, directory: Path = _DATA, *, block: int = 512, start: CutState | None = None) -> None:
        if block < 1:
            raise InvalidSetting(f"a block has at least one byte, not {block}")
        tree = MemoryFiles({}, (directory,)) if start is None else start.layer()
        assert isinstance(tree, MemoryFiles)
        self._tree = tree
        self._recording = Recording(*tree.nodes(), block)
        tree.tell = self._record

    def __repr__(self) -> str:
        return f"<PowerCut, {len(self._recording.events)} events>"

    def layer(self) -> FileLayer:
        """The layer on which it records; the same one each time."""
        return self._tree

    def _record(self, change: Change, call: str) -> None:
        self._recording.events.append(Called(change, call))

    def begin(self, value: object) -> None:
        """From here on, a state may hold the value. Not needed for one whose write is over when it is acknowledged."""
        self._recording.events.append(Begun(value))

    def acknowledge(self, value: object) -> None:
        """From here on, every state must hold the value, or what replaced it."""
        if not any(isinstance(event, Begun) and event.value == value for event in self._recording.events):
            self.begin(value)
        self._recording.events.append(Acknowledged(value))

    def kill(self) -> None:
        """The process dies here, and the power stays: open files are closed, locks are free, nothing written is lost.

        What is in the layer then is what another process would find, and still need not be on the disk.
        """
        self._tree.kill()

    def states(self, *, seed: int = 0, limit: int = 5000) -> CutStates:
        """Every state that a power cut could have left by now if there are at most `limit`; else a choice by `seed`."""
        if limit < 1:
            raise InvalidSetting(f"at least one state must be looked at, not {limit}")
        return CutStates(self._recording, seed, limit)

    def check(
        self,
        recover: Callable[[FileLayer], T],
        rule: CutRule[T] = "latest",
        *,
        seed: int = 0,
        limit: int = 5000,
        again: int = 0,
    ) -> CutReport:
        """Recover from each state, and fail with `PowerCutFailed` if one breaks the rule, or if recovery raises.

        `recover` gets the files and returns what it has found in them. *latest*, for one value that is replaced: that
        must be the last acknowledged value, None without one, or a value that was begun after it. *log*, for values
        that are appended: it must be a list or tuple of values in the order in which they were begun, none left out,
        with all the acknowledged ones. A function gets the state and what was found, and returns something false if
        that is wrong.

        With `again`, the power is cut in each recovery too, and at most so many states of that are recovered from: what
        a recovery has returned once must not change any more. Returns what was looked at, all or a choice.
        """
        states = self.states(seed=seed, limit=limit)
        number = 0
        for state in states:
            found = _recover(recover, state, state, rule, ())
            number += 1
            if again:
                number += _again(recover, state, rule, found, seed, again)
        return CutReport(number, states.total, states.exhaustive, seed)


def _recover(
    recover: Callable[[FileLayer], T], state: CutState, base: CutState, rule: CutRule[T], settled: tuple[T, ...]
) -> T:
    """What is found in a state. The rule is that of the base state: what was promised before the first cut."""
    try:
        found = recover(state.layer())
    except Exception as error:
        raise PowerCutFailed(_tell(base, state), f"recovery raised {error!r}") from error
    problem = _broken(base, found, rule)
    if problem is None and settled and found != settled[0]:
        problem = f"recovery found {found!r}, and had found {settled[0]!r} before the second cut"
    if problem is not None:
        raise PowerCutFailed(_tell(base, state), problem)
    return found


def _again(recover: Callable[[FileLayer], T], base: CutState, rule: CutRule[T], found: T, seed: int, limit: int) -> int:
    second = PowerCut(start=base)
    settled = recover(second.layer())
    if settled != found:
        raise PowerCutFailed(_tell(base, base), f"recovery found {found!r}, and then {settled!r} in the same files")
    second.acknowledge(settled)
    number = 0
    for state in second.states(seed=seed, limit=limit):
        _recover(recover, state, base, rule, (settled,) if state.acknowledged else ())
        number += 1
    return number


def _broken(state: CutState, found: T, rule: CutRule[T]) -> str | None:
    if rule == "latest":
        return None if found in state.possible else f"recovery found {found!r}, which is none of {state.possible!r}"
    if rule == "log":
        return _broken_log(state, found)
    return None if rule(state, found) else f"recovery found {found!r}, which breaks the rule"


def _broken_log(state: CutState, found: object) -> str | None:
    if isinstance(found, (list, tuple)):
        values = tuple(cast("Sequence[object]", found))
        if values == state.begun[: len(values)] and all(value in values for value in state.acknowledged):
            return None
    return f"recovery found {found!r}, of {state.begun!r} with {state.acknowledged!r} acknowledged"


def _tell(base: CutState, state: CutState) -> tuple[str, ...]:
    lines = _lines(base)
    return lines if state is base else (*lines, "and in the recovery from that:", *_lines(state))


def _lines(state: CutState) -> tuple[str, ...]:
    moment = f"state {state.number}: the power is cut after call {state.after}, {state.call or 'before any'}"
    return (moment, *(f"  lost: {what}" for what in state.lost))
