"""How often the counts of a job are written: a plan looks at every pod, so one for each pod would cost the square.

After a plan that left nothing to do but to count, a job may rest for a while. Pods that only enter another phase,
begin to terminate, or go after that are then folded and not planned for, as long as they are too few to change the
phase of the job; a timer ends the rest. The first of them after a quiet time begins a short one, as others are about to
follow. Whatever else happens ends it at once: no phase and no decision ever waits.
Pods whose names are still taken by terminating ones are made when a rest ends, the last ones at once.
"""

from __future__ import annotations

import msgspec

from volcanoio.engine.jobs.converge import Scene
from volcanoio.engine.jobs.counting import Counts, total_replicas
from volcanoio.engine.jobs.ledger import Ledger
from volcanoio.engine.jobs.relevance import same_beside_going
from volcanoio.engine.jobs.state import JobState, Pause
from volcanoio.engine.jobs.table import SETTLES_AS
from volcanoio.model.batch import Job, JobEvent, JobPhase, JobStatus
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup

SECONDS_PER_POD, SHORTEST, LONGEST = 0.0005, 0.05, 2.0
"""Seconds of rest: by the number of pods, within limits. The pods of a gang start and end at nearly the same time."""
_ENTERED = frozenset({"Running", "Succeeded", "Failed"})


def pause(scene: Scene, ledger: Ledger, phase: JobPhase, now: float) -> Pause | None:
    """The rest that a job may take when nothing but its counts is to be written, None for one that may not.

    A delayed action about a pending pod ends with its being pending, which can be told later; others may not rest.
    """
    seconds = min(LONGEST, max(SHORTEST, SECONDS_PER_POD * scene.roll.total))
    waiting = ledger.hold or any(entry.cause != JobEvent.POD_PENDING for entry in ledger.delayed)
    if waiting or not seconds:
        return None
    job, counts, whole = scene.job, scene.counts, scene.roll.whole
    changes = _changes(job, counts, phase) if whole else 0
    goings = _goings(job, counts, phase, whole=whole)
    if changes <= 0 and goings <= 0:
        return None
    return Pause(until=now + seconds, changes=max(0, changes), goings=max(0, goings))


def _changes(job: Job, counts: Counts, phase: JobPhase) -> int:
    """How many pods may enter another phase without that of the job changing."""
    if phase is JobPhase.PENDING:
        return job.spec.min_available - counts.running - counts.ended - 1
    if phase is not JobPhase.RUNNING:
        return 0
    changes = total_replicas(job) - counts.ended - 1
    if job.spec.min_success is not None:
        changes = min(changes, job.spec.min_success - counts.succeeded - 1)
    return changes


def _goings(job: Job, counts: Counts, phase: JobPhase, *, whole: bool) -> int:
    """How many terminating pods may go without anything to do but to count."""
    if phase in SETTLES_AS:
        return counts.terminating + counts.pending + counts.running + counts.unknown - 1
    if phase is JobPhase.RESTARTING:
        return counts.terminating - (total_replicas(job) - job.status.min_available) - 1
    if phase in (JobPhase.PENDING, JobPhase.RUNNING):
        return counts.terminating if whole else counts.terminating - 1
    return 0


def resting(before: JobState, after: JobState, uid: str, now: float) -> Pause | None:
    """What is left of the rest after a change of that pod; None when there is to be a plan."""
    rest, old, new = before.pause, before.pods.get(uid), after.pods.get(uid)
    if rest is None or old is None or not same_beside_going(before, after):
        return None
    if now >= rest.until:
        if before.behind:
            return None
        rest = msgspec.structs.replace(rest, until=now + SHORTEST)
    if new is None:
        going = old.metadata.deletion_timestamp is not None or uid in before.deleting
        left = msgspec.structs.replace(rest, goings=rest.goings - 1)
        return left if going and left.goings >= 0 else None
    if _lasting(old) != _lasting(new):
        return None
    if old.status.phase == new.status.phase or new.metadata.deletion_timestamp is not None:
        return rest
    if rest.changes == 0 or new.status.phase not in _ENTERED:
        return None
    return msgspec.structs.replace(rest, changes=rest.changes - 1)


def only_counted(old: Job | None, new: Job | None) -> bool:
    """Whether nothing but the counts of a job changed, as by a write of ours."""
    if old is None or new is None or _identity(old) != _identity(new) or old.spec != new.spec:
        return False
    return _uncounted(old.status) == _uncounted(new.status)


def _identity(obj: Pod | Job | PodGroup) -> tuple[object, ...]:
    return obj.metadata.deletion_timestamp, *_lasting(obj)


def _lasting(obj: Pod | Job | PodGroup) -> tuple[object, ...]:
    """What of an object stays as it is when it begins to terminate."""
    meta = obj.metadata
    return meta.uid, meta.labels, meta.annotations, meta.owner_references


def _uncounted(status: JobStatus) -> JobStatus:
    """A status without its counts of pods by phase."""
    return msgspec.structs.replace(
        status, pending=0, running=0, succeeded=0, failed=0, unknown=0, terminating=0, task_status_count={}
    )
