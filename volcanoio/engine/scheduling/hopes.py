"""Whether another attempt at a job is worth it: what failed fails again until something it lacked appears."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from volcanoio.engine.scheduling.explanation import Useless
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.subjobs import SubJobInfo
from volcanoio.framework.scheduling.session import Run
from volcanoio.framework.scheduling.views import TaskStatus

REST = 60.0
"""Seconds after which a job is tried again though nothing appeared that it lacked; up to twice as many, by its key."""

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
    shape = runs[0].shape
    if session.state.placer.by_room_alone(shape):
        whole = len(runs[0].tasks) == len(job.waiting) and not session.state.holds.by_job
        whole = whole and not session.rules.traits and session.state.placer.at_all_times(shape)
        rest = REST * (1 + crc32(job.key.encode()) % 64 / 64) if whole else 0.0
        session.state.room.follow(shape)
        attempts.useless = Useless(shape, session.nodes.freed, session.now + max(rest, session.period))


def hopeless(session: CycleSession, job: JobInfo) -> bool:
    """Whether the last attempt says that another is of no use: neither room nor the queue's limit has changed."""
    attempts, state = job.attempts, session.state
    if attempts.beyond is not None and not state.ledger.changed(job):
        shape, lacking, when = attempts.beyond
        assert job.queue_info is not None
        recent = session.now < when + session.period
        if recent and session.rules.allocatable(job.queue_info, shape, lacking) < lacking:
            return True
    useless = attempts.useless
    if useless is None or session.now >= useless.until or state.ledger.changed(job):
        return False
    if job.key in state.holds.by_job:
        return False
    settled = not (state.holds.by_job or session.leftovers or session.unended)
    return state.room.appeared(useless.shape, settled=settled) <= useless.since


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
