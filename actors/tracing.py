"""Request tracing with OpenTelemetry, for `open_system(tracer=OpenTelemetryTracer())`. Needs the extra `otel`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, cast, final

from ._errors import ExtraMissing
from ._tracing import TracedAsk, Tracer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, TracerProvider

__all__ = ["OpenTelemetryTracer", "TracedAsk", "Tracer"]

R = TypeVar("R")


@final
class OpenTelemetryTracer:
    """A span for each ask, from the call to the answer, and within it one for the handler.

    Both have the attributes `tenure.target` (a path), `tenure.message` (the class) and, where an actor asks,
    `tenure.asker` (a path). A span that ends by an exception has the status *error*, with the class of the exception as
    `error.type`; texts and messages, which may be private, are left out. The spans of what a handler asks are below its
    own, so a trace shows who asked whom.

    `provider` is the tracer provider, by default the global one. Raises `ExtraMissing` where OpenTelemetry is not
    installed. Without its SDK the spans go nowhere.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import trace
        except ImportError:
            raise ExtraMissing("OpenTelemetryTracer", "opentelemetry-api", "otel") from None
        self._trace = trace
        self._tracer = trace.get_tracer("tenure.actors", tracer_provider=provider)

    async def traced(self, ask: TracedAsk, answer: Awaitable[R], /) -> R:
        """See `Tracer.traced`."""
        with self._span("ask", ask, self._trace.SpanKind.CLIENT) as span:
            ask.note = self._trace.set_span_in_context(span)
            return await answer

    @contextmanager
    def handling(self, ask: TracedAsk, /) -> Generator[object]:
        """See `Tracer.handling`."""
        with self._span("handle", ask, self._trace.SpanKind.SERVER, cast("Context | None", ask.note)) as span:
            yield span

    @contextmanager
    def _span(self, verb: str, ask: TracedAsk, kind: SpanKind, above: Context | None = None) -> Generator[Span]:
        message = type(ask.message).__qualname__
        attributes = {"tenure.target": ask.target, "tenure.message": message}
        if ask.asker is not None:
            attributes["tenure.asker"] = ask.asker
        with self._tracer.start_as_current_span(
            f"{verb} {message}",
            context=above,
            kind=kind,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as exc:
                name = type(exc).__qualname__
                span.set_attribute("error.type", name)
                span.set_status(self._trace.StatusCode.ERROR, name)
                raise
