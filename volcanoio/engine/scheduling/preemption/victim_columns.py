"""What could be evicted from each node, as columns by queue: the first step in finding candidate nodes.

An upper bound: plugins and the rules of an action allow less. Kept across cycles once an action has used it; only
changed nodes are counted again.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.jobs import EVICTABLE, JobInfo, TaskInfo
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.node_columns import Ints

NODES_PER_STEP = 8
"""Nodes counted in one step."""
MAX_QUEUES = 32
"""Number of queues whose columns are kept (80 kB each and resource at 10,000 nodes)."""


class VictimColumns:
    """Amounts of preemptable Running and Bound tasks of known jobs, by row and queue."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._layout = -1
        self._counted_at: NDArray[np.float64] = np.zeros(0)
        """By row the clock of the last change that is counted, -1 if the row must be counted again."""
        self._size = 0
        """Number of rows at the last refresh."""
        self._rows: list[dict[str, list[int]]] = []
        """Amounts by row, queue and the resource's index."""
        self._stale_rows: set[int] = set()
        """Rows that are up to date in `_rows` but not in the columns of queues and their total."""
        self._rows_of_queue: dict[str, set[int]] = {}
        """The rows on which a queue has evictable tasks."""
        self._total: Ints = np.zeros((0, 0), np.int64)
        """Amounts of all queues by the resource's index and row."""
        self._by_queue: dict[str, Ints] = {}
        """The same of one queue, for the queues requested last."""

    def refresh(self) -> Iterator[None]:
        """Count changed nodes again, some at a time."""
        columns = self._ledger.columns
        # A new resource, or more rows than the arrays hold: count everything again
        if self._layout != columns.layout or self._total.shape[1] != columns.capacity:
            self._layout = columns.layout
            self._counted_at = np.full(columns.capacity, -1.0)
            self._total = np.zeros((len(columns.resources), columns.capacity), np.int64)
            self._by_queue.clear()
            self._rows_of_queue.clear()
            self._stale_rows.clear()
            self._rows = [{} for _ in range(columns.capacity)]
            self._size = 0
        size = len(columns)
        for row in range(size, self._size):  # rows that have no node any more
            self._store(row, {})
        self._size = size
        for node in self._ledger.evictability_changed:
            if node in columns.rows:
                self._counted_at[columns.rows[node]] = -1.0
        self._ledger.evictability_changed.clear()
        changed = (columns.changed_at[:size] > self._counted_at[:size]).nonzero()[0].tolist()
        for at, row in enumerate(changed):
            if at % NODES_PER_STEP == NODES_PER_STEP - 1:
                yield
            self._store(row, self._count(columns.names[row]))
            self._counted_at[row] = columns.changed_at[row]

    def is_current(self, row: int) -> bool:
        """Return whether the counts of a row are up to date."""
        if row >= len(self._counted_at) or self._counted_at.item(row) != self._ledger.columns.changed_at.item(row):
            return False
        return (
            not self._ledger.evictability_changed
            or self._ledger.columns.names[row] not in self._ledger.evictability_changed
        )

    def apply_change(self, row: int, lost: TaskInfo | None = None) -> None:
        """Update a current row after a change by which it lost that evictable task, or none."""
        columns = self._ledger.columns
        self._counted_at[row] = columns.changed_at[row]
        if lost is None or not lost.preemptable or lost.job_info is None or lost.job_info.queue_info is None:
            return
        amounts, index = self._rows[row][lost.job_info.queue_info.name], columns.resources
        for name, amount in lost.shape.requests.items():
            amounts[index[name]] -= amount
        self._stale_rows.add(row)

    def _flush(self) -> None:
        """Update the columns from rows that were changed one by one."""
        for row in self._stale_rows:
            by_queue = self._rows[row]
            self._total[:, row] = [sum(amounts) for amounts in zip(*by_queue.values(), strict=True)] if by_queue else 0
            for queue, amounts in by_queue.items():
                if queue in self._by_queue:
                    self._by_queue[queue][:, row] = amounts
        self._stale_rows.clear()

    def of_queue(self, queue: str) -> Ints:
        """Return the amounts of a queue by the resource's index and row; read-only."""
        if self._stale_rows:
            self._flush()
        if (amounts := self._by_queue.pop(queue, None)) is None:
            if len(self._by_queue) >= MAX_QUEUES:
                del self._by_queue[next(iter(self._by_queue))]
            amounts = np.zeros_like(self._total)
            for row in self._rows_of_queue.get(queue, ()):
                amounts[:, row] = self._rows[row][queue]
        self._by_queue[queue] = amounts
        return amounts

    def of_others(self, queue: str) -> Ints:
        """Return the amounts of all reclaimable queues but this one."""
        own = self.of_queue(queue)  # first: it brings the total up to date, too
        others = self._total - own
        for name, info in self._ledger.existing_queues.items():
            if info.object.spec.reclaimable is False and name != queue and self._rows_of_queue.get(name):
                others -= self.of_queue(name)
        return others

    def on_row(self, row: int, queue: str, *, others: bool) -> list[int] | None:
        """Return `of_queue`, or `of_others`, for one row, None when there is nothing; read-only."""
        if not others:
            return self._rows[row].get(queue)
        queues, total = self._ledger.existing_queues, None
        for name, amounts in self._rows[row].items():
            info = queues.get(name)
            if name != queue and (info is None or info.object.spec.reclaimable is not False):
                total = amounts if total is None else [a + b for a, b in zip(total, amounts, strict=True)]
        return total

    def of_job(self, job: JobInfo) -> Ints:
        """Return the current amounts of one job."""
        columns = self._ledger.columns
        evictable = np.zeros_like(self._total)
        for task in job.members.values():
            if task.status in EVICTABLE and task.preemptable and task.node in columns.rows:
                row = columns.rows[task.node]
                for name, amount in task.shape.requests.items():
                    evictable[columns.resources[name], row] += amount
        return evictable

    def _count(self, node: str) -> dict[str, list[int]]:
        """Return the amounts of a node's evictable tasks by queue and the resource's index."""
        index = self._ledger.columns.resources
        by_queue: dict[str, list[int]] = {}
        for task in self._ledger.tasks_by_node.get(node, {}).values():
            if task.status not in EVICTABLE or not task.preemptable or task.job_info is None:
                continue
            if (queue := task.job_info.queue_info) is None:
                continue
            if (amounts := by_queue.get(queue.name)) is None:
                amounts = by_queue[queue.name] = [0] * len(index)
            for name, amount in task.shape.requests.items():
                amounts[index[name]] += amount
        return by_queue

    def _store(self, row: int, by_queue: dict[str, list[int]]) -> None:
        """Replace the amounts of a row, also in the columns of queues and their total."""
        before = self._rows[row]
        for queue in before.keys() - by_queue.keys():
            self._rows_of_queue[queue].discard(row)
            if queue in self._by_queue:
                self._by_queue[queue][:, row] = 0
        total = self._total[:, row]
        total[:] = 0
        for queue, amounts in by_queue.items():
            total += amounts
            if queue not in before:
                self._rows_of_queue.setdefault(queue, set()).add(row)
            if queue in self._by_queue:
                self._by_queue[queue][:, row] = amounts
        self._rows[row] = by_queue
