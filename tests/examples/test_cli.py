"""The program `tenure`: help, version, usage errors, what it loads."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from actors.cli import main
from tests.examples.programs import python


def usage(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    """Status, output and errors of arguments that argparse answers itself."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    shown = capsys.readouterr()
    return ended.value.code, shown.out, shown.err


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    status, output, errors = usage(capsys, "--help")
    assert (status, errors) == (0, "")
    assert output.startswith("usage: tenure ")
    assert "demo" in output


def test_help_of_a_command_tells_its_options_and_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    status, output, errors = usage(capsys, "demo", "--help")
    assert (status, errors) == (0, "")
    assert output.startswith("usage: tenure demo ")
    for option in ("workers", "checkpoint", "fault-rate", "seed", "within", "every", "pace", "limit", "json", "fresh"):
        assert f"--{option}" in output
    assert "exit status:" in output


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    status, output, _ = usage(capsys, "--version")
    assert status == 0
    try:
        assert output == f"tenure {version('tenure')}\n"
    except PackageNotFoundError:
        assert output == "tenure, not installed: run from its sources\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "COMMAND"),
        (["fly"], "fly"),
        (["demo", "--fly"], "--fly"),
        (["demo", "a", "b"], "b"),
        (["demo", "--workers", "0"], "'0' is not a whole number from 1 to 1000"),
        (["demo", "--workers", "many"], "'many' is not a whole number from 1 to 1000"),
        (["demo", "--limit", "0"], "'0' is not a whole number"),
        (["demo", "--fault-rate", "1.1"], "'1.1' is not a number from 0 to 1"),
        (["demo", "--fault-rate", "nan"], "'nan' is not a number from 0 to 1"),
        (["demo", "--within", "inf"], "'inf' is not a number from 0 to 86400"),
        (["demo", "--within", "-1"], "'-1' is not a number from 0 to 86400"),
        (["demo", "--every", "0"], "'0' is not a number from 0.001 to 86400"),
        (["demo", "--seed", "x"], "--seed"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    status, output, errors = usage(capsys, *arguments)
    assert (status, output) == (2, "")
    assert words in errors.splitlines()[-1]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["demo", "--help"], ["demo", "--workers", "0"]])
def test_what_is_answered_at_once_does_not_load_trio(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from actors.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit:\n"
        "    print(sorted({'trio', 'attrs', 'attr'} & set(sys.modules)))\n"
    )
    _, output, _ = python("-c", program)
    assert output.splitlines()[-1] == "[]"


def test_an_interrupt_outside_a_run_ends_with_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("actors.cli._program.run", interrupted)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "tenure: interrupted\n"


def test_the_arguments_of_the_process_are_the_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tenure", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.startswith("usage: tenure ")
