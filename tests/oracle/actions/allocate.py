"""allocate: a job's first turn places its minimum, each later turn one task; queues and jobs are sorted in between."""

from __future__ import annotations

from tests.oracle.cluster import READY, Job, Queue, Task
from tests.oracle.session import Session, Statement, first


def allocate(session: Session) -> None:
    left: dict[str, list[Task]] = {}
    waiting: dict[str, list[Job]] = {}
    for job in session.cluster.jobs:
        if job.phase == "Pending":
            if "enqueue" in session.actions:
                continue
            job.phase = "Inqueue"
        if not session.valid(job):
            continue
        tasks = session.pending(job, best_effort=False)
        if tasks:
            job.failed_roles = set()
            left[job.uid] = tasks
            waiting.setdefault(job.queue, []).append(job)
    queues = [session.cluster.queues[name] for name in waiting]
    while queues:
        queue = first(queues, session.queue_key)
        if session.overused(queue) or not waiting[queue.name]:
            queues.remove(queue)
            continue
        job = first(waiting[queue.name], session.job_key)
        waiting[queue.name].remove(job)
        if _turn(session, queue, job, left[job.uid]) and left[job.uid]:
            waiting[queue.name].append(job)


def _turn(session: Session, queue: Queue, job: Job, tasks: list[Task]) -> bool:
    """One turn of a job; whether its statement was committed. One that is pipelined stays as it is."""
    statement = Statement(session)
    while tasks:
        task = tasks.pop(0)
        if (task.role and task.role in job.failed_roles) or not session.allocatable(queue, task):
            continue
        found = session.find(task)
        if found is None:
            job.failed_roles.add(task.role)
            if not _may_become_ready(job):
                break
            continue
        statement.place(task, *found)
        if session.ready(job):
            break
    if session.ready(job):
        statement.commit()
        return True
    if not session.pipelined(job):
        statement.rollback()
    return False


def _may_become_ready(job: Job) -> bool:
    """Volcano: NeedContinueAllocating."""
    if job.minimum == len(job.tasks):
        return False
    if job.minimum < sum(job.role_minimums.values()):
        pending = sum(task.state == "pending" and task.role not in job.failed_roles for task in job.tasks)
        return job.ready_number + pending >= job.minimum
    return all(job.role(role, *READY) >= job.role_minimums.get(role, 0) for role in job.failed_roles)
