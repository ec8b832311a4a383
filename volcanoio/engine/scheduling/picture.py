"""How a session stood when it closed, for those who are shown it: what is undone afterwards is still in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from volcanoio.engine.scheduling.explanation import UNSETTLED, group_text, stray_text
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.session import CycleSession
from volcanoio.framework.scheduling.views import TaskStatus

_TITLES = tuple(status.name.title() for status in TaskStatus)


@dataclass(frozen=True, slots=True)
class Picture:
    """Jobs by `namespace/podgroup` and pods by `namespace/name`, both sorted.

    `pipelined` are the nodes on which pods have a place reserved; `phases` those of PodGroups; `statuses` how many
    tasks of a PodGroup are in which status; `reasons` why a PodGroup waits, as precisely as is known: also one that
    pods name and that does not exist.
    """

    pipelined: Mapping[str, str]
    phases: Mapping[str, str]
    statuses: Mapping[str, Mapping[str, int]]
    reasons: Mapping[str, str]


def picture(session: CycleSession) -> Picture:
    """The picture of a session that has closed and is not undone yet."""
    ledger = session.state.ledger
    jobs = [ledger.jobs[key] for key in sorted(ledger.jobs) if ledger.jobs[key].known]
    reserved = [
        task
        for job in jobs
        if job.counts[TaskStatus.PIPELINED]
        for task in job.members.values()
        if task.status is TaskStatus.PIPELINED
    ]
    reasons = {job.key: _reason(session, job) for job in jobs if job.waiting or job.phase in UNSETTLED}
    strays = [job for job in ledger.jobs.values() if job.waiting and not job.known and not job.single]
    reasons |= {job.key: stray_text(job) for job in sorted(strays, key=lambda job: job.key)}
    return Picture(
        pipelined=dict(sorted((f"{task.namespace}/{task.name}", task.node) for task in reserved)),
        phases={job.key: job.phase for job in jobs},
        statuses={job.key: {_TITLES[at]: count for at, count in enumerate(job.counts) if count} for job in jobs},
        reasons={key: text for key, text in reasons.items() if text},
    )


def _reason(session: CycleSession, job: JobInfo) -> str:
    """Why a job waits; "" when it does not."""
    ready = job.schedulable and session.rules.job_ready(job)
    if ready and not job.waiting:
        return ""
    if reserved := job.counts[TaskStatus.PIPELINED]:
        return f"{reserved} of its pods wait for room that is being released"
    return session.refusals.get(job.key) or job.attempts.reason.text or group_text(job, ready=ready)
