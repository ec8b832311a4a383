"""Plugin priority: higher priority is first, and may evict lower priority."""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.cluster import READY, Job, Task
from tests.oracle.parts import Part
from tests.oracle.plugins.plugin import Plugin


class Priority(Plugin):
    def job_key(self, job: Job) -> int:
        return -job.priority

    def part_key(self, part: Part) -> int:
        return -max([0, *[task.priority for task in part.tasks]])

    def task_key(self, task: Task) -> int:
        return -task.priority

    def starving(self, job: Job) -> bool:
        return job.count(*READY, "pipelined") < len(job.tasks)

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        assert preemptor.job is not None
        return [
            task
            for task in candidates
            if task.job is not None
            and (
                task.priority < preemptor.priority
                if task.job is preemptor.job
                else task.job.priority < preemptor.job.priority
            )
        ]

    def evictable(self, job: Job, action: str, candidates: Sequence[Task]) -> list[Task]:
        """Return all candidates for gangreclaim; for other actions, those of jobs with lower priority."""
        return [
            task
            for task in candidates
            if action == "gangreclaim" or (task.job is not None and task.job.priority < job.priority)
        ]
