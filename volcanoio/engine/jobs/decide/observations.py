"""Observations and outcomes of the controller's own writes, folded into the state, with their lifecycle events.

The host numbers effects in the order they were emitted, so at the first outcome of a round the sorted ids that were in
flight correspond to `state.sent_writes`, item by item. An object that disappears right after its creation is created
again with growing delays: somebody else deletes it, most often Kubernetes' garbage collector after the job itself.
Metrics have Volcano's names and labels (pkg/controllers/metrics).
"""

from collections.abc import Mapping

import msgspec

from volcanoio.engine.jobs.decide import lifecycle_events, policy_answers
from volcanoio.engine.jobs.pods.desired import WaitReason
from volcanoio.engine.jobs.pods.observed import own_pods, task_of
from volcanoio.engine.jobs.pods.persistent_collections import PersistentMap, UidSet
from volcanoio.engine.jobs.pods.plugins import SUPPORT_KINDS
from volcanoio.engine.jobs.pods.summary import compact_summary
from volcanoio.engine.jobs.state.job_state import (
    JobState,
    Reduction,
    SupportObject,
    WriteEffect,
    object_key,
    quota_has_room,
)
from volcanoio.engine.jobs.state.stored_state import read_stored
from volcanoio.framework.backoff import Backoff
from volcanoio.framework.controller import View
from volcanoio.framework.effects import Create, Delete, Measure, Measurement, Patch
from volcanoio.framework.events import EffectFailed, EffectSucceeded
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import FINISHED_PHASES, Command, Job, JobPhase
from volcanoio.model.core import Pod, ResourceQuota
from volcanoio.model.scheduling import PodGroup
from volcanoio.model.times import epoch

CREATION_LATENCY_METRIC = "volcano_controller_job_to_pod_creation_latency_milliseconds"


PHASE_COUNTERS = {
    JobPhase.COMPLETED: "volcano_job_completed_phase_count",
    JobPhase.FAILED: "volcano_job_failed_phase_count",
}
"""Counters of jobs that entered a phase, by `job_name` (namespace/name) and `queue_name`."""


def begin_phase_metrics(job: Job) -> list[Measure]:
    """Begin the counters of a new job at 0, so that Prometheus sees the first end as an increase.

    A job that has ended before this process began has none: the number of series is limited.
    """
    if job.status.state.phase in FINISHED_PHASES:
        return []
    labels = {"job_name": job.metadata.key, "queue_name": job.spec.queue}
    return [
        Measure(measurement=Measurement.COUNT, name=name, labels=labels, value=0.0) for name in PHASE_COUNTERS.values()
    ]


def phase_metrics(before: Job, after: Job) -> list[Measure]:
    """Count that a job completed or failed, when its phase is observed to change: a process counts from its start."""
    if (phase := after.status.state.phase) == before.status.state.phase or phase not in PHASE_COUNTERS:
        return []
    labels = {"job_name": after.metadata.key, "queue_name": after.spec.queue}
    return [Measure(measurement=Measurement.COUNT, name=PHASE_COUNTERS[JobPhase(phase)], labels=labels)]


def forget_job_metrics(job: Job) -> list[Measure]:
    """Remove the series of a deleted job."""
    labels = {"job_name": job.metadata.key}
    return [Measure(measurement=Measurement.FORGET, name=name, labels=labels) for name in PHASE_COUNTERS.values()]


def creation_latency_metrics(job: Job, creations: Mapping[str, int]) -> list[Measure]:
    """Measure the milliseconds from the creation of a job to that of its pods; `creations` are counts by timestamp.

    Timestamps have whole seconds, so the pods of a round share a few.
    """
    if (created := epoch(job.metadata.creation_timestamp)) is None:
        return []
    return [
        Measure(
            measurement=Measurement.OBSERVE,
            name=CREATION_LATENCY_METRIC,
            value=max(0.0, moment - created) * 1000,
            times=number,
        )
        for stamp, number in sorted(creations.items())
        if (moment := epoch(stamp)) is not None
    ]


EARLY_DELETION_WINDOW = 2.0
"""Seconds after its creation (in whole ones) within which a deletion counts as early."""
RECREATE_BACKOFF = Backoff(base=0.2, cap=60.0)
"""Back-off from the second early deletion in a row on; reset when none happened for as long as its cap."""


def record_deletion(reduction: Reduction, obj: ApiObject, *, is_ours: bool) -> None:
    """Fold a deletion of one of the job's objects: decide when it may be created again.

    `is_ours`: this controller deleted it. Objects that terminated before their deletion are created again at once.
    """
    created_at = epoch(obj.metadata.creation_timestamp)
    if (
        is_ours
        or obj.metadata.deletion_timestamp is not None
        or created_at is None
        or reduction.now - created_at > EARLY_DELETION_WINDOW
    ):
        reduction.update(retry_at=0.0, recreate_at=0.0)
        return
    state = reduction.state
    if reduction.now - state.last_early_deletion > RECREATE_BACKOFF.cap:
        reduction.update(early_deletions=1, last_early_deletion=reduction.now, retry_at=0.0, recreate_at=0.0)
    elif reduction.now >= state.last_early_deletion + RECREATE_BACKOFF.delay(state.early_deletions - 1):
        deletions = state.early_deletions + 1
        reduction.update(
            early_deletions=deletions,
            last_early_deletion=reduction.now,
            recreate_at=reduction.now + RECREATE_BACKOFF.delay(deletions - 1),
        )
    else:
        reduction.update(
            recreate_at=max(
                state.recreate_at, state.last_early_deletion + RECREATE_BACKOFF.delay(state.early_deletions - 1)
            )
        )


_SUPPORT_RESOURCES = frozenset(kind.resource for kind in SUPPORT_KINDS)


def fold(reduction: Reduction, resource: str, obj: ApiObject, *, is_gone: bool) -> None:
    """Fold the newest state of one object; an older one than observed is ignored."""
    match obj:
        case Job():
            _fold_job(reduction, obj, is_gone=is_gone)
        case Pod():
            _fold_pod(reduction, obj, is_gone=is_gone)
        case PodGroup():
            _fold_group(reduction, obj, is_gone=is_gone)
        case Command():
            reduction.update(retry_at=0.0)
            _fold_into(reduction, "commands", obj, obj, is_gone=is_gone)
        case _ if resource in _SUPPORT_RESOURCES:
            if is_gone:
                reduction.update(created=reduction.state.created - {f"{resource}/{obj.metadata.name}"})
            held = obj if resource != kinds.SECRET.resource else ApiObject(metadata=obj.metadata)
            _fold_into(reduction, "support_objects", obj, SupportObject(resource, held), is_gone=is_gone)
        case ResourceQuota():
            denied = reduction.state.creation_limits.denied
            if (
                denied is not None
                and (is_gone or quota_has_room(obj, denied))
                and _is_in_namespace_of(reduction.state.job, obj)
            ):
                reduction.update(retry_at=0.0)
        case _:  # a looked-up reference: what the job waited for may exist now
            reduction.update(retry_at=0.0)


def _is_in_namespace_of(job: Job | None, quota: ResourceQuota) -> bool:
    return job is not None and quota.metadata.namespace == job.metadata.namespace


def start_raising_events(reduction: Reduction) -> None:
    """Raise the events that storage proves, once all inputs are synced."""
    reduction.update(is_started=True)
    raise_from_storage(reduction)


def raise_from_storage(reduction: Reduction) -> None:
    """Raise the events that storage proves: in a new process, and again after a policy's hold."""
    state = reduction.state
    if state.job is None or not state.is_started:
        return
    stored = read_stored(state.job.status)
    if stored.hold is not None and stored.hold.until <= reduction.now:
        reduction.update(resumed_hold=stored.hold.until)
    groups = sorted(state.pod_groups.values(), key=lambda group: group.metadata.name)
    raised = lifecycle_events.storage_events(
        state.job, stored, own_pods(state.job, state.pods), groups, reduction.policies
    )
    reduction.enqueue_questions(raised)


def _fold_job(reduction: Reduction, job: Job, *, is_gone: bool) -> None:
    state = reduction.state
    if (known := state.job) is not None and known.metadata.uid == job.metadata.uid:
        if is_gone:
            reduction.immediate += forget_job_metrics(known)
            reduction.state = _without_job(state)
            if state.has_writes_in_flight:
                reduction.update(deleted_uids=state.deleted_uids.with_uids((job.metadata.uid,)))
        elif job.metadata.revision > known.metadata.revision:
            changed = job.metadata.generation != known.metadata.generation
            reduction.update(job=job)
            if changed:
                reduction.update(retry_at=0.0, recreate_at=0.0)
            reduction.immediate += phase_metrics(known, job)
            if changed and state.is_started:
                reduction.enqueue_questions(lifecycle_events.spec_events(known, job, own_pods(job, state.pods)))
        return
    if is_gone or job.metadata.uid in state.deleted_uids:
        return
    reduction.state = msgspec.structs.replace(_without_job(state), job=job)
    reduction.immediate += begin_phase_metrics(job)
    raise_from_storage(reduction)


def _without_job(state: JobState) -> JobState:
    """Return the state without what belongs to one Job; objects and writes in flight stay."""
    return JobState(
        pods=state.pods,
        pod_groups=state.pod_groups,
        commands=state.commands,
        support_objects=state.support_objects,
        is_started=state.is_started,
        last_question=state.last_question,
        succeeded_by_task=state.succeeded_by_task,
        sent_writes=state.sent_writes,
        in_flight_writes=state.in_flight_writes,
        deleting=state.deleting,
        deleted_uids=state.deleted_uids,
        timers=state.timers,
    )


def _fold_pod(reduction: Reduction, pod: Pod, *, is_gone: bool) -> None:
    state = reduction.state
    if state.pod_summary is not None and state.pods.needs_compaction:
        summary, pods = compact_summary(state.pod_summary, state.pods, state.deleting)
        reduction.update(pod_summary=summary, pods=pods)
        state = reduction.state
    uid = pod.metadata.uid
    old = state.pods.get(uid)
    if not _fold_into(reduction, "pods", pod, pod, is_gone=is_gone):
        return
    _count_success(reduction, old, None if is_gone else pod)
    deleted = uid in state.deleting
    if is_gone:
        record_deletion(reduction, pod, is_ours=deleted)
    elif old is None:
        reduction.update(retry_at=0.0)
    if state.job is None or not state.is_started:
        return
    change = lifecycle_events.PodChange(
        old=old,
        new=None if is_gone else pod,
        pods=reduction.state.pods,
        succeeded=reduction.state.succeeded_by_task,
        is_deleted_by_us=deleted,
    )
    raised = lifecycle_events.pod_events(state.job, change, reduction.policies)
    reduction.enqueue_questions(raised)


def _count_success(reduction: Reduction, old: Pod | None, new: Pod | None) -> None:
    before = task_of(old) if old is not None and old.status.phase == "Succeeded" else None
    after = task_of(new) if new is not None and new.status.phase == "Succeeded" else None
    if before == after:
        return
    counts = dict(reduction.state.succeeded_by_task)
    if before is not None:
        counts[before] -= 1
    if after is not None:
        counts[after] = counts.get(after, 0) + 1
    reduction.update(succeeded_by_task={task: number for task, number in counts.items() if number})


def _fold_group(reduction: Reduction, group: PodGroup, *, is_gone: bool) -> None:
    state = reduction.state
    old = state.pod_groups.get(group.metadata.uid)
    if not _fold_into(reduction, "pod_groups", group, group, is_gone=is_gone):
        return
    if is_gone:
        record_deletion(reduction, group, is_ours=group.metadata.uid in state.deleting)
    elif old is None:
        reduction.update(retry_at=0.0)
    if state.job is not None and state.is_started:
        reduction.enqueue_questions(lifecycle_events.pod_group_events(state.job, old, None if is_gone else group))


def _fold_into(
    reduction: Reduction, field: str, obj: ApiObject, value: ApiObject | SupportObject, *, is_gone: bool
) -> bool:
    """Add an object to a field of the state or remove it; False when that changes nothing."""
    uid, state = obj.metadata.uid, reduction.state
    objects: Mapping[str, ApiObject | SupportObject] = getattr(state, field)
    known = objects.get(uid)
    if is_gone:
        if state.has_writes_in_flight:
            reduction.update(deleted_uids=state.deleted_uids.with_uids((uid,)))
        if known is None:
            return False
        reduction.update(**{field: _without(objects, uid)})
        if uid in state.deleting:
            reduction.update(deleting=state.deleting.without_uids((uid,)))
        return True
    held = known.object if isinstance(known, SupportObject) else known
    if uid in state.deleted_uids or (held is not None and obj.metadata.revision <= held.metadata.revision):
        return False
    added = objects.with_item(uid, value) if isinstance(objects, PersistentMap) else {**objects, uid: value}
    reduction.update(**{field: added})
    return True


def _without(objects: Mapping[str, ApiObject | SupportObject], uid: str) -> Mapping[str, ApiObject | SupportObject]:
    if isinstance(objects, PersistentMap):
        return objects.without((uid,))
    return {key: held for key, held in objects.items() if key != uid}


RETRY_BACKOFF = Backoff(base=0.2, cap=60.0)
"""Back-off after consecutive rounds of writes that failed."""
CONFLICT_WAIT = 5.0
"""Seconds to wait for the newer job after a conflict; then the observed one is used again.

A server, or a webhook in front of it, may answer 409 for other reasons, and an outdated write is refused again.
"""
CONFLICT, NOT_FOUND = 409, 404
_WRITES = (Create, Patch, Delete)
_CREATED_ONCE = frozenset({kinds.PVC.resource, kinds.CONFIG_MAP.resource, kinds.SERVICE.resource,
                   kinds.NETWORK_POLICY.resource, kinds.SECRET.resource})  # fmt: skip
_FAILURE_EVENTS: dict[tuple[type, str], tuple[str, str]] = {
    (Create, kinds.POD.resource): ("FailedCreate", "Error creating pods: "),
    (Delete, kinds.POD.resource): ("FailedDelete", "Error deleting pods: "),
    (Patch, kinds.POD.resource): ("FailedDelete", "Error deleting pods: "),
    (Create, kinds.PVC.resource): ("PVCError", "Failed to create PVC, err: "),
    (Create, kinds.POD_GROUP.resource): ("PodGroupError", "Failed to create PodGroup, err: "),
    (Patch, kinds.POD_GROUP.resource): ("PodGroupError", "Failed to update PodGroup, err: "),
    (Delete, kinds.POD_GROUP.resource): ("PodGroupError", "Failed to delete PodGroup, err: "),
    (Patch, kinds.JOB.resource): ("JobStatusError", "Failed to update job status, err: "),
    (Delete, kinds.COMMAND.resource): ("CommandIssued", "Failed to delete command, err: "),
}


def write_succeeded(reduction: Reduction, event: EffectSucceeded, view: View) -> None:
    """Fold a successful write: its response is an observation like any other."""
    if (effect := _remove_outcome(reduction, view, event.effect_id, ())) is None:
        return
    if isinstance(effect, Create) and effect.resource in _CREATED_ONCE:
        reduction.update(created=reduction.state.created | {object_key(effect)})
    if _is_job_status_write(effect):
        reduction.update(answers_in_flight=())
    if isinstance(effect, Create) and isinstance(event.obj, Pod):
        stamp, born = event.obj.metadata.creation_timestamp or "", reduction.state.creations_by_time
        reduction.update(creations_by_time={**born, stamp: born.get(stamp, 0) + 1})
    if event.obj is not None and not isinstance(effect, Delete):
        _fold_response(reduction, event.obj)
    _end_round(reduction)


def write_failed(reduction: Reduction, event: EffectFailed, view: View) -> None:
    """Fold a refused write: a newer state or a back-off decides when the job continues."""
    if (effect := _remove_outcome(reduction, view, event.effect_id, (event.effect_id, *event.dropped))) is None:
        return
    if (created := policy_answers.created_after_refusal(reduction.state.created, effect, event.code)) is not None:
        _saving_overrides_failed(reduction, effect, event, created)
    else:
        _restore_unwritten(reduction, effect)
        _record_failure(reduction, effect, event, view)
    _end_round(reduction)


def _saving_overrides_failed(
    reduction: Reduction, effect: WriteEffect, event: EffectFailed, created: frozenset[str]
) -> None:
    """Fold a refused write of learned overrides; it is tried again when the refusal shows whether the object exists."""
    is_retried = created != reduction.state.created
    has_failed = reduction.state.has_failed_write or not is_retried
    reduction.update(saved_overrides={}, created=created, has_failed_write=has_failed)
    if not is_retried:
        _report_failure(reduction, effect, event)


def _restore_unwritten(reduction: Reduction, effect: WriteEffect) -> None:
    """Put answers and annotations of a refused write of the job back into the state."""
    state = reduction.state
    if _is_job_status_write(effect):
        reduction.update(pending_answers=(*state.answers_in_flight, *state.pending_answers), answers_in_flight=())
    elif isinstance(effect, Patch) and effect.resource == kinds.JOB.resource:
        reduction.update(pending_annotations={**effect.patch["metadata"]["annotations"], **state.pending_annotations})


def _record_failure(reduction: Reduction, effect: WriteEffect, event: EffectFailed, view: View) -> None:
    if isinstance(effect, Patch) and effect.resource == kinds.JOB.resource and event.code == CONFLICT:
        refused = effect.resource_version
        revision = max(reduction.state.stale_revision, int(refused) if refused.isdigit() else -1)
        reduction.update(stale_revision=revision, stale_until=reduction.now + CONFLICT_WAIT)
        return
    if isinstance(effect, Create) and effect.resource in _CREATED_ONCE and event.code == CONFLICT:
        reduction.update(created=reduction.state.created | {object_key(effect)})
        _report_failure(reduction, effect, event)
        return
    is_first = not reduction.state.has_failed_write
    reduction.update(has_failed_write=True)
    is_transient = event.code == CONFLICT or (event.code == NOT_FOUND and isinstance(effect, Patch))
    if is_transient and reduction.state.failures <= 1:  # the newer version, or the deletion, is about to be observed
        return
    problem = _failure_reason(effect, event)
    if is_first:  # one Event for a stage of many writes refused for the same reason
        reduction.record_event("Warning", problem.reason, problem.message)
    if isinstance(effect, Create):
        known = reduction.state.creation_failure or problem
        reduction.update(creation_failure=min(known, problem, key=lambda each: each.message))
        _reduce_creation_limits(reduction, effect, event, view)


def _is_job_status_write(effect: WriteEffect) -> bool:
    return isinstance(effect, Patch) and effect.resource == kinds.JOB.resource and effect.subresource == "status"


def _remove_outcome(reduction: Reduction, view: View, effect_id: int, dropped: tuple[int, ...]) -> WriteEffect | None:
    """Remove a write, and those dropped with it, from the sent ones; None for a write of another round."""
    state = reduction.state
    awaited = state.in_flight_writes
    if state.sent_writes:
        numbers = {number for number, effect in view.in_flight.items() if isinstance(effect, _WRITES)}
        numbers |= {effect_id, *dropped}
        if len(numbers) != len(state.sent_writes):
            reduction.update(sent_writes=())
            return None
        awaited = PersistentMap(dict(zip(sorted(numbers), state.sent_writes, strict=True)))
    effect: WriteEffect | None = awaited.get(effect_id)
    if effect is None:
        return None
    reduction.update(sent_writes=(), in_flight_writes=awaited.without((effect_id, *dropped)))
    if undone := {other.uid for number in dropped if isinstance(other := awaited.get(number), Delete)}:
        reduction.update(deleting=state.deleting.without_uids(undone))
    return effect


def _end_round(reduction: Reduction) -> None:
    """After the last outcome of a round, continue at once, or back off if a write failed."""
    state = reduction.state
    if state.has_writes_in_flight:
        return
    reduction.update(creation_limits=state.creation_limits.after_round(has_created_pods=bool(state.creations_by_time)))
    if state.creations_by_time and state.job is not None:
        reduction.immediate += creation_latency_metrics(state.job, state.creations_by_time)
        reduction.update(creations_by_time={})
    if not state.has_failed_write:
        reduction.update(failures=state.failures if state.creation_failure else 0, deleted_uids=UidSet())
        return
    failures = state.failures + 1
    reduction.update(
        failures=failures,
        retry_at=reduction.now + RETRY_BACKOFF.delay(failures),
        has_failed_write=False,
        deleted_uids=UidSet(),
    )


def _reduce_creation_limits(reduction: Reduction, effect: Create, event: EffectFailed, view: View) -> None:
    """Try fewer pods at once, and watch the quotas where one refused them."""
    pace = reduction.state.creation_limits.after_refusal(effect, event.code, event.message)
    reduction.update(creation_limits=pace)
    if pace.denied is not None:
        view.lookup.all(kinds.RESOURCE_QUOTA)


def _report_failure(reduction: Reduction, effect: WriteEffect, event: EffectFailed) -> None:
    problem = _failure_reason(effect, event)
    reduction.record_event("Warning", problem.reason, problem.message)


def _failure_reason(effect: WriteEffect, event: EffectFailed) -> WaitReason:
    reason, text = _FAILURE_EVENTS.get((type(effect), effect.resource), ("PluginError", "Execute plugin failed, err: "))
    message = event.message or event.reason or "the outcome is unknown"
    return WaitReason(reason, f"{text}{message} ({object_key(effect)})")


def _fold_response(reduction: Reduction, obj: ApiObject) -> None:
    kind = kinds.of(obj)
    if kind is not kinds.PVC and reduction.state.revision_of(obj.metadata.uid) != obj.metadata.revision:
        fold(reduction, kind.resource, obj, is_gone=False)
