"""Every block of Python on a page of the documentation runs, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance import ROOT
from tests.examples.programs import python

PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, block in enumerate(BLOCK.findall(page.read_text()), 1)
]


def test_there_are_programs_to_run() -> None:
    assert {"actors-1", "lifecycle-1", "testing-1"} <= {program.id for program in PROGRAMS}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_a_page_runs(program: str) -> None:
    status, _, errors = python("-c", program)
    assert status == 0, errors


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = {link for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()) if "://" not in link}
    assert {link for link in links if not (page.parent / link).exists()} == set()
