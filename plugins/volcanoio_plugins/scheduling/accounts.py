"""What a queue may have and has within one session, and the figures of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.sessionview import Table
from volcanoio.framework.scheduling.views import QueueView
from volcanoio.model.resources import CPU, MEMORY, Amounts
from volcanoio_plugins.scheduling.quantities import TOLERANCE, share

_UNITS = {CPU: "milli_cpu", MEMORY: "memory_bytes"}


class Account:
    """What one queue may have and has. `added` and `inqueue` are tables, so a discarded statement undoes them."""

    def __init__(
        self,
        queue: QueueView,
        deserved: Mapping[str, float],
        ceiling: Amounts,
        table: Callable[[str], Table],
    ) -> None:
        self.queue = queue
        self.deserved = deserved
        self.ceiling = ceiling
        self.elastic: Amounts = {}
        self._base = dict(queue.allocated)
        self._names = sorted({*self._base, *deserved, *queue.requested})
        self._added: Table = table(f"allocated/{queue.name}")
        self.inqueue: Table = table(f"inqueue/{queue.name}")
        self._share = 0.0
        self._shared_at = -1

    def allocated(self) -> Amounts:
        """What its jobs hold now, reservations included."""
        return {name: self.held(name) for name in self._names}

    def held(self, name: str) -> int:
        """What its jobs hold now of one resource."""
        return self._base.get(name, 0) + self._added.get(name)

    def add(self, requests: Mapping[str, int], count: int) -> None:
        """Count `count` more tasks (fewer when negative)."""
        for name, amount in requests.items():
            self._added.add(name, amount * count)

    def share(self) -> float:
        """The largest part of what it deserves that it holds of any resource."""
        if self._shared_at != self._added.version:
            largest = 0.0
            base, added = self._base, self._added
            for name, amount in self.deserved.items():  # asked at every turn of a queue
                part = share(base.get(name, 0) + added.get(name), amount)
                if part > largest:
                    largest = part
            self._share, self._shared_at = largest, self._added.version
        return self._share

    def overused(self) -> bool:
        """Whether it holds all it deserves."""
        for name, amount in self.deserved.items():  # noqa: SIM110 - asked at every turn of a queue
            if amount - self.held(name) >= TOLERANCE:
                return False
        return True


class QueueGauges:
    """Gauges of queues under Volcano's names (pkg/scheduler/metrics/queue.go)."""

    def __init__(self) -> None:
        self._told: set[tuple[str, tuple[tuple[str, str], ...]]] = set()

    def tell(self, probe: Probe, accounts: Iterable[Account]) -> None:
        """Set the gauges of these queues, and drop those of queues that are gone."""
        told: set[tuple[str, tuple[tuple[str, str], ...]]] = set()

        def gauge(name: str, value: float, **labels: str) -> None:
            probe.gauge(name, value, **labels)
            told.add((name, tuple(sorted(labels.items()))))

        for account in accounts:
            queue = account.queue.name
            parts: dict[str, Mapping[str, int] | Mapping[str, float]] = {
                "allocated": account.allocated(),
                "request": account.queue.requested,
                "deserved": account.deserved,
                "capacity": account.queue.capability,
                "real_capacity": account.ceiling,
            }
            for part, amounts in parts.items():
                for resource, amount in amounts.items():
                    if unit := _UNITS.get(resource):
                        gauge(f"volcano_queue_{part}_{unit}", amount, queue_name=queue)
                    else:
                        gauge(f"volcano_queue_{part}_scalar_resources", amount, queue_name=queue, resource=resource)
            gauge("volcano_queue_share", account.share(), queue_name=queue)
            gauge("volcano_queue_weight", account.queue.weight, queue_name=queue)
            gauge("volcano_queue_overused", float(account.overused()), queue_name=queue)
        for name, labels in self._told - told:
            probe.forget(name, **dict(labels))
        self._told = told
