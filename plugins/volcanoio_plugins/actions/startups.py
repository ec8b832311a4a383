"""Which pending tasks a job needs to start: what gang actions make room for, all of it or nothing.

Source: Volcano, pkg/scheduler/actions/utils (CollectPendingTasksForGangEviction). Unlike there, what a job may have
beyond its minimum is not asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from volcanoio.framework.scheduling.session import Run, Session
from volcanoio.framework.scheduling.subjobs import SubJob
from volcanoio.framework.scheduling.views import Job, Task, TaskStatus
from volcanoio_plugins.actions.bundles import READY
from volcanoio_plugins.actions.worksheets import SubJobSheets, needed

_PLACED = (*READY, TaskStatus.PIPELINED)


def demanded(session: Session, job: Job) -> list[Run]:
    """What it lacks to start; of a job that has started all pending tasks, or those of its first sub-job."""
    ready = session.job_ready(job)
    if not job.sub_jobs:
        runs = session.runs(job, best_effort=False)
        return runs if ready else _only(runs, _Shortage(job).choose(_tasks(runs)))
    required = needed(session, job)
    parts = [(part, sheet.runs) for part, sheet in SubJobSheets(session, job)]
    parts = [(part, runs) for part, runs in parts if len(_tasks(runs)) >= _lacking(part)]  # others cannot be whole
    if ready:
        return parts[0][1] if parts else []
    shortage = _Shortage(job)
    chosen: set[str] = set()
    for part, runs in parts:
        tasks = _tasks(runs)[: max(_lacking(part), 0)]
        if part.key in required or shortage.wants_any(tasks):
            chosen |= shortage.take(tasks)
    runs = [run for _, own in parts for run in own]
    chosen |= shortage.choose(task for task in _tasks(runs) if task.uid not in chosen)
    return _only(runs, chosen)


class _Shortage:
    """How many tasks a job lacks, of each role and in all."""

    def __init__(self, job: Job) -> None:
        placed = [
            task
            for task in job.tasks
            if task.status in _PLACED or (task.status is TaskStatus.PENDING and task.shape.best_effort)
        ]
        self._roles: Counter[str] = Counter()
        if sum(job.role_minimums.values()) <= job.min_available:
            held = Counter(task.role for task in placed)
            self._roles.update({role: max(least - held[role], 0) for role, least in job.role_minimums.items()})
        self._others = max(job.min_available - len(placed) - self._roles.total(), 0)

    def wants_any(self, tasks: Iterable[Task]) -> bool:
        """Whether any of these is lacking."""
        return any(self._others > 0 or self._roles[task.role] > 0 for task in tasks)

    def take(self, tasks: Iterable[Task]) -> set[str]:
        """Count tasks as placed, whether they are lacking or not; their uids."""
        taken = set()
        for task in tasks:
            self._wants(task)
            taken.add(task.uid)
        return taken

    def choose(self, tasks: Iterable[Task]) -> set[str]:
        """The uids of the first ones that are lacking, which count as placed."""
        return {task.uid for task in tasks if self._wants(task)}

    def _wants(self, task: Task) -> bool:
        if self._roles[task.role] > 0:
            self._roles[task.role] -= 1
        elif self._others > 0:
            self._others -= 1
        else:
            return False
        return True


def _lacking(part: SubJob) -> int:
    return part.min_available - part.ready_count - part.pipelined_count - part.pending_best_effort


def _tasks(runs: Iterable[Run]) -> list[Task]:
    return [task for run in runs for task in run.tasks]


def _only(runs: Iterable[Run], chosen: set[str]) -> list[Run]:
    """What is chosen of the runs."""
    left = [run._replace(tasks=[task for task in run.tasks if task.uid in chosen]) for run in runs]
    return [run for run in left if run.tasks]
