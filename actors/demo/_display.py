"""The progress line, on a terminal only."""

from __future__ import annotations

from typing import TextIO

import attrs

from actors import Actor, Exit, Ref, handles

from ._messages import HowFar, Progress

PERIOD = 0.1
BAR = 24


@attrs.frozen
class Refresh:
    """To the display, from its own timer."""


class Display(Actor[Refresh]):
    """Asks the tally ten times a second how far it is, and draws one line over and over."""

    def __init__(self, tally: Ref[HowFar], terminal: TextIO) -> None:
        self._tally = tally
        self._terminal = terminal

    async def started(self) -> None:
        self.context.send_every(PERIOD, Refresh(), first=0)

    @handles(Refresh)
    async def refresh(self, _: Refresh) -> None:
        say(self._terminal, progress_line(await self._tally.ask(HowFar())))

    async def stopping(self, reason: Exit) -> None:
        say(self._terminal, "")


def say(terminal: TextIO, line: str) -> None:
    """Write a line in place of the progress line, if there is one."""
    terminal.write(f"\r\x1b[K{line}" if terminal.isatty() else line)
    terminal.flush()


def progress_line(progress: Progress) -> str:
    """How far it is, in less than the width of a terminal."""
    done = BAR * progress.settled // max(1, progress.expected)
    bar = "#" * done + "." * (BAR - done)
    files = f"{progress.settled:,}/{progress.expected:,} files"
    return f"[{bar}] {files}, {progress.lines:,} lines, {progress.healed} crashes healed"
