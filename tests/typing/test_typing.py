"""Both type checkers, in strict mode, report exactly the mistakes that are marked."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.conformance import ROOT

HERE = Path(__file__).parent
FILES = ("surface.py", "planted.py", "runtime_surface.py", "runtime_planted.py")
MARK = re.compile(r"#\s*BAD\b")

Place: TypeAlias = "tuple[str, int]"
"""A file and the first line of a statement in it, or of its head: a decorator and its `def` are one place."""


def places(name: str) -> list[int]:
    """For each line of the file, from 1 on, the first line of the place that it belongs to."""
    text = (HERE / name).read_text(encoding="utf-8")
    found = list(range(len(text.splitlines()) + 1))
    for node in ast.walk(ast.parse(text)):  # outer ones first
        if isinstance(node, ast.stmt):
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            found[first : last + 1] = [first] * (last + 1 - first)
    return found


def marked() -> set[Place]:
    found: set[Place] = set()
    for name in FILES:
        lines = (HERE / name).read_text(encoding="utf-8").splitlines()
        place_of = places(name)
        found |= {(name, place_of[number]) for number, line in enumerate(lines, 1) if MARK.search(line)}
    return found


def run(*command: str) -> str:
    """The standard output of a checker. It fails where it finds something."""
    paths = [str(HERE.relative_to(ROOT) / name) for name in FILES]
    done = subprocess.run([*command, *paths], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def compare(messages: list[tuple[str, int, str]]) -> None:
    """Raises with what was reported without a mark, and with the marks where nothing was reported."""
    place_of = {name: places(name) for name in FILES}
    reported: dict[Place, str] = {}
    for name, line, text in messages:
        assert name in FILES, f"{name}:{line}: {text}"
        reported[name, place_of[name][line]] = text
    expected = marked()
    surplus = [
        f"{name}:{line}: {text}" for (name, line), text in sorted(reported.items()) if (name, line) not in expected
    ]
    missing = [f"{name}:{line}: nothing is reported here" for name, line in sorted(expected - reported.keys())]
    assert "\n".join(surplus + missing) == ""


def test_mypy_reports_exactly_the_planted_errors() -> None:
    pytest.importorskip("mypy", reason="mypy comes with the extra `test`")
    output = run(sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--follow-imports=silent")
    found = re.findall(r"^(.+?):(\d+): error: (.*)$", output, re.MULTILINE)
    compare([(Path(path).name, int(line), text) for path, line, text in found])


def test_basedpyright_reports_exactly_the_planted_errors() -> None:
    pytest.importorskip("basedpyright", reason="basedpyright comes with the extra `test`")
    output = run(sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable)
    compare(
        [
            (Path(found["file"]).name, found["range"]["start"]["line"] + 1, f"{found['message']} [{found.get('rule')}]")
            for found in json.loads(output)["generalDiagnostics"]
        ]
    )
