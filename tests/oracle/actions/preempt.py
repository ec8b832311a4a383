"""preempt: within a queue; first between jobs, a job's need in one statement, then within jobs, task by task."""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.actions.dryrun import DryRun
from tests.oracle.actions.taking import Taking, preemptors, tasks_of
from tests.oracle.cluster import Job, Task
from tests.oracle.session import Session, first


def preempt(session: Session) -> None:
    dry = session.arguments.get("preempt", {}).get("enableTopologyAwarePreemption", False)
    starving: dict[str, list[Job]] = {}
    for job in preemptors(session):
        starving.setdefault(job.queue, []).append(job)
    members = {name: list(jobs) for name, jobs in starving.items()}
    while starving:
        queue = first([session.cluster.queues[name] for name in starving], session.queue_key)
        jobs = starving.pop(queue.name)
        while jobs:
            job = first(jobs, session.job_key)
            jobs.remove(job)
            taking = (DryRun if dry else Taking)(session, job, "preemptable", _of_others(job), "preempt")
            _between(session, job, taking)
        for job in members[queue.name]:
            _within(session, job, DryRun if dry else Taking)


def _preemptable(victim: Task, task: Task) -> bool:
    return victim.state in ("running", "bound") and (not task.best_effort or victim.best_effort)


def _of_others(job: Job) -> Callable[[Task, Task], bool]:
    def eligible(victim: Task, task: Task) -> bool:
        other = victim.job
        return _preemptable(victim, task) and other is not None and other is not job and other.queue == job.queue

    return eligible


def _between(session: Session, job: Job, taking: Taking) -> None:
    for task in tasks_of(session, job):
        if not session.starving(job):
            break
        taking.place(task)
    taking.end()


def _within(session: Session, job: Job, kind: type[Taking]) -> None:
    def eligible(victim: Task, task: Task) -> bool:
        return _preemptable(victim, task) and victim.job is job

    if not job.count("running", "bound"):
        return
    for task in tasks_of(session, job):
        taking = kind(session, job, "preemptable", eligible, "preempt", own=True)
        if not taking.place(task):
            taking.statement.rollback()
            return
        if not taking.end():
            return
