"""The status that a JobFlow ought to have (Volcano: pkg/controllers/jobflow/state)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from volcanoio.engine.flows.jobs import job_name
from volcanoio.model import durations
from volcanoio.model.batch import Job, JobPhase
from volcanoio.model.flow import (
    FlowCondition,
    FlowJobStatus,
    FlowPhase,
    FlowState,
    JobFlow,
    JobFlowStatus,
    RunningHistory,
)
from volcanoio.model.times import epoch, rfc3339

LISTS: Mapping[str, str] = {
    JobPhase.PENDING: "pending_jobs",
    JobPhase.RUNNING: "running_jobs",
    JobPhase.FAILED: "failed_jobs",
    JobPhase.COMPLETED: "completed_jobs",
    JobPhase.TERMINATED: "terminated_jobs",
    JobPhase.ABORTING: "un_know_jobs",
    JobPhase.ABORTED: "un_know_jobs",
    JobPhase.RESTARTING: "un_know_jobs",
}
"""The list that names a job of a phase; Completing and Terminating are in none, as in Volcano."""


def phase_of(job: Job) -> str:
    """The job's phase; a new one is Pending."""
    return job.status.state.phase or JobPhase.PENDING


def phases(flow: JobFlow, own: Mapping[str, Job]) -> dict[str, str]:
    """The phase of every job of the flow by name; one that completed and was removed since stays completed."""
    stored = {entry.name: entry.state for entry in flow.status.job_status_list}
    found: dict[str, str] = {}
    for part in flow.spec.flows:
        name = job_name(flow, part.name)
        if name in own:
            found[name] = phase_of(own[name])
        elif stored.get(name) == JobPhase.COMPLETED:
            found[name] = JobPhase.COMPLETED
    return found


def next_phase(stored: str, of_jobs: Mapping[str, str], total: int) -> str:
    """The flow's phase: a job that failed or was terminated ends it for good, all completed is success."""
    if stored not in ("", FlowPhase.PENDING, FlowPhase.RUNNING):
        return stored
    found = list(of_jobs.values())
    if JobPhase.FAILED in found or JobPhase.TERMINATED in found:
        return FlowPhase.FAILED
    if total and found.count(JobPhase.COMPLETED) == total:
        return FlowPhase.SUCCEED
    begun = stored == FlowPhase.RUNNING or JobPhase.RUNNING in found or JobPhase.COMPLETED in found
    return FlowPhase.RUNNING if begun else FlowPhase.PENDING


def wanted_status(flow: JobFlow, own: Mapping[str, Job], now: float) -> JobFlowStatus:
    """The status of a flow with these jobs (by name)."""
    of_jobs = phases(flow, own)
    names: dict[str, list[str]] = {}
    for name, phase in of_jobs.items():
        if phase in LISTS:
            names.setdefault(LISTS[phase], []).append(name)
    entries = {entry.name: entry for entry in flow.status.job_status_list}
    total = len({part.name for part in flow.spec.flows})
    return JobFlowStatus(
        **{field: tuple(listed) for field, listed in names.items()},
        job_status_list=tuple(
            _entry(entries.get(name), own[name], now) if name in own else entries[name] for name in of_jobs
        ),
        conditions={
            name: _condition(own[name]) if name in own else flow.status.conditions.get(name, FlowCondition(phase=phase))
            for name, phase in of_jobs.items()
        },
        state=FlowState(phase=next_phase(flow.status.state.phase, of_jobs, total)),
    )


def _entry(before: FlowJobStatus | None, job: Job, now: float) -> FlowJobStatus:
    """A job's line, its history one longer when it entered another phase."""
    phase = phase_of(job)
    history = before.running_histories if before is not None and _is_same(before, job) else ()
    if not history or history[-1].state != phase:
        moment = rfc3339(now)
        closed = tuple(replace(each, end_timestamp=moment) for each in history[-1:])
        history = (*history[:-1], *closed, RunningHistory(start_timestamp=moment, state=phase))
    return FlowJobStatus(
        name=job.metadata.name,
        state=phase,
        start_timestamp=job.metadata.creation_timestamp,
        end_timestamp=_ended(job),
        restart_count=job.status.retry_count,
        running_histories=history,
    )


def _is_same(before: FlowJobStatus, job: Job) -> bool:
    """Whether a line is about this very job, not one of its name before it."""
    return before.start_timestamp == job.metadata.creation_timestamp


def _ended(job: Job) -> str | None:
    """When it ended: its creation and how long it ran."""
    created, ran = epoch(job.metadata.creation_timestamp), job.status.running_duration
    return rfc3339(created + durations.seconds(ran)) if created is not None and ran else None


def _condition(job: Job) -> FlowCondition:
    return FlowCondition(
        phase=phase_of(job),
        create_time=job.metadata.creation_timestamp,
        running_duration=job.status.running_duration,
        task_status_count=job.status.task_status_count,
    )
