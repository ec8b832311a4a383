"""The tasks that a job needs to start. Ours: its minimum in all, of each role and of sub-jobs, and no more."""

from __future__ import annotations

from collections import Counter

from tests.oracle.actions.allocate import needed
from tests.oracle.cluster import READY, Job, Task
from tests.oracle.parts import Part, parts_of
from tests.oracle.session import Session


def demanded(session: Session, job: Job) -> list[Task]:
    """Return the pending tasks in order: of a ready job all, or those of its first sub-job."""
    ready, tasks = session.ready(job), session.pending(job, best_effort=False)
    if not job.policies:
        return tasks if ready else _Missing(job).first_of(tasks)
    required = needed(session, job)
    parts = [
        (part, own)
        for part in sorted(parts_of(job), key=lambda part: (part.key not in required, session.part_key(part)))
        if (own := [task for task in tasks if task in part.tasks]) and len(own) >= part.missing()
    ]
    if ready:
        return parts[0][1] if parts else []
    return _by_parts(job, required, parts)


def _by_parts(job: Job, required: set[str], parts: list[tuple[Part, list[Task]]]) -> list[Task]:
    """Return whole sub-jobs that are required or contain missing tasks, and then single missing tasks."""
    missing, chosen = _Missing(job), list[Task]()
    for part, own in parts:
        whole = own[: max(part.missing(), 0)]
        if part.key in required or any(missing.wants(task) for task in whole):
            chosen += whole
            for task in whole:
                missing.had(task)
    chosen += missing.first_of([task for _, own in parts for task in own if task not in chosen])
    return [task for _, own in parts for task in own if task in chosen]


class _Missing:
    """Return how many more tasks a job needs: of each role, and of any."""

    def __init__(self, job: Job) -> None:
        placed = [task for task in job.tasks if task.state in (*READY, "pipelined") or task.is_free]
        self.roles: Counter[str] = Counter()
        if sum(job.role_minimums.values()) <= job.minimum:
            for role, least in job.role_minimums.items():
                self.roles[role] = max(least - sum(task.role == role for task in placed), 0)
        self.others = job.minimum - len(placed) - self.roles.total()

    def wants(self, task: Task) -> bool:
        return self.roles[task.role] > 0 or self.others > 0

    def had(self, task: Task) -> None:
        if self.roles[task.role] > 0:
            self.roles[task.role] -= 1
        elif self.others > 0:
            self.others -= 1

    def first_of(self, tasks: list[Task]) -> list[Task]:
        chosen = []
        for task in tasks:
            if self.wants(task):
                self.had(task)
                chosen.append(task)
        return chosen
