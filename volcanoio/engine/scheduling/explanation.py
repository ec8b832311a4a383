"""Why tasks wait: reasons as data, and Volcano's texts made of them.

Texts: `pkg/scheduler/api/unschedule_info.go` and `job_info.go` (FitError).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from volcanoio.framework.scheduling.views import Shape, TaskStatus
from volcanoio.model.names import GROUP_NAME
from volcanoio.model.scheduling import PodGroupPhase

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.jobs import JobInfo
    from volcanoio.engine.scheduling.tasks import TaskInfo

QUEUE_NOT_FOUND = "QueueNotFound"
SCHEDULABLE, UNSCHEDULABLE = "Schedulable", "Unschedulable"
_NONE: frozenset[str] = frozenset()
_TITLES = tuple(status.name.title() for status in TaskStatus)


class Precision(IntEnum):
    """How much a reason tells. A vaguer one never replaces a more precise one of the same attempt."""

    NONE = 0
    WAITING = 1
    """The job waits for something outside: a queue, more pods, its turn."""
    QUOTA = 2
    """A queue or the cluster has no room by its accounts."""
    NODES = 3
    """Every node was looked at, and each said why not."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job waits: a stable code, a text for people, and how precise it is."""

    code: str = ""
    text: str = ""
    precision: Precision = Precision.NONE


@dataclass(frozen=True, slots=True)
class FitErrors:
    """Why a task found no node: how many nodes failed for which reason; a node counts under its first.

    `text` is such as `0/4 nodes are unavailable: 4 Insufficient cpu.`
    """

    total: int
    counts: Mapping[str, int]
    text: str = field(init=False)

    def __post_init__(self) -> None:
        text = "all nodes are unavailable"
        if self.counts:
            text = f"0/{self.total} nodes are unavailable: {', '.join(histogram(self.counts))}."
        object.__setattr__(self, "text", text)


class Useless(NamedTuple):
    """Another attempt is of no use while no room appears for a task of the shape.

    `since` (`Columns.freed`) that was found; at `until` (epoch seconds) it is tried all the same.
    """

    shape: Shape
    since: int
    until: float


_NO_REASON = Reason()


class Attempts:
    """What the last attempt to place a job came to."""

    __slots__ = (
        "beyond",
        "failed_roles",
        "fit_errors",
        "limited",
        "outcomes",
        "reason",
        "refusal",
        "resumed",
        "useless",
    )

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all of it. In place: of very many new objects in place of old ones Python's collector takes no note,
        until it looks at all of them at once.
        """
        self.fit_errors: dict[str, FitErrors] = {}
        """By task uid, in task order."""
        self.failed_roles: frozenset[str] = _NONE
        self.outcomes: dict[str, tuple[TaskStatus, str]] = {}
        """Status and node that tasks had when the statement was discarded (Volcano: LastTransaction)."""
        self.reason = _NO_REASON
        self.refusal = ""
        """Why it was not admitted, in the words of who refused it."""
        self.limited = False
        """Whether its queue's limits, rather than nodes, kept a task from being tried."""
        self.beyond: tuple[Shape, int, float] | None = None
        """How many tasks alike it lacked of which its queue could not take so many; and when (epoch seconds)."""
        self.useless: Useless | None = None
        self.resumed = False
        """Whether all its tasks went where they claim room, without being tried (`resuming`)."""

    @property
    def blank(self) -> bool:
        """Whether there is nothing to tell."""
        told = self.fit_errors or self.failed_roles or self.outcomes or self.limited or self.refusal or self.reason.code
        return not told and self.beyond is None and self.useless is None

    def explain(self, reason: Reason) -> None:
        """Keep a reason unless a more precise one is known."""
        if reason.precision >= self.reason.precision:
            self.reason = reason

    def schedulable(self, waiting: Container[str]) -> int:
        """How many of the waiting tasks (by uid) had a place in the statement that was discarded."""
        return sum(1 for uid, (status, _) in self.outcomes.items() if status is TaskStatus.ALLOCATED and uid in waiting)

    def no_node(self, tasks: Iterable[TaskInfo], errors: FitErrors) -> None:
        """Tasks found no node."""
        for task in tasks:
            self.fit_errors[task.uid] = errors
            self.failed_roles |= {task.role}
        self.explain(Reason("NodesUnavailable", errors.text, Precision.NODES))


def histogram(counts: Mapping[str, int]) -> list[str]:
    """`<count> <reason>` entries, sorted as strings (so that "10 Running" comes before "3 Pending")."""
    return sorted(f"{count} {reason}" for reason, count in counts.items() if count or reason == "minAvailable")


def task_outcome(job: JobInfo, task: TaskInfo) -> tuple[str, str]:
    """The reason and message of a task that is not placed; the message is "" where only the gang's text applies.

    Where it was not tried on any node because its queue has no room left for it, that is said.
    """
    status, node = job.attempts.outcomes.get(task.uid, (task.status, task.node))
    pod = f"Pod {task.namespace}/{task.name} can possibly be assigned to {node}, once "
    if status is TaskStatus.ALLOCATED:
        return SCHEDULABLE, f"{pod}minAvailable is satisfied"
    if status is TaskStatus.PIPELINED:
        return UNSCHEDULABLE, f"{pod}resource is released and minAvailable is satisfied"
    errors = job.attempts.fit_errors.get(task.uid)
    return UNSCHEDULABLE, _held_back(job) if errors is None else errors.text


def _held_back(job: JobInfo) -> str:
    """That a job's queue has no room left for some of its tasks, "" where that is not so."""
    reason = job.attempts.reason
    return reason.text if job.attempts.limited and reason.precision is Precision.QUOTA else ""


def fit_error(job: JobInfo, *, ready: bool) -> str:
    """Volcano's FitError of a job: tasks by status, minAvailable, pending ones by reason, and the first task's why."""
    counts = {_TITLES[status]: count for status, count in enumerate(job.counts) if count}
    counts["minAvailable"] = job.min_available
    text = f"pod group is {'ready' if ready else 'not ready'}, {', '.join(histogram(counts))}"
    if job.waiting:
        reasons = {UNSCHEDULABLE: len(job.waiting)}
        if job.attempts.outcomes:
            reasons = {}
            for task in job.waiting.values():
                reason, _ = task_outcome(job, task)
                reasons[reason] = reasons.get(reason, 0) + 1
        text += f"; Pending: {', '.join(histogram(reasons))}"
    for uid, errors in job.attempts.fit_errors.items():
        member = job.members.get(uid)
        if member is not None:
            return f"{text}. Origin reason is {member.name}: {errors.text}"
    held_back = _held_back(job)
    return f"{text}. Origin reason is {held_back}" if held_back else text


def group_text(job: JobInfo, *, ready: bool) -> str:
    """The text of the PodGroup's Unschedulable event, and of pods that have no text of their own."""
    if job.attempts.reason.code == QUEUE_NOT_FOUND:
        return job.attempts.reason.text
    pending = job.counts[TaskStatus.PENDING]
    return f"{pending}/{len(job.members)} tasks in gang unschedulable: {fit_error(job, ready=ready)}"


def stray_text(job: JobInfo) -> str:
    """Why the pods of a job wait that has no PodGroup."""
    namespace, _, name = job.key.partition("/")
    return (
        f'PodGroup "{name}" does not exist in namespace "{namespace}"; create it, '
        f"or name another in the annotation {GROUP_NAME} of the pod"
    )


UNSETTLED = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE, PodGroupPhase.UNKNOWN})
"""Phases in which a PodGroup is told why it waits."""
