"""The next status of a job: counts, phase rules, conditions. Source: Volcano, pkg/controllers/job/state/*.go.

One deliberate difference: `lastTransitionTime` moves with the phase only, so that it says what its name says; and
`runningDuration` stays once it was written.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from volcanoio.engine.jobs.claims import Mount
from volcanoio.engine.jobs.counting import Counts, max_retry, task_minimum, total_replicas
from volcanoio.engine.jobs.ledger import KEYS, Ledger, write
from volcanoio.engine.jobs.table import SETTLES_AS, UPKEEP, Upkeep, phase_of
from volcanoio.model.batch import Job, JobCondition, JobPhase, JobState, JobStatus
from volcanoio.model.durations import text as duration_text
from volcanoio.model.times import epoch, rfc3339

LONGEST_MESSAGE = 4096
"""Characters; servers and policies may say more."""
_PLUGIN, _CLAIM = "plugin-", "volume-pvc-"
_TIMED = frozenset(phase for phase, upkeep in UPKEEP.items() if upkeep is Upkeep.STOP)


def with_counts(job: Job, counts: Counts, ledger: Ledger) -> JobStatus:
    """The stored status with fresh counts and bookkeeping."""
    status = job.status
    others = {key: value for key, value in status.controlled_resources.items() if key not in KEYS}
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
        controlled_resources={**others, **write(ledger)},
    )


def with_controlled(job: Job, mounts: Iterable[Mount], status: JobStatus) -> JobStatus:
    """The status with the entries of `controlledResources` that Volcano writes: plugins at work, claims made."""
    prefixes = (_PLUGIN, _CLAIM)
    resources = {key: value for key, value in status.controlled_resources.items() if not key.startswith(prefixes)}
    if UPKEEP[phase_of(status.state.phase)] is not Upkeep.STOP:
        resources |= {f"{_PLUGIN}{name}": name for name in job.spec.plugins or {}}
    resources |= {f"{_CLAIM}{mount.claim}": mount.claim for mount in mounts if mount.generated}
    return msgspec.structs.replace(status, controlled_resources=dict(sorted(resources.items())))


def with_reason(status: JobStatus, reason: str, message: str) -> JobStatus:
    """The status with the reason why the job waits; "" when it does not."""
    state = msgspec.structs.replace(status.state, reason=reason, message=message[:LONGEST_MESSAGE])
    return msgspec.structs.replace(status, state=state)


def enter(job: Job, status: JobStatus, phase: JobPhase, now: float) -> JobStatus:
    """The status in `phase`. Entering anew stamps the time and moves the phase's condition to the end."""
    if status.state.phase == phase:
        return status
    stamp = rfc3339(now)
    created = epoch(job.metadata.creation_timestamp)
    running = status.running_duration
    if phase in _TIMED and created is not None:
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


def phase_after_sync(job: Job, counts: Counts, phase: JobPhase) -> JobPhase:
    """The phase rules of a Pending or Running job whose pods were just counted."""
    if phase is JobPhase.PENDING:
        reached = counts.running + counts.ended
        return JobPhase.RUNNING if job.spec.min_available <= reached else JobPhase.PENDING
    total = total_replicas(job)
    if total == 0:
        return phase
    minimum = job.spec.min_success
    if minimum is not None and counts.succeeded >= minimum:
        return JobPhase.COMPLETED
    if counts.ended == total:
        return _outcome(job, counts)
    return JobPhase.PENDING if counts.pending > total - job.spec.min_available else phase


def _outcome(job: Job, counts: Counts) -> JobPhase:
    """Completed or Failed, once every pod ended."""
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
    """The restart rule: out of retries ends the job; enough free names start it again."""
    if is_exhausted(job, status):
        return JobPhase.FAILED
    enough = total_replicas(job) - counts.terminating >= status.min_available
    return JobPhase.PENDING if enough else JobPhase.RESTARTING


def is_exhausted(job: Job, status: JobStatus) -> bool:
    """Whether the restart that was just counted was one too many; its finished pods are kept, for their logs."""
    return status.retry_count >= max_retry(job.spec.max_retry)


def phase_after_stop(counts: Counts, phase: JobPhase) -> JobPhase:
    """A stopping phase settles when nothing of the job is alive."""
    return SETTLES_AS.get(phase, phase) if counts.idle else phase


def current_phase(job: Job) -> JobPhase:
    """The job's stored phase."""
    return phase_of(job.status.state.phase)
