"""thespian: `simpleSystemBase`, which runs the receiver inside the sender's call, or with `TENURE_BENCH_BASE`
another base, such as `multiprocTCPBase` (a process per actor, what its users deploy).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from importlib.metadata import version

from _worker import BURST, Message, Watch, free_port, goals, main
from thespian.actors import Actor, ActorExitRequest, ActorSystem

logging.disable(logging.CRITICAL)
BASE = os.environ.get("TENURE_BENCH_BASE", "simpleSystemBase")
SEVERAL = BASE != "simpleSystemBase"


class Tally(Actor):
    count = 0

    def receiveMessage(self, msg: object, sender: object) -> None:
        if msg == "count":
            self.send(sender, self.count)
        elif isinstance(msg, Message):
            self.count += 1


@contextlib.contextmanager
def running() -> Iterator[ActorSystem]:
    ports = {"Admin Port": free_port(), "Convention Address.IPv4": ""} if SEVERAL else None
    system = ActorSystem(BASE, capabilities=ports, logDefs={"version": 1}, transientUnique=True)
    try:
        yield system
    finally:
        system.shutdown()


def tell(watch: Watch, n: int) -> int:
    batch = [Message(number, "label") for number in range(BURST)]
    goal = 0
    with running() as system:
        actor = system.createActor(Tally)
        system.ask(actor, "count", 5)
        with watch:
            for goal in goals(n):
                for msg in batch:
                    system.tell(actor, msg)
                while system.ask(actor, "count", 30) != goal:
                    pass
    return goal


def ask(watch: Watch, n: int) -> None:
    with running() as system:
        actor = system.createActor(Tally)
        system.ask(actor, "count", 5)
        with watch:
            for _ in range(n):
                system.ask(actor, "count", 10)


def spawn_stop(watch: Watch, n: int) -> None:
    with running() as system, watch:
        for _ in range(n):
            actor = system.createActor(Tally)
            system.ask(actor, "count", 5)  # createActor alone does not say that it is ready
            system.tell(actor, ActorExitRequest())


if __name__ == "__main__":
    main(version("thespian"), {"tell": tell, "ask": ask, "spawn_stop": spawn_stop}, cpu=not SEVERAL)
