"""Every block of code in the README runs."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator

import pytest

from tests.conformance import ROOT
from tests.examples.programs import python, run

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [line for language, block in BLOCKS if language == "sh" for line in block.splitlines()]


def programs() -> Iterator[tuple[str, str]]:
    """Each program with its output: the blocks of Python up to one of text."""
    program = ""
    for language, block in BLOCKS:
        if language == "python":
            program += block
        elif language == "text":
            yield program, block
            program = ""
    assert program == "", "a block of Python that is followed by no output"


def test_every_block_is_of_a_known_kind() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "text", "sh"}


@pytest.mark.parametrize(("program", "output"), list(programs()), ids=["hello", "account"])
def test_a_program_prints_what_the_readme_says(program: str, output: str) -> None:
    status, shown, errors = python("-c", program)
    assert (status, shown) == (0, output)
    assert ("crashed" in errors) == ("crashed" in program)  # every crash is logged


def test_hello_and_an_actor_of_your_own_have_ten_lines() -> None:
    hello, account = (block for language, block in BLOCKS[:5] if language == "python")
    assert len([line for line in hello.splitlines() if line]) == 10
    own = account[account.index("@attrs") :]
    assert len([line for line in own.splitlines() if line]) == 10


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_is_one_that_the_makefile_knows(line: str) -> None:
    program, *arguments = shlex.split(line)
    assert program == "make"
    status, errors = run(program, "--dry-run", *arguments)[::2]
    assert status == 0, errors


def test_every_link_leads_somewhere() -> None:
    pages = {page for page in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in page}
    assert {page for page in pages if not (ROOT / page).exists()} == set()
