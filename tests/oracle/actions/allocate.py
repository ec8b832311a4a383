"""allocate: a job's first turn places its minimum, each later turn one task; queues and jobs are sorted in between."""

from __future__ import annotations

from tests.oracle.cluster import READY, Job, Queue, Task
from tests.oracle.parts import Part, minimums, parts_of
from tests.oracle.session import Session, Statement, first

Sheet = list[Task] | dict[str, list[Task]]
"""The tasks of a job that are still to be placed, by sub-job if it has any."""


def allocate(session: Session) -> None:
    left: dict[str, Sheet] = {}
    waiting: dict[str, list[Job]] = {}
    for job in session.cluster.jobs:
        if job.phase == "Pending":
            if "enqueue" in session.actions:
                continue
            job.phase = "Inqueue"
        if not session.valid(job):
            continue
        sheet = _sheet(session, job)
        if sheet:
            job.failed_roles = set()
            left[job.uid] = sheet
            waiting.setdefault(job.queue, []).append(job)
    queues = [session.cluster.queues[name] for name in waiting]
    while queues:
        queue = first(queues, session.queue_key)
        if session.overused(queue) or not waiting[queue.name]:
            queues.remove(queue)
            continue
        job = first(waiting[queue.name], session.job_key)
        waiting[queue.name].remove(job)
        if _turn(session, queue, job, left[job.uid]) and left[job.uid]:
            waiting[queue.name].append(job)


def _sheet(session: Session, job: Job) -> Sheet:
    tasks = session.pending(job, best_effort=False)
    if not job.policies:
        return tasks
    job.needed_parts = needed(session, job)
    parts = {part.key: [task for task in tasks if task in part.tasks] for part in parts_of(job)}
    return {key: own for key, own in parts.items() if own}


def needed(session: Session, job: Job) -> set[str]:
    """Return the sub-jobs that must become ready for the minimum of each group."""
    parts, chosen = parts_of(job), set()
    for group, least in minimums(job).items():
        missing = least - sum(part.group == group and session.part_ready(part) for part in parts)
        others = [part for part in parts if part.group == group and not session.part_ready(part)]
        chosen |= {part.key for part in sorted(others, key=session.part_key)[: max(missing, 0)]}
    return chosen


def _turn(session: Session, queue: Queue, job: Job, sheet: Sheet) -> bool:
    """Try a job once, and return whether its statement was committed; a pipelined one is kept without commit."""
    statement = Statement(session)
    if isinstance(sheet, list):
        _place(session, queue, statement, job, sheet)
    else:
        _place_parts(session, queue, statement, job, sheet)
    if session.ready(job):
        statement.commit()
        return True
    if not session.pipelined(job):
        statement.rollback()
    return False


def _place_parts(session: Session, queue: Queue, statement: Statement, job: Job, sheet: dict[str, list[Task]]) -> None:
    """Place sub-jobs one by one, required ones first; a sub-job that does not become whole is not tried again."""
    while sheet:
        part = first(
            [part for part in parts_of(job) if part.key in sheet],
            lambda part: (part.key not in job.needed_parts, session.part_key(part)),
        )
        tasks = sheet.pop(part.key)
        job.failed_roles = set()
        mark = statement.mark()
        _place(session, queue, statement, job, tasks, part)
        if statement.mark() == mark or not session.part_stands(part):
            statement.rollback(mark)
            continue
        if tasks:
            sheet[part.key] = tasks
        if session.ready(job):
            break


def _place(
    session: Session, queue: Queue, statement: Statement, job: Job, tasks: list[Task], part: Part | None = None
) -> None:
    """Place tasks until the job, or its sub-job, is ready or cannot become ready."""
    while tasks:
        task = tasks.pop(0)
        if (task.role and task.role in job.failed_roles) or not session.allocatable(queue, task.requests):
            continue
        found = session.find(task)
        if found is None:
            job.failed_roles.add(task.role)
            if not _may_become_ready(job, part):
                break
            continue
        statement.place(task, *found)
        if session.ready(job) if part is None else session.part_ready(part):
            break


def _may_become_ready(job: Job, part: Part | None) -> bool:
    """Volcano: NeedContinueAllocating."""
    if job.minimum == len(job.tasks):
        return False
    if part is not None:
        return part.size < len(part.tasks)
    if job.minimum < sum(job.role_minimums.values()):
        pending = sum(task.state == "pending" and task.role not in job.failed_roles for task in job.tasks)
        return job.ready_number + pending >= job.minimum
    return all(job.role(role, *READY) >= job.role_minimums.get(role, 0) for role in job.failed_roles)
