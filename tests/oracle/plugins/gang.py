"""Plugin gang: a job gets its minimum of tasks or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.oracle.cluster import READY, Job, Task
from tests.oracle.parts import Part, enough
from tests.oracle.plugins.plugin import Plugin


class Gang(Plugin):
    def valid(self, job: Job) -> bool:
        if not job.roles(*READY, "pipelined", "pending", free=False):
            return False
        return enough(job, "is_valid") and job.count(*READY, "pipelined", "pending") >= job.minimum

    def job_key(self, job: Job) -> bool:
        return job.is_ready()

    def ready(self, job: Job) -> bool:
        return job.is_ready() and job.roles(*READY, free=True) and enough(job, "is_ready")

    def pipelined(self, job: Job) -> int:
        roles = job.roles(*READY, "pipelined", free=True)
        return 1 if job.is_pipelined() and roles and enough(job, "is_pipelined") else -1

    def part_key(self, part: Part) -> bool:
        return part.is_ready()

    def part_ready(self, part: Part) -> bool:
        return part.is_ready()

    def part_pipelined(self, part: Part) -> int:
        return 1 if part.is_pipelined() else -1

    def starving(self, job: Job) -> bool:
        return job.is_starving()

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return victims in the given order while their job keeps its minimum."""
        taken: Counter[str] = Counter()
        victims = []
        for task in candidates:
            job = task.job
            if job is not None and job.ready_number - taken[job.uid] > job.minimum:
                taken[job.uid] += 1
                victims.append(task)
        return victims

    reclaimable = preemptable

    def evictable(self, job: Job, action: str, candidates: Sequence[Task]) -> list[Task]:
        """Return all candidates; the actions themselves evict spare tasks, or whole jobs."""
        return list(candidates)
