"""enqueue: one job a turn of its queue; a job that is refused is not asked again in the session."""

from __future__ import annotations

from tests.oracle.session import Session, first


def enqueue(session: Session) -> None:
    queues = list(session.cluster.queues.values())
    waiting = {queue.name: [job for job in queue.jobs if job.phase == "Pending"] for queue in queues}
    queues = [queue for queue in queues if waiting[queue.name]]
    while queues:
        queue = first(queues, session.queue_key)
        jobs = waiting[queue.name]
        if not jobs:
            queues.remove(queue)
            continue
        job = first(jobs, session.job_key)
        jobs.remove(job)
        if job.minimum_resources is None or session.enqueueable(job):
            for plugin in session.every("enqueued"):
                plugin.enqueued(job)
            job.phase = "Inqueue"
