"""What a queue may have and has within one session."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from volcanoio.framework.scheduling.sessionview import Table
from volcanoio.framework.scheduling.views import QueueView
from volcanoio.model.resources import PODS, Amounts
from volcanoio_plugins.scheduling.queues.quantities import TOLERANCE, Quantities, exceeding


class Account:
    """What one queue may have and has; a discarded statement undoes what was counted.

    `ceiling` is the most it can have; `held` and `wanted` what its jobs hold and want as the session opens, the queue's
    own where not given; `queued` what was admitted before and not placed yet, `elastic` what jobs hold beyond their
    minimum, both as `Sums` have them.
    """

    def __init__(
        self,
        queue: QueueView,
        deserved: Mapping[str, float],
        ceiling: Amounts,
        table: Callable[[str], Table],
        *,
        guarantee: Mapping[str, int] | None = None,
        held: Amounts | None = None,
        wanted: Amounts | None = None,
    ) -> None:
        self.queue = queue
        self.deserved = deserved
        self.ceiling = ceiling
        self.guarantee = queue.guarantee if guarantee is None else guarantee
        self.elastic: Mapping[str, int] = {}
        self.queued: Mapping[str, int] = {}
        self.wanted = queue.requested if wanted is None else wanted
        self._base = dict(queue.allocated) if held is None else held
        self._names = sorted({*self._base, *deserved, *self.wanted})
        self._deserving = [
            (name, self._base.get(name, 0), amount) for name, amount in deserved.items() if amount >= TOLERANCE
        ]
        """What it deserves of resources, each with what it held at first."""
        self._added: Table = table(f"allocated/{queue.name}")
        self._counted = self._added.values
        self._inqueue: Table = table(f"inqueue/{queue.name}")
        self._table = table
        self._promised: Table | None = None
        self._share = 0.0
        self._shared_at = -1

    def allocated(self) -> Amounts:
        """What its jobs hold now, reservations included."""
        return {name: self.held(name) for name in self._names}

    def admitted(self) -> Amounts:
        """What is admitted and not placed yet."""
        return {name: self.queued.get(name, 0) + self._inqueue.get(name) for name in {*self._names, *self.queued}}

    def held(self, name: str) -> int:
        """What its jobs hold now of one resource."""
        return self._base.get(name, 0) + self._counted.get(name, 0)

    def add(self, requests: Mapping[str, int], count: int) -> None:
        """Count `count` more tasks (fewer when negative)."""
        self._added.add_all(requests, count)

    def promise(self, requests: Mapping[str, int], count: int) -> None:
        """Keep room for `count` more tasks (fewer when negative)."""
        if self._promised is None:
            self._promised = self._table(f"promised/{self.queue.name}")
        for name, amount in requests.items():
            self._promised.add(name, amount * count)

    def share(self) -> float:
        """The largest part of what it deserves that it holds of any resource."""
        if self._shared_at != self._added.version:
            largest = 0.0
            counted = self._counted.get
            for name, base, amount in self._deserving:  # asked at every turn of a queue
                if (part := (base + counted(name, 0)) / amount) > largest:
                    largest = part
            self._share, self._shared_at = largest, self._added.version
        return self._share

    def fits(self, requests: Mapping[str, int], count: int, limit: Quantities) -> int:
        """How many of `count` more tasks stay within a limit; one that is missing is 0, pods do not count."""
        base, counted, promised = self._base.get, self._counted.get, self._promised
        for name, amount in requests.items():  # asked before every placement
            if amount > 0 and name != PODS:
                left = limit.get(name, 0) - base(name, 0) - counted(name, 0)
                if promised is not None:
                    left -= promised.get(name)
                if left < count * amount:
                    count = max(int(left // amount), 0)
        return count

    def within_deserved(self, requests: Mapping[str, int]) -> bool:
        """Whether with these requests it holds no more than it deserves of any one of the resources."""
        for name, amount in requests.items():
            if amount > 0 and name != PODS:
                future, deserved = self.held(name) + amount, self.deserved.get(name, 0)
                if future <= deserved and deserved >= TOLERANCE:
                    return True
        return False

    def covers_guarantee(self, held: Mapping[str, int], requests: Mapping[str, int]) -> bool:
        """Whether what it holds covers its guarantee when a task with these requests is taken from it."""
        return all(held.get(name, 0) - requests.get(name, 0) >= amount for name, amount in self.guarantee.items())

    @property
    def tie(self) -> tuple[str, str, str]:
        """What decides between queues that stand equal: creation time, uid, name."""
        meta = self.queue.object.metadata
        return meta.creation_timestamp or "", meta.uid, self.queue.name

    def refused(self, minimum: Mapping[str, int]) -> list[str]:
        """The resources of which it cannot have a job's minimum beside what it holds and has admitted."""
        base, counted, queued, elastic = self._base.get, self._counted.get, self.queued.get, self.elastic.get
        inqueue = self._inqueue.values.get
        demand = {
            name: amount + (base(name, 0) + counted(name, 0) + queued(name, 0) + inqueue(name, 0) - elastic(name, 0))
            for name, amount in minimum.items()
        }
        return exceeding(demand, self.ceiling, minimum)

    def admit(self, minimum: Mapping[str, int]) -> None:
        """Count a minimum that is admitted."""
        for name, amount in minimum.items():
            self._inqueue.add(name, amount)

    def overused(self) -> bool:
        """Whether it holds all it deserves."""
        counted = self._counted.get
        for name, base, amount in self._deserving:  # noqa: SIM110 - asked at every turn of a queue
            if amount - base - counted(name, 0) >= TOLERANCE:
                return False
        return True
