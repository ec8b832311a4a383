"""`CycleSnapshot`: a readable summary of a session at its close."""

from collections.abc import Mapping
from dataclasses import dataclass

from volcanoio.engine.scheduling.diagnosis.diagnosis import waiting_text
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.engine.scheduling.status.explanation import STATUS_TITLES, UNSETTLED, missing_group_text
from volcanoio.framework.scheduling.views import TaskStatus


@dataclass(frozen=True, slots=True)
class CycleSnapshot:
    """The jobs and pods of a session at its close; keys are `namespace/podgroup` and `namespace/name`, sorted.

    `pipelined` is the node of each pipelined pod, `phases` the phase of each PodGroup, `statuses` the number of its
    tasks by status. `reasons` is the most precise known reason why a PodGroup waits; it includes PodGroups that pods
    name but that do not exist.
    """

    pipelined: Mapping[str, str]
    phases: Mapping[str, str]
    statuses: Mapping[str, Mapping[str, int]]
    reasons: Mapping[str, str]


def cycle_snapshot(session: CycleSession) -> CycleSnapshot:
    """Return a snapshot of a session that has closed and is not undone yet."""
    ledger = session.state.ledger
    jobs = [ledger.jobs[key] for key in sorted(ledger.jobs) if ledger.jobs[key].has_group]
    reserved = [
        task
        for job in jobs
        if job.counts[TaskStatus.PIPELINED]
        for task in job.members.values()
        if task.status is TaskStatus.PIPELINED
    ]
    reasons = {job.key: waiting_text(session, job) for job in jobs if job.pending or job.phase in UNSETTLED}
    jobs_without_group = [
        job for job in ledger.jobs.values() if job.pending and not job.has_group and not job.is_single_pod
    ]
    reasons |= {job.key: missing_group_text(job) for job in sorted(jobs_without_group, key=lambda job: job.key)}
    return CycleSnapshot(
        pipelined=dict(sorted((f"{task.namespace}/{task.name}", task.node) for task in reserved)),
        phases={job.key: job.phase for job in jobs},
        statuses={job.key: {STATUS_TITLES[at]: count for at, count in enumerate(job.counts) if count} for job in jobs},
        reasons={key: text for key, text in reasons.items() if text},
    )
