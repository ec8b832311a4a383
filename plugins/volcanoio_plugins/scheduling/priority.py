"""Plugin priority: jobs and tasks of higher priority first (Volcano: pkg/scheduler/plugins/priority)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.subjobs import SubJob
from volcanoio.framework.scheduling.views import Job, Task, TaskStatus


class PriorityArguments(msgspec.Struct, frozen=True):
    """The plugin takes none."""


class Priority:
    """Orders by priority and lets the higher take from the lower."""

    name = "priority"
    keeps_job_keys = True
    keeps_verdicts = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, PriorityArguments, self.name)
        self._jobs: Mapping[str, Job] = {}

    def open(self, session: SessionView) -> None:
        """Keep the jobs at hand: victims are compared by their jobs."""
        self._jobs = session.jobs

    def job_key(self, job: Job) -> int:
        """Higher first."""
        return -job.priority

    def sub_job_key(self, sub_job: SubJob) -> int:
        """Higher first."""
        return -sub_job.priority

    def task_key(self, task: Task) -> int:
        """Higher first."""
        return -task.priority

    def job_starving(self, job: Job) -> bool:
        """Whether any task is neither placed nor reserved a place, also above the minimum."""
        return job.ready_count + job.count(TaskStatus.PIPELINED) < len(job.tasks)

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Tasks of jobs of lower priority, and of the preemptor's own job those of lower task priority."""
        jobs, key = self._jobs, preemptor.job
        own = jobs[key].priority
        return [
            task
            for task in candidates
            if (
                task.priority < preemptor.priority
                if (of := task.job) == key
                else (job := jobs.get(of)) is not None and job.priority < own
            )
        ]

    def evictable(self, job: Job, purpose: Purpose, candidates: Sequence[Task]) -> Sequence[Task]:
        """For a job of the same queue, tasks of jobs of lower priority; for one of another queue, all."""
        if purpose is Purpose.RECLAIM:
            return candidates
        return [task for task in candidates if task.job in self._jobs and self._jobs[task.job].priority < job.priority]
