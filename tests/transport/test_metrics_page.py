"""Metrics and diagnostics as pages of the HTTP surface."""

from __future__ import annotations

from lifecycle import DiagnosticsSampler, RuntimeMetrics, ServiceLifecycle, open_runtime
from tests.transport._client import ask
from transport import HttpSurface


async def test_metrics_and_diagnostics_are_read_over_http() -> None:
    async with open_runtime() as context:
        sampler = DiagnosticsSampler(context)
        pages = {"/metrics": RuntimeMetrics(sampler.sample).page, "/diagnostics": sampler.page}
        surface = HttpSurface(pages=pages)
        service = ServiceLifecycle()
        await service.start(context, surface)
        metrics = await ask(surface, "GET", "/metrics")
        assert metrics.status == 200
        assert metrics.headers["content-type"].startswith("text/plain; version=")
        assert b"tenure_runtime_ready 1.0" in metrics.body
        found = (await ask(surface, "GET", "/diagnostics")).json
        assert found["redacted"] is True
        assert (await ask(surface, "POST", "/diagnostics")).status == 405
