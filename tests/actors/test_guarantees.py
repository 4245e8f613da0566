"""Every sentence of the guarantees names its test, and the test is there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from tests.conformance import ROOT

PAGES = sorted([*ROOT.glob("docs/guarantees*.md"), *ROOT.glob("docs/_guarantees*.md")])
ENTRY = re.compile(r"^- (?P<sentence>.+?[.]) `(?P<test>test_\w+)`$", re.DOTALL)


def entries(page: Path) -> list[str]:
    """The items of the page's lists, each with the lines that continue it."""
    found: list[str] = []
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("- "):
            found.append(line)
            inside = True
        elif inside and line.startswith("  ") and line.strip():
            found[-1] += f"\n{line.strip()}"
        else:
            inside = False
    return found


def names_of_tests() -> Counter[str]:
    """The names of all test functions, and how often each is there."""
    names: Counter[str] = Counter()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                names[node.name] += 1
    return names


def test_every_guarantee_names_a_test_that_exists() -> None:
    assert PAGES
    named: Counter[str] = Counter()
    for page in PAGES:
        for entry in entries(page):
            match = ENTRY.match(entry)
            assert match, f"{page.name}: one sentence or more, then its test in backticks, not {entry!r}"
            named[match["test"]] += 1
    assert [name for name, count in named.items() if count > 1] == []
    there = names_of_tests()
    assert {name: there[name] for name in named if there[name] != 1} == {}
