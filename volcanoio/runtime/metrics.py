"""Metrics in Prometheus' text format, with exactly the given names.

Volcano's counters have no `_total`, which prometheus-client cannot express: it adds the suffix to every counter it
prints. So this module stores the series; gauges and histograms are printed through a registry of its own, and counters
are written separately. Recording is a dict operation; rendering thousands of series takes milliseconds and belongs on a
thread. Histogram bounds are Volcano's (pkg/scheduler/metrics, pkg/controllers) where Volcano has the histogram.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector


def exponential(lowest: float, highest: float, count: int) -> tuple[float, ...]:
    """Return `count` bounds from lowest to highest with a constant factor (Go: ExponentialBucketsRange)."""
    factor = (highest / lowest) ** (1 / (count - 1))
    return tuple(lowest * factor**power for power in range(count))


DEFAULT = exponential(0.0001, 100.0, 19)
"""Bounds of histograms that are not in the table: seconds, from 100 µs to 100 s."""

SIZES = tuple(float(2**power) for power in range(15))
"""Bounds for counts, such as the size of a batch."""

BUCKETS: Mapping[str, tuple[float, ...]] = {
    "volcano_e2e_scheduling_latency_milliseconds": exponential(1, 5000, 20),
    "volcano_open_session_duration_milliseconds": exponential(1, 5000, 20),
    "volcano_e2e_job_scheduling_latency_milliseconds": exponential(100, 120000, 30),
    "volcano_plugin_scheduling_latency_milliseconds": exponential(0.1, 100, 15),
    "volcano_action_scheduling_latency_milliseconds": exponential(1, 2000, 20),
    "volcano_task_scheduling_latency_milliseconds": exponential(50, 60000, 30),
    "volcano_scheduling_stage_duration_milliseconds": exponential(0.1, 500, 20),
    "volcano_controller_job_to_pod_creation_latency_milliseconds": exponential(50, 60000, 30),
}


def bucket_bounds(name: str) -> tuple[float, ...]:
    """Return the bounds of a histogram; those of sizes are recognised by the end of their names."""
    return BUCKETS.get(name) or (SIZES if name.endswith(("_size", "_count", "_pods")) else DEFAULT)


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

    `bounds` returns the upper bounds of a histogram by its name; `process` adds the metrics of this process.
    """

    def __init__(self, bounds: Callable[[str], tuple[float, ...]] = bucket_bounds, *, process: bool = True) -> None:
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
        """Add a sample to a histogram, or `times` equal ones."""
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
    """Return counters as text (Prometheus: exposition formats, text-based format 0.0.4)."""
    for name, series in sorted(counters.items()):
        yield f"# HELP {name} {name}\n# TYPE {name} counter\n".encode()
        for labels in list(series):
            if (value := series.get(labels)) is None:
                continue
            inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
            yield f"{name}{{{inner}}} {value!r}\n".encode() if inner else f"{name} {value!r}\n".encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
