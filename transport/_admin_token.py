"""The admin token: read from a file, kept as a digest, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import stat
from typing import final

import trio

from ._errors import AdminTokenRefused

LEAST, MOST = 16, 4096
"""Characters of a token."""

_log = logging.getLogger("tenure.transport")


@final
class AdminToken:
    """What a caller must know to change something over HTTP. Holds no more than a digest of it."""

    __slots__ = ("_digest",)

    def __init__(self, token: bytes) -> None:
        self._digest = hashlib.sha256(token).digest()

    def __repr__(self) -> str:
        return "<AdminToken>"

    @classmethod
    async def read(cls, path: str | os.PathLike[str]) -> AdminToken:
        """Read the token from a file, without the white space around it. Raises `AdminTokenRefused`. Cancelling it
        leaves the read to its thread."""
        return cls(await trio.to_thread.run_sync(_read, os.fspath(path), abandon_on_cancel=True))

    def admits(self, authorization: bytes | None) -> bool:
        """Whether the value of an `Authorization` header is `Bearer` and this token."""
        scheme, _, token = (authorization or b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(hashlib.sha256(token.strip()).digest(), self._digest)


def _read(path: str) -> bytes:
    try:
        # Not blocked by a pipe that nobody writes to: such a thing is refused below.
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(number, "rb") as file:
            about = os.fstat(number)
            token = file.read(MOST + 64) if stat.S_ISREG(about.st_mode) else None
    except OSError as exc:
        raise AdminTokenRefused(path, exc.strerror or type(exc).__name__) from exc
    if token is None:
        raise AdminTokenRefused(path, "not a regular file")
    token = token.strip()
    if not LEAST <= len(token) <= MOST:
        raise AdminTokenRefused(path, "too short" if len(token) < LEAST else "too long")
    if not all(0x21 <= byte <= 0x7E for byte in token):
        raise AdminTokenRefused(path, "a character that a header cannot carry")
    if about.st_mode & stat.S_IROTH:
        _log.warning("the admin token in %s can be read by every user of this machine", path)
    return token
