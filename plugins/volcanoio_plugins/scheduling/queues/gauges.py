"""Metrics of queues (Volcano: pkg/scheduler/metrics/queue.go)."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.views import QueueView
from volcanoio.model.resources import CPU, MEMORY
from volcanoio.model.scheduling import Queue
from volcanoio_plugins.scheduling.queues.attributes import QueueAttributes
from volcanoio_plugins.scheduling.queues.quantities import Quantities

_UNITS = {CPU: "milli_cpu", MEMORY: "memory_bytes"}
_ZERO = {CPU: 0, MEMORY: 0}
"""Reported also for queues that have none of them."""
_OURS = "guarantee"
"""The part that Volcano does not report."""
_Series: TypeAlias = tuple[str, dict[str, str]]
"""A gauge's name and its labels."""


class QueueGauges:
    """Reports the amounts of each queue, and forgets deleted queues.

    `overused` returns whether a queue has its share. Amounts from `unlimited` on are not reported.
    """

    def __init__(self, overused: Callable[[QueueAttributes], bool], unlimited: int | None = None) -> None:
        self._overused = overused
        self._unlimited = float("inf") if unlimited is None else unlimited / 2
        self._reported: dict[str, list[_Series]] = {}
        """The series last reported, by queue."""
        self._idle: dict[str, Queue] = {}
        """Queues without jobs that were reported, with their object then: they are not reported again while it is the
        same.
        """

    def report(
        self, probe: Probe, attrs: Iterable[QueueAttributes], idle: Iterable[tuple[QueueView, Quantities]]
    ) -> None:
        """Set the gauges; `idle` are the queues without jobs, and what they deserve."""
        before, idle_before = self._reported, self._idle
        self._reported, self._idle = {}, {}
        for attr in attrs:
            parts: dict[str, Quantities] = {
                "allocated": {**_ZERO, **attr.allocated()},
                "request": {**_ZERO, **attr.requested},
                "inqueue": {**_ZERO, **attr.admitted()},
                "deserved": {**_ZERO, **attr.deserved},
                "capacity": attr.queue.capability,
                "real_capacity": attr.real_capability,
                "guarantee": {**_ZERO, **attr.queue.guarantee},
            }
            self._report_queue(probe, attr.queue, parts, attr.share(), overused=self._overused(attr))
        for queue, deserved in idle:
            self._idle[queue.name] = queue.object
            if idle_before.get(queue.name) is queue.object:
                self._reported[queue.name] = before[queue.name]
                continue
            nothing: dict[str, Quantities] = dict.fromkeys(("allocated", "request", "inqueue"), _ZERO)
            parts = {**nothing, "deserved": {**_ZERO, **deserved}, "capacity": queue.capability}
            parts["guarantee"] = {**_ZERO, **queue.guarantee}
            self._report_queue(probe, queue, parts, 0.0, overused=False)
        for name, series in before.items():
            if (kept := self._reported.get(name, [])) != series:
                for gauge in series:
                    if gauge not in kept:
                        probe.forget(gauge[0], **gauge[1])

    def _report_queue(
        self, probe: Probe, queue: QueueView, parts: Mapping[str, Quantities], share: float, *, overused: bool
    ) -> None:
        series = self._reported[queue.name] = []

        def gauge(name: str, value: float, **labels: str) -> None:
            full = f"volcanoio_queue_{name}" if name.startswith(_OURS) else f"volcano_queue_{name}"
            probe.gauge(full, value, queue_name=queue.name, **labels)
            series.append((full, {"queue_name": queue.name, **labels}))

        for part, amounts in parts.items():
            for resource, amount in amounts.items():
                if amount >= self._unlimited:
                    continue
                if unit := _UNITS.get(resource):
                    gauge(f"{part}_{unit}", amount)
                else:
                    gauge(f"{part}_scalar_resources", amount, resource=resource)
        gauge("share", share)
        gauge("weight", queue.weight)
        gauge("overused", float(overused))
