"""The limits and amounts of a queue within one session, and its metrics.

Volcano: queueAttr in the plugins capacity and proportion; pkg/scheduler/metrics/queue.go.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.sessionview import Table
from volcanoio.framework.scheduling.views import QueueView
from volcanoio.model.resources import CPU, MEMORY, PODS, Amounts
from volcanoio.model.scheduling import Queue
from volcanoio_plugins.scheduling.queues.quantities import TOLERANCE, Quantities, amount_text, exceeding, ordered


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts that a queue deserves, can have at most (a missing resource: nothing), and is guaranteed."""

    deserved: Mapping[str, float]
    real_capability: Mapping[str, int]
    guarantee: Mapping[str, int]


class QueueAttributes:
    """The limits and amounts of one queue; the counts are undone when a statement is discarded.

    `allocated` and `requested` are the amounts of its jobs when the session opens, by default those of the queue;
    `queued` was admitted before and is not placed yet, `elastic` is allocated beyond the jobs' minimum, both as in
    `DemandSums`.
    """

    def __init__(
        self,
        queue: QueueView,
        limits: QueueLimits,
        table: Callable[[str], Table],
        *,
        allocated: Amounts | None = None,
        requested: Amounts | None = None,
    ) -> None:
        self.queue = queue
        self.deserved = limits.deserved
        self.real_capability = limits.real_capability
        self.guarantee = limits.guarantee
        self.elastic: Mapping[str, int] = {}
        self.queued: Mapping[str, int] = {}
        self.requested = queue.requested if requested is None else requested
        self._initial = dict(queue.allocated) if allocated is None else allocated
        self._names = sorted({*self._initial, *self.deserved, *self.requested})
        self._deserving = [
            (name, self._initial.get(name, 0), amount) for name, amount in self.deserved.items() if amount >= TOLERANCE
        ]
        """The resources of which it deserves some: name, initial allocation, deserved amount."""
        self._delta: Table = table(f"allocated/{queue.name}")
        self._deltas = self._delta.values
        self._inqueue: Table = table(f"inqueue/{queue.name}")
        self._table = table
        self._reserved: Table | None = None
        self._share = 0.0
        self._shared_at = -1

    def allocated(self) -> Amounts:
        """Return what its jobs have allocated now, reservations included."""
        return {name: self.allocated_amount(name) for name in self._names}

    def admitted(self) -> Amounts:
        """Return what is admitted and not placed yet."""
        return {name: self.queued.get(name, 0) + self._inqueue.get(name) for name in {*self._names, *self.queued}}

    def allocated_amount(self, name: str) -> int:
        """Return what its jobs have allocated now of one resource."""
        return self._initial.get(name, 0) + self._deltas.get(name, 0)

    def add(self, requests: Mapping[str, int], count: int) -> None:
        """Count `count` more tasks (fewer when negative)."""
        self._delta.add_all(requests, count)

    def reserve(self, requests: Mapping[str, int], count: int) -> None:
        """Reserve quota for `count` more tasks (fewer when negative)."""
        if self._reserved is None:
            self._reserved = self._table(f"reserved/{self.queue.name}")
        for name, amount in requests.items():
            self._reserved.add(name, amount * count)

    def share(self) -> float:
        """Return the largest fraction of a deserved amount that is allocated, over all resources."""
        if self._shared_at != self._delta.version:
            largest = 0.0
            counted = self._deltas.get
            for name, base, amount in self._deserving:  # called at each comparison of queues
                if (part := (base + counted(name, 0)) / amount) > largest:
                    largest = part
            self._share, self._shared_at = largest, self._delta.version
        return self._share

    def fits(self, requests: Mapping[str, int], count: int, limit: Quantities) -> int:
        """Return how many of `count` more tasks stay within a limit; a missing limit is 0, pods do not count."""
        base, counted, reserved = self._initial.get, self._deltas.get, self._reserved
        for name, amount in requests.items():  # called before every placement
            if amount > 0 and name != PODS:
                left = limit.get(name, 0) - base(name, 0) - counted(name, 0)
                if reserved is not None:
                    left -= reserved.get(name)
                if left < count * amount:
                    count = max(int(left // amount), 0)
        return count

    def within_deserved(self, requests: Mapping[str, int]) -> bool:
        """Whether with these requests its allocation of any of the resources is at most what it deserves."""
        for name, amount in requests.items():
            if amount > 0 and name != PODS:
                future, deserved = self.allocated_amount(name) + amount, self.deserved.get(name, 0)
                if future <= deserved and deserved >= TOLERANCE:
                    return True
        return False

    def covers_guarantee(self, held: Mapping[str, int], requests: Mapping[str, int]) -> bool:
        """Whether the allocation covers its guarantee after a task with these requests is removed."""
        return all(held.get(name, 0) - requests.get(name, 0) >= amount for name, amount in self.guarantee.items())

    @property
    def tie_breaker(self) -> tuple[str, str]:
        """The order of queues that the plugin ranks equally: creation time, name."""
        return self.queue.object.metadata.creation_timestamp or "", self.queue.name

    def insufficient(self, minimum: Mapping[str, int]) -> list[str]:
        """Return the resources of which the limit is exceeded by a job's minimum and what is allocated and admitted."""
        base, counted, queued, elastic = self._initial.get, self._deltas.get, self.queued.get, self.elastic.get
        inqueue = self._inqueue.values.get
        demand = {
            name: amount + (base(name, 0) + counted(name, 0) + queued(name, 0) + inqueue(name, 0) - elastic(name, 0))
            for name, amount in minimum.items()
        }
        return exceeding(demand, self.real_capability, minimum)

    def explain_shortage(self, minimum: Mapping[str, int], names: Iterable[str], queue: str) -> str:
        """Explain why a job of `queue` (itself or one below it) cannot have its minimum of these resources.

        Usage is that of the session's opening, as in `insufficient`.
        """
        texts = []
        for name in names:
            admitted, elastic = self.queued.get(name, 0) + self._inqueue.get(name), self.elastic.get(name, 0)
            text = f"needs {name} {amount_text(name, minimum[name])}"
            text += f", in use {amount_text(name, self._initial.get(name, 0))}"
            if elastic:
                text += f", {amount_text(name, elastic)} of it beyond minAvailable"
            if admitted:
                text += f", admitted {amount_text(name, admitted)}"
            texts.append(f"{text}, limit {amount_text(name, self.real_capability.get(name, 0))}")
        above = f", above queue {queue}" if queue != self.queue.name else ""
        return f"queue {self.queue.name}{above}: {'; '.join(texts)}"

    def explain_limit(self, requests: Mapping[str, int], count: int, limit: Quantities, word: str) -> str:
        """Explain which resources put some of `count` more tasks beyond a limit, "" for none.

        `word` is the name of the limit.
        """
        texts = [
            f"needs {name} {amount_text(name, requests[name] * count)}"
            f", in use {amount_text(name, self.allocated_amount(name))}"
            f", {word} {amount_text(name, limit.get(name, 0))}"
            for name in ordered(requests)
            if self.fits({name: requests[name]}, count, limit) < count
        ]
        return f"queue {self.queue.name}: {'; '.join(texts)}" if texts else ""

    def admit(self, minimum: Mapping[str, int]) -> None:
        """Count a minimum that is admitted."""
        for name, amount in minimum.items():
            self._inqueue.add(name, amount)

    def overused(self) -> bool:
        """Whether it has allocated all it deserves."""
        counted = self._deltas.get
        for name, base, amount in self._deserving:  # noqa: SIM110 - called at each comparison of queues
            if amount - base - counted(name, 0) >= TOLERANCE:
                return False
        return True


_UNITS = {CPU: "milli_cpu", MEMORY: "memory_bytes"}
_ZERO = {CPU: 0, MEMORY: 0}
"""Reported also for queues that have none of them."""
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
            }
            self._report_queue(probe, attr.queue, parts, attr.share(), overused=self._overused(attr))
        for queue, deserved in idle:
            self._idle[queue.name] = queue.object
            if idle_before.get(queue.name) is queue.object:
                self._reported[queue.name] = before[queue.name]
                continue
            nothing: dict[str, Quantities] = dict.fromkeys(("allocated", "request", "inqueue"), _ZERO)
            parts = {**nothing, "deserved": {**_ZERO, **deserved}, "capacity": queue.capability}
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
            probe.gauge(f"volcano_queue_{name}", value, queue_name=queue.name, **labels)
            series.append((f"volcano_queue_{name}", {"queue_name": queue.name, **labels}))

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
