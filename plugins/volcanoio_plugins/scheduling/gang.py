"""Plugin gang: all of a job's minimum or nothing (Volcano: pkg/scheduler/plugins/gang)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.points import Checkpoints, Purpose
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.subjobs import SubJob
from volcanoio.framework.scheduling.verdicts import PERMIT, Verdict, reject
from volcanoio.framework.scheduling.views import Job, Task, TaskStatus

NOT_ENOUGH_TASKS = "NotEnoughTasks"
NOT_ENOUGH_PODS_OF_TASK = "NotEnoughPodsOfTask"
NOT_PIPELINED = "NotEnoughReservations"

UNSCHEDULABLE, NOT_ENOUGH_RESOURCES = "Unschedulable", "NotEnoughResources"
_RETRIES = "volcano_job_retry_counts"
SCHEDULED, READY = "Scheduled", "tasks in gang are ready to be scheduled"


TOLD, LOOKED_AT = 256, 2048
"""Figures told in one step, and keys looked at in one."""


class GangArguments(msgspec.Struct, frozen=True):
    """The plugin takes none."""


class Gang:
    """Commits a job when enough of it is placed, keeps running gangs whole, and says how a job stands."""

    name = "gang"
    keeps_job_keys = True
    keeps_verdicts = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, GangArguments, self.name)
        self._jobs: Mapping[str, Job] = {}
        self._missing: dict[str, int] = {}
        """How many members lack a place, by the keys of jobs that are not ready."""
        self._news: set[str] = set()
        """The keys of those of which that changed since figures were told, and of all told so far."""
        self._told: set[str] = set()
        self._retried: set[str] = set()
        """The keys of jobs that were not ready in a session since figures were told, and of all told so far."""
        self._counted: set[str] = set()

    def open(self, session: SessionView) -> None:
        """Keep the jobs at hand: victims are counted by job."""
        self._jobs = session.jobs

    def job_valid(self, job: Job) -> Verdict:
        """Whether enough pods exist, of each role, in enough sub-jobs of each policy, and in all."""
        if not job.roles_valid():
            return reject(NOT_ENOUGH_PODS_OF_TASK, "Not enough valid pods of each task for gang-scheduling")
        if not job.sub_jobs_valid():
            return reject(NOT_ENOUGH_PODS_OF_TASK, "Not enough valid subGroups of each task for gang-scheduling")
        if (valid := job.valid_count) < job.min_available:
            return reject(
                NOT_ENOUGH_TASKS,
                f"Not enough valid tasks for gang-scheduling, valid: {valid}, min: {job.min_available}",
            )
        return PERMIT

    def job_key(self, job: Job) -> bool:
        """Jobs that are not ready first."""
        return job.is_ready()

    def job_ready(self, job: Job) -> bool:
        """Whether the minimum is placed, of each role, of sub-jobs and in all."""
        return job.all_ready()

    def job_lacks(self, job: Job) -> int:
        """How many members the minimum lacks."""
        return job.min_available - job.ready_count - job.pending_best_effort

    def job_pipelined(self, job: Job) -> Verdict:
        """Whether the minimum is placed or waits for what is being released."""
        if job.is_pipelined() and job.roles_pipelined() and job.sub_jobs_pipelined():
            return PERMIT
        return reject(NOT_PIPELINED, "fewer tasks than minAvailable are placed or have a place reserved")

    def sub_job_key(self, sub_job: SubJob) -> bool:
        """Sub-jobs that are not ready first."""
        return sub_job.is_ready()

    def sub_job_ready(self, sub_job: SubJob) -> bool:
        """Whether as many tasks are placed as it has to have together."""
        return sub_job.is_ready()

    def sub_job_lacks(self, sub_job: SubJob) -> int:
        """How many it lacks of these."""
        return sub_job.min_available - sub_job.ready_count - sub_job.pending_best_effort

    def sub_job_pipelined(self, sub_job: SubJob) -> Verdict:
        """Whether these are placed or wait for what is being released."""
        if sub_job.is_pipelined():
            return PERMIT
        return reject(NOT_PIPELINED, "fewer tasks than subGroupSize are placed or have a place reserved")

    def job_starving(self, job: Job) -> bool:
        """Whether less than the minimum is placed or has a place reserved."""
        return job.is_starving()

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any preemptor
        """Tasks that their job can lose and stay at its minimum."""
        return self._surplus(candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any reclaimer
        """Tasks that their job can lose and stay at its minimum."""
        return self._surplus(candidates)

    def evictable(self, job: Job, purpose: Purpose, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any
        """All: the gang actions themselves take what a job can spare, or the job whole."""
        return candidates

    def close(self, session: SessionView) -> None:
        """Say of every job that may have changed whether its gang could be scheduled."""
        for job in session.touched:
            if not self.job_ready(job):
                self._unschedulable(session, job)
            else:
                if self._missing.pop(job.key, None) is not None:
                    self._news.add(job.key)
                session.set_condition(job.key, SCHEDULED, READY, "")

    def report(self, probe: Probe) -> Checkpoints:
        """Tell how many members of which jobs lack a place (Volcano: pkg/scheduler/metrics, by the job's name)."""
        missing, told, jobs = self._missing, self._told, self._jobs
        news, self._news = self._news, set()
        for number, key in enumerate(list(missing), 1):
            if key not in jobs:
                del missing[key]
                news.add(key)
            if not number % LOOKED_AT:
                yield
        probe.gauge("volcano_unschedule_job_count", len(missing))
        for number, key in enumerate(news, 1):
            name, count = key.partition("/")[2], missing.get(key)
            if count is not None:
                probe.gauge("volcano_unschedule_task_count", count, job_id=name)
                told.add(key)
            elif key in told:
                probe.forget("volcano_unschedule_task_count", job_id=name)
                told.remove(key)
            if not number % TOLD:
                yield
        yield from self._report_retries(probe)

    def _report_retries(self, probe: Probe) -> Checkpoints:
        """Count a retry of each job that was not ready, at most one a report."""
        retried, self._retried = self._retried, set()
        for number, key in enumerate(retried, 1):
            probe.count(_RETRIES, job_id=key.partition("/")[2])
            self._counted.add(key)
            if not number % TOLD:
                yield
        for number, key in enumerate(list(self._counted), 1):
            if key not in self._jobs:
                probe.forget(_RETRIES, job_id=key.partition("/")[2])
                self._counted.remove(key)
            if not number % LOOKED_AT:
                yield

    def _unschedulable(self, session: SessionView, job: Job) -> None:
        """Say how many members lack a place, unless the job is only waiting for its own terminating pods."""
        if not job.tasks:
            return
        waiting = job.count(TaskStatus.PENDING, TaskStatus.PIPELINED)
        if not waiting and job.count(TaskStatus.RELEASING) >= job.min_available:
            return
        missing = max(job.min_available - job.ready_count - job.schedulable_count, _lacking_in_sub_jobs(job))
        if self._missing.get(job.key) != missing:
            self._missing[job.key] = missing
            self._news.add(job.key)
        self._retried.add(job.key)

        def message() -> str:
            return f"{missing}/{len(job.tasks)} tasks in gang unschedulable: {session.fit_error(job.key)}"

        session.set_condition(job.key, UNSCHEDULABLE, NOT_ENOUGH_RESOURCES, message)

    def _surplus(self, candidates: Sequence[Task]) -> list[Task]:
        spare: dict[str, int] = {}
        victims: list[Task] = []
        last, left = None, 0
        for task in candidates:  # most often those of one job follow each other
            key = task.job
            if key != last:
                if last is not None:
                    spare[last] = left
                last = key
                if key in spare:
                    left = spare[key]
                else:
                    job = self._jobs.get(key)
                    left = 0 if job is None else job.ready_count - job.min_available
            if left > 0:
                victims.append(task)
            left -= 1
        return victims


def _lacking_in_sub_jobs(job: Job) -> int:
    """How many tasks must be placed at least so that each group has as many sub-jobs ready as it has to have."""
    if not job.sub_job_minimums:
        return 0
    lacks: dict[str, list[int]] = {group: [] for group in job.sub_job_minimums}
    for part in job.sub_jobs:
        if part.group in lacks:
            lacks[part.group].append(max(part.min_available - part.ready_count - part.pending_best_effort, 0))
    return sum(sum(sorted(lacks[group])[:least]) for group, least in job.sub_job_minimums.items())
