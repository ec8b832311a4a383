"""A statement: placements of one job that are committed or discarded whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from volcanoio.engine.scheduling.evictions import claim, send_evictions
from volcanoio.engine.scheduling.holds import Hold
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.subjobs import SubJobInfo
from volcanoio.engine.scheduling.tasks import TAKABLE, TaskInfo
from volcanoio.engine.scheduling.undo import Evicted, Mark, UndoLog
from volcanoio.framework.scheduling.session import Placed, Run
from volcanoio.framework.scheduling.views import Shape, TaskStatus
from volcanoio.framework.scheduling_effects import BindRequest

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.session import CycleSession


class JobStatement:
    """Implements `session.Statement`. Room held for the job is freed for it at the start."""

    __slots__ = ("_job", "_log", "_paid", "_session")

    def __init__(self, session: CycleSession, job: JobInfo) -> None:
        self._session = session
        self._job = job
        self._log = UndoLog()
        self._paid: list[TaskInfo] = []
        """Tasks that have their place by evictions."""
        session.unended.append(self._log)
        if job.key in session.state.holds.by_job:
            self._log.lifted.append((job.key, session.state.holds.lift(job.key)))

    def place(
        self,
        run: Run,
        start: int,
        count: int,
        *,
        until_ready: bool = True,
        idle_only: bool = False,
        part: SubJobInfo | None = None,
    ) -> Placed:
        """As `session.Statement`."""
        session, job = self._session, self._job
        tasks: list[TaskInfo] = run.tasks[start : start + count]  # type: ignore[assignment]  # runs are made of ours
        session.tables.log = self._log
        placed, ready = session.state.placer.place(
            tasks,
            lacking=self._lacking(part) if until_ready else None,
            idle_only=idle_only,
            nominated=run.nominated,
            log=self._log.seated,
        )
        if placed:
            self._account(run.shape, placed)
        session.tables.log = None
        if placed < len(tasks) and not ready:
            errors = session.state.placer.fit_errors(run.shape, idle_only=idle_only)
            job.attempts.no_node(run.tasks[start + placed :], errors)  # type: ignore[arg-type]  # as above
            if idle_only:
                stranded = run.tasks[start + placed :]
                job.strand(stranded)  # type: ignore[arg-type]  # as above
                session.state.ledger.changes.mark(job)
                session.homeless.append((job, stranded))  # type: ignore[arg-type]  # as above
        return Placed(placed, ready)

    def _lacking(self, part: SubJobInfo | None) -> Callable[[], int]:
        """What says how many more tasks the job, or that part of it, must have placed."""
        rules, job = self._session.rules, self._job
        if part is None:
            return lambda: rules.job_lacks(job)
        return lambda: rules.sub_job_lacks(part)

    def reserve(self, run: Run, start: int, count: int, *, starving: bool = True, idle_first: bool = False) -> int:
        """As `session.Statement`."""
        session, job = self._session, self._job
        tasks: list[TaskInfo] = run.tasks[start : start + count]  # type: ignore[assignment]  # runs are made of ours
        session.tables.log = self._log
        placed = session.state.placer.reserve(
            tasks,
            lacking=(lambda: 1 if session.rules.job_starving(job) else 0) if starving else None,
            idle_first=idle_first,
            nominated=run.nominated,
            log=self._log.seated,
        )
        if placed:
            self._account(run.shape, placed)
        session.tables.log = None
        return placed

    def pipeline(self, task: TaskInfo, node: str, *, evicted: bool) -> None:
        """As `session.Statement`."""
        session = self._session
        session.tables.log = self._log
        row, takable = session.nodes.rows[node], session.state.takable
        known = takable.knows(row)
        session.state.placer.seat(task, TaskStatus.PIPELINED, row, self._log.seated)
        if known:
            takable.follow(row)
        self._account(task.shape, 1)
        session.tables.log = None
        if evicted:
            self._paid.append(task)

    def resume(self, tasks: Sequence[TaskInfo], rows: Sequence[int], held: list[Hold]) -> None:
        """Pipeline alike tasks on rows, where the room was held for them that way."""
        session, log = self._session, self._log
        log.lifted.append((self._job.key, held))
        by_role: dict[str, tuple[list[TaskInfo], list[int]]] = {}
        for task, row in zip(tasks, rows, strict=True):
            alike = by_role.setdefault(task.role, ([], []))
            alike[0].append(task)
            alike[1].append(row)
        session.tables.log = log
        for members, places in by_role.values():
            session.state.ledger.seated(members, TaskStatus.PIPELINED, places)
        log.seated.extend(tasks)
        for tell in session.rules.placed.of(tasks[0].shape):
            for task in tasks:
                tell(task)
        self._account(tasks[0].shape, len(tasks))
        session.tables.log = None

    def mark(self) -> Mark:
        """As `session.Statement`."""
        return self._log.mark()

    def rollback(self, mark: Mark, *, told: bool = False) -> None:
        """As `session.Statement`."""
        if told:
            self._remember(self._log.seated[mark.seated :])
        self._log.rollback_to(mark, self._session.state.ledger)
        self._paid = [task for task in self._paid if task.status is TaskStatus.PIPELINED]

    @property
    def evicted(self) -> list[TaskInfo]:
        """As `session.Statement`."""
        return [entry.task for entry in self._log.evicted]

    @property
    def pipelined(self) -> list[TaskInfo]:
        """As `session.Statement`."""
        return [task for task in self._log.seated if task.status is TaskStatus.PIPELINED]

    def evict(self, task: TaskInfo, reason: str) -> None:
        """As `session.Statement`."""
        session = self._session
        ledger = session.state.ledger
        before, takable, row = task.status, session.state.takable, ledger.columns.rows.get(task.node, -1)
        known = row >= 0 and takable.knows(row)
        self._log.evicted.append(Evicted(task, before, reason, task.job not in ledger.dirty))
        ledger.evict(task)
        if known:
            takable.follow(row, task if before in TAKABLE else None)
        session.tables.log = self._log
        if task.owner is not None and task.owner.queue_info is not None:
            for tell in session.rules.accounting_out:
                tell(task.owner, task.shape, 1)
        for tell in session.rules.evicted.of(task.shape):
            tell(task)
        session.tables.log = None

    def _account(self, shape: Shape, placed: int) -> None:
        """Tell plugins of tasks that were placed."""
        if self._job.queue_info is not None:
            for tell in self._session.rules.accounting_in:
                tell(self._job, shape, placed)
            if self._session.promises is not None:
                self._session.promises.used(self._job, shape, placed)
        self._session.stats.placed += placed

    def spare(self, task: TaskInfo) -> None:
        """As `session.Statement`."""
        session, log, ledger = self._session, self._log, self._session.state.ledger
        entry = next(entry for entry in log.evicted if entry.task is task)
        log.evicted.remove(entry)
        ledger.unseat(task, entry.before, task.node)
        if entry.clean:  # its job is as it was only when none of it is evicted any more
            other = next((at for at, one in enumerate(log.evicted) if one.task.job == task.job), None)
            if other is None:
                ledger.dirty.pop(task.job, None)
            else:
                log.evicted[other] = log.evicted[other]._replace(clean=True)
        session.tables.log = log
        if task.owner is not None and task.owner.queue_info is not None:
            for tell in session.rules.accounting_in:
                tell(task.owner, task.shape, 1)
        for tell in session.rules.placed.of(task.shape):
            tell(task)
        session.tables.log = None

    def commit(self) -> None:
        """As `session.Statement`."""
        session, job, log = self._session, self._job, self._log
        session.vain.discard(job.key)
        if job.waiting:
            session.unfinished.add(job.key)
        else:
            session.unfinished.discard(job.key)
        ledger = session.state.ledger
        allocated, pipelined = log.seated, []
        if job.count(TaskStatus.PIPELINED):
            allocated = [task for task in log.seated if task.status is TaskStatus.ALLOCATED]
            pipelined = [task for task in log.seated if task.status is TaskStatus.PIPELINED]
        session.state.rests.news += 1
        if log.evicted:
            send_evictions(session, log.evicted)
            claim(session, log.evicted, pipelined, self._paid)
        if allocated:
            ledger.bind(job, allocated)
            session.outbox.bind(job.key, self._requests(allocated))
            session.stats.bound += len(allocated)
            session.stats.gangs += 1
        for key, lifted in log.lifted:
            session.state.holds.refit(key, lifted, len(job.waiting))
        log.clear()
        self._session.unended.remove(log)
        if pipelined:
            ledger.changes.mark(job)
            log.seated.extend(pipelined)
            session.leftovers.append(log)

    def _requests(self, tasks: Sequence[TaskInfo]) -> list[BindRequest]:
        """The binds of tasks, with what must be done before them."""
        rules, prebinding = self._session.rules, self._session.state.prebinding
        shape, binds = None, []
        for task in tasks:
            if task.shape is not shape:
                shape = task.shape
                if rules.prebinds(task):
                    break
            binds.append(BindRequest(uid=task.uid, namespace=task.namespace, name=task.name, node=task.node))
        else:
            return binds
        requests = []
        for task in tasks:
            steps = rules.prebind(task)
            if steps:
                prebinding[task.uid] = steps
            requests.append(
                BindRequest(uid=task.uid, namespace=task.namespace, name=task.name, node=task.node, prebind=steps)
            )
        return requests

    def discard(self) -> None:
        """As `session.Statement`."""
        self._session.vain.add(self._job.key)
        self._session.unfinished.discard(self._job.key)
        self._remember(self._log.seated)
        self._log.rollback(self._session.state.ledger, self._session.state.holds)
        self._session.unended.remove(self._log)

    def _remember(self, tasks: Sequence[TaskInfo]) -> None:
        """Keep where tasks had a place that is taken back."""
        outcomes = self._job.attempts.outcomes
        for task in tasks:
            outcomes[task.uid] = (task.status, task.node)

    def keep(self) -> None:
        """As `session.Statement`; room held for the job is held on, where the statement has not used it."""
        self._session.vain.discard(self._job.key)
        for key, lifted in self._log.lifted:
            self._session.state.holds.refit(key, lifted, len(self._job.waiting))
        self._log.lifted.clear()
        self._session.state.ledger.changes.mark(self._job)
        self._session.unended.remove(self._log)
        self._session.leftovers.append(self._log)
