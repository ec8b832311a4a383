"""A statement: placements of one job, and evictions for it, that are committed or discarded as a whole.

At its commit binds and evictions go to the outbox, and pipelined tasks get their nominations.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial

from volcanoio.engine.scheduling.cluster.jobs import EVICTABLE, JobInfo, TaskInfo
from volcanoio.engine.scheduling.cluster.native_groups import disruption_patch
from volcanoio.engine.scheduling.cluster.nominations import EvictionRecord, Reservation
from volcanoio.engine.scheduling.cluster.subjobs import SubJobInfo
from volcanoio.engine.scheduling.placement.placer import PlacementRequest
from volcanoio.engine.scheduling.session.context import EvictedTask, Savepoint, SessionContext, UndoLog
from volcanoio.framework.effects import record_event
from volcanoio.framework.scheduling.hypernodes import CLUSTER
from volcanoio.framework.scheduling.session import Placed, Run
from volcanoio.framework.scheduling.views import Shape, TaskStatus
from volcanoio.framework.scheduling_effects import BindRequest, Evict, PreBindStep
from volcanoio.framework.statuses import pod_status_patch
from volcanoio.model import kinds
from volcanoio.model.names import SCHEDULER_NAME


def send_evictions(session: SessionContext, evicted: Sequence[EvictedTask], profits: JobInfo | None) -> None:
    """Put evictions of tasks, which are Releasing already, into the outbox, with Events of the pods and PodGroups.

    There is one Kubernetes Event for each pod and one for each PodGroup. The text for pods names the job that profits
    behind Volcano's.
    """
    for_whom = (
        f" (for {profits.key} in queue {profits.queue}, priority {profits.priority})" if profits is not None else ""
    )
    reported: set[str] = set()
    put, evicting, nodes = session.outbox.put, session.state.pods.evicting, session.nodes
    for task, _, reason, _ in evicted:
        evicting.add(task.uid)
        effect = Evict(
            group=task.job, uid=task.uid, namespace=task.namespace, name=task.name, node=task.node, reason=reason
        )
        put(effect)
        if task.job_info is not None and task.job_info.has_group and task.job not in reported:
            reported.add(task.job)
            _report_evicted_group(session, task.job_info, reason, for_whom)
        message = f"Pod is evicted, because of {reason}{for_whom}"
        put(record_event(kinds.POD, task.pod, "Evict", message, type_="Warning"))
        if (row := nodes.rows.get(task.node)) is not None:  # one that goes with others may be on a node of no zone
            nodes.mark_freed(row)
    session.stats.record_evictions(evicted[0].reason, len(evicted))


def _report_evicted_group(session: SessionContext, job: JobInfo, reason: str, for_whom: str) -> None:
    """Record that tasks of a job are evicted; a native group that goes as a whole also gets its condition."""
    session.outbox.put(record_event(job.group_kind, job.group, "Evict", reason))
    if job.is_evicted_whole:
        message = f"{SCHEDULER_NAME}: evicted because of {reason}{for_whom}"
        if (patch := disruption_patch(job, message, session.timestamp)) is not None:
            session.outbox.put(patch)


def nominate(
    session: SessionContext,
    evicted: Sequence[EvictedTask],
    pipelined: Sequence[TaskInfo],
    preemptors: Sequence[TaskInfo],
) -> None:
    """Nominate pipelined tasks on their nodes; for preemptors also write `nominatedNodeName` of their pods."""
    victims = {entry.task.uid for entry in evicted}
    for task in pipelined:
        session.state.nominations.nominate(task, task.node, victims)
        session.outbox.nominated_tasks.append(task)
    for task in preemptors:
        if task.pod.status.nominated_node_name == task.node:
            continue
        session.outbox.put(pod_status_patch(task.pod, {"nominatedNodeName": task.node}))


def remember_evictions(
    session: SessionContext, evicted: Sequence[EvictedTask], pipelined: Sequence[TaskInfo], profits: JobInfo | None
) -> None:
    """Keep who was evicted, and for which job."""
    nodes = tuple(dict.fromkeys(task.node for task in pipelined))
    by = ("", "", 0) if profits is None else (profits.key, profits.queue, profits.priority)
    for task, _, action, _ in evicted:
        owner = task.job_info
        queue, priority = ("", 0) if owner is None else (owner.queue, owner.priority)
        victim = (f"{task.namespace}/{task.name}", task.uid, task.job, queue, priority, task.node)
        session.state.nominations.evictions.append(
            EvictionRecord(*victim, action, session.cycle, session.now, *by, nodes)
        )


def _bind_request(task: TaskInfo, prebind: tuple[PreBindStep, ...] = ()) -> BindRequest:
    """Return the bind of a task to its node, with the annotations that plugins chose."""
    return BindRequest(
        uid=task.uid,
        namespace=task.namespace,
        name=task.name,
        node=task.node,
        annotations=dict(task.bind_annotations),
        prebind=prebind,
    )


def _evicted_together(task: TaskInfo, statuses: Collection[TaskStatus]) -> list[TaskInfo]:
    """Return a task with the other tasks in these statuses of a job that is evicted as a whole.

    None is left for a task of such a job that was evicted, or restored, with another one.
    """
    job = task.job_info
    if job is None or not job.is_evicted_whole:
        return [task]
    return [each for each in job.members.values() if each.status in statuses]


class JobStatement:
    """Implements `session.Statement`. Room reserved for the job stops counting when the statement begins."""

    __slots__ = ("_job", "_log", "_preemptors", "_session")

    def __init__(self, session: SessionContext, job: JobInfo) -> None:
        self._session = session
        self._job = job
        self._log = UndoLog()
        self._preemptors: list[TaskInfo] = []
        """Tasks for which the statement evicted others."""
        session.open_logs.append(self._log)
        if job.key in session.state.reservations.by_job:
            self._log.released.append((job.key, session.state.reservations.release(job.key)))

    def allocate(  # noqa: PLR0913 - options are keywords with defaults
        self,
        run: Run,
        start: int,
        count: int,
        *,
        until_ready: bool = True,
        idle_only: bool = False,
        sub_job: SubJobInfo | None = None,
        within: str = CLUSTER,
    ) -> Placed:
        """Allocate up to `count` tasks of a run from index `start`, each on the best node at that moment."""
        session, job = self._session, self._job
        tasks: list[TaskInfo] = run.tasks[start : start + count]  # type: ignore[assignment]  # runs are made of ours
        if idle_only and job.excluded_best_effort:  # only the result of their last attempt counts
            job.include_best_effort(run.tasks[start:])  # type: ignore[arg-type]  # as above
        session.plugin_tables.log = self._log
        domain = None if within == CLUSTER else session.domains.domain(within)
        placed, ready = session.state.placer.place(
            PlacementRequest(
                tasks,
                self._log.assumed,
                missing=self._missing_tasks(sub_job) if until_ready else None,
                nominated=run.nominated,
                idle_only=idle_only,
                domain=domain,
            )
        )
        if placed:
            self._notify_allocated(run.shape, placed)
        session.plugin_tables.log = None
        if placed < len(tasks) and not ready:
            errors = session.state.placer.fit_errors(run.shape, idle_only=idle_only, domain=domain)
            job.attempts.record_fit_errors(run.tasks[start + placed :], errors)
            if idle_only:
                self._exclude(run.tasks[start + placed :])  # type: ignore[arg-type]  # as above
        return Placed(placed, ready)

    def _exclude(self, tasks: Sequence[TaskInfo]) -> None:
        """Stop counting best-effort tasks as placed until they are tried again or the session closes."""
        self._job.exclude_best_effort(tasks)
        self._session.state.ledger.changes.mark(self._job)
        self._session.unplaced_best_effort.append((self._job, tasks))

    def _missing_tasks(self, sub_job: SubJobInfo | None) -> Callable[[], int]:
        """Return a function that counts the tasks still missing in the job or sub-job."""
        rules, job = self._session.rules, self._job
        if sub_job is None:
            return partial(rules.job_missing, job)
        return partial(rules.sub_job_missing, sub_job)

    def pipeline(  # noqa: PLR0913 - options are keywords with defaults
        self,
        run: Run,
        start: int,
        count: int,
        *,
        while_starving: bool = True,
        idle_first: bool = False,
        within: str = CLUSTER,
    ) -> int:
        """Pipeline up to `count` tasks of a run from index `start`; return how many got a node."""
        session, job = self._session, self._job
        tasks: list[TaskInfo] = run.tasks[start : start + count]  # type: ignore[assignment]  # runs are made of ours
        session.plugin_tables.log = self._log
        placed = session.state.placer.pipeline(
            PlacementRequest(
                tasks,
                self._log.assumed,
                missing=(lambda: 1 if session.rules.job_starving(job) else 0) if while_starving else None,
                nominated=run.nominated,
                pipeline=True,
                idle_first=idle_first,
                domain=None if within == CLUSTER else session.domains.domain(within),
            )
        )
        if placed:
            self._notify_allocated(run.shape, placed)
        session.plugin_tables.log = None
        return placed

    def pipeline_on(self, task: TaskInfo, node: str, *, evicted: bool) -> None:
        """Pipeline a pending task on a given node where it fits; `evicted`: the statement evicted tasks for it."""
        session = self._session
        session.plugin_tables.log = self._log
        row, victim_columns = session.nodes.rows[node], session.state.victim_columns
        is_current = victim_columns.is_current(row)
        session.state.placer.assume(task, TaskStatus.PIPELINED, row, self._log.assumed)
        if is_current:
            victim_columns.apply_change(row)
        self._notify_allocated(task.shape, 1)
        session.plugin_tables.log = None
        if evicted:
            self._preemptors.append(task)

    def pipeline_on_rows(self, tasks: Sequence[TaskInfo], rows: Sequence[int], released: list[Reservation]) -> None:
        """Pipeline alike tasks on rows whose room was reserved for them; a discard restores `released`."""
        session, log = self._session, self._log
        log.released.append((self._job.key, released))
        by_role: dict[str, tuple[list[TaskInfo], list[int]]] = {}
        for task, row in zip(tasks, rows, strict=True):
            alike = by_role.setdefault(task.role, ([], []))
            alike[0].append(task)
            alike[1].append(row)
        session.plugin_tables.log = log
        for members, places in by_role.values():
            session.state.ledger.record_assumed(members, TaskStatus.PIPELINED, places)
        log.assumed.extend(tasks)
        for notify in session.rules.placed.of(tasks[0].shape):
            for task in tasks:
                notify(task)
        self._notify_allocated(tasks[0].shape, len(tasks))
        session.plugin_tables.log = None

    def savepoint(self) -> Savepoint:
        """Return a savepoint for `rollback`."""
        return self._log.savepoint()

    def rollback(self, mark: Savepoint, *, record_attempts: bool = False) -> None:
        """Undo everything since a savepoint, exactly; later savepoints become invalid.

        With `record_attempts`, best-effort tasks that were placed no longer count as placed.
        """
        undone = self._log.assumed[mark.assumed :] if record_attempts else []
        self._record_outcomes(undone)
        self._log.rollback_to(mark, self._session.state.ledger)
        self._preemptors = [task for task in self._preemptors if task.status is TaskStatus.PIPELINED]
        if best_effort := [task for task in undone if task.shape.best_effort]:
            self._exclude(best_effort)

    @property
    def evicted(self) -> list[TaskInfo]:
        """The tasks it evicts."""
        return [entry.task for entry in self._log.evicted]

    @property
    def pipelined(self) -> list[TaskInfo]:
        """The tasks it has pipelined."""
        return [task for task in self._log.assumed if task.status is TaskStatus.PIPELINED]

    def evict(self, task: TaskInfo, reason: str) -> None:
        """Make a Bound or Running task of any job Releasing; `reason` is the action's name.

        A job that is evicted as a whole loses its other tasks, too.
        """
        for each in _evicted_together(task, EVICTABLE):
            self._evict(each, reason)

    def _evict(self, task: TaskInfo, reason: str) -> None:
        session = self._session
        ledger = session.state.ledger
        before, victim_columns, row = task.status, session.state.victim_columns, ledger.columns.rows.get(task.node, -1)
        is_current = row >= 0 and victim_columns.is_current(row)
        self._log.evicted.append(EvictedTask(task, before, reason, task.job not in ledger.dirty))
        ledger.evict(task)
        if is_current:
            victim_columns.apply_change(row, task if before in EVICTABLE else None)
        session.plugin_tables.log = self._log
        if task.job_info is not None and task.job_info.queue_info is not None:
            for notify in session.rules.accounting_out:
                notify(task.job_info, task.shape, 1)
        for notify in session.rules.evicted.of(task.shape):
            notify(task)
        session.plugin_tables.log = None

    def _notify_allocated(self, shape: Shape, placed: int) -> None:
        """Notify plugins of allocated tasks."""
        if self._job.queue_info is not None:
            for notify in self._session.rules.accounting_in:
                notify(self._job, shape, placed)
            if self._session.quota_reservations is not None:
                self._session.quota_reservations.consume(self._job, shape, placed)
        self._session.stats.placed += placed

    def unevict(self, task: TaskInfo) -> None:
        """Undo one eviction of this statement, and of those that went with it."""
        evicted = {entry.task.uid for entry in self._log.evicted}
        for each in _evicted_together(task, (TaskStatus.RELEASING,)):
            if each.uid in evicted:
                self._unevict(each)

    def _unevict(self, task: TaskInfo) -> None:
        session, log, ledger = self._session, self._log, self._session.state.ledger
        entry = next(entry for entry in log.evicted if entry.task is task)
        log.evicted.remove(entry)
        ledger.revert(task, entry.before, task.node)
        if entry.was_clean:  # the job is unchanged again only when none of its tasks is evicted
            if (other := next((at for at, one in enumerate(log.evicted) if one.task.job == task.job), None)) is None:
                ledger.dirty.pop(task.job, None)
            else:
                log.evicted[other] = log.evicted[other]._replace(was_clean=True)
        session.plugin_tables.log = log
        if task.job_info is not None and task.job_info.queue_info is not None:
            for notify in session.rules.accounting_in:
                notify(task.job_info, task.shape, 1)
        for notify in session.rules.placed.of(task.shape):
            notify(task)
        session.plugin_tables.log = None

    def commit(self) -> None:
        """Put the evictions and one batch of binds into the outbox; pipelined tasks stay until the close."""
        session, job, log = self._session, self._job, self._log
        session.failed_jobs.discard(job.key)
        if job.pending:
            session.partly_placed_jobs.add(job.key)
        else:
            session.partly_placed_jobs.discard(job.key)
        ledger = session.state.ledger
        allocated, pipelined = log.assumed, []
        if job.counts[TaskStatus.PIPELINED]:
            allocated = [task for task in log.assumed if task.status is TaskStatus.ALLOCATED]
            pipelined = [task for task in log.assumed if task.status is TaskStatus.PIPELINED]
        session.state.unschedulable.cluster_generation += 1
        if log.evicted:
            # pods that move to other nodes are evicted in a statement of their own job, which places nothing
            profits = job if pipelined or any(entry.task.job != job.key for entry in log.evicted) else None
            send_evictions(session, log.evicted, profits)
            nominate(session, log.evicted, pipelined, self._preemptors)
            remember_evictions(session, log.evicted, pipelined, profits)
        if allocated:
            ledger.bind(job, allocated)
            session.outbox.bind(job.key, self._bind_requests(allocated))
            session.stats.record_bound(len(allocated))
        for key, released in log.released:
            session.state.reservations.reserve_again(key, released, len(job.pending))
        log.clear()
        self._session.open_logs.remove(log)
        if pipelined:
            ledger.changes.mark(job)
            log.assumed.extend(pipelined)
            session.kept_logs.append(log)

    def _bind_requests(self, tasks: Sequence[TaskInfo]) -> list[BindRequest]:
        """Return the binds of tasks with their pre-bind steps."""
        rules, prebinding = self._session.rules, self._session.state.prebinding
        shape, binds = None, []
        for task in tasks:  # fast path: no task has steps
            if task.shape is not shape:
                shape = task.shape
                if rules.prebinds(task):
                    break
            binds.append(_bind_request(task))
        else:
            return binds
        requests = []
        for task in tasks:
            if steps := rules.prebind(task):
                prebinding[task.uid] = steps
            requests.append(_bind_request(task, steps))
        return requests

    def discard(self) -> None:
        """Undo everything; where tasks would have been placed is recorded for messages."""
        self._session.failed_jobs.add(self._job.key)
        self._session.partly_placed_jobs.discard(self._job.key)
        self._record_outcomes(self._log.assumed)
        self._log.rollback(self._session.state.ledger, self._session.state.reservations)
        self._session.open_logs.remove(self._log)

    def _record_outcomes(self, tasks: Sequence[TaskInfo]) -> None:
        """Record for messages the status and node that tasks had."""
        outcomes = self._job.attempts.outcomes
        for task in tasks:
            outcomes[task.uid] = (task.status, task.node)

    def keep_until_close(self) -> None:
        """Keep the operations until the session closes; unused reservations of the job are restored."""
        self._session.failed_jobs.discard(self._job.key)
        for key, released in self._log.released:
            self._session.state.reservations.reserve_again(key, released, len(self._job.pending))
        self._log.released.clear()
        self._session.state.ledger.changes.mark(self._job)
        self._session.open_logs.remove(self._log)
        self._session.kept_logs.append(self._log)
