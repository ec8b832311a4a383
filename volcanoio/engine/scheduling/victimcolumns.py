"""What could be evicted from each node, as columns by queue: the first look at where victims may make room.

An upper bound: plugins, and what an action says of victims, allow less. Kept across cycles, once an action asked for
it: only nodes that changed are counted again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.columns import Ints
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.ledger import Ledger
from volcanoio.engine.scheduling.tasks import TAKABLE, TaskInfo

CHUNK = 8
"""How many nodes are counted in one step."""
KEPT = 32
"""For how many queues columns are kept (80 kB each and resource at 10,000 nodes)."""


class VictimColumns:
    """Amounts of preemptable Running and Bound tasks of listed jobs, by row and queue."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._layout = -1
        self._seen: NDArray[np.float64] = np.zeros(0)
        """By row the clock of its last change that is counted in."""
        self._size = 0
        """How many rows there were then."""
        self._late: set[int] = set()
        """Rows that the columns do not follow yet."""
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
            self._layout = columns.layout
            self._seen = np.full(columns.capacity, -1.0)
            self._total = np.zeros((len(columns.resources), columns.capacity), np.int64)
            self._of.clear()
            self._in.clear()
            self._late.clear()
            self._rows = [{} for _ in range(columns.capacity)]
            self._size = 0
        size = len(columns)
        for row in range(size, self._size):
            self._put(row, {})
        self._size = size
        for node in self._ledger.settled:
            if node in columns.rows:
                self._seen[columns.rows[node]] = -1.0
        self._ledger.settled.clear()
        changed = (columns.changed[:size] > self._seen[:size]).nonzero()[0].tolist()
        for at, row in enumerate(changed):
            if at % CHUNK == CHUNK - 1:
                yield
            self._put(row, self._count(columns.names[row]))
            self._seen[row] = columns.changed[row]

    def knows(self, row: int) -> bool:
        """Whether a row is counted as it is now."""
        if row >= len(self._seen) or self._seen.item(row) != self._ledger.columns.changed.item(row):
            return False
        return not self._ledger.settled or self._ledger.columns.names[row] not in self._ledger.settled

    def follow(self, row: int, lost: TaskInfo | None = None) -> None:
        """A row that was known changed, by which it lost that task of those that could be evicted, or none."""
        columns = self._ledger.columns
        self._seen[row] = columns.changed[row]
        if lost is None or not lost.preemptable or lost.owner is None or lost.owner.queue_info is None:
            return
        amounts, index = self._rows[row][lost.owner.queue_info.name], columns.resources
        for name, amount in lost.shape.requests.items():
            amounts[index[name]] -= amount
        self._late.add(row)

    def _settle(self) -> None:
        """Let the columns follow what was followed by row."""
        for row in self._late:
            found = self._rows[row]
            self._total[:, row] = [sum(amounts) for amounts in zip(*found.values(), strict=True)] if found else 0
            for queue, amounts in found.items():
                if queue in self._of:
                    self._of[queue][:, row] = amounts
        self._late.clear()

    def of_queue(self, queue: str) -> Ints:
        """What a queue has on each row, by the resource's index; it is the caller's to read only."""
        if self._late:
            self._settle()
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
        own = self.of_queue(queue)  # first: it lets the total follow, too
        left = self._total - own
        for name, info in self._ledger.known_queues.items():
            if info.object.spec.reclaimable is False and name != queue and self._in.get(name):
                left -= self.of_queue(name)
        return left

    def at(self, row: int, queue: str, *, others: bool) -> list[int] | None:
        """What `of_queue`, or `of_others`, has on one row; None when there is none. It is the caller's to read only."""
        if not others:
            return self._rows[row].get(queue)
        queues, found = self._ledger.known_queues, None
        for name, amounts in self._rows[row].items():
            info = queues.get(name)
            if name != queue and (info is None or info.object.spec.reclaimable is not False):
                found = amounts if found is None else [a + b for a, b in zip(found, amounts, strict=True)]
        return found

    def of_job(self, job: JobInfo) -> Ints:
        """What one job has on each row, as of now."""
        columns = self._ledger.columns
        found = np.zeros_like(self._total)
        for task in job.members.values():
            if task.status in TAKABLE and task.preemptable and task.node in columns.rows:
                row = columns.rows[task.node]
                for name, amount in task.shape.requests.items():
                    found[columns.resources[name], row] += amount
        return found

    def _count(self, node: str) -> dict[str, list[int]]:
        index = self._ledger.columns.resources
        found: dict[str, list[int]] = {}
        for task in self._ledger.on_node.get(node, {}).values():
            if task.status not in TAKABLE or not task.preemptable or task.owner is None:
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
