"""`eventually`: mostly on the virtual clock, since it keeps to whatever clock there is."""

from __future__ import annotations

import threading
import time

import pytest
import trio
import trio.testing

from actors.testing import eventually


async def test_it_returns_what_the_condition_does(autojump_clock: trio.testing.MockClock) -> None:
    values = iter([0, None, "", "there"])
    assert await eventually(lambda: next(values)) == "there"
    assert trio.current_time() == pytest.approx(0.03)


async def test_async_conditions_are_awaited(autojump_clock: trio.testing.MockClock) -> None:
    async def late() -> int:
        await trio.sleep(1)
        return 0 if trio.current_time() < 3 else 7

    assert await eventually(late, poll=0.5) == 7


async def never() -> bool:
    await trio.lowlevel.checkpoint()
    return False


async def test_the_failure_names_the_condition_and_its_last_value(autojump_clock: trio.testing.MockClock) -> None:
    with pytest.raises(AssertionError, match=r"`never` did not hold within 2 s \(\d+ calls\): at last it was False"):
        await eventually(never, within=2, poll=0.1)
    assert trio.current_time() == pytest.approx(2)


async def test_a_lambda_is_named_by_its_source(autojump_clock: trio.testing.MockClock) -> None:
    queue: list[int] = []
    with pytest.raises(AssertionError, match="len\\(queue\\) == 3"):
        await eventually(lambda: len(queue) == 3, within=0.1)


async def test_an_assertion_in_the_condition_means_not_yet(autojump_clock: trio.testing.MockClock) -> None:
    def ready() -> bool:
        assert trio.current_time() >= 1, "too early"
        return True

    assert await eventually(ready)
    with pytest.raises(AssertionError, match="did not hold") as caught:
        await eventually(lambda: pytest.fail.Exception if ready() and never_ready() else None, within=0.1)
    assert "nothing is" in str(caught.value.__cause__)


def never_ready() -> bool:
    raise AssertionError("nothing is")


async def test_other_exceptions_leave_at_once(autojump_clock: trio.testing.MockClock) -> None:
    def broken() -> bool:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await eventually(broken)
    assert trio.current_time() == 0


async def test_a_condition_that_hangs_is_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    with pytest.raises(AssertionError, match="did not hold within 5 s"):
        await eventually(trio.sleep_forever)


async def test_it_sees_what_a_thread_does_on_the_real_clock() -> None:
    done: list[int] = []
    thread = threading.Thread(target=lambda: (time.sleep(0.05), done.append(1)))
    thread.start()
    assert await eventually(lambda: done) == [1]
    thread.join()
