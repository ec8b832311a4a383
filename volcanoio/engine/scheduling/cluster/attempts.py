"""Outcome of the last attempt to place a job, and when another attempt is worthwhile.

`Attempts` holds why the job waits, as data; `status.explanation` turns it into Volcano's messages. `UnschedulableJobs`
serves the actions that evict and is invalidated by every change of the cluster generation. `FreedRoom` returns when
room appeared that fits a task of a shape for which there was none.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.framework.scheduling.views import Shape, Task, TaskStatus

QUEUE_NOT_FOUND = "QueueNotFound"
QUEUE_QUOTA = "QueueQuota"
INVALID_HYPER_NODES = "InvalidHyperNodes"
SCHEDULABLE, UNSCHEDULABLE = "Schedulable", "Unschedulable"
_NONE: frozenset[str] = frozenset()


class Precision(IntEnum):
    """Precision of a reason; a lower one never replaces a higher one of the same attempt."""

    NONE = 0
    WAITING = 1
    """The job waits for a queue, for more pods, or to be tried."""
    QUOTA = 2
    """The quota of a queue or of the cluster is exhausted."""
    NODES = 3
    """Every node was checked and gave a reason."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job waits: a stable code, a message, and its precision."""

    code: str = ""
    text: str = ""
    precision: Precision = Precision.NONE


@dataclass(frozen=True, slots=True)
class FitErrors:
    """Why a task fits no node: the number of nodes per reason; a node counts under its first reason.

    `hyper_node` is where the task had to be placed, "" for anywhere. `text` has the form
    `0/4 nodes are unavailable: 4 Insufficient cpu.` or `In hyperNode s0: 0/2 nodes are unavailable: …`.
    """

    total: int
    counts: Mapping[str, int]
    hyper_node: str = ""
    text: str = field(init=False)

    def __post_init__(self) -> None:
        text = "all nodes are unavailable"
        if self.counts:
            text = f"0/{self.total} nodes are unavailable: {', '.join(histogram(self.counts))}."
        if self.hyper_node:
            text = f"In hyperNode {self.hyper_node}: {text}"
        object.__setattr__(self, "text", text)


class UnschedulableUntil(NamedTuple):
    """The job is not retried while no room appears for a task of any of these shapes.

    `since` is the value of `NodeColumns.freed_count` at which this was found. From `until` (epoch seconds) on the job
    is retried in any case.
    """

    shapes: tuple[Shape, ...]
    since: int
    until: float


class FailedSearch(NamedTuple):
    """A search for places of a gang of different pods that found none.

    It is not repeated for the gang of that signature before `NodeColumns.freed_count` differs from `since`, or before
    `until` (epoch seconds). `is_incomplete`: not everything was tried.
    """

    signature: tuple[object, ...]
    since: int
    until: float
    is_incomplete: bool


_NO_REASON = Reason()


class Attempts:
    """Result of the last attempt to place a job."""

    __slots__ = (
        "enqueue_refusal",
        "failed_roles",
        "failed_search",
        "fit_errors",
        "is_quota_limited",
        "is_resumed",
        "is_search_incomplete",
        "outcomes",
        "queue_shortage",
        "reason",
        "unschedulable_until",
    )

    def __init__(self) -> None:
        self.failed_search: FailedSearch | None = None
        """The last search; it stays when another attempt begins."""
        self.clear()

    def clear(self) -> None:
        """Reset all other fields in place.

        Replacing very many of these objects would trigger a full collection of Python's garbage collector.
        """
        self.fit_errors: dict[str, FitErrors] = {}
        """Fit errors by task uid, in task order."""
        self.failed_roles: frozenset[str] = _NONE
        self.outcomes: dict[str, tuple[TaskStatus, str]] = {}
        """Status and node that tasks had when the statement was discarded (Volcano: LastTransaction)."""
        self.reason = _NO_REASON
        self.enqueue_refusal = ""
        """Message of the plugin that refused to enqueue the job."""
        self.is_quota_limited = False
        """Whether limits of the queue, rather than nodes, kept a task from being tried."""
        self.queue_shortage: tuple[Shape, int, float] | None = None
        """Shape, number of missing tasks for which the queue had no quota, and time (epoch seconds)."""
        self.unschedulable_until: UnschedulableUntil | None = None
        self.is_resumed = False
        """Whether all tasks went to their nominated nodes without a search."""
        self.is_search_incomplete = False
        """Whether some assignment of pods to nodes that might fit was not tried."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to report."""
        has_details = bool(
            self.fit_errors
            or self.failed_roles
            or self.outcomes
            or self.is_quota_limited
            or self.enqueue_refusal
            or self.reason.code
        )
        return not has_details and self.queue_shortage is None and self.unschedulable_until is None

    def explain(self, reason: Reason) -> None:
        """Set the reason unless a more precise one is set."""
        if reason.precision >= self.reason.precision:
            self.reason = reason

    def schedulable(self, pending: Container[str]) -> int:
        """Return how many of these pending tasks (by uid) the discarded statement had allocated."""
        return sum(1 for uid, (status, _) in self.outcomes.items() if status is TaskStatus.ALLOCATED and uid in pending)

    def record_fit_errors(self, tasks: Iterable[Task], errors: FitErrors) -> None:
        """Record that tasks fit no node."""
        for task in tasks:
            self.fit_errors[task.uid] = errors
            self.failed_roles |= {task.role}
        self.explain(Reason("NodesUnavailable", errors.text, Precision.NODES))


def histogram(counts: Mapping[str, int]) -> list[str]:
    """Return `<count> <reason>` entries, sorted as strings ("10 Running" before "3 Pending")."""
    return sorted(f"{count} {reason}" for reason, count in counts.items() if count or reason == "minAvailable")


RETRY_AFTER = 60.0
"""Seconds after which a job is retried in any case; up to twice as many, depending on its key."""


class UnschedulableJobs:
    """Jobs that an action does not retry, valid for one cluster generation."""

    def __init__(self) -> None:
        self.cluster_generation = 0
        """Incremented by every decision and event that may make a job schedulable."""
        self._valid_for = -1
        self._until: dict[tuple[str, str], float] = {}

    def add(self, action: str, job: str, until: float) -> None:
        """Do not retry a job in an action before `until` (epoch seconds)."""
        if self._valid_for != self.cluster_generation:
            self._until.clear()
            self._valid_for = self.cluster_generation
        self._until[action, job] = until

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
