"""Metrics for Prometheus: diagnostics snapshots as a collector. Needs the extra `metrics`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, cast, final

import trio

from ._diagnostics_errors import MetricsUnavailable
from ._metrics_samples import samples
from ._metrics_vocabulary import METRICS
from ._schedule_snapshot import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.metrics_core import Metric as Exported

    from ._diagnostics import DiagnosticsSnapshot
    from ._metrics_vocabulary import Metric

    Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


@final
class RuntimeMetrics:
    """The numbers of diagnostics snapshots as metrics, whose label values come from closed sets: whatever names the
    program uses, there are no more series.

    `source` takes the snapshots: `DiagnosticsSampler.sample`, or a function that calls `diagnose`. Make it in the
    runtime's own thread; to be read in any: a registry of another thread waits for the runtime to take the snapshot,
    and gets nothing once that is over. Counters never go down, though what they add up may come and go.

    Registers itself nowhere: `render` has a registry of its own, `registry.register(metrics)` gives it to another.
    Raises `MetricsUnavailable` where prometheus-client is not installed.
    """

    def __init__(self, source: Callable[[], DiagnosticsSnapshot]) -> None:
        try:
            import_module("prometheus_client")
        except ImportError:
            raise MetricsUnavailable from None
        self._source = source
        self._token = trio.lowlevel.current_trio_token()
        self._counts: dict[tuple[str, ...], tuple[float, float]] = {}

    def collect(self) -> Iterable[Exported]:
        """The metrics as they stand. A metric of a section that is absent has no samples."""
        if trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is self._token:
            return self._collect()
        try:
            return trio.from_thread.run_sync(self._collect, trio_token=self._token)
        except trio.RunFinishedError:
            return []

    def describe(self) -> Iterable[Exported]:
        """All metrics there are, without samples."""
        return [_family(metric) for metric in METRICS.values()]

    def render(self) -> tuple[str, bytes]:
        """The content type and the text of the metrics, as Prometheus reads them."""
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return CONTENT_TYPE_LATEST, generate_latest(registry)

    def page(self) -> tuple[int, str, bytes]:
        """`render` as an HTTP answer. For `pages` of `transport.HttpSurface`."""
        return 200, *self.render()

    def _collect(self) -> list[Family]:
        families = {name: _family(metric) for name, metric in METRICS.items()}
        for name, labels, value in samples(self._source()):
            if isinstance(value, Histogram):
                buckets, total = self._cumulative((name, *labels), value)
                cast("HistogramMetricFamily", families[name]).add_metric(labels, buckets, total)
            elif METRICS[name].kind == "counter":
                cast("CounterMetricFamily", families[name]).add_metric(labels, self._grown((name, *labels), value))
            else:
                cast("GaugeMetricFamily", families[name]).add_metric(labels, float(value))
        return list(families.values())

    def _cumulative(self, key: tuple[str, ...], histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
        """The buckets as Prometheus has them, each with all that is below it, and the sum."""
        buckets: list[tuple[str, float]] = []
        below = 0.0
        for bound, count in zip([*map(str, histogram.bounds), "+Inf"], histogram.counts, strict=True):
            below += self._grown((*key, bound), count)
            buckets.append((bound, below))
        return buckets, self._grown((*key, "sum"), histogram.total)

    def _grown(self, key: tuple[str, ...], now: float) -> float:
        """A counter that stays where it was when what it adds up has lost a part."""
        last, lost = self._counts.get(key, (0.0, 0.0))
        lost += max(0.0, last - now)
        self._counts[key] = now, lost
        return now + lost


def _family(metric: Metric) -> Family:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    labels = tuple(metric.labels)
    if metric.kind == "counter":
        return CounterMetricFamily(metric.name, metric.text, labels=labels)
    if metric.kind == "gauge":
        return GaugeMetricFamily(metric.name, metric.text, labels=labels)
    return HistogramMetricFamily(metric.name, metric.text, labels=labels)
