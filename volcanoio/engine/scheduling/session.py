"""The session of one cycle, on the live columns. What is neither committed nor needed is undone at its close."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from math import inf

from volcanoio.engine.scheduling import hopes
from volcanoio.engine.scheduling.asking import Asking
from volcanoio.engine.scheduling.backlogs import FreshBacklog, QueueBacklog, fresh
from volcanoio.engine.scheduling.budget import Budget
from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.columns import Columns, Quantity
from volcanoio.engine.scheduling.combine import Rules
from volcanoio.engine.scheduling.explanation import Attempts, Precision, Reason, fit_error
from volcanoio.engine.scheduling.jobs import Demand, JobInfo
from volcanoio.engine.scheduling.outbox import Outbox
from volcanoio.engine.scheduling.podindex import PodIndex
from volcanoio.engine.scheduling.profile import Profile
from volcanoio.engine.scheduling.queuegates import Promises
from volcanoio.engine.scheduling.queues import QueueInfo
from volcanoio.engine.scheduling.resuming import resume
from volcanoio.engine.scheduling.runs import runs_of
from volcanoio.engine.scheduling.statement import JobStatement
from volcanoio.engine.scheduling.subjobs import SubJobInfo
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.engine.scheduling.times import timestamp
from volcanoio.engine.scheduling.undo import PluginTable, Tables, UndoLog
from volcanoio.engine.scheduling.victims import Victims
from volcanoio.engine.scheduling.volumes import VolumeIndex
from volcanoio.framework.scheduling.heap import GroupedHeap, Heap, MovingHeap, Turns
from volcanoio.framework.scheduling.points import SortKey
from volcanoio.framework.scheduling.session import Run
from volcanoio.framework.scheduling.sessionview import Text
from volcanoio.framework.scheduling.verdicts import PERMIT, Verdict, Vote
from volcanoio.framework.scheduling.views import Amounts, Shape
from volcanoio.framework.scheduling_effects import PreBindStep
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model.base import ApiObject
from volcanoio.model.scheduling import PodGroupPhase

UNDONE = 8
"""How many tasks are taken back in one step."""
FEW_AT_ONCE = 32
"""Tasks placed in one call at most where plugins are asked for each."""
MANY_AT_ONCE = 256
"""Tasks placed in one call at most."""


@dataclass(slots=True)
class CycleStats:
    """Figures of a cycle: tasks placed, bound and evicted, gangs committed and boundaries passed, jobs enqueued.

    `evictions` counts statements that evicted, by action; `attempts` the nodes on which victims were looked for,
    `victims` how many the last of these had.
    """

    placed: int = 0
    bound: int = 0
    gangs: int = 0
    boundaries: int = 0
    enqueued: int = 0
    evicted: int = 0
    evictions: dict[str, int] = field(default_factory=dict)
    attempts: int = 0
    victims: int = 0


class CycleSession:
    """Implements `sessionview.SessionView` and `session.Session`.

    `conditions` are what plugins set, by job key and type; `refusals` why jobs were not enqueued; `leftovers` the
    logs of statements that stay until the close, `unended` of those neither committed, discarded nor kept;
    `homeless` tasks that request nothing and found no node, by job; `at_hand` the jobs that plugins close just
    now; `tried` the keys of jobs it came to, `unfinished` of those that got some places and are to have more turns;
    `asks_waiting` whether the action at work goes through the waiting jobs; `cut` whether the budget ended it, or a
    question without answer; `questions` what plugins ask others; `action` the one at work, `coming` those still to
    come; `vain` the keys of jobs that it tried in vain; `victims` what actions that evict ask; `claimed` the tasks
    for which it evicted.
    """

    def __init__(
        self, state: ClusterState, profile: Profile, opening: CycleOpened, budget: Budget, period: float = 1.0
    ) -> None:
        self.state = state
        self.profile = profile
        self.rules: Rules = state.rules_of(profile)
        self.cycle = opening.cycle
        self.now = opening.at
        self.period = period
        self.timestamp = timestamp(opening.at)
        self.uid = blake2b(f"{opening.seed}/{opening.cycle}".encode(), digest_size=16).hexdigest()
        self.outbox = Outbox(opening.cycle)
        self.stats = CycleStats()
        self.tables = Tables()
        self.leftovers: list[UndoLog] = []
        self.unended: list[UndoLog] = []
        self.conditions: dict[str, dict[str, tuple[str, Text]]] = {}
        self.refusals: dict[str, str] = {}
        self.homeless: list[tuple[JobInfo, Sequence[TaskInfo]]] = []
        self.at_hand: list[JobInfo] | None = None
        self.cut = False
        self.asks_waiting = False
        self.vain: set[str] = set()
        self.tried: set[str] = set()
        self.unfinished: set[str] = set()
        self.claimed: list[TaskInfo] = []
        self.questions = Asking(state.answers, self.outbox, answering=opening.answering)
        self.ask, self.tell = self.questions.ask, self.questions.tell
        self.facts, self.version = state.inputs.facts, state.inputs.version
        self._budget = budget
        self._actions = frozenset(action.name for action in profile.actions)
        self.action = ""
        self.coming: frozenset[str] = self._actions
        state.calm(self.now)
        state.settle_prebinding()
        state.placer.open(self.rules, opening.cycle, opening.seed)
        self.total: Amounts = self.nodes.totals(Quantity.ALLOCATABLE)
        self._rulings = state.rulings(self.rules, self.total)
        self._urgent = state.urgent
        self._foreseen: dict[tuple[str, str, Demand], Verdict] = {}
        """What was said at first of jobs with that queue, namespace and demand."""
        self._urgent_queues: set[str] = set()
        self.victims = Victims(self)
        self.promises = Promises(self) if state.queue_gates.enabled else None

    def open(self) -> Iterator[str]:
        """Count pods and claims as they are now, then let plugins open, one at a time: its name, "" before them."""
        claimed = len(self.state.claims.by_task)
        for _ in chain(self.state.ledger.pods.settle(), self.state.claims.open(self.now)):
            yield ""
        self.state.rests.news += claimed - len(self.state.claims.by_task)
        if self.state.claims.jobs:
            self._urgent = {**self.state.urgent, **self.state.claims.jobs}
        self._urgent_queues = {job.queue for job in self._urgent.values()}
        yield ""  # what was done so far is not the first plugin's
        for name, opens in self.rules.opens:
            for _ in opens(self) or ():
                yield name
            yield name
        if self.promises is not None:
            self.promises.open()

    # What plugins see.

    @property
    def nodes(self) -> Columns:
        """As `sessionview.SessionView`."""
        return self.state.ledger.columns

    @property
    def pods(self) -> PodIndex:
        """As `sessionview.SessionView`."""
        return self.state.ledger.pods

    @property
    def used(self) -> Amounts:
        """As `sessionview.SessionView`."""
        return self.nodes.totals(Quantity.USED)

    @property
    def jobs(self) -> Mapping[str, JobInfo]:
        """As `sessionview.SessionView`."""
        return self.state.ledger.listed

    @property
    def queues(self) -> Mapping[str, QueueInfo]:
        """As `sessionview.SessionView`."""
        return self.state.ledger.known_queues

    @property
    def touched(self) -> Collection[JobInfo]:
        """As `sessionview.SessionView`; sorted by key, and while the session closes a few at a time."""
        if self.at_hand is not None:
            return self.at_hand
        ledger, now = self.state.ledger, self.now
        listed, dirty, put_off = ledger.listed, ledger.dirty, ledger.put_off
        revisit, backlog = self.state.revisit, ledger.backlog
        if self.cut:  # of waiting jobs that it neither came to nor moved, or is not done with, it knows nothing new
            tried, unfinished = self.tried, self.unfinished
            keys = {key for key in tried if revisit.get(key, inf) <= now}
            keys.update([key for key in tried if key not in unfinished and (key in dirty or key in put_off)])
            keys.update([key for key in dirty if key not in backlog])
            if now >= self.state.gone_through + self.period:
                keys.update([key for key, when in revisit.items() if when <= now and key not in backlog])
        else:
            keys = {key for key, when in revisit.items() if when <= now}
            keys.update(dirty, put_off)
        return [listed[key] for key in sorted(keys & listed.keys())]

    def changes(self, owner: object, most: int | None = None) -> Collection[JobInfo]:
        """As `sessionview.SessionView`."""
        return self.state.ledger.changes.since(owner, self.state.ledger.listed.values(), most)

    def jobs_in(self, phase: str) -> Iterable[JobInfo]:
        """As `sessionview.SessionView`."""
        return self.state.ledger.in_phase(phase)

    def table(self, owner: str, name: str) -> PluginTable:
        """As `sessionview.SessionView`."""
        return self.tables.get(owner, name)

    def set_condition(self, job: str, condition: str, reason: str, message: Text) -> None:
        """As `sessionview.SessionView`."""
        self.conditions.setdefault(job, {})[condition] = (reason, message)

    def fit_error(self, job: str) -> str:
        """As `sessionview.SessionView`."""
        info = self.state.ledger.listed[job]
        return fit_error(info, ready=self.rules.job_ready(info))

    @property
    def evicting(self) -> list[TaskInfo]:
        """As `sessionview.SessionView`."""
        tasks, asked = self.state.ledger.tasks, self.state.pods.evicting
        before = [tasks[uid] for uid in sorted(asked & tasks.keys())]
        return before + [entry.task for log in self.unended for entry in log.evicted]

    def objects(self, resource: str) -> Mapping[str, ApiObject]:
        """As `sessionview.SessionView`."""
        if resource not in self.rules.watches:
            msg = f'{resource} are read but not watched; name them in the plugin\'s "watches"'
            raise LookupError(msg)
        return self.state.inputs.objects(resource)

    def since(self, resource: str, version: int) -> Sequence[str] | None:
        """As `sessionview.SessionView`."""
        return self.state.inputs.since(resource, version)

    @property
    def prebinding(self) -> Mapping[str, Sequence[PreBindStep]]:
        """As `sessionview.SessionView`."""
        return self.state.prebinding

    @property
    def volumes(self) -> VolumeIndex:
        """As `sessionview.SessionView`."""
        return self.state.ledger.volumes

    # What actions do.

    def configured(self, action: str) -> bool:
        """As `session.Session`."""
        return action in self._actions

    def to_come(self, action: str) -> bool:
        """As `session.Session`."""
        return action in self.coming

    def exhausted(self) -> bool:
        """As `session.Session`."""
        self.stats.boundaries += 1
        self.cut = self.cut or self._budget.exhausted()
        return self.cut

    def waiting(self) -> Sequence[JobInfo]:
        """As `session.Session`; where a cycle was cut meanwhile, without those that it refused."""
        self.asks_waiting = True
        jobs, refused = self.state.ledger.in_phase(PodGroupPhase.PENDING), self.state.refused
        return [job for job in jobs if job.key not in refused] if refused else jobs

    def pending(self) -> Sequence[JobInfo]:
        """As `session.Session`; where the action was cut before, without those that it tried in vain."""
        listed, vain = self.state.ledger.listed, self.state.vain.get(self.action, ())
        jobs = [job for key, job in self.state.ledger.backlog.items() if key in listed]
        return [job for job in jobs if job.key not in vain or job.key in self._urgent] if vain else jobs

    def runs(self, job: JobInfo, *, best_effort: bool, part: SubJobInfo | None = None) -> list[Run]:
        """As `session.Session`."""
        members = job.waiting.values() if part is None else part.waiting
        return runs_of(self, job, members, best_effort=best_effort)

    def queue_key(self, queue: QueueInfo) -> SortKey:
        """As `session.Session`; a queue with a gang whose bind was refused goes first."""
        return queue.name not in self._urgent_queues, self.rules.queue_key(queue)

    def job_key(self, job: JobInfo) -> SortKey:
        """As `session.Session`; a gang whose bind was refused goes first."""
        key = self._member_key(job)
        return (key[0], *self.rules.with_namespace(key[1:], job)) if self.rules.orders_namespaces else key

    def _member_key(self, job: JobInfo) -> tuple[SortKey, ...]:
        """Where a job stands among those of its namespace in its queue."""
        known = job.standing
        if known is None or known[0] != self._rulings:
            known = self._rulings, (True, *self.rules.job_key(job))
            if self.rules.keeps_job_keys:
                job.standing = known
        return (False, *known[1][1:]) if self._urgent and job.key in self._urgent else known[1]

    @property
    def steady_job_keys(self) -> bool:
        """As `session.Session`."""
        return self.rules.keeps_job_keys and not self.rules.orders_namespaces

    def queue_turns(self, names: Iterable[str]) -> Turns[QueueInfo]:
        """As `session.Session`."""
        queues = [self.queues[name] for name in names]
        if self.rules.queue_epoch():
            return MovingHeap(self.queue_key, self.rules.queue_epoch, queues)
        return Heap(self.queue_key, queues)

    def job_turns(self) -> Turns[JobInfo]:
        """As `session.Session`."""
        if self.rules.orders_namespaces:
            return GroupedHeap(_namespace, self._member_key, self.job_key, self.rules.namespace_epoch)
        return Heap(self._member_key)

    def backlogs(self, *, admitted: bool) -> Generator[None, None, Mapping[str, QueueBacklog | FreshBacklog]]:
        """As `session.Session`; jobs that an action tried or refused in vain before it was cut have no turn."""
        kept = self.state.backlogs
        if not self.steady_job_keys:
            jobs = [job for job in self.pending() if job.phase != PodGroupPhase.PENDING] if admitted else self.waiting()
            return (yield from fresh(jobs, self.job_turns))
        yield from kept.follow(self._member_key, self._rulings, self._urgent)
        if not admitted:
            self.asks_waiting = True
            return kept.begin(self._member_key, self.state.refused, admitted=False)
        vain = self.state.vain.get(self.action, ())
        return kept.begin(self._member_key, vain and vain - self._urgent.keys(), admitted=True)

    def overused(self, queue: QueueInfo) -> bool:
        """As `session.Session`."""
        return self.rules.overused(queue)

    def allocatable(self, job: JobInfo, shape: Shape, count: int) -> int:
        """As `session.Session`."""
        assert job.queue_info is not None
        if self.promises is not None:
            allowed = self.promises.allocatable(job, shape, count)
        else:
            allowed = self.rules.allocatable(job.queue_info, shape, count)
        if allowed < count:
            job.attempts.limited = True
            text = f"queue {job.queue} has no room left for {count - allowed} of its tasks"
            job.attempts.explain(Reason("QueueQuota", text, Precision.QUOTA))
        return allowed

    def let_in(self, job: JobInfo) -> Iterator[None]:
        """As `session.Session`."""
        return iter(()) if self.promises is None else self.promises.let_in(job)

    def at_once(self, shape: Shape, count: int) -> int:
        """As `session.Session`."""
        if count <= FEW_AT_ONCE:
            return count
        return FEW_AT_ONCE if self.state.placer.asks_each(shape) else min(count, MANY_AT_ONCE)

    def job_valid(self, job: JobInfo) -> bool:
        """As `session.Session`."""
        verdict = self.rules.job_valid(job)
        if verdict.vote is Vote.REJECT:
            self.tried.add(job.key)
            job.attempts.explain(Reason(verdict.code, verdict.message, Precision.WAITING))
            return False
        return True

    def job_ready(self, job: JobInfo) -> bool:
        """As `session.Session`."""
        return self.rules.job_ready(job)

    def job_pipelined(self, job: JobInfo) -> bool:
        """As `session.Session`."""
        return self.rules.job_pipelined(job)

    def sub_job_key(self, part: SubJobInfo) -> SortKey:
        """As `session.Session`."""
        return self.rules.sub_job_key(part)

    def sub_job_ready(self, part: SubJobInfo) -> bool:
        """As `session.Session`."""
        return self.rules.sub_job_ready(part)

    def sub_job_pipelined(self, part: SubJobInfo) -> bool:
        """As `session.Session`."""
        return self.rules.sub_job_pipelined(part)

    def job_enqueueable(self, job: JobInfo) -> Verdict:
        """As `session.Session`; a job that demands nothing is asked nothing."""
        return PERMIT if job.min_resources is None else self.rules.job_enqueueable(job)

    def foreseen(self, job: JobInfo) -> Verdict | None:
        """As `session.Session`."""
        if job.demand is None or not self.rules.refuses_alike:
            return None
        alike = job.queue, job.namespace, job.demand
        verdict = self._foreseen.get(alike)
        if verdict is None:
            verdict = self._foreseen[alike] = self.rules.job_enqueueable(job)
        return verdict if verdict.vote is Vote.REJECT else None

    def enqueue(self, job: JobInfo) -> None:
        """As `session.Session`."""
        self.rules.job_enqueued(job)
        self.promote(job)
        self.stats.enqueued += 1

    def promote(self, job: JobInfo) -> None:
        """As `session.Session`."""
        self.tried.add(job.key)
        self.state.rests.news += 1
        self.state.ledger.set_phase(job, PodGroupPhase.INQUEUE)

    def refuse(self, job: JobInfo, verdict: Verdict) -> None:
        """As `session.Session`."""
        self.tried.add(job.key)
        self.state.refused.add(job.key)
        if verdict.message != job.attempts.refusal:
            job.attempts.refusal = verdict.message
            self._look_again(job)
        job.attempts.explain(Reason(verdict.code, verdict.message, Precision.QUOTA))
        if verdict.message:
            self.refusals[job.key] = verdict.message

    def start(self, job: JobInfo, part: SubJobInfo | None = None) -> None:
        """As `session.Session`."""
        if part is None:
            job.attempts = Attempts()
            self._look_again(job)
        else:
            job.attempts.failed_roles = frozenset()

    def give_up(self, job: JobInfo, runs: Sequence[Run]) -> None:
        """As `session.Session`."""
        hopes.give_up(self, job, runs)

    def hopeless(self, job: JobInfo) -> bool:
        """As `session.Session`; after a minute or two (`hopes.REST`) it is tried all the same."""
        return hopes.hopeless(self, job)

    def _look_again(self, job: JobInfo) -> None:
        """Why a job waits may be another reason: that is to be said."""
        if self.state.revisit.get(job.key, 0.0) > self.now:
            self.state.revisit[job.key] = self.now

    def resume(self, job: JobInfo) -> bool:
        """As `session.Session`."""
        return bool(self.state.claims.jobs) and job.key in self.state.claims.jobs and resume(self, job)

    def role_failed(self, job: JobInfo, role: str) -> bool:
        """As `session.Session`."""
        return bool(role) and role in job.attempts.failed_roles

    def need_continue(self, job: JobInfo, part: SubJobInfo | None = None) -> bool:
        """As `session.Session`."""
        return hopes.may_become_ready(job, part)

    def statement(self, job: JobInfo) -> JobStatement:
        """As `session.Session`."""
        self.tried.add(job.key)
        return JobStatement(self, job)

    def unwind(self) -> Iterator[None]:
        """Take back what was not committed, a few tasks at a time: Allocated and Pipelined never leave the session."""
        ledger = self.state.ledger
        for logs in (self.unended, self.leftovers):
            while logs:
                seated = logs[-1].seated
                while seated:
                    last = seated[: -UNDONE - 1 : -1]  # from the end, as it was done
                    del seated[-UNDONE:]
                    ledger.unseat_all(last)
                    yield
                logs.pop().rollback(ledger, self.state.holds)
        yield from self.state.claims.close()

    def undo(self) -> None:
        """`unwind` to the end."""
        for _ in self.unwind():
            pass
        for job, stranded in self.homeless:
            job.house(stranded)
            self.state.ledger.changes.mark(job)
        self.homeless.clear()
        self.conditions.clear()
        self.state.backlogs.part()
        self.tables.part()  # else everything said and counted would be left to the garbage collector


def _namespace(job: JobInfo) -> str:
    return job.namespace
