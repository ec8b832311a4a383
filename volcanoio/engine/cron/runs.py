"""Runs of a CronJob: their names and Jobs, the status that follows from them, and which finished ones expire."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from volcanoio.engine.cron.schedule import TimeZoneError, zone
from volcanoio.engine.cron.state import is_active, is_scheduled
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import CronJob, CronJobStatus, Job, JobPhase
from volcanoio.model.kinds import object_reference, owner_reference
from volcanoio.model.times import epoch, epoch_or_none, rfc3339


def run_name(cron: CronJob, due: float) -> str:
    """Return `<cronjob>-<minutes since the epoch>`: a run always has the same name, so it is never started twice."""
    return f"{cron.metadata.name}-{int(due) // 60}"


def build_job(cron: CronJob, due: float) -> Manifest:
    """Return the Job of the run that is due at a time (epoch seconds)."""
    template = cron.spec.job_template
    metadata: Manifest = {
        "name": run_name(cron, due),
        "namespace": cron.metadata.namespace,
        "annotations": {**template.metadata.annotations, names.SCHEDULED_TIMESTAMP: _scheduled_timestamp(cron, due)},
        "ownerReferences": [owner_reference(kinds.CRON_JOB, cron)],
    }
    if template.metadata.labels:
        metadata["labels"] = dict(template.metadata.labels)
    return {"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, "metadata": metadata, "spec": template.spec}


def scheduled_at(job: Job) -> float | None:
    """Return the scheduled time of the run (epoch seconds); None for a Job without one."""
    try:
        return epoch(job.metadata.annotations.get(names.SCHEDULED_TIMESTAMP))
    except ValueError:
        return None


def _scheduled_timestamp(cron: CronJob, due: float) -> str:
    """Return the time as RFC 3339 in the CronJob's time zone."""
    try:
        here = zone(cron.spec.time_zone or "")
    except TimeZoneError:  # the schedule brings its own
        here = zone("")
    return datetime.fromtimestamp(int(due), here).isoformat().replace("+00:00", "Z")


_SUCCESSFUL = "successful_jobs_history_limit"
_FAILED = "failed_jobs_history_limit"
HISTORY_LIMITS: Mapping[str, str] = {
    JobPhase.COMPLETED: _SUCCESSFUL,
    JobPhase.FAILED: _FAILED,
    JobPhase.TERMINATED: _FAILED,
    JobPhase.ABORTED: _FAILED,
}
"""History limit that a finished run counts against; Volcano keeps terminated and aborted ones for ever."""


def last_schedule_time(cron: CronJob, runs: Sequence[Job]) -> float | None:
    """Return the newest handled time of the schedule, from the status or an existing run (epoch seconds).

    So a process that ended between creating the Job and writing the status is made up for.
    """
    times = [moment for job in runs if (moment := scheduled_at(job)) is not None]
    stored = epoch_or_none(cron.status.last_schedule_time)
    return max([*times, *([] if stored is None else [stored])], default=None)


def desired_status(cron: CronJob, runs: Sequence[Job], last: float | None) -> CronJobStatus:
    """Return the status of a CronJob with these runs."""
    stored = cron.status
    known = {reference.uid: reference for reference in stored.active}
    active = [job for job in runs if is_active(job) and (is_scheduled(job) or job.metadata.uid in known)]
    return CronJobStatus(
        active=tuple(known.get(job.metadata.uid) or object_reference(kinds.JOB, job) for job in active),
        last_schedule_time=stored.last_schedule_time if last is None else rfc3339(last),
        last_successful_time=_newest_success(stored.last_successful_time, runs),
    )


def ended_run_events(
    cron: CronJob, runs: Sequence[Job], desired: CronJobStatus, replaced: frozenset[str]
) -> list[tuple[str, str]]:
    """Return reason and message for each run that is not active any more, except replaced ones (uids)."""
    by_uid = {job.metadata.uid: job for job in runs}
    stay = replaced | {reference.uid for reference in desired.active}
    events: list[tuple[str, str]] = []
    for reference in cron.status.active:
        job = by_uid.get(reference.uid)
        if reference.uid in stay:
            continue
        if job is None:
            events.append(("StaleReference", f"Active job {reference.name} is gone"))
        elif job.metadata.deletion_timestamp is None:
            events.append(("SawCompletedJob", f"Saw completed job: {reference.name}, status: {job.status.state.phase}"))
    return events


def orphaned_jobs(runs: Sequence[Job], desired: CronJobStatus) -> list[Job]:
    """Return active Jobs that this CronJob controls but did not start; they are ignored."""
    active = {reference.uid for reference in desired.active}
    return [job for job in runs if is_active(job) and job.metadata.uid not in active]


def expired_runs(cron: CronJob, runs: Sequence[Job]) -> list[Job]:
    """Return the finished runs beyond the history limits, oldest first."""
    kept: dict[str, list[Job]] = {_SUCCESSFUL: [], _FAILED: []}
    for job in runs:
        limit = HISTORY_LIMITS.get(job.status.state.phase)
        if limit is not None and job.metadata.deletion_timestamp is None:
            kept[limit].append(job)
    return [job for limit, jobs in kept.items() for job in jobs[: max(0, len(jobs) - getattr(cron.spec, limit))]]


def _newest_success(stored: str | None, runs: Sequence[Job]) -> str | None:
    times = [stored, *(job.status.state.last_transition_time for job in runs if _is_completed(job))]
    return max((each for each in times if each), key=lambda each: epoch(each) or 0.0, default=None)


def _is_completed(job: Job) -> bool:
    return job.status.state.phase == JobPhase.COMPLETED
