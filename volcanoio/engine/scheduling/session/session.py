"""The session of one scheduling cycle: it changes the cluster's state itself, and undoes at its close what is left.

`CycleSession` is what actions call. The functions above it build runs of alike tasks, decide whether a job can still
become ready, bind one task without a statement, and pipeline a job on its nominated nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter

from volcanoio.engine.scheduling.claims.device_claims import DEVICE_CLAIMS
from volcanoio.engine.scheduling.claims.volumes import CLAIMS
from volcanoio.engine.scheduling.cluster.attempts import QUEUE_QUOTA, RETRY_AFTER, Precision, Reason, UnschedulableUntil
from volcanoio.engine.scheduling.cluster.jobs import JobInfo, MinResourcesKey, TaskInfo
from volcanoio.engine.scheduling.cluster.loads import Load
from volcanoio.engine.scheduling.cluster.queues import QueueInfo
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.cluster.subjobs import SubJobInfo
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.ordering.backlogs import QueueBacklog, UncachedBacklog, build_uncached_backlogs
from volcanoio.engine.scheduling.preemption.victims import Victims
from volcanoio.engine.scheduling.session.context import Budget, SessionContext
from volcanoio.engine.scheduling.session.statement import JobStatement
from volcanoio.framework.backoff import jittered
from volcanoio.framework.events import Observed
from volcanoio.framework.scheduling.heap import GroupedHeap, Heap, MovingHeap, PriorityQueue
from volcanoio.framework.scheduling.session import Run
from volcanoio.framework.scheduling.verdicts import PERMIT, Verdict, Vote
from volcanoio.framework.scheduling.views import Shape, TaskStatus
from volcanoio.framework.scheduling_effects import BindRequest
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model.scheduling import PodGroupPhase

_KEY = attrgetter("key")


def runs_of(session: CycleSession, job: JobInfo, members: Iterable[TaskInfo], *, best_effort: bool) -> list[Run]:
    """Return pending tasks of a job as runs: the best-effort ones, or the others.

    Gated tasks and tasks that back off after a refused bind are skipped. The shapes of the others are brought up to
    date: they include what plugins return as traits, and volume claims.
    """
    rules, now = session.rules, session.now
    tasks = [
        task for task in members if task.shape.best_effort is best_effort and not task.is_gated and task.retry_at <= now
    ]
    update_shapes(session, job, tasks)
    if len(tasks) > 1:
        tasks.sort(key=_KEY)
        if rules.orders_tasks:
            tasks.sort(key=rules.task_key)  # stable: equal ones keep their order
    if not tasks:
        return []
    shape, role, nominations = tasks[0].shape, tasks[0].role, session.state.nominations
    if not nominations.by_task:
        for task in tasks:
            if task.shape is not shape or task.role != role or task.nominated_node:
                break
        else:  # most gangs have one role
            return [Run(shape, role, tasks, "")]
    nominated_node = nominations.nominated_node
    runs: list[Run] = []
    last: TaskInfo | None = None
    previous_has_node = False
    alike: list[TaskInfo] = []
    for task in tasks:
        node = nominated_node(task)
        same = last is not None and task.shape is last.shape and task.role == last.role
        if same and not node and not previous_has_node:
            alike.append(task)
        else:
            alike = [task]
            runs.append(Run(task.shape, task.role, alike, node))
        last, previous_has_node = task, bool(node)
    return runs


def update_shapes(session: CycleSession, job: JobInfo, tasks: Sequence[TaskInfo]) -> None:
    """Set the shape of tasks to one that includes what plugins return as traits, and the claims that plugins watch."""
    if traits := session.rules.traits:
        _use_shapes_with_traits(session, job, tasks)
    _use_shapes_with_claims(session, tasks, has_traits=bool(traits))


def _use_shapes_with_claims(session: CycleSession, tasks: Sequence[TaskInfo], *, has_traits: bool) -> None:
    """Set the shape of tasks with claims of volumes or devices to one that includes those that plugins watch.

    `has_traits`: the shapes of the tasks include traits already.
    """
    ledger, watches = session.state.ledger, session.profile.watches
    volumes = ledger.volumes if ledger.volumes.is_active and CLAIMS in watches else None
    devices = ledger.device_claims if DEVICE_CLAIMS in watches else None
    if volumes is None and devices is None:
        return
    for task in tasks:
        of_devices = devices is not None and task.base_shape.has_device_claims
        if task.claim_names or of_devices:
            plain = task.shape if has_traits else task.base_shape
            task.shape = ledger.shapes.with_claims(
                plain,
                tuple([claim for _, claim in volumes.claims(task)]) if volumes is not None else (),
                tuple([claim for _, claim in devices.claims(task)]) if devices is not None and of_devices else (),
            )


def _use_shapes_with_traits(session: CycleSession, job: JobInfo, tasks: Sequence[TaskInfo]) -> None:
    """Set the shape of tasks to one that includes the traits that plugins return for them."""
    with_traits = session.state.ledger.shapes.with_traits
    for task in tasks:
        traits = tuple([(name, value) for name, trait in session.rules.traits if (value := trait(task, job))])
        task.shape = with_traits(task.base_shape, traits) if traits else task.base_shape


def can_become_ready(job: JobInfo, sub_job: SubJobInfo | None) -> bool:
    """Return whether a job can still become ready after one of its tasks, or of the sub-job's, found no node.

    Volcano: NeedContinueAllocating, api/job_info.go.
    """
    if job.min_available == len(job.members):
        return False
    if sub_job is not None:
        return sub_job.min_available < len(sub_job.members)
    failed = job.attempts.failed_roles
    if job.min_available < job.role_minimum_total:
        can_follow = sum(counts[TaskStatus.PENDING] for role, counts in job.by_role.items() if role not in failed)
        return job.ready_count + can_follow >= job.min_available
    return all(
        job.role_count(role, idle=False) >= job.role_minimums[role] for role in failed if job.role_minimums.get(role)
    )


def bind_one(session: CycleSession, job: JobInfo, run: Run, start: int) -> bool:
    """Allocate the task at index `start` on idle room and bind it, if that makes the job ready.

    Otherwise nothing is done and the result is False. That is also so for jobs and tasks that need a statement.
    """
    task: TaskInfo = run.tasks[start]  # type: ignore[assignment]  # runs are made of ours
    state, rules, shape = session.state, session.rules, run.shape
    if run.nominated or job.attempts.failed_roles or session.quota_reservations is not None or job.queue_info is None:
        return False
    if (
        job.sub_job_table is not None
        or job.key in state.reservations.by_job
        or rules.prebinds(task)
        or rules.job_missing(job) > 1
    ):
        return False
    if session.allocatable(job, shape, session.batch_size(shape, len(run.tasks) - start)) <= 0:
        return False
    if (row := state.placer.take_one_row(task)) < 0:
        return False
    ledger, log = state.ledger, session.plugin_tables.shared_log
    session.open_logs.append(log)
    ledger.record_allocated(task, row)
    log.assumed.append(task)
    session.plugin_tables.log = log
    for notify in rules.placed.of(task.shape):
        notify(task)
    for count in rules.accounting_in:
        count(job, shape, 1)
    session.plugin_tables.log = None
    if ready := rules.job_ready(job):
        _bind(session, job, task)
        log.assumed.clear()
        log.tables.clear()
    else:
        log.rollback(ledger, state.reservations)
    session.open_logs.pop()
    return ready


def _bind(session: CycleSession, job: JobInfo, task: TaskInfo) -> None:
    """Bind one task of a ready job; has the same effects as `JobStatement.commit`."""
    state, stats, key = session.state, session.stats, job.key
    session.attempted_jobs.add(key)
    session.failed_jobs.discard(key)
    if len(job.pending) > 0:
        session.partly_placed_jobs.add(key)
    else:
        session.partly_placed_jobs.discard(key)
    state.unschedulable.cluster_generation += 1
    state.ledger.bind(job, (task,))
    annotations = dict(task.bind_annotations)
    bind = BindRequest(uid=task.uid, namespace=task.namespace, name=task.name, node=task.node, annotations=annotations)
    session.outbox.bind(key, (bind,))
    stats.placed += 1
    stats.record_bound(1)


def pipeline_on_nominated(session: CycleSession, job: JobInfo) -> bool:
    """Pipeline all pending tasks of a job on their nominated nodes, and keep them there until the session closes.

    If that is not possible for all tasks at once, nothing is pipelined and the result is False.
    """
    if (places := _nominated_rows(session, job)) is None or not session.job_valid(job) or session.job_ready(job):
        return False
    tasks, rows = places
    shape, count = tasks[0].shape, len(tasks)
    assert job.queue_info is not None
    if (
        not session.state.placer.must_wait_on(shape, rows)
        or session.rules.allocatable(job.queue_info, shape, count) < count
    ):
        return False
    reservations = session.state.reservations.by_job.pop(job.key)  # a statement would release them as it begins
    statement = session.statement(job)
    statement.pipeline_on_rows(tasks, rows, reservations)
    if not session.job_pipelined(job):
        statement.discard()
        return False
    if not job.attempts.is_empty or not job.attempts.is_resumed:
        session.begin_attempt(job)  # the reason why the job waits is now another one
        job.attempts.is_resumed = True
    statement.keep_until_close()
    return True


def _nominated_rows(session: CycleSession, job: JobInfo) -> tuple[list[TaskInfo], list[int]] | None:
    """Return all pending tasks and their nominated rows; None unless all are alike, nominated and may be placed."""
    if session.quota_reservations is not None or session.rules.traits or job.sub_job_table is not None:
        return None
    reservations = session.state.reservations.by_job.get(job.key, ())
    if not job.pending or len(reservations) != len(job.pending) or job.best_effort or job.gated_count:
        return None
    if any(reservation.load is not Load.RESERVES for reservation in reservations):
        return None
    by_task, index, now = session.state.nominations.by_task, session.nodes.rows, session.now
    tasks, rows = list(job.pending.values()), []
    shape = tasks[0].shape
    for task in tasks:
        nomination = by_task.get(task.uid)
        if (
            nomination is None
            or task.shape is not shape
            or task.claim_names
            or task.base_shape.has_device_claims
            or task.retry_at > now
            or nomination.node not in index
        ):
            return None
        rows.append(index[nomination.node])
    return tasks, rows


ORDERING_EFFORT = 0.25
"""Effort of ordering jobs in one step, in evaluations of all nodes."""
MAX_PER_TASK_BATCH = 32
"""Most tasks placed in one call if plugins are called for each task."""
MAX_BATCH = 256
"""Most tasks placed in one call."""
UNDO_PER_STEP = 8
"""Number of tasks undone in one step."""


class CycleSession(SessionContext):
    """What actions call; implements `session.Session`. `victims` is for the actions that evict."""

    def __init__(
        self, state: ClusterState, profile: Profile, opening: CycleOpened, budget: Budget | None = None
    ) -> None:
        super().__init__(state, profile, opening, budget)
        rules = self.rules  # these methods of the session are those of `Rules`, without a call in between
        self.overused, self.job_ready, self.job_pipelined = rules.overused, rules.job_ready, rules.job_pipelined
        self.sub_job_key, self.sub_job_ready = rules.sub_job_key, rules.sub_job_ready
        self.sub_job_pipelined = rules.sub_job_pipelined
        self._certain_rejections: dict[tuple[str, str, MinResourcesKey], Verdict] = {}
        """Cached enqueue verdict per (queue, namespace, minResources)."""
        self.place_arrivals: Callable[[Sequence[Observed]], None] | None = None
        """Places what the budget's `arrivals` returns; set while actions run."""
        self._last_verdict: tuple[JobInfo, Verdict] | None = None
        """The job of the last vote, and its verdict."""

    @cached_property
    def victims(self) -> Victims:
        """The search for victims, for actions that evict."""
        return Victims(self)

    def runs(self, job: JobInfo, *, best_effort: bool, sub_job: SubJobInfo | None = None) -> list[Run]:
        """Return the pending tasks of a job or sub-job as runs in task order: the best-effort ones, or the others."""
        members = job.pending.values() if sub_job is None else [job.pending[task.uid] for task in sub_job.pending]
        return runs_of(self, job, members, best_effort=best_effort)

    def begin_attempt(self, job: JobInfo, sub_job: SubJobInfo | None = None) -> None:
        """Clear the result of the last attempt at the job; for a sub-job only which roles failed."""
        if sub_job is None:
            if not job.attempts.is_empty or job.attempts.is_resumed:
                job.attempts.clear()
            self._review_now(job)
        else:
            job.attempts.failed_roles = frozenset()

    def mark_unschedulable(self, job: JobInfo, runs: Sequence[Run]) -> None:
        """Record that placing a job failed, if it is known what must change before another attempt can succeed.

        A job with one run waits for free room: its tasks are alike, so if one fitted no node, none fits until room is
        freed. So does a gang of different tasks for which a search found no place. This holds only if filters do not
        depend on usage and no room is kept by other statements. If only the queue had no quota left, only the quota is
        checked again. Other failures are not recorded.
        """
        attempts = job.attempts
        if len(runs) == 1 and attempts.is_quota_limited and not attempts.fit_errors:
            attempts.queue_shortage = (runs[0].shape, max(self.rules.job_missing(job), 1), self.now)
            return
        is_certain = len(runs) == 1 or (self.domains.is_search_failed(job) and not attempts.is_quota_limited)
        if not is_certain or not attempts.fit_errors or self.kept_logs:
            return
        shapes = tuple({run.shape.id: run.shape for run in runs}.values())
        placer = self.state.placer
        if all(map(placer.filters_ignore_placements, shapes)):
            is_all = sum(len(run.tasks) for run in runs) == len(job.pending) and not self.state.reservations.by_job
            # the end of a back-off or reservation, other traits and time also let tasks fit: try again after a period
            only_room = is_all and not self.rules.traits and all(map(placer.is_time_independent, shapes))
            delay = jittered(RETRY_AFTER, job.uid or job.key) if only_room else 0.0
            for shape in shapes:
                self.state.freed_room.watch(shape)
            attempts.unschedulable_until = UnschedulableUntil(
                shapes, self.nodes.freed_count, self.now + max(delay, self.period)
            )

    def is_unschedulable(self, job: JobInfo) -> bool:
        """Return whether another attempt would fail too: no room was freed, or the queue has no more quota.

        A job is tried again after two minutes at most.
        """
        attempts, state = job.attempts, self.state
        if attempts.queue_shortage is not None and not state.ledger.is_dirty(job):
            shape, missing, when = attempts.queue_shortage
            assert job.queue_info is not None
            # quota that is reserved for the job itself is not seen here
            delay = self.period if self.quota_reservations is not None else jittered(RETRY_AFTER, job.uid or job.key)
            recent = self.now < when + max(delay, self.period)
            if recent and self.rules.allocatable(job.queue_info, shape, missing) < missing:
                return True
        waits = attempts.unschedulable_until
        if waits is None or self.now >= waits.until or state.ledger.is_dirty(job):
            return False
        if job.key in state.reservations.by_job:
            return False
        is_final = not (state.reservations.by_job or self.kept_logs or self.open_logs)
        last_freed, since = state.freed_room.last_freed, waits.since
        for shape in waits.shapes:  # noqa: SIM110 - asked for every waiting job: a generator would take twice as long
            if last_freed(shape, is_final=is_final) > since:
                return False
        return True

    def pipeline_nominated(self, job: JobInfo) -> bool:
        """Pipeline all tasks of a job on their nominated nodes; False if the job must be allocated like any other."""
        return (
            bool(self.state.nominations.jobs)
            and job.key in self.state.nominations.jobs
            and pipeline_on_nominated(self, job)
        )

    def has_role_failed(self, job: JobInfo, role: str) -> bool:
        """Return whether a task of this role found no node since `begin_attempt`; False for tasks without role."""
        return bool(role) and role in job.attempts.failed_roles

    def can_become_ready(self, job: JobInfo, sub_job: SubJobInfo | None = None) -> bool:
        """Return whether the job can still become ready after one of its tasks, or of the sub-job's, found no node."""
        return can_become_ready(job, sub_job)

    def statement(self, job: JobInfo) -> JobStatement:
        """Return a new statement for the job."""
        self.attempted_jobs.add(job.key)
        return JobStatement(self, job)

    def undo_in_steps(self) -> Iterator[None]:
        """Undo, a few tasks at a time, what was not committed and all pipelined tasks, and release nominated room."""
        ledger = self.state.ledger
        for logs in (self.open_logs, self.kept_logs):
            while logs:
                assumed = logs[-1].assumed
                while assumed:
                    last = assumed[: -UNDO_PER_STEP - 1 : -1]  # in reverse order
                    del assumed[-UNDO_PER_STEP:]
                    ledger.forget(last)
                    yield
                logs.pop().rollback(ledger, self.state.reservations)
        if self.state.nominations.jobs:
            yield from self.state.nominations.close()

    def undo(self) -> None:
        """Undo everything that is left, and release what the session refers to."""
        for _ in self.undo_in_steps():
            pass
        for job, unplaced in self.unplaced_best_effort:
            job.include_best_effort(unplaced)
            self.state.ledger.changes.mark(job)
        self.unplaced_best_effort.clear()
        self.conditions.clear()
        self.state.backlogs.close()
        self.plugin_tables.close()  # otherwise its contents would wait for the garbage collector

    def is_action_pending(self, action: str) -> bool:
        """Return whether the action will still run in this cycle."""
        return action in self.pending_actions

    def is_budget_exhausted(self) -> bool:
        """Count a boundary between jobs; return whether the cycle's budget is used up or it was cut short before."""
        self.stats.budget_checks += 1
        if self.budget is not None and not self.is_cut_short:
            self.is_cut_short = self.budget.check()
            if self.place_arrivals is not None and (arrivals := self.budget.arrivals(self.stats.budget_checks)):
                self.place_arrivals(arrivals)
        return self.is_cut_short

    def jobs_to_enqueue(self) -> Sequence[JobInfo]:
        """Return the jobs of phase Pending whose queue exists, except those rejected in a cycle that was cut short."""
        self.has_read_pending_groups = True
        jobs, refused = self.state.ledger.jobs_in_phase(PodGroupPhase.PENDING), self.state.enqueue_refused
        return [job for job in jobs if job.key not in refused] if refused else jobs

    def jobs_with_pending_tasks(self) -> Sequence[JobInfo]:
        """Return the jobs with pending tasks whose queue exists.

        Jobs that this action failed to place in a cycle that was cut short are skipped until all others were tried.
        """
        listed, failed = self.state.ledger.schedulable_jobs, self.state.failed_attempts.get(self.action, ())
        jobs = [job for key, job in self.state.ledger.pending_jobs.items() if key in listed]
        return [job for job in jobs if job.key not in failed or job.key in self.urgent_jobs] if failed else jobs

    @property
    def has_stable_job_keys(self) -> bool:
        """Whether a job's sort key changes in this session only when the job itself changes."""
        return self.rules.keeps_job_keys and not self.rules.orders_namespaces

    @cached_property
    def _queue_keys_depend_on_others(self) -> bool:
        """Whether a placement in one queue may change the sort keys of others."""
        return bool(self.rules.queue_generation())

    def ordered_queues(self, names: Iterable[str]) -> PriorityQueue[QueueInfo]:
        """Return a priority queue of queues by their current sort key."""
        queues = [self.queues[name] for name in names]
        if self._queue_keys_depend_on_others:
            return MovingHeap(self.queue_key, self.rules.queue_generation, queues)
        return Heap(self.queue_key, queues)

    def empty_job_order(self) -> PriorityQueue[JobInfo]:
        """Return an empty priority queue for jobs of one queue."""
        if self.rules.orders_namespaces:
            return GroupedHeap(_namespace, self._key_in_namespace, self.job_key, self.rules.namespace_generation)
        return Heap(self._key_in_namespace)

    def backlogs(self, *, admitted: bool) -> Generator[None, None, Mapping[str, QueueBacklog | UncachedBacklog]]:
        """Return the backlog of each queue: admitted jobs with pending tasks, or jobs of phase Pending.

        Jobs that the action failed to place, or rejected, in a cycle that was cut short are skipped until all others
        were tried.
        """
        backlogs = self.state.backlogs
        if not self.has_stable_job_keys:
            jobs = (
                [job for job in self.jobs_with_pending_tasks() if job.phase != PodGroupPhase.PENDING]
                if admitted
                else self.jobs_to_enqueue()
            )
            return (yield from build_uncached_backlogs(jobs, self.empty_job_order))
        for _ in backlogs.update(self._key_in_namespace, self._order_version, self.urgent_jobs, admitted=admitted):
            self.state.placer.add_effort(ORDERING_EFFORT)
            yield
        if not admitted:
            self.has_read_pending_groups = True
            return backlogs.begin(self._key_in_namespace, self.state.enqueue_refused, admitted=False)
        failed = self.state.failed_attempts.get(self.action, ())
        return backlogs.begin(self._key_in_namespace, failed and failed - self.urgent_jobs.keys(), admitted=True)

    def allocatable(self, job: JobInfo, shape: Shape, count: int) -> int:
        """Return how many of `count` tasks of a shape the job's queue may allocate now; a shortfall is recorded."""
        assert job.queue_info is not None
        if self.quota_reservations is not None:
            allowed = self.quota_reservations.allocatable(job, shape, count)
        else:
            allowed = self.rules.allocatable(job.queue_info, shape, count)
        if allowed < count:
            job.attempts.is_quota_limited = True
            text = f"queue {job.queue} has no room left for {count - allowed} of its tasks"
            job.attempts.explain(Reason(QUEUE_QUOTA, text, Precision.QUOTA))
        return allowed

    def allocate_and_bind(self, job: JobInfo, run: Run, start: int) -> bool:
        """Allocate the task at index `start` on idle resources and bind it, if that makes the job ready."""
        return bind_one(self, job, run, start)

    def open_queue_gates(self, job: JobInfo) -> Iterator[None]:
        """Remove the scheduling gate of tasks that only wait for their queue, as many as it may allocate."""
        return iter(()) if self.quota_reservations is None else self.quota_reservations.open_queue_gates(job)

    def batch_size(self, shape: Shape, count: int) -> int:
        """Return how many of `count` tasks of a shape to place per call, so that other work can run in between."""
        if count <= MAX_PER_TASK_BATCH:
            return count
        return MAX_PER_TASK_BATCH if self.state.placer.is_scored_per_task(shape) else min(count, MAX_BATCH)

    def job_enqueueable(self, job: JobInfo) -> Verdict:
        """Return the combined vote on making a Pending job Inqueue; a job without minResources is not voted on."""
        last, self._last_verdict = self._last_verdict, None
        if last is not None and last[0] is job:
            return last[1]  # `certain_rejection` has just asked for it
        return PERMIT if job.min_resources is None else self.rules.job_enqueueable(job)

    def certain_rejection(self, job: JobInfo) -> Verdict | None:
        """Return the enqueue rejection that applies to the job for this whole session; None if there is none."""
        if job.min_resources_key is None or not self.rules.keeps_enqueue_verdicts:
            return None
        alike = job.queue, job.namespace, job.min_resources_key
        if (verdict := self._certain_rejections.get(alike)) is None:
            verdict = self._certain_rejections[alike] = self.rules.job_enqueueable(job)
            self._last_verdict = job, verdict
        return verdict if verdict.vote is Vote.REJECT else None

    def enqueue(self, job: JobInfo) -> None:
        """Make the job Inqueue and notify the plugins."""
        self._last_verdict = None
        self.rules.job_enqueued(job)
        self.enqueue_without_vote(job)
        self.stats.enqueued += 1

    def enqueue_without_vote(self, job: JobInfo) -> None:
        """Make the job Inqueue where no enqueue action is configured: no vote, no notification."""
        self.attempted_jobs.add(job.key)
        self.state.unschedulable.cluster_generation += 1
        if not job.attempts.is_empty:
            job.attempts.clear()
        self.state.ledger.set_phase(job, PodGroupPhase.INQUEUE)

    def reject_enqueue(self, job: JobInfo, verdict: Verdict) -> None:
        """Record why the job was not enqueued; the reason becomes a Kubernetes Event of its PodGroup."""
        self.attempted_jobs.add(job.key)
        self.state.enqueue_refused.add(job.key)
        if verdict.message != job.attempts.enqueue_refusal:
            job.attempts.enqueue_refusal = verdict.message
            self._review_now(job)
        job.attempts.explain(Reason(verdict.code, verdict.message, Precision.QUOTA))
        if verdict.message:
            self.enqueue_rejections[job.key] = verdict


def _namespace(job: JobInfo) -> str:
    return job.namespace
