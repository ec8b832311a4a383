"""Next status of a job: counts, phase rules, conditions. Source: Volcano, pkg/controllers/job/state/*.go.

One deliberate difference: `lastTransitionTime` changes with the phase only, as its name says; and `runningDuration`
stays once it was written.
"""

from collections.abc import Iterable, Mapping

import msgspec

from volcanoio.engine.jobs.pods.manifests import Mount
from volcanoio.engine.jobs.pods.observed import Counts, max_retry, task_minimum, total_replicas
from volcanoio.engine.jobs.state.stored_state import STORED_KEYS, StoredState, write_stored
from volcanoio.engine.jobs.state.transitions import RECONCILE_MODES, STOPPED_PHASES, ReconcileMode, phase_of
from volcanoio.model.batch import Job, JobCondition, JobPhase, JobState, JobStatus
from volcanoio.model.times import epoch, rfc3339
from volcanoio.model.times import go_duration as duration_text

MAX_MESSAGE = 4096
"""Maximum length of a message in the status, in characters."""
_PLUGIN_PREFIX, _CLAIM_PREFIX = "plugin-", "volume-pvc-"
_PHASES_WITH_DURATION = frozenset(phase for phase, mode in RECONCILE_MODES.items() if mode is ReconcileMode.STOP)


def with_counts(job: Job, counts: Counts, stored: StoredState) -> JobStatus:
    """Return the job's status with fresh counts and stored state."""
    status = job.status
    others = {key: value for key, value in status.controlled_resources.items() if key not in STORED_KEYS}
    return msgspec.structs.replace(
        status,
        min_available=job.spec.min_available,
        pending=counts.pending,
        running=counts.running,
        succeeded=counts.succeeded,
        failed=counts.failed,
        unknown=counts.unknown,
        terminating=counts.terminating,
        task_status_count=counts.tasks,
        controlled_resources={**others, **write_stored(stored)},
    )


def with_controlled_resources(job: Job, mounts: Iterable[Mount], status: JobStatus) -> JobStatus:
    """Return the status with Volcano's entries of `controlledResources`: active plugins, created claims."""
    prefixes = (_PLUGIN_PREFIX, _CLAIM_PREFIX)
    resources = {key: value for key, value in status.controlled_resources.items() if not key.startswith(prefixes)}
    if RECONCILE_MODES[phase_of(status.state.phase)] is not ReconcileMode.STOP:
        resources |= {f"{_PLUGIN_PREFIX}{name}": name for name in job.spec.plugins or {}}
    resources |= {f"{_CLAIM_PREFIX}{mount.claim}": mount.claim for mount in mounts if mount.generated}
    return msgspec.structs.replace(status, controlled_resources=dict(sorted(resources.items())))


def with_reason(status: JobStatus, reason: str, message: str) -> JobStatus:
    """Return the status with the reason why the job waits, "" if it does not."""
    state = msgspec.structs.replace(status.state, reason=reason, message=message[:MAX_MESSAGE])
    return msgspec.structs.replace(status, state=state)


def enter_phase(job: Job, status: JobStatus, phase: JobPhase, now: float) -> JobStatus:
    """Return the status in a phase; a new phase sets the time and moves its condition to the end."""
    if status.state.phase == phase:
        return status
    stamp = rfc3339(now)
    created = epoch(job.metadata.creation_timestamp)
    running = status.running_duration
    if phase in _PHASES_WITH_DURATION and created is not None:
        running = duration_text(max(0, int(now) - int(created)))
    return msgspec.structs.replace(
        status,
        state=JobState(phase=phase, last_transition_time=stamp),
        conditions=(
            *(condition for condition in status.conditions if condition.status != phase),
            JobCondition(status=phase, last_transition_time=stamp),
        ),
        running_duration=running,
    )


def phase_after_sync(job: Job, counts: Counts, phase: JobPhase, answered: Mapping[str, int] = {}) -> JobPhase:
    """Return the phase of a Pending or Running job after its pods were counted.

    `answered` counts ended pods, by phase, for whose end an action is still to come: the job does not end by them.
    """
    if phase is JobPhase.PENDING:
        reached = counts.running + counts.ended
        return JobPhase.RUNNING if job.spec.min_available <= reached else JobPhase.PENDING
    if (total := total_replicas(job)) == 0:
        return phase
    if (minimum := job.spec.min_success) is not None and counts.succeeded - answered.get("Succeeded", 0) >= minimum:
        return JobPhase.COMPLETED
    if counts.ended - sum(answered.values()) == total:
        return _final_phase(job, counts)
    return JobPhase.PENDING if counts.pending > total - job.spec.min_available else phase


def _final_phase(job: Job, counts: Counts) -> JobPhase:
    spec = job.spec
    if spec.min_available >= sum(task_minimum(task) for task in spec.tasks):
        for task in spec.tasks:
            short = task.min_available is not None and counts.succeeded_of(task.name) < task.min_available
            if short and task.name in counts.tasks:
                return JobPhase.FAILED
    if spec.min_success is not None and counts.succeeded < spec.min_success:
        return JobPhase.FAILED
    return JobPhase.COMPLETED if counts.succeeded >= spec.min_available else JobPhase.FAILED


def phase_after_restart(job: Job, status: JobStatus, counts: Counts) -> JobPhase:
    """Apply the restart rule: without retries left the job fails; with enough free pod names it starts again."""
    if is_exhausted(job, status):
        return JobPhase.FAILED
    enough = total_replicas(job) - counts.terminating >= status.min_available
    return JobPhase.PENDING if enough else JobPhase.RESTARTING


def is_exhausted(job: Job, status: JobStatus) -> bool:
    """Return whether the last counted restart was one too many; finished pods are then kept, for their logs."""
    return status.retry_count >= max_retry(job.spec.max_retry)


def phase_after_stop(counts: Counts, phase: JobPhase) -> JobPhase:
    """Return the phase that follows a stopping phase when no pod is alive."""
    return STOPPED_PHASES.get(phase, phase) if counts.is_idle else phase


def current_phase(job: Job) -> JobPhase:
    """Return the job's stored phase."""
    return phase_of(job.status.state.phase)
