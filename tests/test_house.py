"""The house: what the wheel holds, who may import whom, what the Makefile and the marks say when something is wrong."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conformance import ROOT, MalformedRow, row_of

PACKAGES = ("lifecycle", "leases", "transport", "actors")
APT = "apt install python3 python3-venv make"


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs to the end, output kept; outer options for pytest and make do not reach in."""
    outer = ("PYTEST_ADDOPTS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHONPATH")
    env = {name: value for name, value in os.environ.items() if name not in outer}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=100, check=False)


def copy(target: Path, *names: str) -> Path:
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


# ---------------------------------------------------------------- the wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    pytest.importorskip("hatchling", reason="hatchling comes with the extra `test`")
    place = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    (path,) = place.glob("tenure-*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_the_four_packages_only(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    (info,) = {name.partition("/")[0] for name in names} - set(PACKAGES)
    assert info.startswith("tenure-")
    assert info.endswith(".dist-info")
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert [name for name in names if "__pycache__" in name] == []


def test_the_wheel_names_its_program_and_its_pytest_plugin(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    points = configparser.ConfigParser()
    points.read_string(wheel.read(name).decode())
    assert dict(points["console_scripts"]) == {"tenure": "actors.cli:main"}
    assert dict(points["pytest11"]) == {"tenure": "actors.testing._plugin"}


# ---------------------------------------------------------------- imports


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("importlinter", reason="import-linter comes with the extra `test`")
    program = "from importlinter.cli import lint_imports_command as main; main()"
    return run(sys.executable, "-c", program, "--no-cache", cwd=root)


def test_the_direction_of_imports_is_kept(tmp_path: Path) -> None:
    result = lint_imports(copy(tmp_path, "pyproject.toml", *PACKAGES))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("lifecycle._planted", "leases"),
        ("lifecycle._planted", "actors"),
        ("leases._planted", "transport"),
        ("transport._planted", "leases"),
        ("leases._planted", "actors"),
        ("actors._planted", "actors.testing"),
        ("actors._planted", "actors.mq._planted"),
        ("actors", "actors.cli"),
    ],
)
def test_a_planted_import_against_the_direction_is_found(tmp_path: Path, importer: str, imported: str) -> None:
    copy(tmp_path, "pyproject.toml")
    for module in (*PACKAGES, importer, imported):
        plant(tmp_path, module)
    path = plant(tmp_path, importer)
    path.write_text(f"import {imported}\n")
    result = lint_imports(tmp_path)
    assert result.returncode == 1
    assert f"{importer} -> {imported}" in result.stdout


def plant(root: Path, module: str) -> Path:
    """Makes an empty module, a package unless its name is private, and the packages above it."""
    *parents, last = module.split(".")
    place = root
    for name in parents if last.startswith("_") else [*parents, last]:
        place /= name
        place.mkdir(exist_ok=True)
        (place / "__init__.py").touch()
    path = place / (f"{last}.py" if last.startswith("_") else "__init__.py")
    path.touch()
    return path


def test_importing_actors_loads_little() -> None:
    clients = {"trio_websocket", "cattrs", "msgspec", "prometheus_client", "structlog", "opentelemetry"}
    heavy = clients | {"hypothesis", "pytest"}
    program = "import sys, actors; print(*{name.partition('.')[0] for name in sys.modules})"
    result = run(sys.executable, "-c", program, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    assert heavy & set(result.stdout.split()) == set()


# ---------------------------------------------------------------- the Makefile and the script of CI


@pytest.mark.parametrize(
    ("python", "missing"),
    [
        (None, "python3 (3.11 or newer)"),
        ("exit 1", "python3 (3.11 or newer)"),
        ("case $2 in *ensurepip*) exit 1;; esac", "python3-venv"),
    ],
    ids=["no python", "an old python", "no venv"],
)
def test_a_missing_prerequisite_is_named_with_the_apt_line(tmp_path: Path, python: str | None, missing: str) -> None:
    copy(tmp_path, "Makefile", "pyproject.toml")
    fake = tmp_path / "python3"
    if python is not None:
        fake.write_text(f"#!/bin/sh\n{python}\n")
        fake.chmod(0o755)
    result = run("make", "test", f"PYTHON={fake}", cwd=tmp_path)
    assert result.returncode != 0
    assert f"Tenure needs {missing}" in result.stderr
    assert APT in result.stderr
    assert not (tmp_path / ".venv").exists()


def test_the_script_of_ci_is_executable_and_parses() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert run("bash", "-n", script, cwd=ROOT).stderr == ""


# ---------------------------------------------------------------- the row mark and its page


def with_test(place: Path, mark: str, body: str = "pass", complete: str = "") -> Path:
    """A tree of its own with one test that has the mark, in which the suites in `complete` must be so."""
    copy(place, "pyproject.toml", "tests/__init__.py", "tests/conftest.py", "tests/conformance.py")
    script = place / "tests" / "conformance.py"
    text = script.read_text()
    declared = re.search(r"^COMPLETE: .* = (.*)$", text, re.MULTILINE)
    assert declared is not None
    script.write_text(text.replace(declared[1], f"frozenset({complete.split()})"))
    test = f"import pytest\n\n@pytest.mark.{mark}\n@pytest.mark.parametrize('n', [1, 2])\ndef test_it(n): {body}\n"
    (place / "tests" / "test_planted.py").write_text(test)
    return place


def conformance(place: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "tests.conformance", *options, cwd=place)


@pytest.mark.parametrize(
    "mark",
    [
        pytest.mark.row(),
        pytest.mark.row(1),
        pytest.mark.row("R1"),
        pytest.mark.row("nothing:R1"),
        pytest.mark.row("runtime:"),
        pytest.mark.row("runtime:r1"),
        pytest.mark.row("runtime:R1", "runtime:R2"),
        pytest.mark.row("runtime:R1", why="so"),
    ],
)
def test_a_malformed_row_says_how_to_write_it(mark: pytest.MarkDecorator) -> None:
    with pytest.raises(MalformedRow, match=r'write row\("suite:ID"\)'):
        row_of(mark.mark)


def test_a_malformed_row_stops_the_run(tmp_path: Path) -> None:
    place = with_test(tmp_path, "row('bogus')")
    result = run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests", cwd=place)
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "tests/test_planted.py::test_it[1]: row('bogus') is malformed" in result.stderr


def test_an_unknown_mark_is_refused(tmp_path: Path) -> None:
    place = with_test(tmp_path, "rwo('runtime:R1')")
    result = run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests", cwd=place)
    assert "'rwo' not found in `markers`" in result.stdout


def test_the_conformance_page_shows_each_row_with_its_tests(tmp_path: Path) -> None:
    place = with_test(tmp_path, "row('tubes:G')\n@pytest.mark.row('runtime:R135')")
    stale = conformance(place, "--check")
    assert stale.returncode == 1
    assert "run `make docs`" in stale.stderr
    assert conformance(place).returncode == 0
    page = (place / "docs" / "conformance.md").read_text()
    assert "| R135 | `tests/test_planted.py::test_it` |" in page
    assert "| G | `tests/test_planted.py::test_it` |" in page
    assert "1 of 135 rows have tests" in page
    assert conformance(place, "--check").returncode == 0


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("row('runtime:R136')", "tests/test_planted.py::test_it: there is no row runtime:R136"),
        ("row('channels:R1')", "there is no row channels:R1"),
        ("row('bogus')", "row('bogus') is malformed"),
    ],
)
def test_the_conformance_page_refuses_an_unknown_row(tmp_path: Path, mark: str, message: str) -> None:
    result = conformance(with_test(tmp_path, mark))
    assert result.returncode == 1
    assert message in result.stderr
    assert not (tmp_path / "docs").exists()


def test_the_conformance_page_refuses_a_row_without_a_test_in_a_complete_suite(tmp_path: Path) -> None:
    result = conformance(with_test(tmp_path, "row('runtime:R1')", complete="runtime"))
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert "runtime:R135 has no test" in lines
    assert len(lines) == 134


@pytest.mark.parametrize("skip", ["skip(reason='so')", "skipif(True, reason='so')", "skipif(condition=1, reason='so')"])
def test_the_conformance_page_refuses_a_test_of_a_row_that_is_skipped(tmp_path: Path, skip: str) -> None:
    result = conformance(with_test(tmp_path, f"row('runtime:R1')\n@pytest.mark.{skip}"))
    assert result.returncode == 1
    assert "test_it[1]: proves runtime:R1 and is skipped" in result.stderr


@pytest.mark.parametrize(
    ("complete", "ci", "status"),
    [
        ("", "", pytest.ExitCode.OK),
        ("", "true", pytest.ExitCode.TESTS_FAILED),
        ("runtime", "", pytest.ExitCode.TESTS_FAILED),
    ],
)
def test_a_test_of_a_row_that_skips_itself_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complete: str, ci: str, status: int
) -> None:
    monkeypatch.setenv("CI", ci)
    place = with_test(tmp_path, "row('runtime:R1')", "pytest.skip('no server')", complete)
    result = run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests", cwd=place)
    assert result.returncode == status
    assert ("test_it[1]: proves runtime:R1 and was skipped" in result.stdout) == (status != 0)
