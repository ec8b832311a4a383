"""Unschedulable cache: jobs that are not retried before something changed.

`UnschedulableJobs` serves the actions that evict and is invalidated by every change of the cluster generation.
`FreedRoom` returns when room appeared that fits a task of a shape for which there was none.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.framework.scheduling.views import Shape

RETRY_AFTER = 60.0
"""Seconds after which a job is retried in any case; up to twice as many, depending on its key."""


class UnschedulableJobs:
    """Jobs that an action does not retry, valid for one cluster generation."""

    def __init__(self) -> None:
        self.cluster_generation = 0
        """Incremented by every change that could alter a decision."""
        self._valid_for = -1
        self._until: dict[tuple[str, str], float] = {}

    def add(self, action: str, job: str, until: float) -> None:
        """Do not retry a job in an action before `until` (epoch seconds)."""
        if self._valid_for != self.cluster_generation:
            self._until.clear()
            self._valid_for = self.cluster_generation
        self._until[action, job] = until

    def advance_generation(self) -> None:
        """Let every job be tried again: a decision or event may have made one schedulable."""
        self.cluster_generation += 1

    def has(self, action: str, job: str, now: float) -> bool:
        """Return whether an action skips the job now."""
        return self._valid_for == self.cluster_generation and self._until.get((action, job), now) > now


SCALAR_ROWS_LIMIT = 16
"""Number of rows up to which a loop is faster than a vectorised check."""


class FreedRoom:
    """Per shape without room, when room last appeared that fits one more task.

    Times are values of `NodeColumns.freed_count`. Only rows freed since the last call for a shape are checked.
    """

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._checked: dict[int, tuple[int, int]] = {}
        """By `Shape.base_id`: up to when rows were checked, and when the newest fitting room appeared."""
        self._freed_rows: tuple[int, int, NDArray[np.intp], list[list[int]]] | None = None
        """Rows freed since some time as of some clock, and their future idle amounts if they are few."""

    def watch(self, shape: Shape) -> None:
        """Start to watch for room for a shape."""
        self._checked.setdefault(shape.base_id, (self._columns.freed_count, -1))

    def last_freed(self, shape: Shape, *, is_final: bool) -> int:
        """Return when room last appeared that fits a task of a watched shape.

        `is_final` is whether nothing is reserved at the moment; otherwise the result is not cached.
        """
        columns = self._columns
        checked, newest = self._checked.get(shape.base_id, (-1, -1))
        if checked == columns.freed_count:
            return newest
        if columns.freed_anywhere_at > checked:
            newest = columns.freed_anywhere_at
        rows, idle = self._freed_since(checked)
        if len(rows):
            newest = max(newest, self._newest(shape.requests, rows, idle))
        if is_final:
            self._checked[shape.base_id] = columns.freed_count, newest
        return newest

    def _freed_since(self, checked: int) -> tuple[NDArray[np.intp], list[list[int]]]:
        columns, cached = self._columns, self._freed_rows
        if cached is None or cached[:2] != (checked, columns.clock):
            rows = (columns.freed_at[: len(columns)] > checked).nonzero()[0]
            idle = columns.block[Quantity.FUTURE][:, rows].T.tolist() if len(rows) <= SCALAR_ROWS_LIMIT else []
            cached = self._freed_rows = checked, columns.clock, rows, idle
        return cached[2], cached[3]

    def _newest(self, requests: Mapping[str, int], rows: NDArray[np.intp], idle: list[list[int]]) -> int:
        """Return when the newest of these rows that fit the requests was freed, -1 when none fits."""
        columns = self._columns
        requests_by_index = [(columns.resource(name), amount) for name, amount in requests.items()]
        if idle:
            fitting = [
                row
                for row, room in zip(rows.tolist(), idle, strict=True)
                if all(room[at] >= amount for at, amount in requests_by_index)
            ]
            return max((columns.freed_at.item(row) for row in fitting), default=-1)
        fits = np.ones(len(rows), np.bool_)
        for at, amount in requests_by_index:
            fits &= columns.block[Quantity.FUTURE, at, rows] >= amount
        return int(columns.freed_at[rows[fits]].max(initial=-1))
