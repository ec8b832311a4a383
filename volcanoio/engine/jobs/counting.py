"""Pods counted into a job's status, and the sums that events and phase rules look at."""

from __future__ import annotations

from collections.abc import Container, Iterable

import msgspec

from volcanoio.engine.jobs.ownership import task_of
from volcanoio.model.batch import Job, TaskSpec, TaskState
from volcanoio.model.core import Pod

DEFAULT_MAX_RETRY = 3


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of the spec's tasks. A terminating pod counts as that alone, whatever its phase."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    tasks: dict[str, TaskState] = {}

    @property
    def ended(self) -> int:
        """Pods that succeeded or failed."""
        return self.succeeded + self.failed

    @property
    def idle(self) -> bool:
        """Whether nothing of the job holds resources any more."""
        return self.terminating == self.pending == self.running == self.unknown == 0

    def succeeded_of(self, task: str) -> int:
        """Succeeded pods of one task."""
        return self.tasks[task].phase.get("Succeeded", 0) if task in self.tasks else 0


def is_terminating(pod: Pod, deleting: Container[str]) -> bool:
    """Whether the pod is on its way out, by our hand or another's."""
    return pod.metadata.deletion_timestamp is not None or pod.metadata.uid in deleting


def total_replicas(job: Job) -> int:
    """Pods the spec wants."""
    return sum(task.replicas for task in job.spec.tasks)


def task_minimum(task: TaskSpec) -> int:
    """Pods a task needs; all of them when it does not say."""
    return task.replicas if task.min_available is None else task.min_available


def max_retry(value: int) -> int:
    """The retry limit of a job or task; 0 means it was never defaulted."""
    return value or DEFAULT_MAX_RETRY


def is_task_completed(task: TaskSpec, pods: Iterable[Pod]) -> bool:
    """Whether as many of the task's pods as it has replicas succeeded; one that is being deleted counts no more."""
    done = sum(
        1
        for pod in pods
        if task_of(pod) == task.name and pod.status.phase == "Succeeded" and pod.metadata.deletion_timestamp is None
    )
    return 0 < task.replicas <= done


def has_failed_by(task: TaskSpec, old: Pod | None, new: Pod, pods: Iterable[Pod]) -> bool:
    """Whether the containers of a task's pending and running pods were restarted `maxRetry` times by this change.

    `pods` are those of the job with the change, `old` is what `new` was before: None for a pod seen first, which tells
    nothing of what was before. A `maxRetry` of -1 is no limit.
    """
    if task.max_retry < 0:
        return False
    now = sum(_live_restarts(pod) for pod in pods if task_of(pod) == task.name)
    before = 0 if old is None else now - _live_restarts(new) + _live_restarts(old)
    return before < max_retry(task.max_retry) <= now


def _live_restarts(pod: Pod) -> int:
    return restarts(pod) if pod.status.phase in ("Pending", "Running") else 0


def restarts(pod: Pod) -> int:
    """How often containers of the pod were restarted."""
    return sum(status.restart_count for status in (*pod.status.init_container_statuses, *pod.status.container_statuses))
