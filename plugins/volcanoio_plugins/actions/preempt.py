"""preempt: within a queue, starving jobs of higher priority evict tasks of others.

Source: Volcano pkg/scheduler/actions/preempt, in both its modes. Unlike there, free resources are used before any node
with victims, and every placement passes all filters and limits (see `eviction`). `DryRun` is the topology-aware mode,
which follows kube-scheduler's: victims are computed on several nodes by evicting on the live columns and rolling back,
and the node with the least harmful set is chosen.
"""

from collections.abc import Collection, Container, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.heap import PriorityQueue
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.session import CandidateNodes, Eligible, Session
from volcanoio.framework.scheduling.views import Job, Task, TaskStatus
from volcanoio_plugins.actions.eviction import EvictionGoal, TaskEvictor, preemptors, runs_that_may_evict

_OFFSET = 2**31
"""Added to priorities before they are summed, so that more victims weigh more (Kubernetes: MaxInt32 + 1)."""
_NOT_STARTED = "~"
"""Sorts after every time: a pod that has not started loses no work."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The victims on a node for a task, in eviction order."""

    node: str
    victims: list[Task]

    @property
    def harm(self) -> tuple[int, int, int]:
        """Smaller is better: the highest priority among the victims, the sum of all, their number."""
        priorities = [victim.priority for victim in self.victims]
        return max(priorities), sum(priority + _OFFSET for priority in priorities), len(priorities)

    @property
    def since(self) -> str:
        """When the first victim with the highest priority started; later is better."""
        highest = max(victim.priority for victim in self.victims)
        return min(
            victim.pod.status.start_time or _NOT_STARTED for victim in self.victims if victim.priority == highest
        )


class DryRun(TaskEvictor):
    """Computes victims on several nodes and takes the least harmful set.

    `percentage` of the remaining nodes are tried, at least `least` and at most `most`.
    """

    def __init__(self, *what: Any, percentage: int, least: int, most: int, own: bool) -> None:
        super().__init__(*what, own=own)
        self._percentage = percentage
        self._least = least
        self._most = most

    def search(self, task: Task, nodes: CandidateNodes) -> Generator[None, None, str]:
        """Make room for a task on the node whose victims do the least harm; return it, "" when there is none."""
        candidates = nodes.from_seeded_offset()
        wanted = min(max(len(candidates) * self._percentage // 100, self._least), self._most)
        plans: list[Plan] = []
        for node in candidates:
            if len(plans) >= wanted:
                break
            yield
            if (plan := self.plan(task, node)) is None:
                self.exclude(task, node, nodes)
            else:
                plans.append(plan)
        plans.sort(key=lambda plan: plan.since, reverse=True)
        plans.sort(key=lambda plan: plan.harm)
        for plan in plans:
            mark = self._statement.savepoint()
            for victim in plan.victims:
                self._statement.evict(victim, self._reason)
            if self._fits(task, plan.node) and self.pipeline_on(task, plan.node, plan.victims):
                return plan.node
            self._statement.rollback(mark)
            self.exclude(task, plan.node, nodes)
        return ""

    def plan(self, task: Task, node: str) -> Plan | None:
        """Return the fewest victims on a node, sparing those of high priority; None if they make too little room."""
        statement = self._statement
        chosen = self.candidates(task, node)
        self._victims.record_attempt(len(chosen))
        if not chosen:
            return None
        if not self._victims.can_simulate(task, node):
            self._can_gain_nodes = True
            return None
        mark = statement.savepoint()
        for victim in chosen:
            statement.evict(victim, self._reason)
        plan: Plan | None = None
        if self._fits(task, node):
            needed: list[Task] = []
            for victim in reversed(chosen):
                statement.unevict(victim)
                if not self._fits(task, node):
                    statement.evict(victim, self._reason)
                    needed.append(victim)
            plan = Plan(node, needed[::-1]) if needed else None
        else:
            self._can_gain_nodes = True
        statement.rollback(mark)
        return plan


_EVICTABLE_STATUSES = (TaskStatus.RUNNING, TaskStatus.BOUND)


class PreemptArguments(msgspec.Struct, frozen=True):
    """`predicateErrorCacheEnable` is Volcano's; here tasks of one shape always share their results.

    `enableTopologyAwarePreemption` computes the victims of several nodes and takes the least harmful set: of a
    percentage of all nodes, with limits in absolute numbers. `topologyAwarePreemptWorkerNum` is Volcano's number of
    threads, unused here.
    """

    predicate_error_cache: bool = msgspec.field(default=True, name="predicateErrorCacheEnable")
    dry_run: bool = msgspec.field(default=False, name="enableTopologyAwarePreemption")
    workers: int = msgspec.field(default=16, name="topologyAwarePreemptWorkerNum")
    percentage: int = msgspec.field(default=10, name="minCandidateNodesPercentage")
    least: int = msgspec.field(default=1, name="minCandidateNodesAbsolute")
    most: int = msgspec.field(default=100, name="maxCandidateNodesAbsolute")


class Preempt:
    """Queue by queue: first between jobs, then within jobs."""

    name = "preempt"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._options = convert(arguments, PreemptArguments, "action preempt")

    def run(self, session: Session) -> Iterator[None]:
        """Evict for starving jobs, in the order of queues and jobs."""
        jobs: dict[str, PriorityQueue[Job]] = {}
        members: dict[str, list[Job]] = {}
        for job in preemptors(session):
            if job.has_network_topology:
                continue  # gangpreempt handles jobs with topology constraints as a whole
            if job.queue not in jobs:
                jobs[job.queue], members[job.queue] = session.empty_job_order(), []
            jobs[job.queue].push(job)
            members[job.queue].append(job)
            yield
        if not jobs:
            return
        yield from session.victims.prepare()
        queues = session.ordered_queues(jobs)
        while queues:
            queue = queues.pop()
            name, queue_jobs = queue.name, {job.key for job in queue.jobs} & session.jobs.keys()
            while jobs[name]:
                if session.is_budget_exhausted():
                    return
                yield from self._preempt_others(session, jobs[name].pop(), queue_jobs)
            for job in members[name]:
                if session.is_budget_exhausted():
                    return
                yield from self._preempt_own(session, job)

    def _preempt_others(self, session: Session, job: Job, queue_jobs: Collection[str]) -> Iterator[None]:
        """Evict tasks of other jobs in the queue (by key) for everything that a job needs, or nothing."""
        own = job.key

        def eligible(there: Sequence[Task], task: Task) -> list[Task]:
            return _evictable(there, task, queue_jobs, own)

        runs, victims = runs_that_may_evict(session, job), session.victims
        yield
        if victims.has_failed(Purpose.PREEMPT, job, runs):
            return
        evictor = self._evictor(session, job, eligible, own=False)
        for run in runs:
            if not victims.job_starving(job):
                break
            yield from evictor.place(run)
            yield
        if not evictor.end():
            victims.record_failure(Purpose.PREEMPT, job, runs)

    def _preempt_own(self, session: Session, job: Job) -> Iterator[None]:
        """Evict tasks of lower order of the same job, one by one until one finds no victims."""
        only = (job.key,)

        def eligible(there: Sequence[Task], task: Task) -> list[Task]:
            return _evictable(there, task, only)

        if session.victims.has_nominations(job) or not job.count(*_EVICTABLE_STATUSES):
            return
        for run in runs_that_may_evict(session, job):
            for task in run.tasks:
                evictor = self._evictor(session, job, eligible, own=True)
                placed = yield from evictor.place(run._replace(tasks=[task]), while_starving=False)
                if not placed:
                    evictor.give_up()
                    return
                if not evictor.end():
                    return

    def _evictor(self, session: Session, job: Job, eligible: Eligible, *, own: bool) -> TaskEvictor:
        options, what = self._options, (session, job, EvictionGoal(Purpose.PREEMPT, self.name), eligible)
        if options.dry_run:
            return DryRun(*what, percentage=options.percentage, least=options.least, most=options.most, own=own)
        return TaskEvictor(*what, own=own)


def _evictable(there: Sequence[Task], task: Task, jobs: Container[str], but: str = "") -> list[Task]:
    """Return the tasks of these jobs, except one, that may be evicted for a task."""
    idle, running, bound = task.shape.best_effort, TaskStatus.RUNNING, TaskStatus.BOUND
    return [
        victim
        for victim in there
        if ((status := victim.status) is running or status is bound)
        and victim.preemptable
        and (job := victim.job) != but
        and job in jobs
        and (not idle or victim.shape.best_effort)
    ]
