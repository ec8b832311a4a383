"""Gauges of queues under Volcano's names (pkg/scheduler/metrics/queue.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.views import QueueView
from volcanoio.model.resources import CPU, MEMORY
from volcanoio.model.scheduling import Queue
from volcanoio_plugins.scheduling.queues.accounts import Account
from volcanoio_plugins.scheduling.queues.quantities import Quantities

_UNITS = {CPU: "milli_cpu", MEMORY: "memory_bytes"}
_NOTHING = {CPU: 0, MEMORY: 0}
"""Told also where a queue has nothing of them."""
_Series: TypeAlias = tuple[str, dict[str, str]]
"""A gauge's name and its labels."""


class QueueGauges:
    """Tells what each queue has, wants and may have, and forgets queues that are gone.

    `overused` says of an account whether the queue has its share. Amounts of `unlimited` and more are not told.
    """

    def __init__(self, overused: Callable[[Account], bool], unlimited: int | None = None) -> None:
        self._overused = overused
        self._unlimited = float("inf") if unlimited is None else unlimited / 2
        self._told: dict[str, list[_Series]] = {}
        """By queue, what was told last."""
        self._idle: dict[str, Queue] = {}
        """Queues without account of which that was told, as they were then: it need not be told again."""

    def tell(self, probe: Probe, accounts: Iterable[Account], idle: Iterable[tuple[QueueView, Quantities]]) -> None:
        """Set the gauges; `idle` are the queues without account, which hold and want nothing, and what they deserve."""
        before, idle_before = self._told, self._idle
        self._told, self._idle = {}, {}
        for account in accounts:
            parts: dict[str, Quantities] = {
                "allocated": {**_NOTHING, **account.allocated()},
                "request": {**_NOTHING, **account.wanted},
                "inqueue": {**_NOTHING, **account.admitted()},
                "deserved": {**_NOTHING, **account.deserved},
                "capacity": account.queue.capability,
                "real_capacity": account.ceiling,
            }
            self._tell(probe, account.queue, parts, account.share(), overused=self._overused(account))
        for queue, deserved in idle:
            self._idle[queue.name] = queue.object
            if idle_before.get(queue.name) is queue.object:
                self._told[queue.name] = before[queue.name]
                continue
            nothing: dict[str, Quantities] = dict.fromkeys(("allocated", "request", "inqueue"), _NOTHING)
            parts = {**nothing, "deserved": {**_NOTHING, **deserved}, "capacity": queue.capability}
            self._tell(probe, queue, parts, 0.0, overused=False)
        for name, series in before.items():
            kept = self._told.get(name, [])
            if kept != series:
                for gauge in series:
                    if gauge not in kept:
                        probe.forget(gauge[0], **gauge[1])

    def _tell(
        self, probe: Probe, queue: QueueView, parts: Mapping[str, Quantities], share: float, *, overused: bool
    ) -> None:
        """Set the gauges of one queue."""
        told = self._told[queue.name] = []

        def gauge(name: str, value: float, **labels: str) -> None:
            probe.gauge(f"volcano_queue_{name}", value, queue_name=queue.name, **labels)
            told.append((f"volcano_queue_{name}", {"queue_name": queue.name, **labels}))

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
