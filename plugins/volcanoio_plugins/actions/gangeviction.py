"""gangpreempt and gangreclaim: evict until all tasks that a gang needs to start have a node.

gangpreempt evicts within the queue from jobs of lower priority; gangreclaim evicts from other queues. Both take
surplus tasks first and then, where needed, whole gangs. The search runs on the session and is rolled back; the result
is then applied with only the evictions that its placements need. Unlike in Volcano, room is made for no task beyond
the job's minimum.

Source: Volcano pkg/scheduler/actions/gangpreempt, gangreclaim and utils (BuildNominationPlanInDomain,
CollectPendingTasksForGangEviction).
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.hypernodes import CLUSTER
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.session import FittingTasks, Run, Session, Statement
from volcanoio.framework.scheduling.views import Job, SubJob, Task, TaskStatus
from volcanoio.model.resources import add
from volcanoio_plugins.actions.allocate import PendingSubJobs, needed_sub_jobs
from volcanoio_plugins.actions.bundles import READY, Bundle, CandidateBundles, Domain, domains
from volcanoio_plugins.actions.eviction import (
    EvictionGoal,
    conclude,
    jobs_by_queue,
    pipeline_all,
    preemptors,
    worth_keeping,
)

BETWEEN = 32
"""Evictions or placements in one step."""


class _Wanted(NamedTuple):
    """Number of tasks of a shape to place, and how many fit."""

    number: int
    fitting: FittingTasks


class GangEvictor:
    """Makes room for these pending tasks of a job, all or none, in one statement."""

    def __init__(
        self, session: Session, job: Job, runs: Sequence[Run], goal: EvictionGoal, candidates: CandidateBundles
    ) -> None:
        self._session = session
        self._victims = session.victims
        self._job = job
        self._runs = runs
        self._purpose, self._reason = goal
        self._candidates = candidates
        self._statement: Statement
        self._within = CLUSTER
        """The HyperNode in which the tasks are placed."""
        self._wanted: list[_Wanted] = []

    def within(self, domain: Domain) -> Generator[None, None, bool]:
        """Evict the necessary tasks on the nodes of a domain; return whether that succeeded."""
        self._within = domain.name
        self._wanted = self._count()
        if any(wanted.fitting.with_evictions < wanted.number for wanted in self._wanted):
            return False
        need: dict[str, int] = {}
        for run in self._runs:
            add(need, run.shape.requests, len(run.tasks))
        ordered = self._candidates.ordered(self._job, domain, need)
        self._statement = self._session.statement(self._job)
        start = self._statement.savepoint()
        taken = yield from self._search(ordered)
        if taken is None:
            self._statement.discard()
            return False
        whole = [bundle for bundle in taken if bundle.whole]
        if 0 < len(whole) < len(taken):
            taken = yield from self._without_spare(start, whole, taken)
        targets = {task.uid: task.node for task in self._statement.pipelined}
        yield from self._apply(start, targets, taken)
        lost = {task.job for task in self._statement.evicted}
        if done := conclude(self._session, self._statement, self._job, self._purpose, without=False):
            self._candidates.lost(lost)
        return done

    def _count(self) -> list[_Wanted]:
        numbers: dict[int, int] = {}
        first: dict[int, Task] = {}
        for run in self._runs:
            numbers[run.shape.id] = numbers.get(run.shape.id, 0) + len(run.tasks)
            first.setdefault(run.shape.id, run.tasks[0])
        return [
            _Wanted(number, self._victims.fitting_tasks(first[shape], self._purpose, self._within))
            for shape, number in numbers.items()
        ]

    def _search(self, ordered: Iterator[Bundle | None]) -> Generator[None, None, list[Bundle] | None]:
        """Evict until all tasks can be placed, and place them; return the bundles evicted, None if none suffice."""
        statement, taken = self._statement, []
        number = 0
        for bundle in self._candidates.permitted(self._job, ordered):
            if bundle is None:
                yield
                continue
            evicted = yield from self._evict(bundle)
            if not evicted:
                continue
            taken.append(Bundle(bundle.job, bundle.whole, evicted))
            number += len(evicted)
            if any(wanted.fitting.free < wanted.number for wanted in self._wanted):
                continue
            mark = statement.savepoint()
            if (yield from self._place()):
                self._victims.record_attempt(number)
                return taken
            statement.rollback(mark)
        self._victims.record_attempt(number)
        return None

    def _evict(self, bundle: Bundle) -> Generator[None, None, list[Task]]:
        """Evict the useful tasks of a bundle, keeping guarantees of queues; return the evicted tasks."""
        useful = {
            task.node for task in bundle.tasks if any(wanted.fitting.is_candidate(task.node) for wanted in self._wanted)
        }
        if not useful:
            return []
        mark = self._statement.savepoint()
        evicted: list[Task] = []
        for task in bundle.tasks:
            if not bundle.whole and task.node not in useful:
                continue
            if self._purpose is Purpose.RECLAIM and not self._victims.keeps_guarantee(task):
                if bundle.whole:
                    self._statement.rollback(mark)
                    evicted = []
                    break
                continue
            self._statement.evict(task, self._reason)
            evicted.append(task)
            if len(evicted) % BETWEEN == 0:
                yield
        for node in useful:
            for wanted in self._wanted:
                wanted.fitting.recount(node)
        return evicted

    def _place(self) -> Generator[None, None, bool]:
        """Pipeline every task; return whether all fit and the job would then be worth keeping."""
        by_sub_job: dict[str, tuple[SubJob | None, list[Run]]] = {}
        for run in self._runs:
            sub_job = self._job.sub_job_of(run.tasks[0])
            key = "" if sub_job is None or sub_job.network_topology is None else sub_job.key
            by_sub_job.setdefault(key, (sub_job if key else None, []))[1].append(run)
        for sub_job, runs in by_sub_job.values():
            if not (yield from self._place_together(sub_job, runs)):
                return False
        return worth_keeping(self._session, self._job, self._statement.pipelined)

    def _place_together(self, sub_job: SubJob | None, runs: Sequence[Run]) -> Generator[None, None, bool]:
        """Pipeline all tasks of runs in one HyperNode of the domain that is allowed for their sub-job, or in any."""
        domains, statement = self._session.domains, self._statement
        levels = [[self._within]] if sub_job is None else domains.levels(sub_job, self._within, evicting=False)
        for level in levels:
            for name in level if sub_job is None else domains.promising(sub_job, level, runs):
                mark = statement.savepoint()
                if (yield from pipeline_all(self._session, statement, self._job, runs, name)):
                    return True
                statement.rollback(mark)
        return False

    def _without_spare(
        self, start: Any, whole: list[Bundle], taken: list[Bundle]
    ) -> Generator[None, None, list[Bundle]]:
        """Keep surplus tasks where evicting whole gangs alone is enough; return the bundles to evict."""
        for some in (whole, taken):
            self._statement.rollback(start)
            yield from self._evict_all(some)
            if (yield from self._place()):
                return some
        return taken

    def _evict_all(self, taken: list[Bundle]) -> Generator[None, None, None]:
        for bundle in taken:
            for at, task in enumerate(bundle.tasks, 1):
                self._statement.evict(task, self._reason)
                if at % BETWEEN == 0:
                    yield

    def _apply(self, start: Any, targets: dict[str, str], taken: list[Bundle]) -> Generator[None, None, None]:
        """Repeat the result from a savepoint, with no more evictions than its placements need."""
        statement = self._statement
        statement.rollback(start)
        yield
        if (yield from self._pipeline(targets, taken)):
            return
        statement.rollback(start)
        yield from self._evict_all(taken)
        for run in self._runs:
            for task in run.tasks:
                statement.pipeline_on(task, targets[task.uid], evicted=True)
            yield

    def _pipeline(self, targets: dict[str, str], taken: list[Bundle]) -> Generator[None, None, bool]:
        """Pipeline each task on its node, evicting until its queue may allocate it and it fits there.

        For the queue any victim counts, for the node those on it; in the order in which they were found. False when
        that is not enough.
        """
        gone: set[str] = set()
        anyone: list[tuple[Task, Bundle]] = [(task, bundle) for bundle in taken for task in bundle.tasks][::-1]
        there: dict[str, list[tuple[Task, Bundle]]] = {}
        for victim, bundle in anyone:
            there.setdefault(victim.node, []).append((victim, bundle))
        placed = 0
        for run in self._runs:
            for task in run.tasks:
                node = targets[task.uid]
                while not self._allowed(task):
                    if not self._evict_next(anyone, gone):
                        return False
                while not self._victims.fits(task, node):
                    if not self._evict_next(there.get(node, []), gone):
                        return False
                self._statement.pipeline_on(task, node, evicted=True)
                placed += 1
                if placed % BETWEEN == 0:
                    yield
        return True

    def _evict_next(self, left: list[tuple[Task, Bundle]], gone: set[str]) -> bool:
        """Evict the next victim that was not evicted yet, a gang as a whole; False when there is none."""
        while left:
            victim, bundle = left.pop()
            if victim.uid not in gone:
                for other in bundle.tasks if bundle.whole else [victim]:
                    self._statement.evict(other, self._reason)
                    gone.add(other.uid)
                return True
        return False

    def _allowed(self, task: Task) -> bool:
        return self._victims.queue_allocatable(self._job, task.shape, 1) > 0


_PLACED = (*READY, TaskStatus.PIPELINED)


def runs_to_start(session: Session, job: Job) -> list[Run]:
    """Return the tasks that a job needs to start; once started, all pending tasks, or those of its first sub-job."""
    ready = session.job_ready(job)
    if not job.sub_jobs:
        runs = session.runs(job, best_effort=False)
        return runs if ready else _select(runs, _Shortage(job).choose(_tasks(runs)))
    required = needed_sub_jobs(session, job)
    parts = [(sub_job, pending.runs) for sub_job, pending in PendingSubJobs(session, job)]
    parts = [
        (sub_job, runs) for sub_job, runs in parts if len(_tasks(runs)) >= _missing(sub_job)
    ]  # the others have too few pending tasks
    if ready:
        return parts[0][1] if parts else []
    shortage = _Shortage(job)
    chosen: set[str] = set()
    for sub_job, runs in parts:
        tasks = _tasks(runs)[: max(_missing(sub_job), 0)]
        if sub_job.key in required or shortage.wants_any(tasks):
            chosen |= shortage.take(tasks)
    runs = [run for _, own in parts for run in own]
    chosen |= shortage.choose(task for task in _tasks(runs) if task.uid not in chosen)
    return _select(runs, chosen)


class _Shortage:
    """Number of tasks that a job needs in addition, by role and in total."""

    def __init__(self, job: Job) -> None:
        placed = [
            task
            for task in job.tasks
            if task.status in _PLACED or (task.status is TaskStatus.PENDING and task.shape.best_effort)
        ]
        self._roles: Counter[str] = Counter()
        if sum(job.role_minimums.values()) <= job.min_available:
            held = Counter(task.role for task in placed)
            self._roles.update({role: max(least - held[role], 0) for role, least in job.role_minimums.items()})
        self._others = max(job.min_available - len(placed) - self._roles.total(), 0)

    def wants_any(self, tasks: Iterable[Task]) -> bool:
        """Return whether any of these is missing."""
        return any(self._others > 0 or self._roles[task.role] > 0 for task in tasks)

    def take(self, tasks: Iterable[Task]) -> set[str]:
        """Count tasks as placed, whether they are missing or not; return their uids."""
        taken = set()
        for task in tasks:
            self._wants(task)
            taken.add(task.uid)
        return taken

    def choose(self, tasks: Iterable[Task]) -> set[str]:
        """Return the uids of the first missing ones, which count as placed."""
        return {task.uid for task in tasks if self._wants(task)}

    def _wants(self, task: Task) -> bool:
        if self._roles[task.role] > 0:
            self._roles[task.role] -= 1
        elif self._others > 0:
            self._others -= 1
        else:
            return False
        return True


def _missing(sub_job: SubJob) -> int:
    return sub_job.min_available - sub_job.ready_count - sub_job.pipelined_count - sub_job.pending_best_effort


def _tasks(runs: Iterable[Run]) -> list[Task]:
    return [task for run in runs for task in run.tasks]


def _select(runs: Iterable[Run], chosen: set[str]) -> list[Run]:
    left = [run._replace(tasks=[task for task in run.tasks if task.uid in chosen]) for run in runs]
    return [run for run in left if run.tasks]


DOMAINS = 8
"""Volcano's default, also for numbers below 1."""


class GangArguments(msgspec.Struct, frozen=True):
    """`maxDomains`: most domains of nodes to try. `allowWholeBundle`: whether whole gangs may be evicted."""

    domains: int = msgspec.field(default=DOMAINS, name="maxDomains")
    whole: bool = msgspec.field(default=True, name="allowWholeBundle")


class GangEvictionAction:
    """Each starving job once, in the order of queues and jobs."""

    name: ClassVar[str]
    purpose: ClassVar[Purpose]

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._options = convert(arguments, GangArguments, f"action {self.name}")

    def run(self, session: Session) -> Iterator[None]:
        """Evict for starving jobs."""
        jobs = yield from jobs_by_queue(session, preemptors(session))
        if not jobs:
            return
        yield from session.victims.prepare()
        candidates = CandidateBundles(session, self.purpose, whole=self._options.whole)
        queues = session.ordered_queues(jobs)
        while queues:
            queue = queues.pop()
            if self.purpose is Purpose.RECLAIM and session.overused(queue):
                continue
            while jobs[queue.name]:
                if session.is_budget_exhausted():
                    return
                yield from self._take(session, jobs[queue.name].pop(), candidates)

    def _take(self, session: Session, job: Job, candidates: CandidateBundles) -> Iterator[None]:
        """Make room for the tasks that a job still needs, in the first domain where that succeeds."""
        runs, victims = runs_to_start(session, job), session.victims
        tasks = [task for run in runs for task in run.tasks]
        if not tasks or not all(task.can_preempt for task in tasks) or victims.has_failed(self.purpose, job, runs):
            return
        if self.purpose is Purpose.RECLAIM and not victims.preemptive(job, tasks):
            return
        evictor = GangEvictor(session, job, runs, EvictionGoal(self.purpose, self.name), candidates)
        most = self._options.domains if self._options.domains > 0 else DOMAINS
        for domain in domains(session, job, most):
            if (yield from evictor.within(domain)):
                return
        victims.record_failure(self.purpose, job, runs)


class GangPreempt(GangEvictionAction):
    """Surplus tasks of jobs of its queue with lower priority, and then these jobs, lowest first."""

    name = "gangpreempt"
    purpose = Purpose.PREEMPT


class GangReclaim(GangEvictionAction):
    """Surplus tasks of jobs of reclaimable queues, and then these jobs, by which queue loses first."""

    name = "gangreclaim"
    purpose = Purpose.RECLAIM
