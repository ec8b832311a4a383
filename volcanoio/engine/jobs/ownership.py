"""Whose pod this is: the job controller's marks on pods and PodGroups, read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter

from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, ObjectMeta
from volcanoio.model.batch import Job, TaskSpec
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup

_BY_NAME = attrgetter("metadata.name")
LIVE_PHASES = frozenset({"", "Pending", "Running", "Unknown"})
"""Pod phases in which a pod holds, or may hold, resources."""


def job_keys(obj: ApiObject) -> Iterable[str]:
    """The key of a Job: its own name."""
    return (obj.metadata.key,)


def owned_keys(obj: ApiObject) -> Iterable[str]:
    """The key of the Volcano Job that owns an object; none for an object of anybody else."""
    for owner in obj.metadata.owner_references:
        if owner.kind == kinds.JOB.kind and owner.api_version == kinds.JOB.api_version:
            return (f"{obj.metadata.namespace}/{owner.name}",)
    return ()


def pod_keys(obj: ApiObject) -> Iterable[str]:
    """The key of the Job that controls a pod and marked it; a pod without our marks is not ours to judge."""
    owner = obj.metadata.controller
    marks = obj.metadata.annotations
    if owner is None or owner.kind != kinds.JOB.kind or owner.api_version != kinds.JOB.api_version:
        return ()
    if names.TASK_SPEC not in marks or names.JOB_NAME not in marks or not marks.get(names.JOB_VERSION, "").isdigit():
        return ()
    return (f"{obj.metadata.namespace}/{owner.name}",)


def command_keys(obj: ApiObject) -> Iterable[str]:
    """The key of the Job a Command is for; Commands act in their own namespace."""
    target = getattr(obj, "target", None)
    if target is None or target.kind != kinds.JOB.kind or target.api_version != kinds.JOB.api_version:
        return ()
    return (f"{obj.metadata.namespace}/{target.name}",)


def belongs(meta: ObjectMeta, job: Job) -> bool:
    """Whether an object was made for this very job, not for an older one of its name."""
    uid = job.metadata.uid
    for owner in meta.owner_references:  # noqa: SIM110 - asked of every pod at every turn; any() takes twice as long
        if owner.uid == uid:
            return True
    return False


def task_of(pod: Pod) -> str:
    """The task a pod was made for."""
    return pod.metadata.annotations.get(names.TASK_SPEC, "")


def version_of(obj: Pod | PodGroup) -> int | None:
    """The job version an object was made for; None for a PodGroup made by Volcano itself."""
    text = obj.metadata.annotations.get(names.JOB_VERSION, "")
    return int(text) if text.isdigit() else None


def index_of(pod: Pod) -> int | None:
    """The pod's place in its task."""
    text = pod.metadata.annotations.get(names.TASK_INDEX) or pod.metadata.name.rpartition("-")[2]
    return int(text) if text.isdigit() else None


def partition_of(pod: Pod) -> str:
    """The partition a pod belongs to, "" without a partition policy."""
    return pod.metadata.labels.get(names.PARTITION_ID, "")


def is_marked(pod: Pod) -> bool:
    """Whether we said that this pod is about to be deleted by us."""
    return names.OUT_OF_SYNC in pod.metadata.annotations


def is_live(pod: Pod) -> bool:
    """Whether the pod has neither succeeded nor failed."""
    return pod.status.phase in LIVE_PHASES


def own_pods(job: Job, pods: Mapping[str, Pod]) -> list[Pod]:
    """The pods of this very job, sorted by name."""
    return sorted([pod for pod in pods.values() if belongs(pod.metadata, job)], key=_BY_NAME)


def tasks_by_name(job: Job) -> dict[str, TaskSpec]:
    """The job's tasks by name, in the order of the spec."""
    return {task.name: task for task in job.spec.tasks}


def is_surplus(pod: Pod, task: TaskSpec | None) -> bool:
    """Whether the spec no longer wants a pod of this index."""
    index = index_of(pod)
    return task is not None and index is not None and index >= task.replicas
