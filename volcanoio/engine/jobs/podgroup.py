"""The PodGroup a job wants. Source: Volcano, pkg/controllers/job/job_controller_actions.go (createOrUpdatePodGroup).

Ours carries the job version it was made for, so that a full kill is seen through after a restart of ours too: a
PodGroup of an older version has to go.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from volcanoio.engine.jobs.counting import task_minimum
from volcanoio.engine.jobs.ownership import tasks_by_name, version_of
from volcanoio.framework.effects import merge_diff
from volcanoio.framework.gangs import members
from volcanoio.framework.overrides import TaskOverride, template_of
from volcanoio.framework.podusage import Usage, as_resource_list, pod_usage
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, NetworkTopology, TaskSpec
from volcanoio.model.core import ResourceList
from volcanoio.model.references import owner_reference
from volcanoio.model.resources import add
from volcanoio.model.scheduling import PodGroup, PodGroupPhase, PodGroupSpec, SubGroupPolicy


def group_name(job: Job) -> str:
    """`<job>-<uid>`: a job of the same name later has another group."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def group_spec(job: Job, priorities: Mapping[str, int], overrides: tuple[TaskOverride, ...] = ()) -> PodGroupSpec:
    """The spec; `priorities` are values of priority classes by name. Raises QuantityError, msgspec.ValidationError."""
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


def group_manifest(job: Job, spec: PodGroupSpec) -> Manifest:
    """The PodGroup to create: all labels and annotations of the job, owned by it."""
    return {
        "apiVersion": kinds.POD_GROUP.api_version,
        "kind": kinds.POD_GROUP.kind,
        "metadata": {
            "name": group_name(job),
            "namespace": job.metadata.namespace,
            "labels": dict(job.metadata.labels),
            "annotations": {**job.metadata.annotations, names.JOB_VERSION: str(job.status.version)},
            "ownerReferences": [owner_reference(kinds.JOB, job)],
        },
        "spec": msgspec.to_builtins(spec),
    }


def group_changes(group: PodGroup, spec: PodGroupSpec) -> Manifest:
    """The merge patch that brings an existing group up to date, {} for none.

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


def is_outdated(group: PodGroup, job: Job) -> bool:
    """Whether the group was made for an older version of the job; one without a version is Volcano's own and fine."""
    version = version_of(group)
    return version is not None and version < job.status.version


def is_admitted(group: PodGroup) -> bool:
    """Whether the scheduler let the group into its queue: only then are pods created."""
    return group.status.phase not in ("", PodGroupPhase.PENDING)


def unschedulable_message(group: PodGroup) -> str:
    """Why the group is not scheduled: its newest condition that holds, unless it says Scheduled."""
    holding = [condition for condition in group.status.conditions if condition.status == "True"]
    newest = holding[-1] if holding else None
    return newest.message if newest is not None and newest.type != "Scheduled" else ""


def min_resources(job: Job, priorities: Mapping[str, int], overrides: tuple[TaskOverride, ...] = ()) -> ResourceList:
    """What `minAvailable` pods take, those of the highest priority class first (equal ones in the spec's order).

    `overrides` of single pods count with the pods of the lowest indexes, as the others are those that may be missing.
    """
    total: Usage = {}
    tasks = tasks_by_name(job)
    for name, pods in members(job, priorities).items():
        task = tasks[name]
        own = [each for each in overrides if each.task == name and each.index is not None and each.index < pods]
        for each in own:
            add(total, pod_usage(template_of(task, (each,), each.index)))
        if pods > len(own):
            add(total, pod_usage(task.template), pods - len(own))
    return as_resource_list(total)


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
