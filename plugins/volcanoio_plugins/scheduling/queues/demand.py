"""Demand of jobs that are admitted but not placed yet (Volcano: pkg/scheduler/plugins/util/util.go).

Demand is counted so that no more jobs are admitted than the cluster can soon run.
"""

from __future__ import annotations

from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Amounts, Job
from volcanoio.model.scheduling import PodGroupPhase


def outstanding(job: Job) -> Amounts:
    """minResources not allocated yet, by resource, without what waits behind scheduling gates."""
    allocated = job.allocated
    return _ungated(
        job,
        {
            name: left
            for name, amount in (job.min_resources or {}).items()
            if (left := amount - allocated.get(name, 0)) > 0
        },
    )


def minimum(job: Job) -> Amounts:
    """minResources without what waits behind scheduling gates."""
    return _ungated(job, job.min_resources or {})


def elastic(job: Job) -> Amounts:
    """What the job holds beyond its minResources."""
    minimum = job.min_resources or {}
    return {name: more for name, amount in job.allocated.items() if (more := amount - minimum.get(name, 0)) > 0}


def runs_whole(job: Job) -> bool:
    """Whether the job runs with at least its minimum of members: one that lost its finished driver does not count."""
    return job.phase == PodGroupPhase.RUNNING and job.count(*ALLOCATED_STATUSES) >= job.min_available


def admitted(job: Job) -> Amounts:
    """What of a job's minResources is admitted to its queue and not allocated yet; nothing where it gives none."""
    if job.min_resources is None or not (job.phase == PodGroupPhase.INQUEUE or runs_whole(job)):
        return {}
    return outstanding(job)


def _ungated(job: Job, demand: Amounts) -> Amounts:
    gated = job.gated
    return {name: max(amount - gated.get(name, 0), 0) for name, amount in demand.items()} if gated else demand


def queue_of(job: Job) -> str:
    """The name of its queue: a key to sum by."""
    return job.queue
