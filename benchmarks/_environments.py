"""One virtual environment for each peer, since their pins do not agree with ours nor with each other.

They live below `.bench/` in the root of the repository, which ignores itself, and are made again when a pin changes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import attrs

from benchmarks._harness import By, CaseFailed
from benchmarks._processes import ROOT

CACHE = ROOT / ".bench"
SCRIPTS = Path(__file__).with_name("_peers")
Version = tuple[int, int]

#: How many operations a case of a peer does, chosen so that each takes about as long as ours.
_N: Final[Mapping[str, int]] = {"tell": 60_000, "ask": 10_000, "spawn_stop": 3_000}


@attrs.frozen
class Peer:
    """Another framework: what to install, on which Python, and how to run its script.

    `by` is the time that its headline ratios are taken by: CPU time is the steadier one, but wall time is what counts
    where several threads or processes work. A `costly` one is left out of a quick run.
    """

    name: str
    script: str
    requirement: str
    oldest: Version = (3, 11)
    by: By = "cpu"
    costly: bool = False
    environment: str = ""
    variables: Mapping[str, str] = MappingProxyType({})
    n: Mapping[str, int] = _N

    @property
    def folder(self) -> Path:
        """Where its virtual environment is, or would be."""
        return CACHE / (self.environment or self.name)

    @property
    def python(self) -> Path:
        """The interpreter in it."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def ready(self) -> bool:
        """Whether its environment has been made, wholly and with the present pin."""
        stamp = self.folder / "requirement.txt"
        return stamp.exists() and stamp.read_text() == self.requirement and self.python.exists()

    def command(self) -> list[str]:
        """What runs its script as a worker."""
        return [str(self.python), "-B", str(SCRIPTS / self.script)]


PEERS: Final = (
    Peer("pykka", "pykka_peer.py", "pykka>=4.5,<5", by="wall"),
    Peer("thespian", "thespian_peer.py", "thespian>=4.0.1,<5"),
    Peer(
        "thespian_tcp",
        "thespian_peer.py",
        "thespian>=4.0.1,<5",
        by="wall",
        costly=True,
        environment="thespian",
        variables={"TENURE_BENCH_BASE": "multiprocTCPBase"},
        n={"tell": 512, "ask": 200, "spawn_stop": 10},
    ),
    Peer("xoscar", "xoscar_peer.py", "xoscar>=0.12.2,<0.13", n={"tell": 5_000, "ask": 3_000, "spawn_stop": 1_000}),
    Peer("mode", "mode_peer.py", "mode-streaming>=0.7.1,<0.8", n={**_N, "tell": 200_000, "ask": 20_000}),
    Peer("triotp", "triotp_peer.py", "triotp>=0.2.1,<0.4", n={**_N, "tell": 10_000, "ask": 4_000}),
    Peer("casty", "casty_peer.py", "casty>=0.30.2,<0.31", oldest=(3, 12)),
)


def make(peer: Peer, *, within: float = 300.0) -> None:
    """Make the peer's environment if it is not ready; `CaseFailed` says why there is none. Each step takes at most
    `within` seconds.
    """
    if peer.ready():
        return
    CACHE.mkdir(exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")
    shutil.rmtree(peer.folder, ignore_errors=True)
    try:
        _run([interpreter(peer.oldest), "-m", "venv", str(peer.folder)], within)
        pip = [str(peer.python), "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
        _run([*pip, "install", peer.requirement], within)
    except CaseFailed:
        shutil.rmtree(peer.folder, ignore_errors=True)
        raise
    (peer.folder / "requirement.txt").write_text(peer.requirement)


def interpreter(oldest: Version) -> str:
    """An interpreter of at least that version: ours if it is new enough, else the first one found."""
    if sys.version_info[:2] >= oldest:
        return sys.executable
    for candidate in _candidates(oldest):
        if _works(candidate):
            return candidate
    wanted = ".".join(map(str, oldest))
    raise CaseFailed(f"needs Python {wanted} or newer, and neither the PATH nor pyenv has one")


def _candidates(oldest: Version) -> Iterator[str]:
    names = [f"python3.{minor}" for minor in range(oldest[1], oldest[1] + 5)]
    for name in names:
        found = shutil.which(name)
        if found is not None:
            yield found
    pyenv = shutil.which("pyenv")  # its shims are on the PATH for versions that are not switched on, and fail
    if pyenv is not None:
        root = Path(_output([pyenv, "root"]) or "/nonexistent")
        for name in names:
            yield from map(str, sorted(root.glob(f"versions/*/bin/{name}"), reverse=True))


def _works(python: str) -> bool:
    return _output([python, "-c", "import ensurepip, venv; print('yes')"]) == "yes"


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _run(command: list[str], within: float) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=within, check=False)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise CaseFailed(f"{failure}") from failure
    if done.returncode != 0:
        raise CaseFailed(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr.strip()[-500:]}")
