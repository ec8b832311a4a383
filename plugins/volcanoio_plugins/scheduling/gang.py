"""Plugin gang: places a job's minimum as a whole or not at all (Volcano: pkg/scheduler/plugins/gang)."""

from collections.abc import Mapping, Sequence
from typing import Any

from volcanoio.framework.arguments import NoArguments, convert
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.points import Checkpoints, Purpose
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import PERMIT, Verdict, reject
from volcanoio.framework.scheduling.views import Job, SubJob, Task, TaskStatus

NOT_ENOUGH_TASKS = "NotEnoughTasks"
NOT_ENOUGH_PODS_OF_TASK = "NotEnoughPodsOfTask"
NOT_PIPELINED = "NotEnoughReservations"

UNSCHEDULABLE, NOT_ENOUGH_RESOURCES = "Unschedulable", "NotEnoughResources"
_RETRIES = "volcano_job_retry_counts"
SCHEDULED, READY = "Scheduled", "tasks in gang are ready to be scheduled"


REPORT_BATCH, SCAN_BATCH = 256, 2048
"""Figures reported in one step, and keys looked at in one."""


class Gang:
    """Commits a job when enough of it is placed, keeps running gangs whole, and sets PodGroup conditions."""

    name = "gang"
    keeps_job_keys = True
    keeps_verdicts = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, NoArguments, self.name)
        self._jobs: Mapping[str, Job] = {}
        self._missing: dict[str, int] = {}
        """Number of unplaced members by job key, for jobs that are not ready."""
        self._changed: set[str] = set()
        """Keys whose number changed since the last report, and keys reported so far."""
        self._reported: set[str] = set()
        self._retried: set[str] = set()
        """Keys of jobs that were not ready since the last report, and all counted so far."""
        self._counted_retries: set[str] = set()

    def open(self, session: SessionView) -> None:
        """Keep the jobs, to count victims by job."""
        self._jobs = session.jobs

    def job_valid(self, job: Job) -> Verdict:
        """Reject the job unless enough pods exist: of each role, in enough sub-jobs of each policy, and in total."""
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
        """Order jobs that are not ready first."""
        return job.is_ready()

    def job_ready(self, job: Job) -> bool:
        """Return whether the minimum is placed: of each role, of sub-jobs and in total."""
        return job.all_ready()

    def job_missing(self, job: Job) -> int:
        """Return how many members are missing to the minimum."""
        return job.min_available - job.ready_count - job.pending_best_effort

    def job_pipelined(self, job: Job) -> Verdict:
        """Permit the job if its minimum is placed or pipelined."""
        if job.is_pipelined() and job.roles_pipelined() and job.sub_jobs_pipelined():
            return PERMIT
        return reject(NOT_PIPELINED, "fewer tasks than minAvailable are placed or have a place reserved")

    def sub_job_key(self, sub_job: SubJob) -> bool:
        """Order sub-jobs that are not ready first."""
        return sub_job.is_ready()

    def sub_job_ready(self, sub_job: SubJob) -> bool:
        """Return whether subGroupSize tasks are placed."""
        return sub_job.is_ready()

    def sub_job_missing(self, sub_job: SubJob) -> int:
        """Return how many tasks are missing to that."""
        return sub_job.min_available - sub_job.ready_count - sub_job.pending_best_effort

    def sub_job_pipelined(self, sub_job: SubJob) -> Verdict:
        """Permit the sub-job if subGroupSize tasks are placed or pipelined."""
        if sub_job.is_pipelined():
            return PERMIT
        return reject(NOT_PIPELINED, "fewer tasks than subGroupSize are placed or have a place reserved")

    def job_starving(self, job: Job) -> bool:
        """Return whether less than the minimum is placed or pipelined."""
        return job.is_starving()

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any preemptor
        """Return tasks that their job can lose while it keeps its minimum."""
        return self._surplus(candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any reclaimer
        """Return tasks that their job can lose while it keeps its minimum."""
        return self._surplus(candidates)

    def evictable(self, job: Job, purpose: Purpose, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any
        """Return all: the gang actions themselves take the surplus of a job, or the whole job."""
        return candidates

    def close(self, session: SessionView) -> None:
        """Set the Scheduled or Unschedulable condition of every job that may have changed."""
        for job in session.jobs_to_review:
            if not self.job_ready(job):
                self._unschedulable(session, job)
            else:
                if self._missing.pop(job.key, None) is not None:
                    self._changed.add(job.key)
                session.set_condition(job.key, SCHEDULED, READY, "")

    def report(self, probe: Probe) -> Checkpoints:
        """Report the unplaced members of jobs (Volcano: pkg/scheduler/metrics, by the job's name)."""
        missing, reported, jobs = self._missing, self._reported, self._jobs
        changed, self._changed = self._changed, set()
        for number, key in enumerate(list(missing), 1):
            if key not in jobs:
                missing.pop(key, None)
                changed.add(key)
            if not number % SCAN_BATCH:
                yield
        probe.gauge("volcano_unschedule_job_count", len(missing))
        for number, key in enumerate(changed, 1):
            name, count = key.partition("/")[2], missing.get(key)
            if count is not None:
                probe.gauge("volcano_unschedule_task_count", count, job_id=name)
                reported.add(key)
            elif key in reported:
                probe.forget("volcano_unschedule_task_count", job_id=name)
                reported.remove(key)
            if not number % REPORT_BATCH:
                yield
        yield from self._report_retries(probe)

    def _report_retries(self, probe: Probe) -> Checkpoints:
        """Count a retry of each job that was not ready, at most one per report."""
        retried, self._retried = self._retried, set()
        for number, key in enumerate(retried, 1):
            probe.count(_RETRIES, job_id=key.partition("/")[2])
            self._counted_retries.add(key)
            if not number % REPORT_BATCH:
                yield
        for number, key in enumerate(list(self._counted_retries), 1):
            if key not in self._jobs:
                probe.forget(_RETRIES, job_id=key.partition("/")[2])
                self._counted_retries.remove(key)
            if not number % SCAN_BATCH:
                yield

    def _unschedulable(self, session: SessionView, job: Job) -> None:
        """Set the condition with the number of unplaced members, unless the job only waits for its terminating pods."""
        if not job.tasks or _waits_for_terminating(job):
            return
        missing = max(job.min_available - job.ready_count - job.schedulable_count, _missing_in_sub_jobs(job))
        if self._missing.get(job.key) != missing:
            self._missing[job.key] = missing
            self._changed.add(job.key)
        self._retried.add(job.key)

        def message() -> str:
            return f"{missing}/{len(job.tasks)} tasks in gang unschedulable: {session.fit_error(job.key)}"

        session.set_condition(job.key, UNSCHEDULABLE, NOT_ENOUGH_RESOURCES, message)

    def _surplus(self, candidates: Sequence[Task]) -> list[Task]:
        spare: dict[str, int] = {}
        victims: list[Task] = []
        last, left = None, 0
        for task in candidates:  # tasks of one job are mostly adjacent
            if (key := task.job) != last:
                if last is not None:
                    spare[last] = left
                last = key
                if key in spare:
                    left = spare[key]
                else:
                    left = _surplus_count(self._jobs.get(key))
            if left > 0:
                victims.append(task)
            left -= 1
        return victims


def _surplus_count(job: Job | None) -> int:
    """Return how many tasks a job can lose; all of them, where it loses all or none."""
    if job is None:
        return 0
    return job.ready_count if job.is_evicted_whole else job.ready_count - job.min_available


def _waits_for_terminating(job: Job) -> bool:
    """Return whether no pod is pending and terminating pods complete the minimum: their replacements come later."""
    if job.count(TaskStatus.PENDING, TaskStatus.PIPELINED):
        return False
    return (terminating := job.terminating_count) > 0 and job.ready_count + terminating >= job.min_available


def _missing_in_sub_jobs(job: Job) -> int:
    """Return the minimum number of tasks to place so that each policy has its minimum of ready sub-jobs."""
    if not job.sub_job_minimums:
        return 0
    missing: dict[str, list[int]] = {group: [] for group in job.sub_job_minimums}
    for part in job.sub_jobs:
        if part.group in missing:
            missing[part.group].append(max(part.min_available - part.ready_count - part.pending_best_effort, 0))
    return sum(sum(sorted(missing[group])[:least]) for group, least in job.sub_job_minimums.items())
