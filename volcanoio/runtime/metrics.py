"""Metrics in Prometheus' text format, under exactly the names they were given.

Volcano's counters have no `_total`, which prometheus-client cannot express: it adds the suffix to every counter it
prints. So series are kept here, gauges and histograms go out through a registry of our own, and counters are written
beside it. Reporting is a dict operation; rendering thousands of series takes milliseconds and belongs in a thread.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from volcanoio.runtime.buckets import bounds_of

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Label names and values, sorted by name."""


class _Histogram:
    """Samples per bucket (the last one is above all bounds), and their sum."""

    __slots__ = ("buckets", "sum")

    def __init__(self, bounds: int) -> None:
        self.buckets = [0] * (bounds + 1)
        self.sum = 0.0


class PrometheusProbe(Collector):
    """A `framework.probe.Probe`. Report from one thread; `render` may run in another.

    `bounds` gives the upper bounds of a histogram by its name; `process` adds the figures of this process.
    """

    def __init__(self, bounds: Callable[[str], tuple[float, ...]] = bounds_of, *, process: bool = True) -> None:
        self._bounds_of = bounds
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
        series[key] = series.get(key, 0.0) + amount

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._gauges.setdefault(name, {})[_key(labels)] = value

    def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None:
        """Add a sample to a histogram, or so many alike."""
        series = self._histograms.get(name)
        if series is None:
            series = self._histograms[name] = {}
            self._bounds[name] = self._bounds_of(name)
        key = _key(labels)
        bounds = self._bounds[name]
        histogram = series.get(key)
        if histogram is None:
            histogram = series[key] = _Histogram(len(bounds))
        histogram.buckets[bisect_left(bounds, value)] += times
        histogram.sum += times * value

    def forget(self, name: str, **labels: str) -> None:
        """Drop every series of that name that has these labels, whatever others it has."""
        wanted, whole = set(labels.items()), _key(labels)
        series: tuple[dict[Labels, Any], ...] = tuple(
            known[name] for known in (self._counters, self._gauges, self._histograms) if name in known
        )
        for known in series:
            if known and len(next(iter(known))) == len(whole):  # a name has the same labels always
                known.pop(whole, None)
                continue
            for key in [key for key in known if wanted.issubset(key)]:
                del known[key]

    def value(self, name: str, **labels: str) -> float:
        """The value of a counter or gauge, 0 when it was never reported: for tests and health checks."""
        key = _key(labels)
        return self._counters.get(name, {}).get(key, self._gauges.get(name, {}).get(key, 0.0))

    async def render(self) -> bytes:
        """The whole page, made off the loop."""
        return await asyncio.to_thread(self.page)

    def page(self) -> bytes:
        """The whole page. `list` copies a dict's keys in one step, so reporting may go on meanwhile.

        Series are in the order in which they were first told: sorting 100,000 would keep the interpreter, and so the
        event loop, for a tenth of a second.
        """
        return b"".join((*_counter_lines(self._counters), generate_latest(self._registry)))

    def collect(self) -> Iterator[Metric]:
        """Gauges and histograms, for the registry."""
        for name, series in sorted(self._gauges.items()):
            gauge = GaugeMetricFamily(name, name)
            for labels in list(series):
                if (value := series.get(labels)) is not None:
                    gauge.add_sample(name, dict(labels), value)
            yield gauge
        for name, histograms in sorted(self._histograms.items()):
            family = HistogramMetricFamily(name, name)
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


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items())) if len(labels) > 1 else tuple(labels.items())


def _counter_lines(counters: Mapping[str, Mapping[Labels, float]]) -> Iterator[bytes]:
    """Counters as text (Prometheus: exposition formats, text-based format 0.0.4)."""
    for name, series in sorted(counters.items()):
        yield f"# HELP {name} {name}\n# TYPE {name} counter\n".encode()
        for labels in list(series):
            if (value := series.get(labels)) is None:
                continue
            inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
            yield f"{name}{{{inner}}} {value!r}\n".encode() if inner else f"{name} {value!r}\n".encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
