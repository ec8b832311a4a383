"""Manifests of a job's objects: volume claims, PodGroup and pods.

Source: Volcano, pkg/controllers/job/job_controller_util.go (createJobPod) and job_controller_actions.go
(createOrUpdatePodGroup). A claim's name is a hash of the job's uid and the mount path, where Volcano draws a random one
and writes it into the spec. The PodGroup carries the job version it was made for: one of an older version has to be
deleted, also after a restart of the controller.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence

import msgspec

from volcanoio.engine.jobs.pods.observed import task_minimum, tasks_by_name, version_of
from volcanoio.framework.effects import merge_diff
from volcanoio.framework.jobpods import gang_members
from volcanoio.framework.jobs import JobPlugin
from volcanoio.framework.overrides import TaskOverride, overridden_template
from volcanoio.framework.podusage import Usage, format_usage, pod_usage
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, NetworkTopology, TaskSpec, VolumeSpec
from volcanoio.model.core import ResourceList
from volcanoio.model.kinds import owner_reference
from volcanoio.model.resources import add
from volcanoio.model.scheduling import PodGroup, PodGroupCondition, PodGroupPhase, PodGroupSpec, SubGroupPolicy

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_SUFFIX = 12


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `spec.volumes`: the pod volume's name and the claim, "" for an emptyDir.

    `manifest` is the claim to create when it is missing, None when the user must create it.
    """

    path: str
    volume: str
    claim: str = ""
    manifest: Manifest | None = None
    generated: bool = False


def name_suffix(job: Job, seed: str) -> str:
    """Return twelve characters of [0-9a-z] that depend only on the job's uid and the seed."""
    number = int.from_bytes(hashlib.sha256(f"{job.metadata.uid}/{seed}".encode()).digest()[:16])
    letters = []
    for _ in range(_SUFFIX):
        number, digit = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[digit])
    return "".join(letters)


def mounts(job: Job) -> tuple[Mount, ...]:
    """Return the job's volumes in order; a second entry with the same claim is skipped, as in Volcano."""
    result: list[Mount] = []
    seen: set[str] = set()
    for volume in job.spec.volumes:
        mount = _mount(job, volume)
        if mount.claim and mount.claim in seen:
            continue
        seen.add(mount.claim)
        result.append(mount)
    return tuple(result)


def _mount(job: Job, volume: VolumeSpec) -> Mount:
    name = f"{job.metadata.name}-{name_suffix(job, volume.mount_path)}"
    claim = volume.volume_claim_name
    generated = not claim and volume.volume_claim is not None
    if generated:
        claim = f"{job.metadata.name}-pvc-{name_suffix(job, volume.mount_path)}"
    manifest = _claim_manifest(job, claim, volume.volume_claim) if volume.volume_claim is not None else None
    return Mount(path=volume.mount_path, volume=name, claim=claim, manifest=manifest, generated=generated)


def _claim_manifest(job: Job, name: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": kinds.PVC.api_version,
        "kind": kinds.PVC.kind,
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "ownerReferences": [owner_reference(kinds.JOB, job)],
        },
        "spec": spec,
    }


def pod_group_name(job: Job) -> str:
    """Return `<job>-<uid>`: a later job of the same name has another PodGroup."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def pod_group_spec(job: Job, priorities: Mapping[str, int], overrides: tuple[TaskOverride, ...] = ()) -> PodGroupSpec:
    """Return the PodGroup's spec; `priorities` are values by class. Raises QuantityError, msgspec.ValidationError."""
    spec = job.spec
    return PodGroupSpec(
        min_member=spec.min_available,
        min_task_member={task.name: _task_member(task) for task in spec.tasks},
        queue=spec.queue or names.DEFAULT_QUEUE,
        priority_class_name=spec.priority_class_name,
        min_resources=min_resources(job, priorities, overrides),
        network_topology=_one_tier(spec.network_topology),
        sub_group_policy=tuple(_sub_group(task) for task in spec.tasks if task.partition_policy is not None),
    )


def pod_group_manifest(job: Job, spec: PodGroupSpec, scheduler_names: Collection[str] = ()) -> Manifest:
    """Return the PodGroup to create: labels and annotations of the job, owned by it.

    `scheduler_names` are the schedulers that admit PodGroups.
    """
    return {
        "apiVersion": kinds.POD_GROUP.api_version,
        "kind": kinds.POD_GROUP.kind,
        "metadata": {
            "name": pod_group_name(job),
            "namespace": job.metadata.namespace,
            "labels": dict(job.metadata.labels),
            "annotations": {
                **job.metadata.annotations,
                names.JOB_VERSION: str(job.status.version),
                **_scheduler_annotation(job, scheduler_names),
            },
            "ownerReferences": [owner_reference(kinds.JOB, job)],
        },
        "spec": msgspec.to_builtins(spec),
    }


def _scheduler_annotation(job: Job, scheduler_names: Collection[str]) -> dict[str, str]:
    """Return the annotation by which other schedulers leave the PodGroup alone.

    There is none for the usual name, nor for a scheduler that admits no PodGroups: one of ours must do that.
    """
    scheduler = job.spec.scheduler_name
    is_special = scheduler != names.SCHEDULER_NAME and scheduler in scheduler_names
    return {names.GROUP_SCHEDULER: scheduler} if is_special else {}


def pod_group_patch(group: PodGroup, spec: PodGroupSpec) -> Manifest:
    """Return the merge patch that updates an existing PodGroup, {} for none.

    Priority class, minMember, minResources and sub-groups follow the job; minTaskMember only gains or replaces
    entries; queue and network topology are never changed, as in Volcano.
    """
    old = group.spec
    members = {**old.min_task_member, **spec.min_task_member}
    new = msgspec.structs.replace(
        old,
        min_member=spec.min_member,
        min_resources=spec.min_resources,
        priority_class_name=spec.priority_class_name,
        min_task_member=members,
        sub_group_policy=spec.sub_group_policy,
    )
    return {"spec": merge_diff(msgspec.to_builtins(old), msgspec.to_builtins(new))} if new != old else {}


def is_outdated_pod_group(group: PodGroup, job: Job) -> bool:
    """Return whether the PodGroup was made for an older job version; one without a version is Volcano's own."""
    return (version := version_of(group)) is not None and version < job.status.version


def is_pod_group_admitted(group: PodGroup) -> bool:
    """Return whether the scheduler admitted the PodGroup to its queue: only then are pods created."""
    return group.status.phase not in ("", PodGroupPhase.PENDING)


def unschedulable_condition(group: PodGroup) -> PodGroupCondition | None:
    """Return the newest condition that is True, or None if that is Scheduled or has no message.

    Conditions are in any order, and their times have whole seconds: of equal ones the last is the newest.
    """
    holding = [condition for condition in group.status.conditions if condition.status == "True"]
    newest = max(reversed(holding), key=lambda condition: condition.last_transition_time or "", default=None)
    return newest if newest is not None and newest.type != "Scheduled" and newest.message else None


def min_resources(job: Job, priorities: Mapping[str, int], overrides: tuple[TaskOverride, ...] = ()) -> ResourceList:
    """Return the resources of `minAvailable` pods, highest priority class first (ties in the spec's order).

    Overrides of single pods count with the lowest indexes, because the others may be missing.
    """
    total: Usage = {}
    tasks = tasks_by_name(job)
    for name, pods in gang_members(job, priorities).items():
        task = tasks[name]
        own = [each for each in overrides if each.task == name and each.index is not None and each.index < pods]
        for each in own:
            add(total, pod_usage(overridden_template(task, (each,), each.index)))
        if pods > len(own):
            add(total, pod_usage(task.template), pods - len(own))
    return format_usage(total)


def _task_member(task: TaskSpec) -> int:
    policy = task.partition_policy
    if task.min_available is None and policy is not None and policy.min_partitions and policy.partition_size:
        return policy.min_partitions * policy.partition_size
    return task_minimum(task)


def _one_tier(topology: NetworkTopology | None) -> NetworkTopology | None:
    if topology is None or topology.highest_tier_allowed is None:
        return topology
    return msgspec.structs.replace(topology, highest_tier_name="")


def _sub_group(task: TaskSpec) -> SubGroupPolicy:
    policy = task.partition_policy
    assert policy is not None
    return SubGroupPolicy(
        name=task.name,
        sub_group_size=policy.partition_size,
        min_sub_groups=policy.min_partitions,
        label_selector={"matchLabels": {names.TASK_SPEC: task.name}},
        match_label_keys=(names.PARTITION_ID,),
        network_topology=_one_tier(policy.network_topology),
    )


_COPIED_ANNOTATIONS = (names.PREEMPTABLE, names.COOLDOWN_TIME, names.REVOCABLE_ZONE, names.JOB_FORWARDING)
_COPIED_LABELS = (names.PREEMPTABLE, names.COOLDOWN_TIME)
_TEMPLATE_META = ("labels", "annotations", "finalizers")


def pod_name(job: Job, task: TaskSpec, index: int | str) -> str:
    """Return `<job>-<task>-<index>`; index "" gives the prefix of all pods of a task."""
    return f"{job.metadata.name}-{task.name}-{index}"


def build_pod(job: Job, task: TaskSpec, index: int, mounts: Sequence[Mount], plugins: Sequence[JobPlugin]) -> Manifest:
    """Return the manifest of a pod of the current version, changed by its plugins in their order."""
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
        names.GROUP_NAME: pod_group_name(job),
        names.JOB_VERSION: str(job.status.version),
        names.JOB_RETRY_COUNT: str(job.status.retry_count),
        names.TEMPLATE_UID: f"{job.metadata.name}-{task.name}",
        **_select(job.metadata.annotations, _COPIED_ANNOTATIONS),
        **_disruption_budget(job),
    }
    if task.topology_policy:
        annotations[names.NUMA_TOPOLOGY_POLICY] = task.topology_policy
    labels = {
        **(template.get("labels") or {}),
        **both,
        names.JOB_NAMESPACE: job.metadata.namespace,
        **_select(job.metadata.labels, _COPIED_LABELS),
        **_select(job.metadata.annotations, (names.JOB_FORWARDING,)),
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


def _select(values: dict[str, str], keys: Sequence[str]) -> dict[str, str]:
    return {key: values[key] for key in keys if key in values}


def _disruption_budget(job: Job) -> dict[str, str]:
    """Return the job's disruption budget: minAvailable before maxUnavailable."""
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
