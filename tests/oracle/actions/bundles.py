"""Bundles of victims for gangs: the spare tasks of each job, and then the rest of it as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracle.cluster import READY, Amounts, Job, Task, total
from tests.oracle.parts import minimums, parts_of
from tests.oracle.session import Session


@dataclass
class Bundle:
    """Tasks of a job; if `whole`, all or none are evicted."""

    job: Job
    whole: bool
    tasks: list[Task]

    def worth(self, need: Amounts) -> float:
        """Return the needed part of what the bundle frees, divided by what the whole job uses."""
        freed, lost = total(task.requests for task in self.tasks), total(task.requests for task in self.job.tasks)
        useful = sum(min(freed.get(name, 0) / amount, 1.0) for name, amount in need.items() if amount)
        gone = sum(lost.get(name, 0) / amount for name, amount in need.items() if amount)
        return useful / gone if gone else float("inf")


def bundles_for(session: Session, job: Job, action: str, need: Amounts, *, whole: bool) -> list[Bundle]:
    """In the order in which they go: what jobs can spare first, each from the job or queue that loses first.

    `whole`: gangs may be ended. Ours: of what can be spared, jobs of one queue are ordered by name (reclaim).
    """
    found = [bundle for other in _victims(session, job, action) for bundle in _bundles(other, action)]
    found = [bundle for bundle in found if whole or not bundle.whole]
    if action == "gangpreempt":
        found.sort(key=lambda bundle: session.job_key(bundle.job), reverse=True)
    else:
        queues = session.cluster.queues
        found.sort(key=lambda bundle: (-bundle.worth(need) if bundle.whole else 0.0, bundle.job.uid))
        found.sort(key=lambda bundle: session.queue_key(queues[bundle.job.queue]), reverse=True)
        found.sort(key=lambda bundle: session.victim_queue_key(queues[bundle.job.queue], queues[job.queue]))
    found.sort(key=lambda bundle: bundle.whole)
    allowed = session.evictable(job, action, [task for bundle in found for task in bundle.tasks])
    left = [Bundle(each.job, each.whole, [task for task in each.tasks if task in allowed]) for each in found]
    return [
        after
        for after, before in zip(left, found, strict=True)
        if after.tasks and (not after.whole or len(after.tasks) == len(before.tasks))
    ]


def _victims(session: Session, job: Job, action: str) -> list[Job]:
    """Return the jobs of lower priority in the queue, or the jobs of reclaimable queues."""
    queues = session.cluster.queues
    if action == "gangpreempt":
        return [other for other in queues[job.queue].jobs if other.preemptable and other.priority < job.priority]
    return [
        other
        for other in session.cluster.jobs
        if other.preemptable and other.queue != job.queue and queues[other.queue].reclaimable
    ]


def _bundles(job: Job, action: str) -> list[Bundle]:
    states = ("running", "bound") if action == "gangpreempt" else ("running",)
    tasks = [task for task in job.tasks if task.preemptable and task.state in states and task.node]
    tasks.sort(key=lambda task: (task.priority, task.uid))
    if job.ready_number < job.minimum:  # no gang as it is
        return [Bundle(job, whole=False, tasks=tasks)] if tasks else []
    safe: list[Task] = []
    for task in tasks:
        if _can_spare(job, safe, task):
            safe.append(task)
    rest = [task for task in tasks if task not in safe]
    return [Bundle(job, whole, some) for whole, some in ((False, safe), (True, rest)) if some]


def _can_spare(job: Job, gone: list[Task], task: Task) -> bool:
    """Whether the job keeps its minimums without one more task: in all, of the role, and of whole sub-jobs."""
    if job.ready_number - len(gone) - 1 < job.minimum:
        return False
    if task.role in job.role_minimums and sum(job.role_minimums.values()) <= job.minimum:
        held = sum(t.role == task.role and (t.state in READY or t.is_free) and t not in gone for t in job.tasks)
        if held - 1 < job.role_minimums[task.role]:
            return False
    if not minimums(job):
        return True
    parts = parts_of(job)
    own = next(part for part in parts if task in part.tasks)

    def whole(without: list[Task]) -> int:
        return sum(
            sum((t.state in READY or t.is_free) and t not in without for t in part.tasks) >= part.size
            for part in parts
            if part.group == own.group
        )

    after = whole([*gone, task])
    return after == whole(gone) or after >= minimums(job).get(own.group, 0)
