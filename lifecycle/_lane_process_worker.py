"""A process of a process lane, seen from the program: started, asked, killed by its own id."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, cast, final

import trio

from ._lane_errors import WorkNotPortable
from ._lane_worker import BEGUN, HEADER

if TYPE_CHECKING:
    from collections.abc import Callable

_PROGRAM = Path(__file__).with_name("_lane_worker.py")


class TooLarge(Exception):
    """An answer has more bytes than it may; `size` of them."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class RemoteTraceback(Exception):
    """Where an exception came up in the other process: the cause of what the caller gets."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@final
class Worker:
    """One process and the two pipes to it."""

    __slots__ = ("_replies", "_requests", "began", "greeted", "process")

    def __init__(self, process: trio.Process, requests_fd: int, replies_fd: int) -> None:
        self.process = process
        self.greeted = False
        """Whether it has been told where to find modules."""
        self.began = False
        """Whether the work of the last call has begun, as far as is known; it has not if the process ended before."""
        self._requests = trio.lowlevel.FdStream(requests_fd)
        self._replies = trio.lowlevel.FdStream(replies_fd)

    @staticmethod
    async def start() -> Worker:
        """Start a process. Raises `OSError`. Cancelling leaves none behind."""
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # -P: the folder of the program is no place to import from.
        command = [sys.executable, "-P", str(_PROGRAM), str(theirs_in), str(theirs_out)]
        try:
            # Trio cancels this before the process is there, or not at all.
            process = await trio.lowlevel.open_process(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs_in, theirs_out),
                start_new_session=True,  # so that a kill takes along what it has started itself
            )
        except BaseException:
            os.close(ours_in)
            os.close(ours_out)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        return Worker(process, ours_out, ours_in)

    @property
    def alive(self) -> bool:
        """Whether the process runs, as far as is known."""
        return self.process.poll() is None

    async def ask(self, request: bytes, limit: int) -> bytes:
        """Send a call and return the answer. Raises `TooLarge`, `trio.BrokenResourceError` (it has gone)."""
        self.began = False
        if not self.greeted:
            self.greeted = True
            await self._send(pickle.dumps(sys.path))
        await self._send(request)
        await self._read(len(BEGUN))
        self.began = True
        (size,) = HEADER.unpack(await self._read(HEADER.size))
        if size > limit:
            raise TooLarge(size)
        return await self._read(size)

    async def _send(self, message: bytes) -> None:
        await self._requests.send_all(HEADER.pack(len(message)))
        await self._requests.send_all(message)

    async def _read(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            part = await self._replies.receive_some(min(size - len(found), 1 << 20))
            if not part:
                raise trio.BrokenResourceError("the pipe has ended")
            found += part
        return bytes(found)

    def kill(self) -> None:
        """End the process and those that it has started, now. Sync; may be called again."""
        if self.process.poll() is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self.process.kill()  # it has not yet got to the session of its own

    async def bury(self) -> int | None:
        """Kill the process, wait until it has ended, and return its status. Not ended by cancellation."""
        self.kill()
        with trio.CancelScope(shield=True):
            await self.process.wait()
            await self._requests.aclose()
            await self._replies.aclose()
        return self.process.returncode


def pack(lane: str, fn: Callable[..., object], args: tuple[object, ...], limit: int) -> bytes:
    """A call as bytes. Raises `WorkNotPortable`."""
    module = getattr(fn, "__module__", None)
    qualname = getattr(fn, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or module == "__main__":
        raise WorkNotPortable(lane, "what is to be called is no function of an importable module")
    try:
        found = reduce(getattr, qualname.split("."), cast("object", sys.modules.get(module)))
    except AttributeError:
        found = None
    if found is not fn:
        raise WorkNotPortable(lane, f"{module}:{qualname} is not the function that was given")
    try:
        request = pickle.dumps((module, qualname, pickle.dumps(args, pickle.HIGHEST_PROTOCOL)), pickle.HIGHEST_PROTOCOL)
    except Exception as exc:
        raise WorkNotPortable(lane, f"its arguments cannot be pickled ({type(exc).__name__})") from exc
    if len(request) > limit:
        raise WorkNotPortable(lane, f"its arguments have {len(request)} bytes and the limit is {limit}")
    return request
