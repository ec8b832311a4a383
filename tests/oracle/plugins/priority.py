"""priority: the higher first, and it may take from the lower."""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.cluster import READY, Job, Task
from tests.oracle.plugins.plugin import Plugin


class Priority(Plugin):
    def job_key(self, job: Job) -> int:
        return -job.priority

    def task_key(self, task: Task) -> int:
        return -task.priority

    def starving(self, job: Job) -> bool:
        return job.count(*READY, "pipelined") < len(job.tasks)

    def preemptable(self, taker: Task, candidates: Sequence[Task]) -> list[Task]:
        assert taker.job is not None
        return [
            task
            for task in candidates
            if task.job is not None
            and (task.priority < taker.priority if task.job is taker.job else task.job.priority < taker.job.priority)
        ]
