"""Running programs, and trees of files for them to count."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.conformance import ROOT

LONGEST = 60.0
"""Seconds after which a program or a condition is given up."""


def environment() -> dict[str, str]:
    """Without what pytest and make say to their own children."""
    outer = ("PYTEST_ADDOPTS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    return {name: value for name, value in os.environ.items() if name not in outer}


def start(*arguments: str | Path, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """`python ARGUMENTS`, from the root of the repository, with Ctrl-C as at a terminal."""

    def take_interrupts() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=stderr,
        preexec_fn=take_interrupts,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for its end; status, output, errors."""
    try:
        output, errors = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, output, errors or ""


def run(*command: str | Path) -> tuple[int, str, str]:
    """Run any program to its end."""
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), text=True, capture_output=True, timeout=LONGEST, check=False
    )
    return done.returncode, done.stdout, done.stderr


def python(*arguments: str | Path) -> tuple[int, str, str]:
    """Run `python ARGUMENTS` to its end."""
    return finish(start(*arguments))


def demo(*arguments: str | Path) -> tuple[int, str, str]:
    """Run `tenure demo ARGUMENTS` to its end."""
    return python("-m", "actors.cli", "demo", *arguments)


def until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Wait until the condition holds, while the process runs."""
    given_up = time.monotonic() + LONGEST
    while not condition():
        assert process.poll() is None, f"the program has ended: {finish(process)}"
        assert time.monotonic() < given_up
        time.sleep(0.002)


def counted(checkpoint: Path) -> int:
    """How many files the checkpoint holds."""
    return len(body(checkpoint)["counted"]) if checkpoint.exists() else -1


def body(checkpoint: Path) -> dict[str, Any]:
    """What a checkpoint says."""
    data: dict[str, Any] = json.loads(checkpoint.read_bytes().splitlines()[1])
    return data


# ---------------------------------------------------------------- input


def plant(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def many_files(root: Path, count: int = 120) -> Path:
    """Files of several kinds that all differ."""
    files = {}
    for n in range(count):
        suffix = ("py", "log", "txt", "rst", "json")[n % 5]
        lines = [f"def function_{n}_{i}(self): return word{i % 7} or other * {i}" for i in range(n % 23)]
        files[f"part{n % 3}/file{n:03}.{suffix}"] = "\n".join(["Kopf", *lines, "ohne Ende" if n % 2 else ""])
    return plant(root, files)


# ---------------------------------------------------------------- the same, counted plainly

SUFFIXES = {
    **dict.fromkeys(("py", "pyi"), "python"),
    **dict.fromkeys(("txt", "rst", "md"), "text"),
    **dict.fromkeys(("log",), "log"),
    **dict.fromkeys(("json", "toml", "cfg", "ini", "xml", "csv", "yaml"), "data"),
}


def plain_count(root: Path) -> tuple[dict[str, dict[str, int]], Counter[str]]:
    """Totals by kind and tokens: one thread, one file after the other."""
    kinds: dict[str, dict[str, int]] = {}
    tokens: Counter[str] = Counter()
    for path in sorted(root.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()
        text = data.decode("utf-8", errors="replace")
        kind = SUFFIXES.get(path.suffix[1:].lower(), "other")
        words = re.findall(r"\w+", text)
        if b"\0" in data:
            kind, text, words = "binary", "", []
        functions = re.findall(r"(?m)^[ \t]*(?:async[ \t]+)?def[ \t]+\w", text) if kind == "python" else []
        total = kinds.setdefault(kind, dict.fromkeys(("files", "bytes", "lines", "words", "functions"), 0))
        total["files"] += 1
        total["bytes"] += len(data)
        total["lines"] += len(text.split("\n")) - (text.endswith("\n") or not text)
        total["words"] += len(words)
        total["functions"] += len(functions)
        own = Counter(word for word in words if len(word) > 3 and word[0].isalpha())
        tokens.update(dict(sorted(own.items(), key=lambda item: (-item[1], item[0]))[:16]))
    return kinds, tokens


def assert_counted(result: dict[str, Any], root: Path) -> None:
    """The result of `tenure demo --json` is what a plain count gives."""
    kinds, tokens = plain_count(root)
    assert result["kinds"] == kinds
    expected = sorted(tokens.items(), key=lambda item: (-item[1], item[0]))[:10]
    assert list(result["tokens"].items()) == expected
    assert result["files"]["counted"] == sum(kind["files"] for kind in kinds.values())
    assert result["finished"]
