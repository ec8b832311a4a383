"""How often the counts of a big job are written: a plan looks at every pod, so one for each pod would cost the square.

After a plan that left nothing to do but to count, a job of many pods may rest for a while. Pods that only enter another
phase are then folded and not planned for, as long as they are too few to change the phase of the job; a timer ends the
rest. Whatever else happens ends it at once: no phase and no decision ever waits.
"""

from __future__ import annotations

import msgspec

from volcanoio.engine.jobs.converge import Scene
from volcanoio.engine.jobs.counting import total_replicas
from volcanoio.engine.jobs.ledger import Ledger
from volcanoio.engine.jobs.relevance import same_beside_pods
from volcanoio.engine.jobs.state import JobState, Pause
from volcanoio.model.batch import Job, JobPhase, JobStatus
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup

SECONDS_PER_POD, SHORTEST, LONGEST = 0.0005, 0.025, 2.0
"""Seconds of rest; where they come to less than the shortest, a job does not rest."""
_ENTERED = frozenset({"Running", "Succeeded", "Failed"})


def pause(scene: Scene, ledger: Ledger, phase: JobPhase, now: float) -> Pause | None:
    """The rest that a job may take when nothing but its counts is to be written, None for one that may not."""
    seconds = min(LONGEST, SECONDS_PER_POD * len(scene.pods))
    waiting = ledger.delayed or ledger.hold or scene.targets is not None
    if seconds < SHORTEST or waiting or not scene.roll.whole:
        return None
    job, counts = scene.job, scene.counts
    if phase is JobPhase.PENDING:
        changes = job.spec.min_available - counts.running - counts.ended - 1
    elif phase is JobPhase.RUNNING:
        changes = total_replicas(job) - counts.ended - 1
        if job.spec.min_success is not None:
            changes = min(changes, job.spec.min_success - counts.succeeded - 1)
    else:
        return None
    return Pause(until=now + seconds, changes=changes) if changes > 0 else None


def resting(before: JobState, after: JobState, uid: str, now: float) -> Pause | None:
    """What is left of the rest after a change of that pod; None when there is to be a plan."""
    rest, old, new = before.pause, before.pods.get(uid), after.pods.get(uid)
    if rest is None or now >= rest.until or old is None or new is None or not same_beside_pods(before, after):
        return None
    if _identity(old) != _identity(new):
        return None
    if old.status.phase == new.status.phase:
        return rest
    if rest.changes == 0 or new.status.phase not in _ENTERED:
        return None
    return Pause(until=rest.until, changes=rest.changes - 1)


def only_counted(old: Job | None, new: Job | None) -> bool:
    """Whether nothing but the counts of a job changed, as by a write of ours."""
    if old is None or new is None or _identity(old) != _identity(new) or old.spec != new.spec:
        return False
    return _uncounted(old.status) == _uncounted(new.status)


def _identity(obj: Pod | Job | PodGroup) -> tuple[object, ...]:
    meta = obj.metadata
    return meta.uid, meta.deletion_timestamp, meta.labels, meta.annotations, meta.owner_references


def _uncounted(status: JobStatus) -> JobStatus:
    """A status without its counts of pods by phase."""
    return msgspec.structs.replace(
        status, pending=0, running=0, succeeded=0, failed=0, unknown=0, terminating=0, task_status_count={}
    )
