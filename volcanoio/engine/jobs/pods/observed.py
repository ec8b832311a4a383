"""Observed pods of a job: which are its own, and how many are in which phase.

Reads the labels and annotations that the controller put on pods and PodGroups. A terminating pod counts as
terminating, whatever its phase.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from operator import attrgetter

import msgspec

from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, ObjectMeta
from volcanoio.model.batch import Job, TaskSpec, TaskState
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup

_BY_NAME = attrgetter("metadata.name")
LIVE_PHASES = frozenset({"", "Pending", "Running", "Unknown"})
"""Pod phases in which a pod uses, or may use, resources."""


def job_keys(obj: ApiObject) -> Iterable[str]:
    """Return the key of a Job: its own name."""
    return (obj.metadata.key,)


def owned_keys(obj: ApiObject) -> Iterable[str]:
    """Return the key of the Volcano Job that owns an object; none for other objects."""
    for owner in obj.metadata.owner_references:
        if owner.kind == kinds.JOB.kind and owner.api_version == kinds.JOB.api_version:
            return (f"{obj.metadata.namespace}/{owner.name}",)
    return ()


def pod_keys(obj: ApiObject) -> Iterable[str]:
    """Return the key of the Job that controls a pod; none for a pod without the controller's annotations."""
    owner = obj.metadata.controller
    marks = obj.metadata.annotations
    if owner is None or owner.kind != kinds.JOB.kind or owner.api_version != kinds.JOB.api_version:
        return ()
    if names.TASK_SPEC not in marks or names.JOB_NAME not in marks or not marks.get(names.JOB_VERSION, "").isdigit():
        return ()
    return (f"{obj.metadata.namespace}/{owner.name}",)


def command_keys(obj: ApiObject) -> Iterable[str]:
    """Return the key of the Job that a Command targets; Commands act in their own namespace."""
    target = getattr(obj, "target", None)
    if target is None or target.kind != kinds.JOB.kind or target.api_version != kinds.JOB.api_version:
        return ()
    return (f"{obj.metadata.namespace}/{target.name}",)


def belongs(meta: ObjectMeta, job: Job) -> bool:
    """Return whether an object was made for this very job, not for an older one of the same name."""
    uid = job.metadata.uid
    for owner in meta.owner_references:  # noqa: SIM110 - asked of every pod at every turn; any() takes twice as long
        if owner.uid == uid:
            return True
    return False


def task_of(pod: Pod) -> str:
    """Return the task that a pod was created for."""
    return pod.metadata.annotations.get(names.TASK_SPEC, "")


def version_of(obj: Pod | PodGroup) -> int | None:
    """Return the job version an object was created for; None for a PodGroup made by Volcano itself."""
    text = obj.metadata.annotations.get(names.JOB_VERSION, "")
    return int(text) if text.isdigit() else None


def index_of(pod: Pod) -> int | None:
    """Return the pod's index in its task."""
    text = pod.metadata.annotations.get(names.TASK_INDEX) or pod.metadata.name.rpartition("-")[2]
    return int(text) if text.isdigit() else None


def partition_of(pod: Pod) -> str:
    """Return the partition of a pod, "" without a partition policy."""
    return pod.metadata.labels.get(names.PARTITION_ID, "")


def is_marked(pod: Pod) -> bool:
    """Return whether this controller marked the pod before deleting it."""
    return names.OUT_OF_SYNC in pod.metadata.annotations


def is_live(pod: Pod) -> bool:
    """Return whether the pod has neither succeeded nor failed."""
    return pod.status.phase in LIVE_PHASES


def own_pods(job: Job, pods: Mapping[str, Pod]) -> list[Pod]:
    """Return the pods of this very job, sorted by name."""
    return sorted([pod for pod in pods.values() if belongs(pod.metadata, job)], key=_BY_NAME)


def tasks_by_name(job: Job) -> dict[str, TaskSpec]:
    """Return the job's tasks by name, in the order of the spec."""
    return {task.name: task for task in job.spec.tasks}


def is_surplus(pod: Pod, task: TaskSpec | None) -> bool:
    """Return whether the pod's index is above the task's replicas."""
    index = index_of(pod)
    return task is not None and index is not None and index >= task.replicas


DEFAULT_MAX_RETRY = 3
COUNT_FIELDS = {"Pending": "pending", "Running": "running", "Succeeded": "succeeded", "Failed": "failed"}
"""Field of the counts by pod phase; any other phase is `unknown`."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the pods of the spec's tasks. A terminating pod counts as terminating only."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    tasks: dict[str, TaskState] = {}

    @property
    def ended(self) -> int:
        """Number of pods that succeeded or failed."""
        return self.succeeded + self.failed

    @property
    def is_idle(self) -> bool:
        """Whether no pod of the job uses resources any more."""
        return self.terminating == self.pending == self.running == self.unknown == 0

    def with_terminating(self, pods: Iterable[Pod]) -> Counts:
        """Return the counts as if these pods, now counted by phase, were terminating."""
        ending = Counter((task_of(pod), pod.status.phase or "Pending") for pod in pods)
        totals = {field: getattr(self, field) for field in (*COUNT_FIELDS.values(), "unknown", "terminating")}
        phases = {task: dict(state.phase) for task, state in self.tasks.items()}
        for (task, phase), number in ending.items():
            if task in phases:
                totals[COUNT_FIELDS.get(phase, "unknown")] -= number
                totals["terminating"] += number
                phases[task][phase] -= number
        left = {task: {phase: number for phase, number in by.items() if number} for task, by in phases.items()}
        return Counts(**totals, tasks={task: TaskState(phase=by) for task, by in left.items() if by})

    def succeeded_of(self, task: str) -> int:
        """Return the number of succeeded pods of one task."""
        return self.tasks[task].phase.get("Succeeded", 0) if task in self.tasks else 0


def is_terminating(pod: Pod, deleting: Container[str]) -> bool:
    """Return whether the pod is being deleted, by this controller or anybody else."""
    return pod.metadata.deletion_timestamp is not None or pod.metadata.uid in deleting


def total_replicas(job: Job) -> int:
    """Return the number of pods in the spec."""
    return sum(task.replicas for task in job.spec.tasks)


def task_minimum(task: TaskSpec) -> int:
    """Return the task's minAvailable, by default its replicas."""
    return task.replicas if task.min_available is None else task.min_available


def max_retry(value: int) -> int:
    """Return the retry limit of a job or task; 0 means that it was never defaulted."""
    return value or DEFAULT_MAX_RETRY


def is_task_completed(task: TaskSpec, pods: Iterable[Pod]) -> bool:
    """Return whether as many pods of the task succeeded as it has replicas; terminating ones do not count."""
    done = sum(
        1
        for pod in pods
        if task_of(pod) == task.name and pod.status.phase == "Succeeded" and pod.metadata.deletion_timestamp is None
    )
    return 0 < task.replicas <= done


def has_exceeded_restarts(task: TaskSpec, old: Pod | None, new: Pod, pods: Iterable[Pod]) -> bool:
    """Return whether this change brought the container restarts of a task's active pods to `maxRetry`.

    `pods` are those of the job with the change, `old` is the pod before it: None for a pod observed for the first time.
    A `maxRetry` of -1 is no limit.
    """
    if task.max_retry < 0:
        return False
    now = sum(_active_restarts(pod) for pod in pods if task_of(pod) == task.name)
    before = 0 if old is None else now - _active_restarts(new) + _active_restarts(old)
    return before < max_retry(task.max_retry) <= now


def _active_restarts(pod: Pod) -> int:
    return restarts(pod) if pod.status.phase in ("Pending", "Running") else 0


def restarts(pod: Pod) -> int:
    """Return how often the pod's containers were restarted."""
    return sum(status.restart_count for status in (*pod.status.init_container_statuses, *pod.status.container_statuses))
