"""Outcome of the last attempt to place a job: why it waits, as data.

`status.explanation` turns it into Volcano's messages.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from volcanoio.framework.scheduling.views import Shape, Task, TaskStatus

QUEUE_NOT_FOUND = "QueueNotFound"
QUEUE_QUOTA = "QueueQuota"
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

    `text` has the form `0/4 nodes are unavailable: 4 Insufficient cpu.`
    """

    total: int
    counts: Mapping[str, int]
    text: str = field(init=False)

    def __post_init__(self) -> None:
        text = "all nodes are unavailable"
        if self.counts:
            text = f"0/{self.total} nodes are unavailable: {', '.join(histogram(self.counts))}."
        object.__setattr__(self, "text", text)


class UnschedulableUntil(NamedTuple):
    """The job is not retried while no room appears for a task of `shape`.

    `since` is the value of `NodeColumns.freed_count` at which this was found. From `until` (epoch seconds) on the job
    is retried in any case.
    """

    shape: Shape
    since: int
    until: float


_NO_REASON = Reason()


class Attempts:
    """Result of the last attempt to place a job."""

    __slots__ = (
        "enqueue_refusal",
        "failed_roles",
        "fit_errors",
        "is_quota_limited",
        "is_resumed",
        "outcomes",
        "queue_shortage",
        "reason",
        "unschedulable_until",
    )

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Reset all fields in place.

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
