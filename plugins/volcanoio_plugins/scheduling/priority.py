"""Plugin priority: jobs and tasks of higher priority first (Volcano: pkg/scheduler/plugins/priority)."""

from collections.abc import Mapping, Sequence
from typing import Any

from volcanoio.framework.arguments import NoArguments, convert
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Job, SubJob, Task, TaskStatus


class Priority:
    """Orders by priority, and lets higher priorities preempt lower ones."""

    name = "priority"
    keeps_job_keys = True
    keeps_verdicts = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, NoArguments, self.name)
        self._jobs: Mapping[str, Job] = {}

    def open(self, session: SessionView) -> None:
        """Keep the jobs, to compare victims by job."""
        self._jobs = session.jobs

    def job_key(self, job: Job) -> int:
        """Order by job priority, higher first."""
        return -job.priority

    def sub_job_key(self, sub_job: SubJob) -> int:
        """Order by the highest task priority, higher first."""
        return -sub_job.priority

    def task_key(self, task: Task) -> int:
        """Order by task priority, higher first."""
        return -task.priority

    def job_starving(self, job: Job) -> bool:
        """Return whether any task is neither placed nor pipelined, even beyond the minimum."""
        return job.ready_count + job.count(TaskStatus.PIPELINED) < len(job.tasks)

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return tasks of jobs with lower priority, and of the preemptor's own job those with lower task priority."""
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
        """For a job of the same queue return tasks of jobs with lower priority; for another queue, all."""
        if purpose is Purpose.RECLAIM:
            return candidates
        return [task for task in candidates if task.job in self._jobs and self._jobs[task.job].priority < job.priority]
