"""Structured log events, by the standard library and by structlog."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider

from lifecycle import EventLog, RuntimeConfig, current_trace_id, open_runtime


@contextmanager
def configured() -> Generator[list[dict[str, object]], None, None]:
    seen: list[dict[str, object]] = []

    def keep(_: object, level: str, event: dict[str, object]) -> str:
        seen.append({**event, "level": level})
        raise structlog.DropEvent

    structlog.configure(processors=[keep])
    try:
        yield seen
    finally:
        structlog.reset_defaults()


async def test_without_structlog_an_event_is_a_record_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tenure.events")
    async with open_runtime() as context:
        log = context.component("store").log
        log.debug("not shown")
        log.info("compacted", files=3, name="a field may be called anything")
    (record,) = [record for record in caplog.records if record.name == "tenure.events"]
    assert record.getMessage() == "/store: compacted files=3 name='a field may be called anything'"
    assert (record.levelname, vars(record)["component"], vars(record)["event"]) == ("INFO", "/store", "compacted")
    assert vars(record)["fields"] == {"files": 3, "name": "a field may be called anything"}
    assert vars(record)["trace_id"] is None
    assert record.filename == "test_logs.py"  # where it was said, and not in the library


def test_an_error_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    EventLog("/store").error("lost", error=ValueError("planted"))
    (record,) = caplog.records
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "critical"])
def test_with_structlog_configured_an_event_is_one_of_its_own(level: str, caplog: pytest.LogCaptureFixture) -> None:
    with configured() as seen:
        getattr(EventLog("/store"), level)("compacted", files=3)
    assert seen == [{"event": "compacted", "files": 3, "component": "/store", "trace_id": None, "level": level}]
    assert caplog.records == []


def test_an_event_says_in_which_trace_it_happened() -> None:
    tracer = TracerProvider().get_tracer("test")
    assert current_trace_id() is None
    with configured() as seen, tracer.start_as_current_span("request") as span:
        EventLog("/store").info("read")
        assert current_trace_id() == f"{span.get_span_context().trace_id:032x}"
    assert seen[0]["trace_id"] == f"{span.get_span_context().trace_id:032x}"


async def test_the_failure_of_a_task_is_logged_with_the_component_it_was_in(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("planted")

    with pytest.raises(ExceptionGroup):
        async with open_runtime(RuntimeConfig(signals=False)) as context:
            await context.component("store").group.spawn(fail).wait()
    (record,) = [record for record in caplog.records if record.getMessage().startswith("task ")]
    assert (vars(record)["component"], vars(record)["trace_id"]) == ("/store", None)
