"""Whether another attempt at a job is worth it: what failed fails again until something it lacked appears."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.subjobs import SubJobInfo
from volcanoio.framework.scheduling.session import Run
from volcanoio.framework.scheduling.views import TaskStatus

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.session import CycleSession


def give_up(session: CycleSession, job: JobInfo, runs: Sequence[Run]) -> None:
    """Remember why an attempt at all the job's runs placed nothing, where that says when another is of use.

    Alike tasks fill the room there is whatever their order, so what found no node finds none until room appears; that
    needs filters that do not look at usage, and nothing reserved by others at the time. Where its queue could not take
    them, that is asked again first.
    """
    attempts = job.attempts
    if len(runs) == 1 and attempts.limited and not attempts.fit_errors:
        attempts.beyond = (runs[0].shape, max(session.rules.job_lacks(job), 1), session.now)
        return
    if len(runs) != 1 or not attempts.fit_errors or attempts.limited or session.leftovers:
        return
    if session.state.placer.by_room_alone(runs[0].shape):
        attempts.useless = (session.nodes.freed, session.now)
        session.state.given_up_at = session.nodes.freed


def hopeless(session: CycleSession, job: JobInfo) -> bool:
    """Whether the last attempt says that another is of no use: neither room nor the queue's limit has changed."""
    attempts, state, freed = job.attempts, session.state, session.nodes.freed
    if attempts.beyond is not None and job.key not in state.ledger.dirty:
        shape, lacking, when = attempts.beyond
        assert job.queue_info is not None
        recent = session.now < when + session.period
        if recent and session.rules.allocatable(job.queue_info, shape, lacking) < lacking:
            return True
    if state.given_up_at != freed or attempts.useless is None:
        return False
    then, when = attempts.useless
    return then == freed and session.now < when + session.period and job.key not in state.ledger.dirty


def may_become_ready(job: JobInfo, part: SubJobInfo | None) -> bool:
    """Whether a job may become ready though a task, of that part of it, found no node.

    Volcano: NeedContinueAllocating, api/job_info.go.
    """
    if job.min_available == len(job.members):
        return False
    if part is not None:
        return part.min_available < len(part.members)
    failed = job.attempts.failed_roles
    if job.min_available < job.role_total:
        left = sum(counts[TaskStatus.PENDING] for role, counts in job.by_role.items() if role not in failed)
        return job.ready_count + left >= job.min_available
    return all(
        job.role_count(role, idle=False) >= job.role_minimums[role] for role in failed if job.role_minimums.get(role)
    )
