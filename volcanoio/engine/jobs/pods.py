"""Building the pods of a job. Source: Volcano, pkg/controllers/job/job_controller_util.go (createJobPod)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from volcanoio.engine.jobs.claims import Mount
from volcanoio.engine.jobs.podgroup import group_name
from volcanoio.framework.jobs import JobPlugin
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, TaskSpec
from volcanoio.model.references import owner_reference

_CARRIED_ANNOTATIONS = (names.PREEMPTABLE, names.COOLDOWN_TIME, names.REVOCABLE_ZONE, names.JOB_FORWARDING)
_CARRIED_LABELS = (names.PREEMPTABLE, names.COOLDOWN_TIME)
_TEMPLATE_META = ("labels", "annotations", "finalizers")


def pod_name(job: Job, task: TaskSpec, index: int | str) -> str:
    """`<job>-<task>-<index>`; all pods of a task begin with the name of index ""."""
    return f"{job.metadata.name}-{task.name}-{index}"


def build_pod(job: Job, task: TaskSpec, index: int, mounts: Sequence[Mount], plugins: Sequence[JobPlugin]) -> Manifest:
    """The manifest of one pod of the job's current version, changed by its plugins in their order."""
    template: Manifest = msgspec.json.decode(msgspec.json.encode(task.template))
    spec: Manifest = template.get("spec") or {}
    if job.spec.scheduler_name:
        spec["schedulerName"] = spec.get("schedulerName") or job.spec.scheduler_name
    if job.spec.priority_class_name:
        spec["priorityClassName"] = spec.get("priorityClassName") or job.spec.priority_class_name
    _add_volumes(spec, mounts)
    pod: Manifest = {
        "apiVersion": kinds.POD.api_version,
        "kind": kinds.POD.kind,
        "metadata": _metadata(job, task, index, template.get("metadata") or {}),
        "spec": spec,
    }
    for plugin in plugins:
        plugin.on_pod_create(pod, job, task, index)
    return pod


def _metadata(job: Job, task: TaskSpec, index: int, template: Manifest) -> Manifest:
    queue = job.spec.queue or names.DEFAULT_QUEUE
    both = {
        names.TASK_INDEX: str(index),
        names.TASK_SPEC: task.name,
        names.JOB_NAME: job.metadata.name,
        names.QUEUE_NAME: queue,
    }
    annotations = {
        **(template.get("annotations") or {}),
        **both,
        names.GROUP_NAME: group_name(job),
        names.JOB_VERSION: str(job.status.version),
        names.JOB_RETRY_COUNT: str(job.status.retry_count),
        names.TEMPLATE_UID: f"{job.metadata.name}-{task.name}",
        **_carried(job.metadata.annotations, _CARRIED_ANNOTATIONS),
        **_disruption_budget(job),
    }
    if task.topology_policy:
        annotations[names.NUMA_TOPOLOGY_POLICY] = task.topology_policy
    labels = {
        **(template.get("labels") or {}),
        **both,
        names.JOB_NAMESPACE: job.metadata.namespace,
        **_carried(job.metadata.labels, _CARRIED_LABELS),
        **_carried(job.metadata.annotations, (names.JOB_FORWARDING,)),
    }
    if task.partition_policy is not None and task.partition_policy.partition_size > 0:
        labels[names.PARTITION_ID] = str(index // task.partition_policy.partition_size)
    return {
        **{name: template[name] for name in _TEMPLATE_META if name in template},
        "name": pod_name(job, task, index),
        "namespace": job.metadata.namespace,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [owner_reference(kinds.JOB, job)],
    }


def _carried(values: dict[str, str], keys: Sequence[str]) -> dict[str, str]:
    return {key: values[key] for key in keys if key in values}


def _disruption_budget(job: Job) -> dict[str, str]:
    """The job's disruption budget: the least available, else the most unavailable."""
    for key in (names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE):
        if key in job.metadata.annotations:
            return {key: job.metadata.annotations[key]}
    return {}


def _add_volumes(spec: Manifest, mounts: Sequence[Mount]) -> None:
    if not mounts:
        return
    volumes = spec["volumes"] = list(spec.get("volumes") or [])
    for mount in mounts:
        source = {"persistentVolumeClaim": {"claimName": mount.claim}} if mount.claim else {"emptyDir": {}}
        volumes.append({"name": mount.volume, **source})
    for container in spec.get("containers") or []:
        mounted = container["volumeMounts"] = list(container.get("volumeMounts") or [])
        mounted.extend({"name": mount.volume, "mountPath": mount.path} for mount in mounts)
