"""Functions that the tests send to other processes, which import this module."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path


class Odd(Exception):
    """An exception that can be packed and not unpacked."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("odd")


class Counter:
    @staticmethod
    def double(number: int) -> int:
        return 2 * number


def pid() -> int:
    return os.getpid()


def fail(text: str) -> None:
    raise ValueError(text)


def fail_oddly() -> None:
    raise Odd(1, 2)


def die(status: int) -> None:
    os._exit(status)


def leave() -> None:
    sys.exit(3)


def make(size: int) -> bytes:
    return b"x" * size


def length(data: bytes) -> int:
    return len(data)


def hang(folder: str) -> None:
    """Say which process this is and which one it has started, and never end."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    fresh = Path(folder, "fresh")
    fresh.write_text(f"{os.getpid()} {child.pid}")
    fresh.replace(Path(folder, "pids"))
    while True:
        time.sleep(1000)
