"""Writes of a job's status and annotations, and how long a write of mere counts may be delayed.

A plan reads every pod, so one plan per changed pod would cost the square of the job's size. Most changes cannot alter
a plan: a pod was bound, or got an address or a condition. After a plan that found nothing to write but counts, pods
that only enter another phase, begin to terminate, or disappear are folded without a plan, as long as they are too few
to change the phase of the job; a timer ends the delay, and any other change ends it at once. Pods whose names are still
used by terminating ones are created when a delay ends, the last ones at once.
"""

from collections.abc import Iterable, Mapping
from operator import attrgetter

import msgspec

from volcanoio.engine.jobs.pods.index_ranges import format_indexes, parse_indexes
from volcanoio.engine.jobs.pods.observed import Counts, index_of, task_of, total_replicas
from volcanoio.engine.jobs.pods.summary import compact_summary
from volcanoio.engine.jobs.state.job_state import CountDelay, JobState, Reduction, job_patch
from volcanoio.engine.jobs.state.reconcile_context import ReconcileContext
from volcanoio.engine.jobs.state.stored_state import COUNTED_PODS, StoredState, read_stored
from volcanoio.engine.jobs.state.transitions import RECONCILE_MODES, STOPPED_PHASES, ReconcileMode
from volcanoio.engine.jobs.status import phases
from volcanoio.engine.jobs.status.killed_pods import pods_to_kill
from volcanoio.framework.effects import merge_diff
from volcanoio.framework.events import Change, Observed
from volcanoio.model.batch import Job, JobEvent, JobPhase, JobStatus
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup, Queue

_POD_FIELDS = ("pods", "pod_summary", "succeeded_by_task")
_DELETION_FIELDS = (*_POD_FIELDS, "deleting", "deleted_uids")
_field_names = tuple(field.name for field in msgspec.structs.fields(JobState))
_other_fields = attrgetter(*(name for name in _field_names if name not in _POD_FIELDS))
_fields_beside_deletions = attrgetter(*(name for name in _field_names if name not in _DELETION_FIELDS))


def can_change_plan(before: JobState, after: JobState, uid: str) -> bool:
    """Return whether a plan for `after` may differ from one for `before`, when at most the pod of that uid changed.

    Time alone may change a plan, too: timers cover that.
    """
    old, new = before.pods.get(uid), after.pods.get(uid)
    if old is not new and (old is None or new is None or _planning_fields(old) != _planning_fields(new)):
        return True
    return not after.is_started or not differ_in_pods_only(before, after)


def fold_irrelevant_change(state: JobState, event: Observed) -> JobState | None:
    """Return the state after a pod change that neither plans nor policies depend on; None for any other.

    The result is the same as that of folding: such a pod stays in its phase, and no container was restarted.
    """
    if not isinstance(pod := event.object, Pod) or event.change is Change.GONE:
        return None
    uid = pod.metadata.uid
    known: Pod | None = state.pods.get(uid)
    if known is None:
        return None
    if pod.metadata.revision <= known.metadata.revision:  # the response to our own write came first
        return state
    if uid in state.deleted_uids or _planning_fields(known) != _planning_fields(pod):
        return None
    summary, held = state.pod_summary, state.pods
    if summary is not None and held.needs_compaction:
        summary, held = compact_summary(summary, held, state.deleting)
    pods = held.with_item(uid, pod)
    if summary is not None and summary.pods is held:  # valid for both; keeps no old pods alive
        summary = msgspec.structs.replace(summary, pods=pods)
    return msgspec.structs.replace(state, pods=pods, pod_summary=summary)


def differ_in_pods_only(before: JobState, after: JobState) -> bool:
    """Return whether two states differ in nothing but pods."""
    if before.last_question != after.last_question:  # avoids comparing long queues of questions
        return False
    return before is after or bool(_other_fields(before) == _other_fields(after))


def differ_in_deletions_only(before: JobState, after: JobState) -> bool:
    """Return whether two states differ in pods and in which deleted ones still exist, and nothing else."""
    if before.last_question != after.last_question:
        return False
    return before is after or bool(_fields_beside_deletions(before) == _fields_beside_deletions(after))


def is_queue_count_update(event: Observed) -> bool:
    """Return whether only a queue's counts changed: no job depends on them."""
    old, new = event.previous, event.object
    if event.change is Change.GONE:
        return False
    if not isinstance(old, Queue) or not isinstance(new, Queue) or old.metadata.uid != new.metadata.uid:
        return False
    return old.status.state == new.status.state and old.spec == new.spec


def _planning_fields(pod: Pod) -> tuple[object, ...]:
    """Return all that planning reads of an existing pod, apart from the policies' questions."""
    meta, status = pod.metadata, pod.status
    return (
        meta.deletion_timestamp,
        meta.labels,
        meta.annotations,
        meta.owner_references,
        status.phase,
        status.container_statuses,
        status.init_container_statuses,
    )


COUNT_DELAY_PER_POD, MIN_COUNT_DELAY, MAX_COUNT_DELAY = 0.0005, 0.05, 2.0
"""Seconds of delay per pod, and its limits. The pods of a gang start and end at nearly the same time."""
STARTING_FACTOR, MAX_STARTING_DELAY = 10.0, 2.0
"""Factor and limit of the delay while the pods of a Pending job start: the write that enters Running has all counts."""
CREATED_FACTOR, MAX_CREATED_DELAY = 300.0, 15.0
"""The same while none of its pods has started."""
MAX_FOLDED_DELAY = 5.0
"""Limit of the delay in which pods are folded without a plan: the first one that starts may be among them."""
_PHASES_AFTER_PENDING = frozenset({"Running", "Succeeded", "Failed"})


def _count_delay(pods: int) -> float:
    return min(MAX_COUNT_DELAY, max(MIN_COUNT_DELAY, COUNT_DELAY_PER_POD * pods))


def starting_count_delay(context: ReconcileContext) -> float:
    """Return for how long the write of mere counts of a Pending job is delayed, in seconds."""
    counts, seconds = context.counts, _count_delay(context.pod_summary.total)
    if counts.running or counts.ended:
        return min(MAX_STARTING_DELAY, STARTING_FACTOR * seconds)
    return min(MAX_CREATED_DELAY, CREATED_FACTOR * seconds)


def new_count_delay(context: ReconcileContext, stored: StoredState, phase: JobPhase, now: float) -> CountDelay | None:
    """Return the delay of the next count write when only counts have to be written; None if it must not be delayed.

    A delayed action about a pending pod ends with the pod's pending phase, which may be written later; others may not.
    """
    seconds = (
        _count_delay(context.pod_summary.total)
        if phase is not JobPhase.PENDING
        else min(MAX_FOLDED_DELAY, starting_count_delay(context))
    )
    waiting = stored.hold or any(entry.cause != JobEvent.POD_PENDING for entry in stored.delayed)
    if waiting or not seconds:
        return None
    job, counts = context.job, context.counts
    changes = _uncritical_changes(job, counts, phase) if context.pod_summary.is_complete else 0
    deletions = _uncritical_deletions(job, counts, phase)
    if changes <= 0 and deletions <= 0:
        return None
    return CountDelay(until=now + seconds, changes=max(0, changes), deletions=max(0, deletions))


def _uncritical_changes(job: Job, counts: Counts, phase: JobPhase) -> int:
    """Return how many pods may enter another phase without a change of the job's phase."""
    if phase is JobPhase.PENDING:
        return job.spec.min_available - counts.running - counts.ended - 1
    if phase is not JobPhase.RUNNING:
        return 0
    changes = total_replicas(job) - counts.ended - 1
    if job.spec.min_success is not None:
        changes = min(changes, job.spec.min_success - counts.succeeded - 1)
    return changes


def _uncritical_deletions(job: Job, counts: Counts, phase: JobPhase) -> int:
    """Return how many terminating pods may disappear without anything to write but counts."""
    if phase in STOPPED_PHASES:
        return counts.terminating + counts.pending + counts.running + counts.unknown - 1
    if phase is JobPhase.RESTARTING:
        return counts.terminating - (total_replicas(job) - job.status.min_available) - 1
    if phase in (JobPhase.PENDING, JobPhase.RUNNING):
        return counts.terminating - 1
    return 0


def remaining_delay(before: JobState, after: JobState, uid: str, now: float) -> CountDelay | None:
    """Return the rest of the delay after a change of a pod; None when a plan is due."""
    delay, old, new = before.count_delay, before.pods.get(uid), after.pods.get(uid)
    if delay is None or old is None or not differ_in_deletions_only(before, after):
        return None
    if now >= delay.until:
        if before.has_uncounted_changes:
            return None
        delay = msgspec.structs.replace(delay, until=now + MIN_COUNT_DELAY)
    if new is None:
        is_expected = old.metadata.deletion_timestamp is not None or uid in before.deleting
        remaining = msgspec.structs.replace(delay, deletions=delay.deletions - 1)
        return remaining if is_expected and remaining.deletions >= 0 else None
    if _stable_metadata(old) != _stable_metadata(new):
        return None
    if old.status.phase == new.status.phase or new.metadata.deletion_timestamp is not None:
        return delay
    if delay.changes == 0 or new.status.phase not in _PHASES_AFTER_PENDING:
        return None
    return msgspec.structs.replace(delay, changes=delay.changes - 1)


def is_count_update(old: Job | None, new: Job | None) -> bool:
    """Return whether only the counts of a job changed, as by this controller's own write."""
    if old is None or new is None or _identity(old) != _identity(new) or old.spec != new.spec:
        return False
    return _without_counts(old.status) == _without_counts(new.status)


def differ_in_counts_only(old: JobStatus, new: JobStatus) -> bool:
    """Return whether two statuses differ in counts, and in which pods they include, and in nothing else.

    Terminating pods count as a difference in more: that they leave is stored before they are gone.
    """
    if old == new or old.terminating != new.terminating:
        return False
    before, after = (
        msgspec.structs.replace(_without_counts(status), controlled_resources=_other_entries(status))
        for status in (old, new)
    )
    return before == after


def _identity(obj: Pod | Job | PodGroup) -> tuple[object, ...]:
    return obj.metadata.deletion_timestamp, *_stable_metadata(obj)


def _stable_metadata(obj: Pod | Job | PodGroup) -> tuple[object, ...]:
    """Return the metadata that stays the same when an object begins to terminate."""
    meta = obj.metadata
    return meta.uid, meta.labels, meta.annotations, meta.owner_references


def _without_counts(status: JobStatus) -> JobStatus:
    return msgspec.structs.replace(
        status, pending=0, running=0, succeeded=0, failed=0, unknown=0, terminating=0, task_status_count={}
    )


def _other_entries(status: JobStatus) -> dict[str, str]:
    return {key: value for key, value in status.controlled_resources.items() if key != COUNTED_PODS}


def counted_status(context: ReconcileContext, stored: StoredState) -> JobStatus:
    """Return the job's status with fresh counts and stored state."""
    return phases.with_counts(context.job, context.counts, _stored_during_hold(context, stored))


def status_entering_phase(context: ReconcileContext, stored: StoredState, entered: JobStatus) -> JobStatus:
    """Return the status of a phase that is entered, with its counts and stored state.

    The pods that the phase kills count as terminating before they are deleted, as in Volcano: a client that waits for
    the phase and its terminating pods gets both in one write, and the deletions cause no second one.
    """
    job = msgspec.structs.replace(context.job, status=entered)
    summary = msgspec.structs.replace(context.pod_summary, version=entered.version)
    killed = list(
        pods_to_kill(msgspec.structs.replace(context, job=job, pod_summary=summary, targets=stored.restart_targets))
    )
    return phases.with_counts(
        job,
        context.counts.with_terminating(killed),
        _without_deleted_pods(_stored_during_hold(context, stored), job, killed),
    )


def without_expected_pods(stored: StoredState) -> StoredState:
    """Return the stored state of a stopping job, for which no missing pod counts as evicted."""
    return msgspec.structs.replace(stored, counted_pods=None, leaving_pods={})


def _stored_during_hold(context: ReconcileContext, next_stored: StoredState) -> StoredState:
    """Return the next stored state; during a hold, keep what proves the events that are raised again at its end."""
    if next_stored.hold is None:
        return next_stored
    stored = read_stored(context.job.status)
    return msgspec.structs.replace(
        next_stored,
        counted_pods=_merge_indexes(stored.counted_pods or {}, next_stored.counted_pods or {}),
        leaving_pods=_merge_indexes(stored.leaving_pods, next_stored.leaving_pods),
        observed_generation=stored.observed_generation,
    )


def _merge_indexes(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    return {
        task: format_indexes((*parse_indexes(first.get(task, "")), *parse_indexes(second.get(task, ""))))
        for task in sorted({*first, *second})
    }


def _without_deleted_pods(stored: StoredState, job: Job, killed: Iterable[Pod]) -> StoredState:
    if RECONCILE_MODES[phases.current_phase(job)] is ReconcileMode.STOP:
        return without_expected_pods(stored)
    gone: dict[str, set[int | None]] = {}
    for pod in killed:
        gone.setdefault(task_of(pod), set()).add(index_of(pod))
    kept = {
        task: format_indexes(index for index in parse_indexes(text) if index not in gone[task])
        if task in gone
        else text
        for task, text in (stored.counted_pods or {}).items()
    }
    return msgspec.structs.replace(stored, counted_pods={task: text for task, text in kept.items() if text})


def write_status(reduction: Reduction, context: ReconcileContext, after: JobStatus) -> bool:
    """Stage the status write if it changes anything; returns whether it does."""
    job = context.job
    after = phases.with_controlled_resources(job, context.desired.mounts, after)
    if changes := merge_diff(msgspec.to_builtins(job.status), msgspec.to_builtins(after)):
        reduction.add_stage([job_patch(job, {"status": changes}, "status")])
    return bool(changes)


def write_annotations(reduction: Reduction, job: Job) -> None:
    """Stage the pending annotations."""
    patch = {"metadata": {"annotations": dict(reduction.state.pending_annotations)}}
    reduction.update(pending_annotations={})
    reduction.add_stage([job_patch(job, patch, "")])
