"""Jobs that wait for their victims: while they do, each session gives them the places they claim again.

What allocate would do for each of their tasks, a nominated one, is done for all at once where it is certain to come to
the same: every task is Pipelined where it claims room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.loads import Load
from volcanoio.engine.scheduling.tasks import TaskInfo

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.session import CycleSession


def resume(session: CycleSession, job: JobInfo) -> bool:
    """Seat all waiting tasks of a job where they claim room, and keep that; False, with nothing done, where they may
    have to be placed one by one.
    """
    places = _places(session, job)
    if places is None or not session.job_valid(job) or session.job_ready(job):
        return False
    tasks, rows = places
    shape, count = tasks[0].shape, len(tasks)
    assert job.queue_info is not None
    if (
        not session.state.placer.waits_on(shape, rows)
        or session.rules.allocatable(job.queue_info, shape, count) < count
    ):
        return False
    held = session.state.holds.by_job.pop(job.key)  # the same room: it goes over to the tasks
    statement = session.statement(job)
    statement.resume(tasks, rows, held)
    if not session.job_pipelined(job):
        statement.discard()
        return False
    if not job.attempts.blank or not job.attempts.resumed:
        session.start(job)  # what is said of it comes to something else than before
        job.attempts.resumed = True
    statement.keep()
    return True


def _places(session: CycleSession, job: JobInfo) -> tuple[list[TaskInfo], list[int]] | None:
    """All waiting tasks and the rows they claim, where each has a claim, they are alike, and all are to be placed."""
    if session.promises is not None or session.rules.traits or job.parts is not None:
        return None
    held = session.state.holds.by_job.get(job.key, ())
    if not job.waiting or len(held) != len(job.waiting) or job.best_effort or job.gated_count:
        return None
    if any(hold.load is not Load.RESERVES for hold in held):
        return None
    by_task, index, now = session.state.claims.by_task, session.nodes.rows, session.now
    tasks, rows = list(job.waiting.values()), []
    shape = tasks[0].shape
    for task in tasks:
        claim = by_task.get(task.uid)
        if claim is None or task.shape is not shape or task.claims or task.retry_at > now or claim.node not in index:
            return None
        rows.append(index[claim.node])
    return tasks, rows
