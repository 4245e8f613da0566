"""Making a shutdown report known, and ending a process that does not end by itself."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._report import ShutdownReport

_log = logging.getLogger("tenure.lifecycle")


def publish(report: ShutdownReport, sink: Callable[[ShutdownReport], None] | None) -> None:
    """Log the report and hand it to the sink. Never raises an `Exception`: what the sink raises is logged."""
    extra = {
        "runtime": report.name,
        "reason": report.reason,
        "outcome": report.outcome,
        "healthy": report.is_healthy(),
        "totals": report.totals().nonzero(),
    }
    if report.outcome == "overrun":
        _log.critical("%s", report.render(), extra=extra)
    elif report.is_healthy():
        _log.info("%s", report.render(), extra=extra)
    else:
        _log.error("%s", report.render(), extra=extra)
    if sink is not None:
        try:
            sink(report)
        except Exception:
            _log.exception("the report sink of runtime %s failed; the report is in the log", report.name)


def say_still_running(runtime: str, paths: list[str], late: float) -> None:
    """Say again that the runtime has not ended, `late` seconds after its end."""
    _log.critical(
        "runtime %s should have ended %.0f s ago and waits for %s",
        runtime,
        late,
        ", ".join(paths) or "the end of its tasks",
        extra={"runtime": runtime, "late": late, "still_running": paths},
    )


def end_process(status: int) -> NoReturn:
    """Flush what can be flushed and end the process at once, past everything that still runs in it."""
    for handler in logging.getLogger().handlers + _log.handlers:
        with suppress(Exception):
            handler.flush()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(status)
