"""reclaim: for queues below their share, from others. Ours: nodes by score."""

from __future__ import annotations

from tests.oracle.actions.taking import Taking, preemptors, tasks_of
from tests.oracle.cluster import Job, Task
from tests.oracle.session import Session, first


def reclaim(session: Session) -> None:
    starving: dict[str, list[Job]] = {}
    for job in preemptors(session):
        starving.setdefault(job.queue, []).append(job)
    while starving:
        queue = first([session.cluster.queues[name] for name in starving], session.queue_key)
        jobs = starving.pop(queue.name)
        if session.overused(queue):
            continue
        while jobs:
            job = first(jobs, session.job_key)
            jobs.remove(job)
            _reclaim(session, job)


def _reclaim(session: Session, job: Job) -> None:
    def eligible(victim: Task, task: Task) -> bool:
        other = victim.job
        if other is None or victim.state != "running" or other.queue == job.queue:
            return False
        return session.cluster.queues[other.queue].reclaimable

    taking = Taking(session, job, "reclaimable", eligible, "reclaim")
    for task in tasks_of(session, job):
        if not session.starving(job):
            break
        taking.place(task)
    taking.end()
