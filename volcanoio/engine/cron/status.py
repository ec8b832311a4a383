"""The status that a CronJob ought to have, what is told when it changes, and which finished runs are too many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from volcanoio.engine.cron.runs import scheduled_at
from volcanoio.engine.cron.state import is_active, is_scheduled
from volcanoio.model import kinds
from volcanoio.model.batch import Job, JobPhase
from volcanoio.model.cron import CronJob, CronJobStatus
from volcanoio.model.references import object_reference
from volcanoio.model.times import epoch, rfc3339

_SUCCESSFUL = "successful_jobs_history_limit"
_FAILED = "failed_jobs_history_limit"
HISTORY: Mapping[str, str] = {
    JobPhase.COMPLETED: _SUCCESSFUL,
    JobPhase.FAILED: _FAILED,
    JobPhase.TERMINATED: _FAILED,
    JobPhase.ABORTED: _FAILED,
}
"""Which limit a run at rest counts against; Volcano keeps terminated and aborted ones for ever."""


def last_schedule(cron: CronJob, runs: Sequence[Job]) -> float | None:
    """The newest time of the schedule that was seen to: the stored one, or that of a run that is there (epoch seconds).

    So a process that ended between making the Job and storing this makes up for it.
    """
    times = [moment for job in runs if (moment := scheduled_at(job)) is not None]
    stored = epoch(cron.status.last_schedule_time)
    return max([*times, *([] if stored is None else [stored])], default=None)


def wanted_status(cron: CronJob, runs: Sequence[Job], last: float | None) -> CronJobStatus:
    """The status of a CronJob with these runs."""
    stored = cron.status
    known = {reference.uid: reference for reference in stored.active}
    active = [job for job in runs if is_active(job) and (is_scheduled(job) or job.metadata.uid in known)]
    return CronJobStatus(
        active=tuple(known.get(job.metadata.uid) or object_reference(kinds.JOB, job) for job in active),
        last_schedule_time=stored.last_schedule_time if last is None else rfc3339(last),
        last_successful_time=_newest(stored.last_successful_time, runs),
    )


def left(cron: CronJob, runs: Sequence[Job], wanted: CronJobStatus, replaced: frozenset[str]) -> list[tuple[str, str]]:
    """Reason and message for each run that is not active any more, but for those (uids) that were replaced."""
    by_uid = {job.metadata.uid: job for job in runs}
    stay = replaced | {reference.uid for reference in wanted.active}
    told: list[tuple[str, str]] = []
    for reference in cron.status.active:
        job = by_uid.get(reference.uid)
        if reference.uid in stay:
            continue
        if job is None:
            told.append(("StaleReference", f"Active job {reference.name} is gone"))
        elif job.metadata.deletion_timestamp is None:
            told.append(("SawCompletedJob", f"Saw completed job: {reference.name}, status: {job.status.state.phase}"))
    return told


def strangers(runs: Sequence[Job], wanted: CronJobStatus) -> list[Job]:
    """Jobs at work that this CronJob controls and did not start: they count for nothing."""
    active = {reference.uid for reference in wanted.active}
    return [job for job in runs if is_active(job) and job.metadata.uid not in active]


def surplus(cron: CronJob, runs: Sequence[Job]) -> list[Job]:
    """Runs at rest beyond what the history may hold, oldest first."""
    kept: dict[str, list[Job]] = {_SUCCESSFUL: [], _FAILED: []}
    for job in runs:
        limit = HISTORY.get(job.status.state.phase)
        if limit is not None and job.metadata.deletion_timestamp is None:
            kept[limit].append(job)
    return [job for limit, jobs in kept.items() for job in jobs[: max(0, len(jobs) - getattr(cron.spec, limit))]]


def _newest(stored: str | None, runs: Sequence[Job]) -> str | None:
    """The newest end of a completed run."""
    times = [stored, *(job.status.state.last_transition_time for job in runs if _completed(job))]
    return max((each for each in times if each), key=lambda each: epoch(each) or 0.0, default=None)


def _completed(job: Job) -> bool:
    return job.status.state.phase == JobPhase.COMPLETED
