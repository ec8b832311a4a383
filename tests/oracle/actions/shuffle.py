"""shuffle: evicts running tasks that plugins name."""

from __future__ import annotations

from tests.oracle.session import Session, Statement


def shuffle(session: Session) -> None:
    jobs = sorted(session.cluster.jobs, key=lambda job: (job.namespace, job.name))
    running = [
        task for job in jobs for task in sorted(job.tasks, key=lambda task: task.order) if task.state == "running"
    ]
    for task in session.victim_tasks(running):
        statement = Statement(session)
        statement.evict(task, "shuffle")
        statement.commit()
