"""The pytest fixtures: in this run, and in runs of pytest of their own where tests must fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import attrs
import pytest
import trio

import actors.testing
from actors import Actor, Request, System, handles
from tests.conformance import ROOT

if TYPE_CHECKING:
    from pathlib import Path

IS_INSTALLED = any(point.name == "tenure" for point in entry_points(group="pytest11"))
PATHS = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])}
PLUGIN = () if IS_INSTALLED else ("-p", "actors.testing._plugin")


@attrs.frozen
class Get(Request[int]):
    pass


class Three(Actor[Get]):
    @handles(Get)
    def get(self, msg: Get) -> int:
        return 3


# ---------------------------------------------------------------- here


async def test_a_test_has_a_system_on_a_virtual_clock(actor_system: System) -> None:
    assert trio.current_time() == 0
    assert await (await actor_system.spawn(Three)).ask(Get()) == 3
    await trio.sleep(86_400)
    assert actor_system.inline


both: list[bool] = []


async def test_a_test_can_run_with_inline_dispatch_and_without(
    actor_system_both: System, inline_dispatch: bool
) -> None:
    assert actor_system_both.inline is inline_dispatch
    assert await (await actor_system_both.spawn(Three)).ask(Get()) == 3
    both.append(inline_dispatch)


def test_it_has_run_both_ways() -> None:
    assert both == [True, False]


@pytest.mark.actor_system(inline=False, shutdown_within=77)
async def test_a_mark_sets_options(actor_system: System) -> None:
    assert not actor_system.inline
    actor_system.drain()
    assert actor_system.deadline.end == 77


draws: list[float] = []


@pytest.mark.actor_system(seed=5)
@pytest.mark.parametrize("number", [1, 2])
async def test_the_seed_is_fixed(actor_system: System, number: int) -> None:
    draws.append(actor_system.random.random())
    assert draws == [draws[0]] * number


@pytest.mark.actor_system(real_clock=True)
async def test_the_clock_can_be_the_real_one(actor_system: System) -> None:
    assert type(trio.lowlevel.current_clock()).__name__ == "SystemClock"
    assert await (await actor_system.spawn(Three)).ask(Get()) == 3


async def test_a_clock_of_the_test_is_left_alone(actor_system: System, mock_clock: trio.testing.MockClock) -> None:
    assert trio.lowlevel.current_clock() is mock_clock
    assert await (await actor_system.spawn(Three)).ask(Get()) == 3


@pytest.fixture
async def three(actor_system: System) -> object:
    return await actor_system.spawn(Three, name="three")


async def test_fixtures_can_build_on_it(three: object, actor_system: System) -> None:
    assert actor_system.find("/three", Three) is three


# ---------------------------------------------------------------- in a run of its own


def run_pytest(place: Path, *args: str, ini: str = "trio_mode = true") -> subprocess.CompletedProcess[str]:
    settings = f"[pytest]\naddopts = --strict-markers --strict-config\nfilterwarnings = error\n{ini}\n"
    (place / "pytest.ini").write_text(settings)
    env = {name: value for name, value in PATHS.items() if name != "PYTEST_ADDOPTS"}
    command = (sys.executable, "-W", "error", "-m", "pytest", "-p", "no:cacheprovider", *PLUGIN, *args)
    return subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=100, check=False)


FAILING = """
from __future__ import annotations

import attrs
import pytest
import trio

from actors import Actor, Child, Inbox, Request, handles, one_for_one

@attrs.frozen
class Break:
    pass

class Broken(Actor[Break]):
    @handles(Break)
    def on_break(self, msg: Break) -> None:
        raise ValueError("broken")

async def deaf(inbox: Inbox[Break]) -> None:
    async for _ in inbox:
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()

async def slow(inbox: Inbox[Break]) -> None:
    async for _ in inbox:
        await trio.sleep(100)

async def test_leak(actor_system):
    (await actor_system.spawn(deaf, name="deaf")).tell(Break())
    await trio.sleep(1)

async def test_unhealthy(actor_system):
    (await actor_system.spawn(slow, name="slow")).tell(Break())
    await trio.sleep(1)

async def test_unread(actor_system_both):
    supervision = await actor_system_both.supervise(one_for_one(), Child(Broken, name="broken", restart="temporary"))
    supervision.child("broken", Broken).tell(Break())
    await trio.sleep(1)

async def test_unsupervised(actor_system):
    (await actor_system.spawn(Broken)).tell(Break())
    await trio.sleep(1)

async def test_deadlock(actor_system):
    await trio.sleep_forever()

async def test_itself(actor_system):
    await actor_system.spawn(Broken)
    assert "this" == "that"

@pytest.mark.actor_system(unread_failures=True)
async def test_fine(actor_system):
    supervision = await actor_system.supervise(one_for_one(), Child(Broken, name="broken", restart="temporary"))
    supervision.child("broken", Broken).tell(Break())
    await trio.sleep(1)
"""


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("failing")
    (place / "test_failing.py").write_text(FAILING)
    return run_pytest(place, "-rA").stdout


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        ("test_leak", r"tasks have leaked.*1 leaked.*/deaf"),
        ("test_unhealthy", "the shutdown report is unhealthy"),
        ("test_unread[inline]", "actor /broken failed for good with ValueError"),
        ("test_unread[queued]", "actor /broken failed for good with ValueError"),
        ("test_unsupervised", "actors failed in system 'system'"),
        ("test_deadlock", "every task waits and no timer or time limit is due"),
        ("test_itself", "assert 'this' == 'that'"),
    ],
)
def test_the_fixture_fails_a_test(failing: str, test: str, reason: str) -> None:
    assert f"FAILED test_failing.py::{test}" in failing
    section = re.split(rf"_+ {re.escape(test)} _+\n", failing)[1]
    assert re.search(reason, re.split(r"\n_{5,} \S+ _+\n|\n=+ ", section)[0], re.DOTALL)


def test_the_fixture_passes_the_others(failing: str) -> None:
    assert "7 failed, 1 passed" in failing


def test_it_works_without_trio_mode(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("async def test_it(actor_system): assert actor_system.name == 'system'\n")
    assert "1 passed" in run_pytest(tmp_path, ini="").stdout


def test_a_fixture_can_stand_for_a_whole_module(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "def actor_system(actor_system_both): return actor_system_both\n"
        "async def test_it(actor_system): assert actor_system.name == 'system'\n"
    )
    assert "2 passed" in run_pytest(tmp_path).stdout


@pytest.mark.parametrize(("options", "what"), [("sead=1", "sead"), ("1", "an option without its name")])
def test_options_that_do_not_exist_are_refused(tmp_path: Path, options: str, what: str) -> None:
    (tmp_path / "test_it.py").write_text(
        f"import pytest\n@pytest.mark.actor_system({options})\nasync def test_it(actor_system): pass\n"
    )
    result = run_pytest(tmp_path)
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"does not take {what}" in result.stdout + result.stderr


def test_without_pytest_trio_the_fixture_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("async def test_it(actor_system): pass\n")
    result = run_pytest(tmp_path, "-p", "no:trio", ini="")
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "pip install 'tenure[testing]'" in result.stdout + result.stderr


def test_who_does_not_use_it_notices_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    kit = {name for name in sys.modules if name.startswith('actors.testing.')}\n"
        "    assert kit == {'actors.testing._plugin'}\n"
        "    assert 'trio.testing' not in sys.modules\n"
    )
    result = run_pytest(tmp_path, "-p", "no:trio", ini="")
    assert "1 passed" in result.stdout
    assert result.stderr == ""


# ---------------------------------------------------------------- the package


def test_the_kit_gives_what_it_names_and_no_more() -> None:
    aliases = {"CutRule", "FileOperation"}  # of Literals, which have no name
    for name in actors.testing.__all__:
        assert name in aliases or getattr(actors.testing, name).__name__ == name
        assert hasattr(actors.testing, name)
    with pytest.raises(AttributeError, match="no attribute 'sumulated'"):
        actors.testing.sumulated  # noqa: B018


def test_importing_actors_does_not_import_the_kit() -> None:
    program = "import sys, actors; sys.exit(any(name.startswith('actors.testing') for name in sys.modules))"
    assert subprocess.run((sys.executable, "-c", program), env=PATHS, timeout=60, check=False).returncode == 0
