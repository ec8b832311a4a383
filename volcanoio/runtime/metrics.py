"""Metrics in Prometheus' text format, with exactly the given names.

Volcano's counters have no `_total`, which prometheus-client cannot express: it adds the suffix to every counter it
prints. So this module stores the series; gauges and histograms are printed through a registry of its own, and counters
are written separately. Recording is a dict operation; rendering thousands of series takes milliseconds and belongs on a
thread. What a metric means, and the bounds of a histogram, are in `metric_catalogue`.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from volcanoio.runtime.metric_catalogue import CATALOGUE, bucket_bounds

SERIES_LIMIT = 5000
"""Default limit of series for a metric with labels of jobs or pods, and for one that is not in the catalogue."""
DROPPED = "volcanoio_metrics_series_dropped_total"


Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Label names and values, sorted by name."""


class _Histogram:
    """Samples per bucket (the last one is above all bounds), and their sum."""

    __slots__ = ("buckets", "sum")

    def __init__(self, bounds: int) -> None:
        self.buckets = [0] * (bounds + 1)
        self.sum = 0.0


class PrometheusProbe(Collector):
    """A `framework.probe.Probe`. Record from one thread; `render` may run on another.

    `bounds` returns the upper bounds of a histogram by its name; `process` adds the metrics of this process. Of a
    metric with a label for each job or pod, and of one that is not in the catalogue, at most `series_limit` series
    exist at a time; records of further ones are counted and dropped, so that a page stays small.
    """

    def __init__(
        self,
        bounds: Callable[[str], tuple[float, ...]] = bucket_bounds,
        *,
        process: bool = True,
        series_limit: int = SERIES_LIMIT,
    ) -> None:
        self._bounds_of = bounds
        self._series_limit = series_limit
        self._unlimited = frozenset(metric.name for metric in CATALOGUE.values() if not metric.is_per_job)
        self._bounds: dict[str, tuple[float, ...]] = {}
        self._counters: dict[str, dict[Labels, float]] = {}
        self._gauges: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, _Histogram]] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        if process:
            ProcessCollector(registry=self._registry)

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        series = self._counters.setdefault(name, {})
        key = _key(labels)
        if (value := series.get(key)) is not None:
            series[key] = value + amount
        elif self._may_add(name, series):
            series[key] = amount

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        series = self._gauges.setdefault(name, {})
        key = _key(labels)
        if key in series or self._may_add(name, series):
            series[key] = value

    def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None:
        """Add a sample to a histogram, or `times` equal ones."""
        series = self._histograms.get(name)
        if series is None:
            series = self._histograms[name] = {}
            self._bounds[name] = self._bounds_of(name)
        key = _key(labels)
        bounds = self._bounds[name]
        histogram = series.get(key)
        if histogram is None:
            if not self._may_add(name, series):
                return
            histogram = series[key] = _Histogram(len(bounds))
        histogram.buckets[bisect_left(bounds, value)] += times
        histogram.sum += times * value

    def _may_add(self, name: str, series: Mapping[Labels, Any]) -> bool:
        """Return whether the metric may have another series; counts the record that is dropped otherwise."""
        if len(series) < self._series_limit or name in self._unlimited:
            return True
        self.count(DROPPED, metric=name)
        return False

    def forget(self, name: str, **labels: str) -> None:
        """Remove every series of that name that has these labels, among others."""
        wanted, whole = set(labels.items()), _key(labels)
        series: tuple[dict[Labels, Any], ...] = tuple(
            known[name] for known in (self._counters, self._gauges, self._histograms) if name in known
        )
        for known in series:
            if known and len(next(iter(known))) == len(whole):  # all series of a name have the same labels
                known.pop(whole, None)
                continue
            for key in [key for key in known if wanted.issubset(key)]:
                del known[key]

    def value(self, name: str, **labels: str) -> float:
        """Return the value of a counter or gauge, 0 if it was never recorded; for tests and health checks."""
        key = _key(labels)
        return self._counters.get(name, {}).get(key, self._gauges.get(name, {}).get(key, 0.0))

    async def render(self) -> bytes:
        """Render the whole page on a thread."""
        return await asyncio.to_thread(self.page)

    def page(self) -> bytes:
        """Render the whole page. `list` copies a dict's keys in one step, so recording may continue meanwhile.

        Series are in the order of their first record: sorting 100,000 would block the interpreter, and so the event
        loop, for a tenth of a second.
        """
        return b"".join((*_counter_lines(self._counters), generate_latest(self._registry)))

    def collect(self) -> Iterator[Metric]:
        """Yield gauges and histograms, for the registry."""
        for name, series in sorted(self._gauges.items()):
            gauge = GaugeMetricFamily(name, _help(name))
            for labels in list(series):
                if (value := series.get(labels)) is not None:
                    gauge.add_sample(name, dict(labels), value)
            yield gauge
        for name, histograms in sorted(self._histograms.items()):
            family = HistogramMetricFamily(name, _help(name))
            for labels in list(histograms):
                if (histogram := histograms.get(labels)) is not None:
                    self._add_histogram(family, name, labels, histogram)
            yield family

    def _add_histogram(self, family: HistogramMetricFamily, name: str, labels: Labels, histogram: _Histogram) -> None:
        running = 0
        buckets = list(histogram.buckets)
        for bound, number in zip((*self._bounds[name], float("inf")), buckets, strict=True):
            running += number
            edge = "+Inf" if bound == float("inf") else f"{bound:.6g}"
            family.add_sample(f"{name}_bucket", {**dict(labels), "le": edge}, running)
        family.add_sample(f"{name}_count", dict(labels), running)
        family.add_sample(f"{name}_sum", dict(labels), histogram.sum)


def _help(name: str) -> str:
    """Return a metric's meaning, its name if it is not in the catalogue."""
    return CATALOGUE[name].meaning if name in CATALOGUE else name


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items())) if len(labels) > 1 else tuple(labels.items())


def _counter_lines(counters: Mapping[str, Mapping[Labels, float]]) -> Iterator[bytes]:
    """Return counters as text (Prometheus: exposition formats, text-based format 0.0.4)."""
    for name, series in sorted(counters.items()):
        yield f"# HELP {name} {_help(name)}\n# TYPE {name} counter\n".encode()
        for labels in list(series):
            if (value := series.get(labels)) is None:
                continue
            inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
            yield f"{name}{{{inner}}} {value!r}\n".encode() if inner else f"{name} {value!r}\n".encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
