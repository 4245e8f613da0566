"""Child processes that measure: each answers in lines of JSON, within a time limit, and is ended by its id."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from benchmarks._harness import CaseFailed, Sample

#: The root of the repository, where `python -m benchmarks...` finds its packages.
ROOT = Path(__file__).resolve().parent.parent


class Worker:
    """A child that reads `CASE N` lines and answers each with one line of JSON.

    It stays for all rounds, idle while others are measured, so that no round pays for its start. It has a process
    group of its own, which ends with the `with` block; so nothing that it started is left behind.
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
        self._command = list(command)
        self._env = None if env is None else dict(env)
        self._child: subprocess.Popen[bytes] | None = None
        self._rest = b""
        #: What the child last said of itself, such as its version.
        self.about: dict[str, str] = {}

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def run(self, case: str, n: int, *, within: float = 60.0) -> Sample:
        """Have the child run a case; `CaseFailed` when it says so, dies, or takes longer than `within` seconds."""
        answer = self.ask(f"{case} {n}", within=within)
        if "error" in answer:
            raise CaseFailed(str(answer["error"]))
        self.about = {key: str(answer[key]) for key in ("version", "python") if key in answer}
        return Sample(int(answer["n"]), float(answer["wall"]), _seconds(answer.get("cpu")))

    def ask(self, line: str, *, within: float) -> dict[str, Any]:
        """Send a line, return the answer; the child is started when it does not run."""
        try:
            child = self._running()
            assert child.stdin is not None
            child.stdin.write(line.encode() + b"\n")
            child.stdin.flush()
            return self._answer(child, time.monotonic() + within)
        except (OSError, CaseFailed) as failure:
            self.close()
            raise CaseFailed(f"{self._command[-1]}: {failure}") from failure

    def close(self) -> None:
        """End the child and all of its process group; returns when it is gone, after six seconds at most.

        It is asked first, by the end of its input and then by SIGTERM, so that it can end what it started.
        """
        child, self._child, self._rest = self._child, None, b""
        if child is None:
            return
        with child:
            assert child.stdin is not None
            with contextlib.suppress(OSError):
                child.stdin.close()
            if not _silent(child, within=1):
                os.kill(child.pid, signal.SIGTERM)
                _silent(child, within=5)
            # Not waited for before: until then its id, which is the group's, belongs to no one else.
            os.killpg(child.pid, signal.SIGKILL)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._env,
                start_new_session=True,
            )
        return self._child

    def _answer(self, child: subprocess.Popen[bytes], end: float) -> dict[str, Any]:
        assert child.stdout is not None
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([child.stdout], [], [], left)[0]:
                raise CaseFailed("no answer within its time limit")
            data = os.read(child.stdout.fileno(), 65536)
            if not data:
                raise CaseFailed("ended before it answered")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return _parsed(line)


def run_once(command: Sequence[str], *, within: float) -> dict[str, Any]:
    """Run a command in the repository's root and return the JSON that it prints; `CaseFailed` when it fails."""
    try:
        done = subprocess.run(list(command), cwd=ROOT, capture_output=True, timeout=within, check=False)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise CaseFailed(str(failure)) from failure
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-2000:]
        raise CaseFailed(f"{' '.join(command)} ended with status {done.returncode}: {said}")
    return _parsed(done.stdout.strip().rpartition(b"\n")[2])


def _silent(child: subprocess.Popen[bytes], *, within: float) -> bool:
    """Whether the child has closed its output, which it does at its end at the latest, within some seconds."""
    assert child.stdout is not None
    end = time.monotonic() + within
    while (left := end - time.monotonic()) > 0 and select.select([child.stdout], [], [], left)[0]:
        if not os.read(child.stdout.fileno(), 65536):
            return True
    return False


def _parsed(line: bytes) -> dict[str, Any]:
    answer: Any
    try:
        answer = json.loads(line)
    except ValueError:
        raise CaseFailed(f"answered {line[:200]!r} instead of JSON") from None
    if not isinstance(answer, dict):
        raise CaseFailed(f"answered {line[:200]!r} instead of a JSON object")
    return cast("dict[str, Any]", answer)


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
