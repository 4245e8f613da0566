"""Accepting connections: which errors are the connection's, which pass, which are the end of the listener."""

from __future__ import annotations

import errno
from typing import final

MAX_FAILURES = 64
"""Failures in a row after which a listener is given up."""

LEAST_PAUSE, MOST_PAUSE = 0.01, 1.0
"""Seconds before the next try; doubled at each failure in a row."""

# The connection that was to be accepted is broken, the listener is well (accept(2) on Linux passes them on).
_OF_THE_CONNECTION = frozenset(
    getattr(errno, name)
    for name in (
        "ECONNABORTED", "EPROTO", "ENETDOWN", "ENOPROTOOPT", "EHOSTDOWN", "ENONET", "EHOSTUNREACH", "EOPNOTSUPP",
        "ENETUNREACH", "EPERM", "EINTR", "EAGAIN",
    )
    if hasattr(errno, name)
)  # fmt: skip
# No later try can succeed.
_FINAL = frozenset((errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EFAULT))


@final
class AcceptPolicy:
    """Decides what follows an error of `accept`. Knows no clock and no socket."""

    __slots__ = ("failures",)

    def __init__(self) -> None:
        self.failures = 0

    def accepted(self) -> None:
        """A connection came."""
        self.failures = 0

    def failed(self, error: int | None) -> float | None:
        """An error came. Seconds to wait before the next try; None to give up."""
        if error in _OF_THE_CONNECTION:
            return 0.0
        self.failures += 1
        if error in _FINAL or self.failures >= MAX_FAILURES:
            return None
        return min(MOST_PAUSE, LEAST_PAUSE * 2.0 ** (self.failures - 1))
