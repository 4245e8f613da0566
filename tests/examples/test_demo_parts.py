"""The parts of the demo that its runs from outside do not reach: blocks, long lines, files that change meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from actors import Inbox, System, open_system
from actors.demo._counts import MOST_TOKENS, TOKENS_OF_A_FILE, Counts, Sum, count_text
from actors.demo._errors import FileChanged, NotAFile
from actors.demo._faults import Faults, PlannedFault
from actors.demo._files import BLOCK, LONGEST_LINE, list_files, open_file, read_block
from actors.demo._messages import Count, Counted, Failed, Read
from actors.demo._reader import TRIES, Reader


def append(path: Path) -> None:
    with open(path, "ab") as file:
        file.write(b"more\n")


def blocks(root: Path, path: str) -> list[bytes]:
    file, block = open_file(root, path)
    found = [block]
    while sum(map(len, found)) < file.size:
        found.append(read_block(root, file, sum(map(len, found))))
    return found


@pytest.mark.parametrize("line", [b"word\n", b"x" * 99 + b"\n", b"y" * (BLOCK - 1) + b"\n", b"z" * (BLOCK + 5) + b"\n"])
def test_blocks_end_where_lines_do_and_make_up_the_file(tmp_path: Path, line: bytes) -> None:
    content = line * (10 * BLOCK // len(line) + 1) + b"the end"
    (tmp_path / "f").write_bytes(content)
    found = blocks(tmp_path, "f")
    whole = b"".join(found) == content  # apart, since pytest would show the difference
    assert whole
    assert len(found) > 1
    assert all(block.endswith(b"\n") for block in found[:-1])
    assert max(map(len, found)) <= max(BLOCK, LONGEST_LINE)


def test_a_line_that_is_too_long_is_read_in_parts(tmp_path: Path) -> None:
    content = b"x" * (LONGEST_LINE + 10) + b"\nend\n"
    (tmp_path / "f").write_bytes(content)
    found = blocks(tmp_path, "f")
    whole = b"".join(found) == content
    assert whole
    assert len(found[0]) == LONGEST_LINE


def test_a_file_that_changes_between_two_blocks_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"word\n" * BLOCK)
    file, block = open_file(tmp_path, "f")
    append(tmp_path / "f")
    with pytest.raises(FileChanged):
        read_block(tmp_path, file, len(block))
    os.truncate(tmp_path / "f", 10)
    with pytest.raises(FileChanged):
        read_block(tmp_path, file, len(block))


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (".", "pipe"):
        with pytest.raises(NotAFile):
            open_file(tmp_path, path)
    assert list_files(tmp_path).files == {}


def test_counts_of_parts_add_up_to_those_of_the_whole() -> None:
    lines = [f"def f{n}(): return spam{n % 5}\n" for n in range(100)]
    whole = Sum()
    whole.add(count_text("".join(lines).encode(), "python"))
    parts = Sum()
    for line in lines:
        parts.add(count_text(line.encode(), "python"))
    assert parts == whole
    assert whole.functions == whole.lines == 100
    assert len(whole.of_a_file().tokens) <= TOKENS_OF_A_FILE


def test_a_sum_holds_a_bounded_number_of_tokens() -> None:
    total = Sum()
    total.add(Counts(0, 0, 0, {"often": 1_000_000}))
    for start in range(0, 2 * MOST_TOKENS, 10_000):
        total.add(Counts(0, 0, 0, {f"rare{n}": 1 for n in range(start, start + 10_000)}))
        assert len(total.tokens) <= MOST_TOKENS
    assert total.tokens["often"] == 1_000_000


def test_faults_depend_on_the_work_alone() -> None:
    def crashes(faults: Faults) -> list[tuple[int, int]]:
        found = []
        for n in range(300):
            for attempt in (1, 2):
                try:
                    faults.strike(f"file{n}", attempt)
                except PlannedFault:
                    found.append((n, attempt))
        return found

    assert crashes(Faults(1, 0.1)) == crashes(Faults(1, 0.1)) != crashes(Faults(2, 0.1))
    assert 30 < len(crashes(Faults(1, 0.1))) < 90
    assert set(crashes(Faults(1, 0.1))) < set(crashes(Faults(1, 0.2)))
    assert crashes(Faults(1, 0)) == []
    assert len(crashes(Faults(1, 1))) == 600


# ---------------------------------------------------------------- the reader, with a log in use


async def read_log(system: System, root: Path, changes: int) -> Counted | Failed:
    """What a reader reports of a file that changes, the first `changes` times, while its first block is counted."""
    told: list[Counted | Failed] = []

    async def worker(inbox: Inbox[Count]) -> None:
        changed = 0
        async for msg in inbox:
            if msg.place.endswith(":0") and changed < changes:
                changed += 1
                append(root / "log")
            inbox.reply(msg, count_text(msg.text, msg.kind))

    async def tally(inbox: Inbox[Counted | Failed]) -> None:
        told.extend([msg async for msg in inbox])

    (root / "log").write_bytes(b"word\n" * BLOCK)
    workers = await system.pool(worker, size=1)
    ref = await system.spawn(tally)
    reader = await system.spawn(Reader, root, workers, ref, trio.CapacityLimiter(1))
    await reader.ask(Read("log"))
    await ref.drain()
    (report,) = told
    return report


async def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    async with open_system() as system:
        report = await read_log(system, tmp_path, TRIES - 1)
    assert isinstance(report, Counted)
    assert report.counts.lines == BLOCK + TRIES - 1
    assert report.file.size == (tmp_path / "log").stat().st_size


async def test_a_file_that_never_keeps_still_is_reported(tmp_path: Path) -> None:
    async with open_system() as system:
        report = await read_log(system, tmp_path, TRIES)
    assert report == Failed("log", "changed while it was read")
