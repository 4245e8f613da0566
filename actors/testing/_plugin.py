"""The pytest plugin. It imports nothing but pytest until a test asks for one of its fixtures.

It is found by its entry point where Tenure is installed; elsewhere run `pytest -p actors.testing._plugin`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    import trio

    from actors import System

FIXTURES = frozenset({"actor_system", "actor_system_both"})
OPTIONS = frozenset({"seed", "inline", "shutdown_within", "unread_failures", "unhealthy", "real_clock"})
MARK = (
    "actor_system(seed=0, inline=True, shutdown_within=5.0, unread_failures=False, unhealthy=False, real_clock=False): "
    "options of the system that the fixture of this name gives to the test"
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            continue
        if not config.pluginmanager.hasplugin("trio"):
            raise pytest.UsageError(
                f"{item.nodeid}: the fixture actor_system needs pytest-trio: pip install 'tenure[testing]'"
            )
        options = _options(item)
        if not options.pop("real_clock", False):
            # pytest-trio runs a test by the `run` of its nearest mark. Ours goes first and gives the virtual clock.
            run = functools.partial(_run, options.get("seed", 0))
            item.add_marker(pytest.mark.trio(run=run), append=False)


def _options(item: Any) -> dict[str, Any]:
    """The options of the marks of a test, of which the nearest wins."""
    options: dict[str, Any] = {}
    for mark in item.iter_markers("actor_system"):
        unknown = sorted(set(mark.kwargs) - OPTIONS)
        if unknown or mark.args:
            what = ", ".join(unknown) or "an option without its name"
            raise pytest.UsageError(f"{item.nodeid}: the mark actor_system does not take {what}; it is {MARK}")
        options = {**mark.kwargs, **options}
    return options


def _run(
    seed: int,
    main: Callable[[], Awaitable[object]],
    clock: trio.abc.Clock | None = None,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> object:
    from ._scheduler import run_virtual

    return run_virtual(main, seed=seed, clock=clock, instruments=instruments)


@pytest.fixture
async def actor_system(request: pytest.FixtureRequest) -> AsyncIterator[System]:
    """A system of its own for the test, on a virtual clock and with a seeded scheduler.

    The test fails with `UncleanSystem` if a task leaks, an actor fails for good without anybody being told, or the
    shutdown report is unhealthy. See `actors.testing.open_test_system`; the mark `actor_system(...)` sets options.
    """
    from ._open import open_test_system

    options = _options(request.node)
    options.pop("real_clock", None)
    async with open_test_system(**options) as system:
        yield system


@pytest.fixture(params=[True, False], ids=["inline", "queued"])
def inline_dispatch(request: pytest.FixtureRequest) -> bool:
    """Runs the test twice: with True and with False, for `open_system(inline=...)`."""
    return bool(request.param)


@pytest.fixture
async def actor_system_both(request: pytest.FixtureRequest, inline_dispatch: bool) -> AsyncIterator[System]:
    """`actor_system`, and the test runs twice: with inline dispatch and without.

    For a whole module: `@pytest.fixture` `def actor_system(actor_system_both): return actor_system_both`.
    """
    from ._open import open_test_system

    options = _options(request.node)
    options.pop("real_clock", None)
    options["inline"] = inline_dispatch
    async with open_test_system(**options) as system:
        yield system
