"""backfill: tasks that request nothing, whatever queues have.

Ours: a job's tasks are placed in one statement, which stays if the job is ready without those that found no node.
"""

from __future__ import annotations

from tests.oracle.cluster import Job
from tests.oracle.session import Session, Statement, first


def backfill(session: Session) -> None:
    waiting: dict[str, list[Job]] = {}
    for job in session.cluster.jobs:
        free = any(task.state == "pending" and task.best_effort for task in job.tasks)
        if job.phase != "Pending" and free and session.valid(job):
            waiting.setdefault(job.queue, []).append(job)
    while waiting:
        queue = first([session.cluster.queues[name] for name in waiting], session.queue_key)
        jobs = waiting.pop(queue.name)
        while jobs:
            job = first(jobs, session.job_key)
            jobs.remove(job)
            _place(session, job)


def _place(session: Session, job: Job) -> None:
    statement = Statement(session)
    for task in session.pending(job, best_effort=True):
        found = session.find(task, idle_only=True)
        if found is None:
            task.found_no_node = True
        else:
            statement.place(task, *found)
    if session.ready(job):
        statement.commit()
    else:
        statement.rollback()
