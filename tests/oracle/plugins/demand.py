"""The demand of enqueued jobs that are not placed yet, as overcommit, proportion and capacity count it."""

from __future__ import annotations

from tests.oracle.cluster import ALLOCATED, Amounts, Job, total


def minimum(job: Job) -> Amounts:
    """Return minResources minus the requests of gated tasks."""
    gated = total(task.requests for task in job.tasks if task.state == "pending" and task.gated)
    return {name: max(amount - gated.get(name, 0), 0) for name, amount in (job.minimum_resources or {}).items()}


def outstanding(job: Job) -> Amounts:
    """Return minResources minus the requests of allocated and of gated tasks."""
    held, gated = job.sum(*ALLOCATED), total(t.requests for t in job.tasks if t.state == "pending" and t.gated)
    return {
        name: max(max(amount - held.get(name, 0), 0) - gated.get(name, 0), 0)
        for name, amount in (job.minimum_resources or {}).items()
    }


def runs_whole(job: Job) -> bool:
    return job.phase == "Running" and job.count(*ALLOCATED) >= job.minimum


def admitted(job: Job) -> Amounts:
    """Return the inqueue amount of a job when the session opens."""
    if job.minimum_resources is None or not (job.phase == "Inqueue" or runs_whole(job)):
        return {}
    return outstanding(job)


def elastic(job: Job) -> Amounts:
    """Return what a job uses beyond its minResources."""
    least = job.minimum_resources or {}
    return {name: max(amount - least.get(name, 0), 0) for name, amount in job.sum(*ALLOCATED).items()}
