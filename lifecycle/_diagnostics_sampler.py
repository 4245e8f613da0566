"""Diagnostics for those who ask often, or from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import trio

from ._diagnostics import DEFAULT_OPTIONS, diagnose
from ._diagnostics_errors import DiagnosticsInvalid

if TYPE_CHECKING:
    from ._context import ServiceContext
    from ._diagnostics import DiagnosticsOptions, DiagnosticsSnapshot
    from ._diagnostics_sources import DiagnosticsSources


@final
class DiagnosticsSampler:
    """Takes snapshots, at most one each `max_age` seconds: whoever asks more often gets the last one again.

    So a client that asks all the time costs no more than one that asks now and then. Raises `DiagnosticsInvalid` for a
    `max_age` below 0. Use it in the runtime's own thread.
    """

    __slots__ = ("_context", "_last", "_max_age", "_options", "_sources")

    def __init__(
        self,
        context: ServiceContext,
        options: DiagnosticsOptions = DEFAULT_OPTIONS,
        sources: DiagnosticsSources | None = None,
        *,
        max_age: float = 1.0,
    ) -> None:
        if not max_age >= 0:
            raise DiagnosticsInvalid(("max_age must be a number of seconds, at least 0",))
        self._context = context
        self._options = options
        self._sources = sources
        self._max_age = max_age
        self._last: DiagnosticsSnapshot | None = None

    def sample(self) -> DiagnosticsSnapshot:
        """A snapshot that is less than `max_age` seconds old; its `at` says when it was taken. Sync."""
        last = self._last
        if last is None or trio.current_time() - last.at >= self._max_age:
            last = self._last = diagnose(self._context, self._options, self._sources)
        return last

    def page(self) -> tuple[int, str, bytes]:
        """The sample as an HTTP answer: status, content type, JSON. For `pages` of `transport.HttpSurface`.

        A sampler whose options show names should be on no page that everybody can reach.
        """
        return 200, "application/json", self.sample().to_json().encode()
