"""Conditions for evictions. Ours: guarantees are kept, and the victims could not evict in return at once."""

from __future__ import annotations

from tests.oracle.cluster import Job, Queue, Task
from tests.oracle.parts import parts_of
from tests.oracle.session import Session


def of_use(session: Session, job: Job, placed: list[Task]) -> bool:
    """Whether the pipelined tasks complete the job, and each sub-job that has some of them."""
    touched = [part for part in parts_of(job) if any(task in part.tasks for task in placed)]
    return session.pipelined(job) and all(session.part_stands(part) for part in touched)


def keeps_guarantee(session: Session, victim: Task) -> bool:
    """Whether the queue of a victim keeps its guarantee of the resources of the victim."""
    assert victim.job is not None
    queue = session.cluster.queues[victim.job.queue]
    held = queue.sum("allocated", "bound", "running")
    return all(
        held.get(name, 0) - amount >= queue.guarantee[name]
        for name, amount in victim.requests.items()
        if queue.guarantee.get(name)
    )


def would_return(session: Session, method: str, winner: Queue, evicted: list[Task], placed: list[Task]) -> bool:
    """Whether any victim could evict any of the pipelined tasks once they run."""
    targets = [task for task in placed if task.preemptable]
    if method == "reclaimable" and not winner.reclaimable:
        return False
    preemptors = [task for task in evicted if _may_take(session, method, task)]
    for task in targets:
        task.state = "running"
    back = any(
        _would_take(session, method, preemptor, targets)
        for preemptor in preemptors
        if _may_take(session, method, preemptor)
    )
    for task in targets:
        task.state = "pipelined"
    return back


def _may_take(session: Session, method: str, preemptor: Task) -> bool:
    if preemptor.job is None or preemptor.never_preempts or not session.starving(preemptor.job):
        return False
    queue = session.cluster.queues[preemptor.job.queue]
    return method == "preemptable" or (not session.overused(queue) and session.preemptive(queue, preemptor.requests))


def _would_take(session: Session, method: str, preemptor: Task, targets: list[Task]) -> bool:
    """Whether a configured action would let the preemptor evict one of the targets."""
    job = preemptor.job
    assert job is not None
    action = "preempt" if method == "preemptable" else "reclaim"
    if action in session.actions:
        open_to_it = [task for task in targets if task.best_effort or not preemptor.best_effort]
        if session.victims(method, preemptor, open_to_it):
            return True
    if f"gang{action}" not in session.actions:
        return False
    open_to_it = [
        task
        for task in targets
        if task.job is not None and task.job.preemptable and (action == "reclaim" or task.job.priority < job.priority)
    ]
    return bool(open_to_it and session.evictable(job, f"gang{action}", open_to_it))
