"""What could be evicted from each node, as columns by queue: the first look at where victims may make room.

An upper bound: plugins, and what an action says of victims, allow less. Kept across cycles, once an action asked for
it: only nodes that changed are counted again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volcanoio.engine.scheduling.columns import Ints
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.ledger import Ledger
from volcanoio.framework.scheduling.views import TaskStatus

CHUNK = 8
"""How many nodes are counted in one step."""
KEPT = 32
"""For how many queues columns are kept (80 kB each and resource at 10,000 nodes)."""
_TAKABLE = (TaskStatus.RUNNING, TaskStatus.BOUND)


class VictimColumns:
    """Amounts of preemptable Running and Bound tasks of listed jobs, by row and queue."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._clock = -1
        self._layout = -1
        self._rows: list[dict[str, list[int]]] = []
        """By row and queue the amounts, by the resource's index."""
        self._in: dict[str, set[int]] = {}
        """The rows on which a queue has any."""
        self._total: Ints = np.zeros((0, 0), np.int64)
        self._of: dict[str, Ints] = {}

    def refresh(self) -> Iterator[None]:
        """Count again what changed, some nodes at a time."""
        columns = self._ledger.columns
        if self._layout != columns.layout or self._total.shape[1] != columns.capacity:
            self._layout, self._clock = columns.layout, -1
            self._total = np.zeros((len(columns.resources), columns.capacity), np.int64)
            self._of.clear()
            self._in.clear()
            self._rows = [{} for _ in range(columns.capacity)]
        size = len(columns)
        for row in range(size, len(self._rows)):
            if self._rows[row]:
                self._put(row, {})
        clock = columns.clock
        changed = (columns.changed[:size] > self._clock).nonzero()[0].tolist()
        for at, row in enumerate(changed):
            if at % CHUNK == CHUNK - 1:
                yield
            self._put(row, self._count(columns.names[row]))
        self._clock = clock  # only now: whoever stops half-way begins anew

    def of_queue(self, queue: str) -> Ints:
        """What a queue has on each row, by the resource's index; it is the caller's to read only."""
        known = self._of.pop(queue, None)
        if known is None:
            if len(self._of) >= KEPT:
                del self._of[next(iter(self._of))]
            known = np.zeros_like(self._total)
            for row in self._in.get(queue, ()):
                known[:, row] = self._rows[row][queue]
        self._of[queue] = known
        return known

    def of_others(self, queue: str) -> Ints:
        """What reclaimable queues but this one have on each row."""
        left = self._total - self.of_queue(queue)
        for name, info in self._ledger.known_queues.items():
            if info.object.spec.reclaimable is False and name != queue and self._in.get(name):
                left -= self.of_queue(name)
        return left

    def of_job(self, job: JobInfo) -> Ints:
        """What one job has on each row, as of now."""
        columns = self._ledger.columns
        found = np.zeros_like(self._total)
        for task in job.members.values():
            if task.status in _TAKABLE and task.preemptable and task.node in columns.rows:
                row = columns.rows[task.node]
                for name, amount in task.shape.requests.items():
                    found[columns.resources[name], row] += amount
        return found

    def _count(self, node: str) -> dict[str, list[int]]:
        index = self._ledger.columns.resources
        found: dict[str, list[int]] = {}
        for task in self._ledger.on_node.get(node, {}).values():
            if task.status not in _TAKABLE or not task.preemptable or task.owner is None:
                continue
            queue = task.owner.queue_info
            if queue is None:
                continue
            amounts = found.get(queue.name)
            if amounts is None:
                amounts = found[queue.name] = [0] * len(index)
            for name, amount in task.shape.requests.items():
                amounts[index[name]] += amount
        return found

    def _put(self, row: int, found: dict[str, list[int]]) -> None:
        before = self._rows[row]
        for queue in before.keys() - found.keys():
            self._in[queue].discard(row)
            if queue in self._of:
                self._of[queue][:, row] = 0
        total = self._total[:, row]
        total[:] = 0
        for queue, amounts in found.items():
            total += amounts
            if queue not in before:
                self._in.setdefault(queue, set()).add(row)
            if queue in self._of:
                self._of[queue][:, row] = amounts
        self._rows[row] = found
