"""A statement: placements of one job that are committed or discarded whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.engine.scheduling.undo import UndoLog
from volcanoio.framework.scheduling.session import Placed, Run
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.scheduling_effects import BindRequest, Evict

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.session import CycleSession


class JobStatement:
    """Implements `session.Statement`. Room held for the job is freed for it at the start."""

    __slots__ = ("_job", "_log", "_session")

    def __init__(self, session: CycleSession, job: JobInfo) -> None:
        self._session = session
        self._job = job
        self._log = UndoLog()
        session.unended.append(self._log)
        if job.key in session.state.holds.by_job:
            self._log.lifted.append((job.key, session.state.holds.lift(job.key)))

    def place(self, run: Run, start: int, count: int, *, until_ready: bool = True, idle_only: bool = False) -> Placed:
        """As `session.Statement`."""
        session, job = self._session, self._job
        tasks: list[TaskInfo] = run.tasks[start : start + count]  # type: ignore[assignment]  # runs are made of ours
        session.tables.log = self._log
        placed, ready = session.state.placer.place(
            tasks,
            lacking=(lambda: session.rules.job_lacks(job)) if until_ready else None,
            idle_only=idle_only,
            nominated=run.nominated,
            log=self._log.seated,
        )
        if placed:
            if job.queue_info is not None:
                for tell in session.rules.accounting_in:
                    tell(job, run.shape, placed)
            session.stats.placed += placed
        session.tables.log = None
        if placed < len(tasks) and not ready:
            errors = session.state.placer.fit_errors(run.shape, idle_only=idle_only)
            job.attempts.no_node(run.tasks[start + placed :], errors)  # type: ignore[arg-type]  # as above
            if idle_only:
                job.homeless += len(run.tasks) - start - placed
                job.standing = None
                session.homeless.append(job)
        return Placed(placed, ready)

    def evict(self, task: TaskInfo, reason: str) -> None:
        """Make a Bound or Running task Releasing."""
        session = self._session
        self._log.evicted.append((task, task.status, reason))
        session.state.ledger.move(task, TaskStatus.RELEASING, task.node)
        session.tables.log = self._log
        if task.owner is not None and task.owner.queue_info is not None:
            for tell in session.rules.accounting_out:
                tell(task.owner, task.shape, 1)
        for tell in session.rules.tasks_out:
            tell(task)
        session.tables.log = None

    def commit(self) -> None:
        """As `session.Statement`."""
        session, job, log = self._session, self._job, self._log
        ledger = session.state.ledger
        allocated = [task for task in log.seated if task.status is TaskStatus.ALLOCATED]
        pipelined = []
        if len(allocated) < len(log.seated):
            pipelined = [task for task in log.seated if task.status is TaskStatus.PIPELINED]
        for task, _, reason in log.evicted:
            session.state.pods.evicting.add(task.uid)
            session.outbox.put(
                Evict(
                    group=task.job,
                    uid=task.uid,
                    namespace=task.namespace,
                    name=task.name,
                    node=task.node,
                    reason=reason,
                )
            )
        if allocated:
            ledger.bind(job, allocated)
            session.outbox.bind(
                job.key,
                [
                    BindRequest(uid=task.uid, namespace=task.namespace, name=task.name, node=task.node)
                    for task in allocated
                ],
            )
            session.stats.bound += len(allocated)
            session.stats.gangs += 1
        for key, lifted in log.lifted:
            session.state.holds.refit(key, lifted, len(job.waiting))
        log.clear()
        self._session.unended.remove(log)
        if pipelined:
            log.seated.extend(pipelined)
            session.leftovers.append(log)

    def discard(self) -> None:
        """As `session.Statement`."""
        outcomes = self._job.attempts.outcomes
        for task in self._log.seated:
            outcomes[task.uid] = (task.status, task.node)
        self._log.rollback(self._session.state.ledger, self._session.state.holds)
        self._session.unended.remove(self._log)

    def keep(self) -> None:
        """As `session.Statement`; room held for the job is held on, where the statement has not used it."""
        for key, lifted in self._log.lifted:
            self._session.state.holds.refit(key, lifted, len(self._job.waiting))
        self._log.lifted.clear()
        self._session.unended.remove(self._log)
        self._session.leftovers.append(self._log)
