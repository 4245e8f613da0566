"""From the arguments to a command."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, cast

COMMANDS = {
    "demo": "count a directory with actors that crash and heal",
}
"""The commands; each is a module `_NAME` with a function `run(arguments) -> status`."""


class _ShowVersion(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print("tenure", version("tenure"))
        except PackageNotFoundError:
            print("tenure, not installed: run from its sources")
        parser.exit()


def run(arguments: Sequence[str]) -> int:
    """Run the command that was chosen. argparse ends the process with status 2 for arguments that it cannot use."""
    parser = argparse.ArgumentParser(
        prog="tenure",
        description="Actors on Trio for services that own things.",
        epilog="`tenure COMMAND --help` tells about a command.",
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, what in COMMANDS.items():
        commands.add_parser(name, help=what, add_help=False)
    chosen, rest = parser.parse_known_args(arguments)
    command = cast("Callable[[list[str]], int]", import_module(f"{__package__}._{chosen.command}").run)
    return command(rest)
