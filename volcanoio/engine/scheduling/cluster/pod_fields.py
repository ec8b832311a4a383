"""Task fields read from a pod: its job, status, priority, and the volume claims it names."""

from typing import NamedTuple

from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model.core import Pod
from volcanoio.model.names import GROUP_NAME, TASK_PRIORITY

_PHASES = {
    "Running": TaskStatus.RUNNING,
    "Unknown": TaskStatus.UNKNOWN,
    "Succeeded": TaskStatus.SUCCEEDED,
    "Failed": TaskStatus.FAILED,
}


class ClaimName(NamedTuple):
    """Volume claim named by a pod; `owner` is the uid of the pod that must own it, "" for any."""

    key: str
    owner: str


def claim_names(pod: Pod) -> tuple[ClaimName, ...]:
    """Return the claims that a pod names, without duplicates, in the order of its volumes.

    The claim of an ephemeral volume is named after the pod and the volume.
    """
    claims: dict[str, ClaimName] = {}
    for volume in pod.spec.volumes:
        if isinstance(source := volume.get("persistentVolumeClaim"), dict):
            key = f"{pod.metadata.namespace}/{source.get('claimName', '')}"
            claims.setdefault(key, ClaimName(key, ""))
        elif volume.get("ephemeral") is not None:
            name = f"{pod.metadata.name}-{volume.get('name', '')}"
            key = f"{pod.metadata.namespace}/{name}"
            claims.setdefault(key, ClaimName(key, pod.metadata.uid))
    return tuple(claims.values())


def job_key(pod: Pod) -> str:
    """Return the key of the job of a pod, "" when it names no PodGroup.

    It is `namespace/podgroup` for Volcano's PodGroup, which the annotation names, else `native_key`.
    """
    namespace = pod.metadata.namespace
    if group := pod.metadata.annotations.get(GROUP_NAME, ""):
        return f"{namespace}/{group}"
    native = pod.spec.scheduling_group
    return native_key(namespace, native.pod_group_name) if native is not None and native.pod_group_name else ""


_NATIVE_PREFIX = "podgroup.scheduling.k8s.io/"
"""Distinguishes native groups from Volcano's PodGroups of the same name, in a form that kubectl understands."""


def native_key(namespace: str, name: str) -> str:
    """Return the key of the job of a native PodGroup (scheduling.k8s.io); no PodGroup of Volcano can have it."""
    return f"{namespace}/{_NATIVE_PREFIX}{name}"


def is_native(job: str) -> bool:
    """Return whether a job key is that of a native PodGroup."""
    return job.partition("/")[2].startswith(_NATIVE_PREFIX)


def group_name_of(job: str) -> str:
    """Return the name of the PodGroup in a job key."""
    return job.partition("/")[2].removeprefix(_NATIVE_PREFIX)


def single_key(pod: Pod) -> str:
    """Return the key of the job of a pod without PodGroup; no PodGroup can have this key."""
    return f"{pod.metadata.namespace}/{pod.spec.scheduler_name}:{pod.metadata.uid}"


def scheduler_of_single(job: str) -> str:
    """Return the scheduler name in the job key of a pod without PodGroup, "" for other jobs."""
    scheduler, colon, _ = job.partition("/")[2].partition(":")
    return scheduler if colon else ""


def observed_status(pod: Pod) -> TaskStatus:
    """Return the task status that a pod object shows (Volcano: getTaskStatus)."""
    if (phase := pod.status.phase) in ("Succeeded", "Failed", "Unknown"):
        return _PHASES[phase]
    if pod.metadata.deletion_timestamp is not None:
        return TaskStatus.RELEASING
    if phase in ("", "Pending"):
        return TaskStatus.BOUND if pod.spec.node_name else TaskStatus.PENDING
    return _PHASES.get(phase, TaskStatus.UNKNOWN)


def name_index(name: str) -> float:
    """Return the index at the end of a pod's name of at least three segments, else infinity."""
    segments = name.split("-")
    last = segments[-1]
    return int(last) if len(segments) > 2 and last.isascii() and last.isdigit() else float("inf")


def task_priority(pod: Pod) -> int:
    """Return the task priority: annotation `volcano.sh/task-priority`, else the pod's priority, else 1."""
    text = pod.metadata.annotations.get(TASK_PRIORITY, "")
    try:
        return int(text)
    except ValueError:
        return 1 if pod.spec.priority is None else pod.spec.priority
