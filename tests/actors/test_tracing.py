"""Guarantees: request tracing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import attrs
import pytest
import trio

from actors import ActorCrashed, Child, Inbox, TracedAsk, one_for_one
from tests.conformance import ROOT

from ._systems import Ask, Crash, Do, Doer, Note, Recorder, outcome_of, supervised
from ._trees import calls, raises, settled, sleeps, small_system, virtual

R = TypeVar("R")


@attrs.define
class Notes:
    """A tracer that writes down what it is told."""

    log: list[str] = attrs.field(factory=list[str])

    async def traced(self, ask: TracedAsk, answer: Awaitable[R], /) -> R:
        ask.note = len(self.log)
        self.log.append(f"{ask.asker} asks {ask.target} {type(ask.message).__qualname__}")
        return await answer

    @contextmanager
    def handling(self, ask: TracedAsk, /) -> Generator[None]:
        self.log.append(f"{ask.target} begins {ask.note}")
        try:
            yield
        except BaseException as exc:
            self.log.append(f"{ask.target} raises {type(exc).__qualname__}")
            raise
        self.log.append(f"{ask.target} ends {ask.note}")


@attrs.frozen
class More(Ask):
    """Of a class that its handler does not name."""


async def echo(inbox: Inbox[Ask | Note]) -> None:
    async for msg in inbox:
        if isinstance(msg, Ask):
            if msg.n < 0:
                raise Crash
            inbox.reply(msg, msg.n)


@virtual
async def test_a_tracer_is_told_who_asks_whom() -> None:
    tracer = Notes()
    async with small_system(tracer=tracer) as system:
        one = await system.spawn(echo, name="one")
        two = await system.spawn(Recorder, [], name="two")

        async def asks(_: Doer) -> list[int]:
            return [await one.ask(Ask(1)), await two.ask(More(2))]

        doer = await system.spawn(Doer, name="doer")
        assert await doer.ask(Do(asks)) == [1, 2]
        one.tell(Note(1))  # which nobody asks for
        assert await one.ask(Ask(3)) == 3
    asked = [line for line in tracer.log if "asks" in line]
    assert asked == ["None asks /doer Do", "/doer asks /one Ask", "/doer asks /two More", "None asks /one Ask"]
    begun = [line for line in tracer.log if "begins" in line]
    assert [line.split()[0] for line in begun] == ["/doer", "/one", "/two", "/one"]
    for line in begun:  # each with the note of its own ask, and ended later
        assert tracer.log.index(line.replace("begins", "ends")) > tracer.log.index(line)
    assert len(tracer.log) == 12


@virtual
async def test_a_tracer_sees_what_a_handler_raises() -> None:
    tracer = Notes()
    async with small_system(tracer=tracer) as system:
        for body, message in ((Doer, raises()), (echo, Ask(-1))):
            supervision = await system.supervise(one_for_one(), Child(body, name="child"))  # type: ignore[arg-type]
            ref: Any = system.find("/child", body)  # type: ignore[arg-type]
            assert isinstance(await outcome_of(ref.ask, message), ActorCrashed)
            assert "/child raises Crash" in tracer.log
            tracer.log.clear()
            await supervision.stop()


@virtual
async def test_a_tracer_that_fails_fails_the_ask_alone() -> None:
    class Broken(Notes):
        async def traced(self, ask: TracedAsk, answer: Awaitable[R], /) -> R:
            raise KeyError("tracer")

    async with small_system(tracer=Broken()) as system:
        ref = await system.spawn(Recorder, [])
        assert isinstance(await outcome_of(ref.ask, Ask(1)), KeyError)
        assert ref.alive


@virtual
async def test_cycles_are_found_under_a_tracer_too() -> None:
    async with small_system(tracer=Notes()) as system:
        ref = await system.spawn(Doer)
        failure = await ref.ask(Do(lambda actor: outcome_of(ref.ask, calls(lambda _: None))))
        assert type(failure).__name__ == "AskCycle"


# ---------------------------------------------------------------- OpenTelemetry


@pytest.fixture
def spans() -> Any:
    """A tracer, and a function that gives the spans that have ended by name, the last of each."""
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk comes with the extra `test`")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from actors.tracing import OpenTelemetryTracer

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def ended() -> dict[str, Any]:
        return {f"{span.name} {span.attributes['tenure.target']}": span for span in exporter.get_finished_spans()}

    return OpenTelemetryTracer(provider), ended


@pytest.mark.parametrize("body", [Recorder, echo])
@virtual
async def test_a_span_for_each_ask_and_one_for_its_handler(spans: Any, body: Any) -> None:
    tracer, ended = spans
    async with small_system(tracer=tracer) as system:
        target = await system.spawn(body, *([[]] if body is Recorder else []), name="target")

        async def asks(_: Doer) -> int:
            return await target.ask(Ask(1))

        doer = await system.spawn(Doer, name="doer")
        await doer.ask(Do(asks))
        await target.ask(Ask(2))  # the turn of a function ends with the next one
    found = ended()
    outer, handler = found["ask Do /doer"], found["handle Do /doer"]
    assert outer.parent is None
    assert handler.parent.span_id == outer.context.span_id
    assert dict(outer.attributes) == dict(handler.attributes) == {"tenure.target": "/doer", "tenure.message": "Do"}
    assert (outer.kind.name, handler.kind.name, outer.status.status_code.name) == ("CLIENT", "SERVER", "UNSET")
    assert found["handle Ask /target"].parent.span_id == found["ask Ask /target"].context.span_id


@virtual
async def test_the_spans_of_what_a_handler_asks_are_below_its_own(spans: Any) -> None:
    tracer, ended = spans
    async with small_system(tracer=tracer) as system:
        leaf = await system.spawn(Recorder, [], name="leaf")
        middle = await system.spawn(Doer, name="middle")
        top = await system.spawn(Doer, name="top")
        await top.ask(Do(lambda _: middle.ask(Do(lambda _: leaf.ask(Ask(1))))))
    found = ended()
    chain = [f"{verb} {ask}" for ask in ("Do /top", "Do /middle", "Ask /leaf") for verb in ("ask", "handle")]
    for above, below in pairwise(chain):
        assert found[below].parent.span_id == found[above].context.span_id
    assert len({span.context.trace_id for span in found.values()}) == 1
    assert found["ask Ask /leaf"].attributes["tenure.asker"] == "/middle"


@virtual
async def test_a_span_has_the_type_of_the_error_as_its_status(spans: Any) -> None:
    tracer, ended = spans
    async with small_system(tracer=tracer) as system:
        ref = await supervised(system, Doer)
        await outcome_of(ref.ask, raises(KeyError("private")))
        with trio.move_on_after(1):
            await ref.ask(sleeps(10))
        await settled()
    statuses = {
        name.split()[0] + " " + name.split()[1]: (span.status.status_code.name, span.attributes["error.type"])
        for name, span in ended().items()
    }
    assert statuses == {
        "ask DoNow": ("ERROR", "ActorCrashed"),
        "handle DoNow": ("ERROR", "KeyError"),
        "ask Do": ("ERROR", "Cancelled"),
        "handle Do": ("ERROR", "Cancelled"),
    }
    assert not any("private" in str(span.to_json()) for span in ended().values())


PROGRAM = """
import sys
sys.modules["opentelemetry"] = None  # as if it were not installed
from actors import ExtraMissing
from actors.tracing import OpenTelemetryTracer
try:
    OpenTelemetryTracer()
except ExtraMissing as error:
    print(error)
"""


def test_without_the_package_the_tracer_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "pip install 'tenure[otel]'" in done.stdout


def test_actors_do_not_load_opentelemetry() -> None:
    program = "import sys, actors, actors.tracing; sys.exit('opentelemetry' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
