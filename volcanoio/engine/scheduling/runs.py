"""The pending tasks of a job as actions get them: in task order, with this session's shapes, alike ones together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.engine.scheduling.volumes import CLAIMS
from volcanoio.framework.scheduling.session import Run

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.session import CycleSession

_KEY = attrgetter("key")


def runs_of(session: CycleSession, job: JobInfo, members: Iterable[TaskInfo], *, best_effort: bool) -> list[Run]:
    """Those of the members (pending tasks of the job) that request nothing, or the others, as runs.

    Gated tasks are left out, and those that wait after a refused bind.
    """
    rules, now = session.rules, session.now
    tasks = [
        task for task in members if task.shape.best_effort is best_effort and not task.gated and task.retry_at <= now
    ]
    traits = rules.traits
    if traits:
        _vary(session, job, tasks)
    look_at_claims(session, tasks, varied=bool(traits))
    if len(tasks) > 1:
        tasks.sort(key=_KEY)
        if rules.orders_tasks:
            tasks.sort(key=rules.task_key)  # which leaves equal ones in the order they are in
    if not tasks:
        return []
    shape, role, claims = tasks[0].shape, tasks[0].role, session.state.claims
    if not claims.by_task:
        for task in tasks:
            if task.shape is not shape or task.role != role or task.nominated:
                break
        else:  # a gang of one role, as most are
            return [Run(shape, role, tasks, "")]
    nominated = claims.node_of
    runs: list[Run] = []
    last: TaskInfo | None = None
    aimed = False
    alike: list[TaskInfo] = []
    for task in tasks:
        node = nominated(task)
        if last is not None and task.shape is last.shape and task.role == last.role and not node and not aimed:
            alike.append(task)
        else:
            alike = [task]
            runs.append(Run(task.shape, task.role, alike, node))
        last, aimed = task, bool(node)
    return runs


def look_at_claims(session: CycleSession, tasks: Sequence[TaskInfo], *, varied: bool) -> None:
    """Give tasks that name volume claims the shapes that these ask for, where a plugin watches claims.

    `varied` says that they have the shapes that traits give them.
    """
    volumes = session.state.ledger.volumes
    if volumes.active and CLAIMS in session.rules.watches:
        claiming = session.state.ledger.shapes.claiming
        for task in tasks:
            if task.claims:
                plain = task.shape if varied else task.base
                task.shape = claiming(plain, tuple([claim for _, claim in volumes.claims(task)]))


def _vary(session: CycleSession, job: JobInfo, tasks: Sequence[TaskInfo]) -> None:
    """Give tasks the shapes that plugins with traits tell apart."""
    varied = session.state.ledger.shapes.varied
    for task in tasks:
        traits = tuple([(name, said) for name, ask in session.rules.traits if (said := ask(task, job))])
        task.shape = varied(task.base, traits) if traits else task.base
