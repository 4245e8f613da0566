"""What the packages export is there, documented, and typed in full."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conformance import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("lifecycle", "transport", "actors", "actors.testing", "actors.scheduled", "actors.metadata_io")


def exported(package: str) -> list[str]:
    return list(importlib.import_module(package).__all__)


NAMES = [(package, name) for package in PACKAGES for name in exported(package)]


def run(*command: str, cwd: Path) -> str:
    """Standard output. From elsewhere than the root, the packages are found as if they were installed."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("package", PACKAGES)
def test_the_exported_names_are_sorted_and_there_once(package: str) -> None:
    names = exported(package)
    assert sorted(set(names)) == sorted(names)
    assert [name for name in names if name.startswith("_")] == []


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_an_exported_name_is_there_and_documented(package: str, name: str) -> None:
    value = getattr(importlib.import_module(package), name)
    if inspect.isclass(value) or inspect.isroutine(value):
        assert value.__doc__, f"{package}.{name} has no docstring"
    else:
        assert name in documented_assignments(package), f"{package}.{name} has no string below it that says what it is"


@cache
def documented_assignments(package: str) -> frozenset[str]:
    """The names in a package's modules whose assignment is followed by a string."""
    origin = inspect.getsourcefile(importlib.import_module(package))
    assert origin is not None
    found: set[str] = set()
    for path in Path(origin).parent.glob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for assignment, text in pairwise(body):
            if (
                isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                match assignment:
                    case ast.AnnAssign(target=target) | ast.Assign(targets=[target]):
                        found.add(ast.unparse(target))
                    case _:
                        pass
    return frozenset(found)


def public_members(cls: type[object]) -> Iterator[tuple[str, object]]:
    """A name that begins or ends with an underscore is the framework's own."""
    for name, value in vars(cls).items():
        if not name.startswith("_") and not name.endswith("_"):
            if isinstance(value, (staticmethod, classmethod)):
                yield name, value.__func__
            elif inspect.isroutine(value) or isinstance(value, property):
                yield name, value


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_the_public_methods_of_an_exported_class_are_documented(package: str, name: str) -> None:
    cls = getattr(importlib.import_module(package), name)
    if inspect.isclass(cls):
        bare = [
            member
            for member, value in public_members(cls)
            if not inspect.getdoc(value) and not inspect.getdoc(getattr(cls, member))
        ]
        assert bare == []


def test_mypy_knows_the_type_of_every_exported_name(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy comes with the extra `test`")
    imports = [f"import {package}" for package in PACKAGES]
    reveals = [f"reveal_type({package}.{name})" for package, name in NAMES]
    program = tmp_path / "program.py"
    program.write_text("\n".join([*imports, *reveals]))
    options = ("--strict", "--no-pretty", "--config-file=")
    output = run(sys.executable, "-m", "mypy", *options, program.name, cwd=tmp_path)
    assert re.findall(r"^.*: error: .*$", output, re.MULTILINE) == []
    types = re.findall(r'note: Revealed type is "(.*)"', output)
    assert len(types) == len(NAMES)
    unknown = [f"{package}.{name}" for (package, name), found in zip(NAMES, types, strict=True) if found == "Any"]
    assert unknown == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_types_of_the_public_interface_are_complete(tmp_path: Path, package: str) -> None:
    pytest.importorskip("basedpyright", reason="basedpyright comes with the extra `test`")
    options = ("--pythonpath", sys.executable, "--verifytypes", package, "--ignoreexternal", "--outputjson")
    found = json.loads(run(sys.executable, "-m", "basedpyright", *options, cwd=tmp_path))["typeCompleteness"]
    gaps = [
        f"{symbol['name']}: {problem['message']}"
        for symbol in found["symbols"]
        for problem in symbol["diagnostics"]
        if not symbol["isTypeKnown"]
    ]
    assert gaps == []
    assert found["exportedSymbolCounts"]["withKnownType"] >= len(exported(package))
    assert found["completenessScore"] == 1
