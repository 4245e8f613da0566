"""Structured log events: each says which component it is of, and in which trace it happened.

They go to structlog where that is installed and configured, and otherwise to the standard library's `logging`, with the
fields at the record.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Literal, final

if TYPE_CHECKING:
    from collections.abc import Mapping

Level = Literal["debug", "info", "warning", "error", "critical"]

LEVELS: dict[Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}


def current_trace_id() -> str | None:
    """The id of the OpenTelemetry trace that the caller is in, 32 hexadecimal digits; None outside of one.

    A program that has not imported OpenTelemetry is in none, and this does not import it.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    span = trace.get_current_span().get_span_context()
    return f"{span.trace_id:032x}" if span.is_valid else None


def place(component: str) -> dict[str, object]:
    """What every record says of where it comes from: `component`, and `trace_id`, which may be None."""
    return {"component": component, "trace_id": current_trace_id()}


@final
class EventLog:
    """The log of one component. `context.log` gives it.

    `log.info("compacted", files=3)` is an event with fields. With structlog (installed, and configured by the program)
    it is one of structlog's, with `component`, `trace_id` and the fields. Otherwise it is a record of the logger
    "tenure.events": its message is the event with its fields, and it has the attributes `component`, `trace_id`,
    `event` and `fields`. Nothing here looks into what the fields hold: keep secrets out of them.

    Sync, no checkpoint; may be used in any thread.
    """

    __slots__ = ("component",)

    def __init__(self, component: str) -> None:
        self.component: str = component

    def debug(self, event: str, /, **fields: object) -> None:
        """For those who look for a fault."""
        self._emit("debug", event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """Something happened as it should."""
        self._emit("info", event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Something that somebody should look at some time."""
        self._emit("warning", event, fields)

    def error(self, event: str, /, *, error: BaseException | None = None, **fields: object) -> None:
        """Something failed; `error` is logged with its traceback."""
        self._emit("error", event, fields, error)

    def critical(self, event: str, /, *, error: BaseException | None = None, **fields: object) -> None:
        """Something that somebody should look at now."""
        self._emit("critical", event, fields, error)

    def _emit(self, level: Level, event: str, fields: Mapping[str, object], error: BaseException | None = None) -> None:
        structlog: Any = sys.modules.get("structlog")
        where = place(self.component)
        if structlog is not None and structlog.is_configured():
            more = {} if error is None else {"exc_info": error}
            getattr(structlog.get_logger("tenure.events"), level)(event, **{**fields, **where, **more})
            return
        log = logging.getLogger("tenure.events")
        if log.isEnabledFor(LEVELS[level]):
            shown = "".join(f" {name}={value!r}" for name, value in fields.items())
            extra = {**where, "event": event, "fields": dict(fields)}
            log.log(LEVELS[level], "%s: %s%s", self.component, event, shown, exc_info=error, extra=extra, stacklevel=3)
