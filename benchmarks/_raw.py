"""The floors: what raw Trio takes for the nearest thing, without any actor layer."""

from __future__ import annotations

import trio
import trio.testing

from benchmarks._harness import Case, Watch, trio_case

#: Messages told before the sender waits for the receiver to catch up; below every default limit of a mailbox.
BURST = 512


class Meter:
    """What a receiver counts on: `reached` is set at the message with the number `goal`."""

    def __init__(self) -> None:
        self.count = 0
        self.goal = 0
        self.reached = trio.Event()

    def expect(self, more: int) -> None:
        """Set the goal `more` messages further on."""
        self.goal = self.count + more
        self.reached = trio.Event()


def bursts(n: int) -> int:
    """How many bursts make about `n` messages; at least one."""
    return max(1, round(n / BURST))


async def _channel_burst(watch: Watch, n: int) -> int:
    """`send_nowait` in bursts, received by `async for` in another task, until that has caught up."""
    sender, receiver = trio.open_memory_channel[int](1000)
    meter = Meter()
    batch = list(range(BURST))

    async def receive() -> None:
        async for _ in receiver:
            meter.count += 1
            if meter.count == meter.goal:
                meter.reached.set()

    async with trio.open_nursery() as nursery, sender:
        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        send = sender.send_nowait
        with watch:
            for _ in range(bursts(n)):
                meter.expect(BURST)
                for item in batch:
                    send(item)
                await meter.reached.wait()
    return bursts(n) * BURST


async def _channel_pingpong(watch: Watch, n: int) -> None:
    """A round trip over two memory channels without a buffer."""
    there, requests = trio.open_memory_channel[int](0)
    back, replies = trio.open_memory_channel[int](0)

    async def echo() -> None:
        async for item in requests:
            await back.send(item)

    async with trio.open_nursery() as nursery, there:
        nursery.start_soon(echo)
        await trio.testing.wait_all_tasks_blocked()
        send, receive = there.send, replies.receive
        with watch:
            for item in range(n):
                await send(item)
                await receive()


async def _wake_pingpong(watch: Watch, n: int) -> None:
    """Two tasks that wake each other: no round trip over another task can be cheaper."""
    parked: list[trio.lowlevel.Task | None] = [None, None]

    def abort(_: object) -> trio.lowlevel.Abort:
        return trio.lowlevel.Abort.SUCCEEDED

    async def swap(mine: int, other: int) -> None:
        parked[mine] = trio.lowlevel.current_task()
        task, parked[other] = parked[other], None
        if task is not None:
            trio.lowlevel.reschedule(task)
        await trio.lowlevel.wait_task_rescheduled(abort)

    async def echo() -> None:
        while True:
            await swap(1, 0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(echo)
        await trio.testing.wait_all_tasks_blocked()
        with watch:
            for _ in range(n):
                await swap(0, 1)
        nursery.cancel_scope.cancel()


async def _task_with_scope(watch: Watch, n: int) -> None:
    """A task under a scope of its own: start it, wait till it is up, cancel it, wait till it is gone; one by one."""

    async def idle(scope: trio.CancelScope, up: trio.Event, down: trio.Event) -> None:
        with scope:
            up.set()
            await trio.sleep_forever()
        down.set()

    async with trio.open_nursery() as nursery:
        with watch:
            for _ in range(n):
                scope, up, down = trio.CancelScope(), trio.Event(), trio.Event()
                nursery.start_soon(idle, scope, up, down)
                await up.wait()
                scope.cancel()
                await down.wait()


def cases() -> list[Case]:
    """The floors, each in the family of the figures that are measured against it."""
    return [
        trio_case("raw.channel_burst", "tell", 60_000, _channel_burst),
        trio_case("raw.channel_pingpong", "ask", 20_000, _channel_pingpong),
        trio_case("raw.wake_pingpong", "ask", 30_000, _wake_pingpong),
        trio_case("raw.task_with_scope", "spawn_stop", 8_000, _task_with_scope),
    ]
