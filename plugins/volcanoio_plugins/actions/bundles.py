"""What a job could lose: its surplus, which leaves the gang as it is, and the rest, which ends it.

Source: Volcano, pkg/scheduler/actions/utils (CreateJobBundles).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from volcanoio.framework.scheduling.subjobs import SubJob
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Job, Task, TaskStatus
from volcanoio.model.resources import add

READY = (*sorted(ALLOCATED_STATUSES), TaskStatus.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class Bundle:
    """Tasks of one job that may be evicted: some of them as well, or (`whole`) all or none.

    `freed` is what a gang frees of them, `lost` what it holds and wants in all: filled for whole ones.
    """

    job: Job
    whole: bool
    tasks: list[Task]
    freed: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)

    def worth(self, need: Mapping[str, int]) -> float:
        """How much of what is needed a gang frees, as a part of what goes with it (Volcano: ROI)."""
        useful = total = 0.0
        for name, amount in need.items():
            if amount > 0:
                useful += min(self.freed.get(name, 0) / amount, 1.0)
                total += self.lost.get(name, 0) / amount
        return useful / total if total else float("inf")


def bundles(job: Job, tasks: Collection[Task]) -> list[Bundle]:
    """The tasks of a job that could be evicted, in bundles: what it can spare first."""
    ordered = sorted(tasks, key=lambda task: (task.priority, task.uid))
    if not ordered:
        return []
    if job.ready_count < job.min_available:  # it is no gang as it is: it can become no worse
        return [Bundle(job, False, ordered)]
    spare = _Surplus(job)
    safe: list[Task] = []
    rest: list[Task] = []
    for task in ordered:
        (safe if spare.takes(task) else rest).append(task)
    found = [Bundle(job, False, safe)] if safe else []
    return [*found, Bundle(job, True, rest, _sum(rest), _sum(job.tasks))] if rest else found


class _Surplus:
    """What a job can lose and keep its minimums: in all, of each role, of sub-jobs of each group."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._tasks = job.ready_count - job.min_available
        self._roles: dict[str, int] = {}
        if 0 < sum(job.role_minimums.values()) <= job.min_available:
            held = Counter(task.role for task in job.tasks if _counts(task))
            self._roles = {role: held[role] - minimum for role, minimum in job.role_minimums.items()}
        self._groups: dict[str, int] = {}
        self._parts: dict[str, int] = {}
        """Of each sub-job how many tasks it has beyond those that must be together; negative when it is not ready."""
        if job.sub_job_minimums:
            for part in job.sub_jobs:
                self._parts[part.key] = part.ready_count + part.pending_best_effort - part.min_available
                if self._parts[part.key] >= 0:
                    self._groups[part.group] = self._groups.get(part.group, 0) + 1
            for group, minimum in job.sub_job_minimums.items():
                self._groups[group] = self._groups.get(group, 0) - minimum

    def takes(self, task: Task) -> bool:
        """Whether the task can go as well; if so, it is counted as gone."""
        part = self._job.sub_job_of(task) if self._parts else None
        if self._tasks <= 0 or self._roles.get(task.role, 1) <= 0 or (part is not None and not self._can_lose(part)):
            return False
        self._tasks -= 1
        if task.role in self._roles:
            self._roles[task.role] -= 1
        if part is not None:
            if self._parts[part.key] == 0:
                self._groups[part.group] -= 1
            self._parts[part.key] -= 1
        return True

    def _can_lose(self, part: SubJob) -> bool:
        """A sub-job that is not ready or has more than it must, or that its group can do without."""
        return self._parts[part.key] != 0 or self._groups[part.group] > 0


def _counts(task: Task) -> bool:
    """Whether a task counts as held for its role."""
    return task.status in READY or (task.status is TaskStatus.PENDING and task.shape.best_effort)


def _sum(tasks: Collection[Task]) -> dict[str, int]:
    total: dict[str, int] = {}
    for task in tasks:
        add(total, task.shape.requests)
    return total
