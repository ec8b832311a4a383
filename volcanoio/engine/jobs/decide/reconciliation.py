"""Reconciliation of a job's objects with its spec and phase: the writes that are due, or the reason to wait.

Support objects of plugins and volumes are created while the job is Pending, those that follow the spec also while it
runs, and deleted once the job stops, as in Volcano. Unlike there they survive a restart of pods, so that live pods
keep their host files and ssh keys. Source of `tasks[].dependsOn`: Volcano, job_controller_actions.go.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import islice
from operator import attrgetter

import msgspec

from volcanoio.engine.jobs.decide.policy_answers import task_of_pod
from volcanoio.engine.jobs.pods.desired import WaitReason
from volcanoio.engine.jobs.pods.manifests import (
    Mount,
    is_outdated_pod_group,
    is_pod_group_admitted,
    pod_group_manifest,
    pod_group_name,
    pod_group_patch,
    unschedulable_condition,
)
from volcanoio.engine.jobs.pods.observed import belongs, task_of, tasks_by_name
from volcanoio.engine.jobs.pods.plugins import (
    CONTENT_ANNOTATION,
    PLUGIN_ANNOTATION,
    DesiredSupport,
    PluginProblem,
    pod_with_plugins,
)
from volcanoio.engine.jobs.state import creation_approval
from volcanoio.engine.jobs.state.job_state import JobState, SupportObject, WriteEffect, job_patch
from volcanoio.engine.jobs.state.reconcile_context import ReconcileContext
from volcanoio.engine.jobs.status.killed_pods import needs_mark, pods_to_kill, targets_deleted_by_others
from volcanoio.engine.jobs.status.phases import current_phase, is_exhausted
from volcanoio.framework.controller import Lookup
from volcanoio.framework.effects import Create, Delete, Patch, merge_diff
from volcanoio.framework.statuses import without_details
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.batch import Job, JobPhase, TaskSpec
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup, Queue

ANY_DEPENDENCY = "any"


def can_start(job: Job, task: TaskSpec, pods: Sequence[Pod]) -> bool:
    """Return whether the tasks that this one depends on are ready: with iteration `any` one of several, else all.

    A dependency that the spec does not contain is never ready; admission refuses such a job.
    """
    if (depends := task.depends_on) is None or not depends.name:
        return True
    tasks = tasks_by_name(job)
    ready = [name in tasks and _is_ready(tasks[name], pods) for name in depends.name]
    return any(ready) if len(ready) > 1 and depends.iteration == ANY_DEPENDENCY else all(ready)


def _is_ready(task: TaskSpec, pods: Iterable[Pod]) -> bool:
    """Return whether as many pods of the task as it needs succeeded, or run with every container ready."""
    return task.min_available is None or task.min_available <= sum(
        1 for pod in pods if task_of(pod) == task.name and _counts_as_ready(pod)
    )


def _counts_as_ready(pod: Pod) -> bool:
    if pod.status.phase == "Succeeded":
        return True
    return pod.status.phase == "Running" and all(status.ready for status in pod.status.container_statuses)


_CONTENT_FIELDS = ("data", "spec")


def support_objects_by_key(job: Job, supports: Mapping[str, SupportObject]) -> dict[str, SupportObject]:
    """Return the job's own support objects by `resource/name`."""
    return {
        f"{owned.resource}/{owned.object.metadata.name}": owned
        for owned in supports.values()
        if belongs(owned.object.metadata, job)
    }


def support_updates(context: ReconcileContext) -> list[WriteEffect]:
    """Return the writes that update the support objects of a Pending or Running job and delete undeclared ones."""
    job, desired = context.job, context.desired.supports
    existing = support_objects_by_key(job, context.state.support_objects)
    desired_keys = {support.key for support in desired}
    undeclared = {
        key: owned for key, owned in existing.items() if key not in desired_keys and _is_made_by_plugin(owned)
    }
    effects = _support_deletes(undeclared, context.state.deleting)
    for each in desired:
        support = each.support
        if (owned := existing.get(each.key)) is None:
            is_due = support.update or current_phase(job) is JobPhase.PENDING
            if each.key not in context.state.created and is_due:
                effects.append(Create(resource=support.resource, manifest=support.manifest, fill=support.fill))
        elif support.update and (patch := _support_patch(owned.object, support.manifest)):
            effects.append(Patch.of(support.resource, owned.object, patch))
    return effects


def support_deletes(
    job: Job, desired: Iterable[DesiredSupport], supports: Mapping[str, SupportObject], deleting: Container[str]
) -> list[WriteEffect]:
    """Return deletions of every support object of a stopping job.

    That includes objects with a declared name but without our annotation, as Volcano makes them.
    """
    desired_keys = {support.key for support in desired}
    existing = support_objects_by_key(job, supports).items()
    removed = {key: owned for key, owned in existing if key in desired_keys or _is_made_by_plugin(owned)}
    return _support_deletes(removed, deleting)


def _is_made_by_plugin(owned: SupportObject) -> bool:
    """Return whether a plugin declared the object; a job may own others, which somebody else created."""
    return PLUGIN_ANNOTATION in owned.object.metadata.annotations


def _support_deletes(existing: Mapping[str, SupportObject], deleting: Container[str]) -> list[WriteEffect]:
    return [
        Delete.of(owned.resource, owned.object)
        for _, owned in sorted(existing.items())
        if owned.object.metadata.deletion_timestamp is None and owned.object.metadata.uid not in deleting
    ]


def claim_effects(job: Job, mounts: Iterable[Mount], lookup: Lookup, created: frozenset[str]) -> list[WriteEffect]:
    """Return creations of the job's own claims that are missing."""
    return [
        Create(resource=kinds.PVC.resource, manifest=mount.manifest)
        for mount in mounts
        if mount.manifest is not None
        and f"{kinds.PVC.resource}/{mount.claim}" not in created
        and lookup.get(kinds.PVC, mount.claim, job.metadata.namespace) is None
    ]


def missing_claim(job: Job, mounts: Iterable[Mount], lookup: Lookup) -> str:
    """Return the first missing claim that the user must create, "" if there is none."""
    for mount in mounts:
        required = mount.claim and mount.manifest is None
        if required and lookup.get(kinds.PVC, mount.claim, job.metadata.namespace) is None:
            return mount.claim
    return ""


def _support_patch(existing: ApiObject, desired: Manifest) -> Manifest:
    """Return the patch of the desired content; in a spec, defaults of the server are kept.

    Of a Secret only the digest is observed, and data are added to the existing ones.
    """
    if (digest := desired["metadata"].get("annotations", {}).get(CONTENT_ANNOTATION)) is not None:
        if existing.metadata.annotations.get(CONTENT_ANNOTATION) == digest:
            return {}
        return {"metadata": {"annotations": {CONTENT_ANNOTATION: digest}}, "data": desired["data"]}
    patch: Manifest = {}
    for part in _CONTENT_FIELDS:
        desired_part, existing_part = desired.get(part), getattr(existing, part, None)
        if desired_part is None or existing_part is None:
            continue
        changes = merge_diff(existing_part, desired_part)
        if part == "spec":
            changes = {name: value for name, value in changes.items() if value is not None}
        if changes:
            patch[part] = changes
    return patch


DELETE_BATCH_SIZE = 500
"""Most pods deleted by one reconciliation; the next one continues when these writes have ended."""
_QUEUE_NOT_FOUND = "QueueNotFound"


class DueWrites(msgspec.Struct, frozen=True, kw_only=True):
    """Stages of writes that are due, and why there are no more.

    - `problem`: what the job itself waits for; `scheduling_wait`: why the scheduler has not placed its PodGroup
    - `question`: what to ask the policies about creations; `approval`: their answer for the pods that are still missing
    """

    stages: tuple[tuple[WriteEffect, ...], ...] = ()
    problem: WaitReason | None = None
    scheduling_wait: WaitReason | None = None
    question: creation_approval.CreationApproval | None = None
    approval: creation_approval.CreationApproval | None = None


def stop_writes(context: ReconcileContext) -> DueWrites:
    """Delete live pods first, then PodGroup and support objects; finished pods stay."""
    job, state = context.job, context.state
    unwanted, more = _batch(pods_to_kill(context))
    if more:
        return DueWrites(stages=_non_empty_stages(_delete_effects(unwanted)))
    groups = [
        Delete.of(kinds.POD_GROUP.resource, group) for group in _pod_groups(context) if _is_retained(state, group)
    ]
    remaining = (*groups, *support_deletes(job, context.desired.supports, state.support_objects, state.deleting))
    return DueWrites(stages=_non_empty_stages(_delete_effects(unwanted), remaining))


def restart_writes(context: ReconcileContext) -> DueWrites:
    """Delete outdated pods with their PodGroup, or the targets; without retries left nothing, as the job fails.

    A target that somebody else is deleting is marked too, as it may disappear after the restart.
    """
    job, state = context.job, context.state
    if is_exhausted(job, job.status):
        return DueWrites()
    leaving = _batch(targets_deleted_by_others(context))[0]
    unwanted, more = _batch(pods_to_kill(context))
    marks, deletes = _mark_effects(job, (*leaving, *unwanted)), _delete_effects(unwanted)
    if more:
        return DueWrites(stages=_non_empty_stages(marks, deletes))
    groups = tuple(
        Delete.of(kinds.POD_GROUP.resource, group)
        for group in _pod_groups(context)
        if is_outdated_pod_group(group, job) and _is_retained(state, group)
    )
    return DueWrites(stages=_non_empty_stages(marks, deletes, groups))


def sync_writes(context: ReconcileContext) -> DueWrites:
    """Make all objects follow the spec; pods are created once the scheduler admitted the PodGroup."""
    job, state, desired = context.job, context.state, context.desired
    unwanted, _ = _batch(context.pod_summary.unwanted_pods())
    leaving = (_mark_effects(job, unwanted), _delete_effects(unwanted))
    if (problem := _wait_reason(context)) is not None:
        return DueWrites(stages=_non_empty_stages(*leaving), problem=problem)
    if _is_forwarded(context) and names.JOB_FORWARDING not in job.metadata.annotations:
        mark = {"metadata": {"annotations": {names.JOB_FORWARDING: "true"}}}
        return DueWrites(stages=_non_empty_stages(*leaving, (job_patch(job, mark, ""),)))
    required: list[WriteEffect] = [
        *claim_effects(job, desired.mounts, context.lookup, state.created),
        *support_updates(context),
    ]
    group = next((group for group in _pod_groups(context) if group.metadata.name == pod_group_name(job)), None)
    is_usable = group is not None and not is_outdated_pod_group(group, job) and _is_retained(state, group)
    usable_group = group if is_usable else None
    allowance = _creation_allowance(context, usable_group)
    problem = allowance.problem
    if group is not None or not allowance.is_empty:
        required += _pod_group_effects(context, group)
    scheduling_wait = None
    missing: tuple[WriteEffect, ...] = ()
    if usable_group is not None:
        scheduling_wait = _scheduling_wait(context, usable_group)
        if is_pod_group_admitted(usable_group):
            try:
                allowed = allowance.filter(_missing_pods(context))
                missing = _create_effects(context, state.creation_limits.next_batch(allowed))
            except PluginProblem as error:
                problem = WaitReason("PluginError", str(error))
    return DueWrites(
        stages=_non_empty_stages(leaving[0], (*leaving[1], *required), missing),
        problem=problem,
        scheduling_wait=scheduling_wait,
        question=allowance.question,
        approval=allowance.approval,
    )


def _creation_allowance(context: ReconcileContext, group: PodGroup | None) -> creation_approval.CreationAllowance:
    """Return what the policies permit to create; not limited between the PodGroup's creation and its admission."""
    if not context.needs_approval or (group is not None and not is_pod_group_admitted(group)):
        return creation_approval.UNLIMITED
    return creation_approval.creation_allowance(
        context.state.creation_approval, context.job, _missing_pods(context), group is not None, context.now
    )


def _wait_reason(context: ReconcileContext) -> WaitReason | None:
    """Return what the job has to wait for before anything more is created."""
    job = context.job
    if context.desired.problem is not None:
        return context.desired.problem
    queue = job.spec.queue or names.DEFAULT_QUEUE
    if context.lookup.get(kinds.QUEUE, queue) is None:
        return WaitReason(_QUEUE_NOT_FOUND, f'queue "{queue}" does not exist; create it and the job goes on')
    if claim := missing_claim(job, context.desired.mounts, context.lookup):
        text = f'persistent volume claim "{claim}" does not exist in namespace {job.metadata.namespace}'
        return WaitReason("PVCError", f"{text}; create it and the job goes on")
    return None


def _scheduling_wait(context: ReconcileContext, group: PodGroup) -> WaitReason | None:
    """Return the reason and message of the PodGroup's condition while fewer pods than minAvailable run.

    QueueNotFound is ignored: the queue exists by now, so that condition is outdated.
    """
    condition, counts = unschedulable_condition(group), context.counts
    if condition is None or condition.reason == _QUEUE_NOT_FOUND:
        return None
    if counts.running + counts.ended >= max(context.job.spec.min_available, 1):
        return None
    return WaitReason(condition.reason or condition.type, condition.message, without_details(condition.message))


def _is_forwarded(context: ReconcileContext) -> bool:
    """Return whether the job's queue extends to other clusters, to which its pods may be forwarded."""
    queue = context.lookup.get(kinds.QUEUE, context.job.spec.queue or names.DEFAULT_QUEUE)
    return isinstance(queue, Queue) and bool(queue.spec.extend_clusters)


def _pod_groups(context: ReconcileContext) -> list[PodGroup]:
    groups = (group for group in context.state.pod_groups.values() if belongs(group.metadata, context.job))
    return sorted(groups, key=lambda group: group.metadata.name)


def _is_retained(state: JobState, obj: Pod | PodGroup) -> bool:
    return obj.metadata.deletion_timestamp is None and obj.metadata.uid not in state.deleting


def _pod_group_effects(context: ReconcileContext, group: PodGroup | None) -> list[WriteEffect]:
    job, spec = context.job, context.desired.pod_group
    assert spec is not None
    resource = kinds.POD_GROUP.resource
    if group is None:
        return [Create(resource=resource, manifest=pod_group_manifest(job, spec, context.plugin_cache.scheduler_names))]
    if not _is_retained(context.state, group):
        return []
    if is_outdated_pod_group(group, job):
        return [Delete.of(resource, group)]
    if patch := pod_group_patch(group, spec):
        return [Patch.of(resource, group, patch)]
    return []


def _missing_pods(context: ReconcileContext) -> list[tuple[TaskSpec, int]]:
    """Return the pods whose names are free and whose task may start."""
    if context.pod_summary.is_complete:
        return []
    job = context.job
    return [
        (task, index)
        for task in job.spec.tasks
        if task.depends_on is None or can_start(job, task, context.pods)
        for index in context.pod_summary.free_indexes(task.name)
    ]


def _batch(pods: Iterable[Pod]) -> tuple[list[Pod], bool]:
    """Return at most `DELETE_BATCH_SIZE` of the pods, sorted by name, and whether there are more."""
    some = list(islice(pods, DELETE_BATCH_SIZE + 1))
    return _by_name(some[:DELETE_BATCH_SIZE]), len(some) > DELETE_BATCH_SIZE


def _by_name(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=attrgetter("metadata.name"))


def _create_effects(context: ReconcileContext, desired: Sequence[tuple[TaskSpec, int]]) -> tuple[WriteEffect, ...]:
    if not desired:
        return ()
    job, mounts = context.job, context.desired.mounts
    plugins = context.plugin_cache.of(job).plugins
    return tuple(
        Create(
            resource=kinds.POD.resource,
            manifest=pod_with_plugins(job, task_of_pod(task, index, context.overrides), index, mounts, plugins),
        )
        for task, index in desired
    )


def _mark_effects(job: Job, pods: Sequence[Pod]) -> tuple[WriteEffect, ...]:
    """Return marks on pods of the current version, whose deletion would otherwise look like an eviction."""
    patch = {"metadata": {"annotations": {names.OUT_OF_SYNC: "true"}}}
    return tuple(Patch.of(kinds.POD.resource, pod, patch) for pod in pods if needs_mark(job, pod))


def _delete_effects(pods: Sequence[Pod]) -> tuple[WriteEffect, ...]:
    return tuple(Delete.of(kinds.POD.resource, pod) for pod in pods)


def _non_empty_stages(*stages: tuple[WriteEffect, ...]) -> tuple[tuple[WriteEffect, ...], ...]:
    return tuple(stage for stage in stages if stage)
