"""A turn that needs no statement: one task of a job that is ready with it is placed, counted and bound in one go.

Most turns of a backlog are of this kind, once jobs have their minimum or where that is one task. What is decided, and
whom it is told, is what a statement of that task would come to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.session import Run
from volcanoio.framework.scheduling_effects import BindRequest

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.sessionvotes import SessionVotes


def place_next(session: SessionVotes, job: JobInfo, run: Run, start: int) -> bool:
    """As `session.Session`."""
    task: TaskInfo = run.tasks[start]  # type: ignore[assignment]  # runs are made of ours
    state, rules, shape = session.state, session.rules, run.shape
    if run.nominated or job.attempts.failed_roles or session.promises is not None or job.queue_info is None:
        return False
    if job.parts is not None or job.key in state.holds.by_job or rules.prebinds(task) or rules.job_lacks(job) > 1:
        return False
    if session.allocatable(job, shape, session.at_once(shape, len(run.tasks) - start)) <= 0:
        return False
    row = state.placer.take(task)
    if row < 0:
        return False
    ledger, log = state.ledger, session.tables.turn
    session.unended.append(log)
    ledger.seated_one(task, row)
    log.seated.append(task)
    session.tables.log = log
    for tell in rules.placed.of(task.shape):
        tell(task)
    for count in rules.accounting_in:
        count(job, shape, 1)
    session.tables.log = None
    ready = rules.job_ready(job)
    if ready:
        _bind(session, job, task)
        log.seated.clear()
        log.tables.clear()
    else:
        log.rollback(ledger, state.holds)
    session.unended.pop()
    return ready


def _bind(session: SessionVotes, job: JobInfo, task: TaskInfo) -> None:
    """What a statement does at its commit."""
    state, stats, key = session.state, session.stats, job.key
    session.tried.add(key)
    session.vain.discard(key)
    if len(job.waiting) > 0:
        session.unfinished.add(key)
    else:
        session.unfinished.discard(key)
    state.rests.news += 1
    state.ledger.bind(job, (task,))
    session.outbox.bind(key, (BindRequest(uid=task.uid, namespace=task.namespace, name=task.name, node=task.node),))
    stats.placed += 1
    stats.bound += 1
    stats.gangs += 1
