"""Demand of jobs that are admitted but not placed yet (Volcano: pkg/scheduler/plugins/util/util.go).

Demand is counted so that no more jobs are admitted than the cluster can soon run.
"""

from __future__ import annotations

from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Amounts, Job
from volcanoio.model.scheduling import PodGroupPhase

_INQUEUE, _RUNNING = PodGroupPhase.INQUEUE.value, PodGroupPhase.RUNNING.value
"""Plain texts: compared for every job that changed."""


def outstanding(job: Job) -> Amounts:
    """minResources not allocated yet, by resource, without what waits behind scheduling gates."""
    allocated, least = job.allocated, job.min_resources
    if not allocated or not least:
        return minimum(job)
    return _ungated(
        job, {name: left for name, amount in least.items() if (left := amount - allocated.get(name, 0)) > 0}
    )


def minimum(job: Job) -> Amounts:
    """minResources without what waits behind scheduling gates."""
    return _ungated(job, job.min_resources or {})


def elastic(job: Job) -> Amounts:
    """What the job holds beyond its minResources."""
    held, least = job.allocated, job.min_resources or {}
    if not held:
        return {}
    return {name: more for name, amount in held.items() if (more := amount - least.get(name, 0)) > 0}


def runs_whole(job: Job) -> bool:
    """Whether the job runs with at least its minimum of members: one that lost its finished driver does not count."""
    return job.phase == _RUNNING and job.count(*ALLOCATED_STATUSES) >= job.min_available


def admitted(job: Job) -> Amounts:
    """What of a job's minResources is admitted to its queue and not allocated yet; nothing where it gives none."""
    if job.min_resources is None or not (job.phase == _INQUEUE or runs_whole(job)):
        return {}
    return outstanding(job)


def _ungated(job: Job, demand: Amounts) -> Amounts:
    gated = job.gated
    return {name: max(amount - gated.get(name, 0), 0) for name, amount in demand.items()} if gated else demand


def queue_of(job: Job) -> str:
    """The name of its queue: a key to sum by."""
    return job.queue
