"""The context of one scheduling cycle: state that the session and its collaborators share.

Statements, victims, candidate nodes and quota reservations take the context, never the session itself, so that each
can be read alone. It implements `sessionview.SessionView`, the part of a session that plugins read. It holds the output
of the cycle, which is decisions in order (`Outbox`), questions to external services (`Questions`) and statistics, and
what reverts the rest: an undo log for each statement, which covers the tables of plugins (`PluginTables`) and the quota
reserved for tasks whose scheduling gate was removed (`QuotaReservations`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

from volcanoio.engine.scheduling.claims.device_claims import DeviceClaims
from volcanoio.engine.scheduling.claims.volumes import VolumeIndex
from volcanoio.engine.scheduling.cluster.attempts import Precision, Reason
from volcanoio.engine.scheduling.cluster.jobs import JobInfo, TaskInfo
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.cluster.nominations import Reservation, Reservations
from volcanoio.engine.scheduling.cluster.queues import QueueInfo
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.plugin_rules import Rules
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.podindex.index import PodIndex
from volcanoio.engine.scheduling.status.explanation import fit_error
from volcanoio.engine.scheduling.topology.domains import Domains
from volcanoio.engine.scheduling.topology.tree import HyperNodeTree
from volcanoio.framework.events import Observed
from volcanoio.framework.scheduling.points import SortKey
from volcanoio.framework.scheduling.sessionview import Answer, Text, Unanswered
from volcanoio.framework.scheduling.verdicts import Verdict, Vote
from volcanoio.framework.scheduling.views import Amounts, Job, Shape, SubJob, TaskStatus
from volcanoio.framework.scheduling_effects import BindBatch, BindRequest, PreBindStep, Question, SchedulerEffect
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model.base import ApiObject
from volcanoio.model.times import rfc3339


class Budget(ABC):
    """Decides at boundaries between jobs when a cycle ends, and what joins it.

    The runtime reads a clock and its inbox; a replay counts the boundaries. `arrivals` returns, for the number of a
    boundary, 0 before the first action, new latency-bound pods to place there; `PodFold.can_join_cycle` must be true of
    each.
    """

    def __init__(self, arrivals: Callable[[int], Sequence[Observed]] = lambda _boundary: ()) -> None:
        self.arrivals = arrivals

    @abstractmethod
    def check(self) -> bool:
        """Count one boundary between jobs and return whether the cycle must end there."""


@dataclass(slots=True)
class CycleStats:
    """Figures of a cycle."""

    placed: int = 0
    """Tasks allocated or pipelined, including those that were undone."""
    bound: int = 0
    """Tasks in committed binds."""
    binding_statements: int = 0
    """Committed statements that bound tasks."""
    agent_statements: int = 0
    """Those of latency-bound pods that were tried before all actions, or between two gangs."""
    budget_checks: int = 0
    enqueued: int = 0
    """Jobs enqueued."""
    evicted_tasks: int = 0
    evicting_statements: dict[str, int] = field(default_factory=dict)
    """Committed statements that evicted tasks, by action."""
    searched_nodes: int = 0
    """Nodes searched for victims."""
    victims: int = 0
    """Victims found on the last of these nodes."""

    def record_bound(self, tasks: int) -> None:
        """Count a committed statement and the tasks it bound."""
        self.bound += tasks
        self.binding_statements += 1

    def record_evictions(self, action: str, tasks: int) -> None:
        """Count a committed statement of an action and the tasks it evicted."""
        self.evicted_tasks += tasks
        self.evicting_statements[action] = self.evicting_statements.get(action, 0) + 1

    def record_attempt(self, victims: int) -> None:
        """Count a node that was searched, and set the number of victims found on it."""
        self.searched_nodes += 1
        self.victims = victims


class Outbox:
    """Decisions since the last checkpoint. Successive binds of one job become one batch.

    `is_urgent` has them sent at the next step.
    """

    def __init__(self, cycle: int) -> None:
        self.is_urgent = False
        self._cycle = cycle
        self._decisions: list[SchedulerEffect] = []
        self._job = ""
        self._binds: list[BindRequest] = []
        self.non_bind_count = 0
        """Number of decisions other than binds."""
        self.nominated_tasks: list[TaskInfo] = []
        """Tasks that were nominated for the evictions among these decisions."""

    def put(self, decision: SchedulerEffect) -> None:
        """Add a decision."""
        self._end_batch()
        self._decisions.append(decision)
        self.non_bind_count += 1

    def bind(self, job: str, binds: Sequence[BindRequest]) -> None:
        """Add binds of a job (by key); they join a batch of the same job just before."""
        if job != self._job:
            self._end_batch()
            self._job = job
        self._binds.extend(binds)

    def take(self) -> tuple[SchedulerEffect, ...]:
        """Return the decisions since the last call."""
        self._end_batch()
        self.is_urgent = False
        decisions = tuple(self._decisions)
        self._decisions.clear()
        self.nominated_tasks.clear()
        return decisions

    def _end_batch(self) -> None:
        if self._binds:
            self._decisions.append(BindBatch(group=self._job, cycle=self._cycle, binds=tuple(self._binds)))
            self._binds = []
        self._job = ""


class Questions:
    """Implements `ask` and `notify` of a session.

    Without `answering`, for a scheduler without external services, `ask` returns defaults and `notify` does nothing.
    Before the session closes the cycle clears `is_answering`: then `ask` returns defaults, and `notify` still sends.
    """

    def __init__(self, answers: Mapping[tuple[str, str], Answer], outbox: Outbox, *, answering: bool) -> None:
        self._answers = answers
        self._outbox = outbox
        self.is_answering = self._can_notify = answering

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """Return the answers to questions in their order; raise `Unanswered` if one is missing."""
        if not self.is_answering:
            return [Answer(question.default) for question in questions]
        answers = self._answers
        if missing := [question for question in questions if (question.plugin, question.key) not in answers]:
            raise Unanswered(missing)
        return [answers[question.plugin, question.key] for question in questions]

    def notify(self, notice: Question) -> None:
        """Send a notice without waiting for a response."""
        if self._can_notify:
            self._outbox.put(notice)


class EvictedTask(NamedTuple):
    """Evicted task, its status before, the reason, and whether its job was not dirty before."""

    task: TaskInfo
    before: TaskStatus
    reason: str
    was_clean: bool


class ShapeFit(NamedTuple):
    """Why no node would fit a pod even if it were empty, "" if some would, and the rows of the nodes that fit it."""

    code: str
    rows: Sequence[int]


class Savepoint(NamedTuple):
    """Lengths of the lists of an undo log at some moment."""

    assumed: int
    evicted: int
    tables: int


class UndoLog:
    """Changes of a statement and the values before.

    Amounts are exact integers, so that undoing restores them exactly, in whatever order statements end.
    """

    __slots__ = ("assumed", "evicted", "released", "tables")

    def __init__(self) -> None:
        self.assumed: list[TaskInfo] = []
        """Assumed tasks, which were Pending."""
        self.evicted: list[EvictedTask] = []
        self.tables: list[tuple[PluginTable, str, int | None]] = []
        """Values of plugin tables before they were set, None for a new key."""
        self.released: list[tuple[str, list[Reservation]]] = []
        """Reservations released for the job."""

    def savepoint(self) -> Savepoint:
        """Return a savepoint of the current state."""
        return Savepoint(len(self.assumed), len(self.evicted), len(self.tables))

    def rollback_to(self, savepoint: Savepoint, ledger: Ledger) -> None:
        """Undo the changes since a savepoint; reservations stay released."""
        if len(self.assumed) > savepoint.assumed:
            ledger.forget(self.assumed[savepoint.assumed :][::-1])
        for task, status, _, clean in reversed(self.evicted[savepoint.evicted :]):
            ledger.revert(task, status, task.node)
            if clean:
                ledger.dirty.pop(task.job, None)
        for table, key, old in reversed(self.tables[savepoint.tables :]):
            table.restore(key, old)
        del self.assumed[savepoint.assumed :], self.evicted[savepoint.evicted :], self.tables[savepoint.tables :]

    def rollback(self, ledger: Ledger, reservations: Reservations) -> None:
        """Undo all changes."""
        self.rollback_to(Savepoint(0, 0, 0), ledger)
        for job, released in reversed(self.released):
            for reservation in released:
                reservations.add(job, reservation)
        self.clear()

    def clear(self) -> None:
        """Drop the log and keep the changes."""
        self.assumed.clear()
        self.evicted.clear()
        self.tables.clear()
        self.released.clear()


class PluginTables:
    """Plugin tables of a session; writes are recorded in the log of the active statement."""

    def __init__(self) -> None:
        self.log: UndoLog | None = None
        self.shared_log = UndoLog()
        """Log shared by jobs that are placed without a statement, one after the other."""
        self._all: dict[tuple[str, str], PluginTable] = {}

    def get(self, owner: str, name: str) -> PluginTable:
        """Return the table of that owner and name, created if missing."""
        if (table := self._all.get((owner, name))) is None:
            table = self._all[owner, name] = PluginTable(self)
        return table

    def close(self) -> None:
        """Drop all tables at the end of the session, except those that a plugin keeps."""
        self._all.clear()


class PluginTable:
    """Table of integers by key. Implements `sessionview.Table`."""

    __slots__ = ("_tables", "values", "version")

    def __init__(self, tables: PluginTables) -> None:
        self._tables = tables
        self.values: dict[str, int] = {}
        """Current values; the mapping object stays the same."""
        self.version = 0
        """Changes with every write and undo, so that derived results can be cached."""

    def get(self, key: str) -> int:
        """Return the value, 0 when never set."""
        return self.values.get(key, 0)

    def set(self, key: str, value: int) -> None:
        """Set a value."""
        if (log := self._tables.log) is not None:
            log.tables.append((self, key, self.values.get(key)))
        self.values[key] = value
        self.version += 1

    def restore(self, key: str, old: int | None) -> None:
        """Restore the value before a write, None for a new key."""
        if old is None:
            self.values.pop(key, None)
        else:
            self.values[key] = old
        self.version += 1

    def add(self, key: str, amount: int) -> None:
        """Add to a value."""
        old = self.values.get(key)
        if (log := self._tables.log) is not None:
            log.tables.append((self, key, old))
        self.values[key] = amount if old is None else old + amount
        self.version += 1

    def add_all(self, amounts: Mapping[str, int], times: int) -> None:
        """Add `times` * each amount to the value of its key."""
        values, log = self.values, self._tables.log
        get, tables = values.get, None if log is None else log.tables
        for key, amount in amounts.items():
            old = get(key)
            if tables is not None:
                tables.append((self, key, old))
            values[key] = times * amount if old is None else old + times * amount
        self.version += 1


class SessionContext:
    """State of one cycle, and the views of the cluster that plugins read; implements `sessionview.SessionView`.

    `nodes`, `pods`, `jobs` and `queues` are live views. `pending_actions` run after the current `action`.
    """

    def __init__(
        self, state: ClusterState, profile: Profile, opening: CycleOpened, budget: Budget | None = None
    ) -> None:
        self.state = state
        self.profile = profile
        self.rules: Rules = state.begin_cycle(profile, opening.at)
        self.cycle = opening.cycle
        self.now = opening.at
        self.period = opening.period
        self.uid = blake2b(f"{opening.seed}/{opening.cycle}".encode(), digest_size=16).hexdigest()
        self.outbox = Outbox(opening.cycle)
        self.stats = CycleStats()
        self.plugin_tables = PluginTables()
        self.kept_logs: list[UndoLog] = []
        """Undo logs of statements that are kept until the close."""
        self.open_logs: list[UndoLog] = []
        """Undo logs of statements that are neither committed, discarded nor kept."""
        self.conditions: dict[str, dict[str, tuple[str, Text]]] = {}
        """Reason and message of the conditions that plugins set, by job key and type."""
        self.enqueue_rejections: dict[str, Verdict] = {}
        self.unplaced_best_effort: list[tuple[JobInfo, Sequence[TaskInfo]]] = []
        self.jobs_to_review: Sequence[JobInfo] = ()
        self.is_cut_short = False
        """Whether the budget, or a question without an answer, ended the cycle."""
        self.has_read_pending_groups = False
        """Whether the current action has read the jobs of phase Pending: at its end it has voted on all of them."""
        self.tried_agent_pods: set[str] = set()
        """Keys of latency-bound pods that were tried before all actions, or between two gangs."""
        self.failed_jobs: set[str] = set()
        """Keys of jobs whose statement the current action discarded, and of alike jobs that it skipped for that."""
        self.attempted_jobs: set[str] = set()
        """Keys of jobs that have a result in this session."""
        self.partly_placed_jobs: set[str] = set()
        """Keys of jobs that have a committed statement and pending tasks."""
        ledger = state.ledger
        self.nodes: NodeColumns = ledger.columns
        self.pods: PodIndex = ledger.pod_index
        self.jobs: Mapping[str, JobInfo] = ledger.schedulable_jobs
        self.queues: Mapping[str, QueueInfo] = ledger.existing_queues
        self.volumes: VolumeIndex = ledger.volumes
        self.device_claims: DeviceClaims = ledger.device_claims
        self.prebinding: Mapping[str, Sequence[PreBindStep]] = state.prebinding
        self.table = self.plugin_tables.get
        self.questions = Questions(state.answers, self.outbox, answering=opening.answering)
        self.ask, self.notify = self.questions.ask, self.questions.notify
        self.facts, self.version, self.changed_since = (
            state.inputs.facts,
            state.inputs.version,
            state.inputs.changed_since,
        )
        self.budget = budget
        """None if the cycle may take as long as it needs."""
        self._actions = frozenset(action.name for action in profile.actions)
        self.action = ""
        self.pending_actions: frozenset[str] = self._actions
        state.placer.open(self.rules, opening.cycle, opening.seed)
        self.total: Amounts = self.nodes.totals(Quantity.ALLOCATABLE)
        self._order_version = state.order_version(self.rules, self.total)
        self.urgent_jobs: Mapping[str, JobInfo] = state.bind_refused_jobs
        """Jobs that go before all others: those with a refused bind, and preemptors that wait for their victims.

        The preemptors are added when the cycle opens the session.
        """
        self.urgent_queues: set[str] = set()
        """The queues of these jobs."""
        self.quota_reservations = QuotaReservations(self) if state.queue_gates.is_enabled else None

    @cached_property
    def timestamp(self) -> str:
        """The time of this cycle in RFC 3339."""
        return rfc3339(self.now)

    @cached_property
    def domains(self) -> Domains:
        """The HyperNodes in which gangs with a network topology are placed."""
        return Domains(self.state, self.rules, self.now, self.kept_logs)

    @property
    def hyper_nodes(self) -> HyperNodeTree:
        """The tree of HyperNodes."""
        return self.domains.tree

    def highest_tier(self, gang: Job | SubJob) -> int | None:
        """Return the highest tier across which the tasks of a job or sub-job may be spread."""
        return self.domains.highest_tier(gang)

    def placed_in(self, gang: Job | SubJob) -> str:
        """Return the lowest HyperNode that contains the placed tasks of a job or sub-job."""
        return self.domains.placed_in(gang)

    @cached_property
    def shape_fits(self) -> dict[int, ShapeFit]:
        """Which nodes fit pods, by `Shape.id`, as the session closes."""
        return {}

    @property
    def used(self) -> Amounts:
        """The sum of used over the nodes."""
        return self.nodes.totals(Quantity.USED)

    def tasks_on(self, node: str) -> Collection[TaskInfo]:
        """Return the tasks that count on a node, also terminating ones and those of other schedulers."""
        return self.state.ledger.tasks_by_node.get(node, {}).values()

    @property
    def nodes_version(self) -> int:
        """A number that grows with every change of a node or of the tasks that count on it."""
        return self.nodes.clock

    def changed_rows(self, version: int) -> Iterable[int]:
        """Return the rows of `nodes` that changed after a `nodes_version`, possibly repeated; all rows for -1."""
        rows: list[int] = self.nodes.changed_since(version).tolist()
        return rows

    def changed_jobs(self, owner: object, limit: int | None = None) -> Collection[JobInfo]:
        """Return the jobs added, changed or removed since this owner's last call; all jobs at its first call."""
        return self.state.ledger.changes.since(owner, self.state.ledger.schedulable_jobs, limit)

    def jobs_in(self, phase: str) -> Iterable[JobInfo]:
        """Return the jobs of one PodGroup phase, sorted by key; cached until jobs enter or leave the phase."""
        return self.state.ledger.jobs_in_phase(phase)

    def has_jobs_in(self, phase: str) -> bool:
        """Return whether any job is in that PodGroup phase; O(1)."""
        return bool(self.state.ledger.jobs_by_phase.get(phase))

    def set_condition(self, job: str, condition: str, reason: str, message: Text) -> None:
        """Set a condition of that type with status True on the job's PodGroup when the session closes."""
        self.conditions.setdefault(job, {})[condition] = (reason, message)

    def fit_error(self, job: str) -> str:
        """Return Volcano's FitError text of a job: counts by status, minAvailable and why its tasks found no node."""
        info = self.state.ledger.schedulable_jobs[job]
        return fit_error(info, ready=self.rules.job_ready(info))

    @property
    def evicting(self) -> list[TaskInfo]:
        """Tasks whose eviction was decided but whose pods do not show a deletion timestamp yet."""
        tasks, evicting = self.state.ledger.tasks, self.state.pods.evicting
        before = [tasks[uid] for uid in sorted(evicting & tasks.keys())]
        return before + [entry.task for log in self.open_logs for entry in log.evicted]

    def objects(self, resource: str) -> Mapping[str, ApiObject]:
        """Return a live, read-only view of the objects of a further kind by key."""
        if resource not in self.profile.watches:
            raise LookupError(f'{resource} are read but not watched; name them in the plugin\'s "watches"')
        return self.state.inputs.objects(resource)

    def queue_key(self, queue: QueueInfo) -> SortKey:
        """Return the queue's current sort key.

        First come queues with a gang whose bind was refused, or with a preemptor that waits for its victims.
        """
        return queue.name not in self.urgent_queues, self.rules.queue_key(queue)

    def job_key(self, job: JobInfo) -> SortKey:
        """Return the job's current sort key within its queue.

        A gang whose bind was refused, and a preemptor that waits for its victims, come first.
        """
        key = self._key_in_namespace(job)
        return (key[0], *self.rules.with_namespace(key[1:], job)) if self.rules.orders_namespaces else key

    def _key_in_namespace(self, job: JobInfo) -> tuple[SortKey, ...]:
        """Return the sort key among jobs of the same namespace and queue; its first entry is False for urgent jobs.

        It is cached on the job if all order plugins have `keeps_job_keys`.
        """
        if (cached := job.cached_order_key) is None or cached[0] != self._order_version:
            cached = self._order_version, (True, *self.rules.job_key(job))
            if self.rules.keeps_job_keys:
                job.cached_order_key = cached
        return (False, *cached[1][1:]) if self.urgent_jobs and job.key in self.urgent_jobs else cached[1]

    def job_valid(self, job: JobInfo) -> bool:
        """Return whether the job is valid for scheduling; otherwise record the reason and count it as attempted."""
        verdict = self.rules.job_valid(job)
        if verdict.vote is Vote.REJECT:
            self.attempted_jobs.add(job.key)
            job.attempts.explain(Reason(verdict.code, verdict.message, Precision.WAITING))
            return False
        return True

    def _review_now(self, job: JobInfo) -> None:
        """Make the job due for review at the close of this session: the reason why it waits may have changed."""
        if self.state.revisit_at.get(job.key, 0.0) > self.now:
            self.state.revisit_at[job.key] = self.now

    def is_action_configured(self, action: str) -> bool:
        """Return whether the configuration contains the action."""
        return action in self._actions


_GATES_PER_STEP = 64
"""Gates opened between two points where other work may run."""
_OWNER = "queue gates"


class QuotaReservations:
    """Quota reserved in a session for tasks without gate; a discarded statement restores what it consumed."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._gates = session.state.queue_gates
        self._counts = session.plugin_tables.get(_OWNER, "reserved")

    def begin(self) -> None:
        """Notify plugins of the reservations of earlier cycles."""
        for task in self._gates.reserved_tasks():
            if task.job_info is not None and task.job_info.queue_info is not None:
                self._add(task.job_info, task.shape, 1)

    def open_queue_gates(self, job: JobInfo) -> Iterator[None]:
        """Remove the gates of a job's tasks in order, as many as its queue may allocate."""
        session = self._session
        if not job.gated_count or job.queue_info is None or not session.job_valid(job):
            return
        waiting = [task for task in job.pending.values() if self._gates.waits_for_queue(task)]
        waiting.sort(key=lambda task: (session.rules.task_key(task), task.key))
        for at, task in enumerate(waiting):
            if session.rules.allocatable(job.queue_info, task.shape, 1):
                session.outbox.put(self._gates.open_gate(task))
                self._add(job, task.shape, 1)
            if at % _GATES_PER_STEP == _GATES_PER_STEP - 1:
                yield

    def allocatable(self, job: JobInfo, shape: Shape, count: int) -> int:
        """Return how many of `count` tasks the job's queue may allocate, their own reservations included."""
        assert job.queue_info is not None
        if own := min(self._counts.get(_kind(job, shape)), count):
            self._add(job, shape, -own)
        allowed = self._session.rules.allocatable(job.queue_info, shape, count)
        if own:
            self._add(job, shape, own)
        return allowed

    def consume(self, job: JobInfo, shape: Shape, count: int) -> None:
        """Reduce the reservations of a job by tasks that were allocated."""
        if own := min(self._counts.get(_kind(job, shape)), count):
            self._add(job, shape, -own)

    def _add(self, job: JobInfo, shape: Shape, count: int) -> None:
        self._counts.add(_kind(job, shape), count)
        for notify in self._session.rules.reservation_accounting:
            notify(job, shape, count)


def _kind(job: JobInfo, shape: Shape) -> str:
    """Return the key of a reservation: tasks of a job with equal requests share one."""
    return f"{job.key} {sorted(shape.requests.items())}"
