"""What a process of a process lane runs: one function after the other, by name, for the program that started it.

Run by its path and without the package, so that a worker starts fast and has only what its functions import. Each
message is a length and as many bytes. The first gives the module search path; each further one is a call. A call is
answered by `BEGUN`, and by one message when it is done.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import threading
import traceback
from importlib import import_module
from queue import SimpleQueue
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER = struct.Struct("!Q")
BEGUN = b"B"
"""Written before the work of a call begins: a process that ends without it has not run any of it."""


def main(requests_fd: int, replies_fd: int) -> None:
    """Work until the program that started this process closes the pipe of requests, or has ended."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a terminal sends them to everybody; the program decides who ends
    requests: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_feed, args=(requests_fd, requests), daemon=True).start()
    sys.path[:] = pickle.loads(requests.get())
    while True:
        request = requests.get()
        os.write(replies_fd, BEGUN)
        answer = _answer(request)
        _send(replies_fd, HEADER.pack(len(answer)) + answer)


def _feed(fd: int, requests: SimpleQueue[bytes]) -> None:
    """In a thread of its own, so that the end of the program ends a process that is busy."""
    while True:
        requests.put(_receive(fd, HEADER.unpack(_receive(fd, HEADER.size))[0]))


def _receive(fd: int, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = os.read(fd, min(size - len(found), 1 << 20))
        if not part:
            os._exit(0)
        found += part
    return bytes(found)


def _send(fd: int, reply: bytes) -> None:
    left = memoryview(reply)
    while left:
        left = left[os.write(fd, left) :]


def _answer(request: bytes) -> bytes:
    """`R` and the pickled result, `E` and a pickled exception with its traceback, or `F` and what can be said of it."""
    try:
        module, qualname, packed = pickle.loads(request)
        place: object = import_module(module)
        for name in qualname.split("."):
            place = getattr(place, name)
        fn = cast("Callable[..., object]", place)
        return b"R" + pickle.dumps(fn(*pickle.loads(packed)), pickle.HIGHEST_PROTOCOL)
    except BaseException as exc:  # noqa: ASYNC103 (there is no Trio in this process)
        text = "".join(traceback.format_exception(exc))
        if isinstance(exc, Exception):
            try:
                packed = pickle.dumps((exc.with_traceback(None), text), pickle.HIGHEST_PROTOCOL)
                pickle.loads(packed)  # many exceptions can be packed and not unpacked
            except Exception:
                pass
            else:
                return b"E" + packed  # noqa: ASYNC104
        return b"F" + pickle.dumps((type(exc).__qualname__, text), pickle.HIGHEST_PROTOCOL)  # noqa: ASYNC104


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
