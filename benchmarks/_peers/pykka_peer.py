"""pykka: one thread per actor. Nothing in a message's way but a `queue.Queue`."""

from __future__ import annotations

import logging
import threading
from importlib.metadata import version

import pykka
from _worker import BURST, Message, Watch, goals, main

logging.disable(logging.CRITICAL)


class Meter:
    """Shared with the actor: `reached` is set at the message with the number `goal`."""

    def __init__(self) -> None:
        self.count = 0
        self.goal = 0
        self.reached = threading.Event()


class Tally(pykka.ThreadingActor):
    use_daemon_thread = True

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self.meter = meter

    def on_receive(self, message: object) -> object:
        meter = self.meter
        meter.count += 1
        if meter.count == meter.goal:
            meter.reached.set()
        return meter.count


def tell(watch: Watch, n: int) -> int:
    meter = Meter()
    ref = Tally.start(meter)
    batch = [Message(number, "label") for number in range(BURST)]
    with watch:
        for goal in goals(n):
            meter.goal = goal
            meter.reached.clear()
            for msg in batch:
                ref.tell(msg)
            meter.reached.wait()
    ref.stop()
    return meter.count


def ask(watch: Watch, n: int) -> None:
    meter = Meter()
    ref = Tally.start(meter)
    msg = Message(1, "label")
    with watch:
        for _ in range(n):
            ref.ask(msg)
    ref.stop()


def spawn_stop(watch: Watch, n: int) -> None:
    meter = Meter()
    with watch:
        for _ in range(n):
            Tally.start(meter).stop()


if __name__ == "__main__":
    main(version("pykka"), {"tell": tell, "ask": ask, "spawn_stop": spawn_stop})
