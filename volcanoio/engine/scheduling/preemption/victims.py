"""Victims: which tasks may be evicted for a preemptor, in which order, and whether a placement is worth it.

The order on a node is Volcano's BuildVictimsPriorityQueue: tasks of the last job in job order first, within a job the
last task first; across queues, the queue that loses first comes first.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.attempts import RETRY_AFTER
from volcanoio.engine.scheduling.cluster.jobs import EVICTABLE, JobInfo, TaskInfo
from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.placement.node_states import fitting_counts
from volcanoio.engine.scheduling.preemption.candidate_nodes import CandidateNodes, CandidateScores
from volcanoio.engine.scheduling.session.context import SessionContext
from volcanoio.framework.backoff import jittered
from volcanoio.framework.scheduling.hypernodes import CLUSTER
from volcanoio.framework.scheduling.points import Purpose, SortKey
from volcanoio.framework.scheduling.session import Eligible, Run
from volcanoio.framework.scheduling.views import Shape, TaskStatus


class FittingTasks:
    """Implements `session.FittingTasks` with one number per row."""

    __slots__ = ("_columns", "_mask", "_requests", "_rows", "free", "with_evictions")

    def __init__(
        self, session: SessionContext, task: TaskInfo, purpose: Purpose, domain: NDArray[np.bool_] | None = None
    ) -> None:
        assert task.job_info is not None
        assert task.job_info.queue_info is not None
        self._columns = session.nodes
        self._requests = task.shape.requests
        self._mask, _ = session.state.placer.candidate_scores(task)
        if domain is not None:
            self._mask &= domain
        victim_columns, queue = session.state.victim_columns, task.job_info.queue_info.name
        evictable = victim_columns.of_queue(queue) if purpose is Purpose.PREEMPT else victim_columns.of_others(queue)
        shape, columns = task.shape, self._columns
        self._rows = fitting_counts(shape, columns, self._mask)
        """Number of tasks that fit, by row."""
        self.free = int(self._rows.sum())
        """Number of tasks that fit the room that is free or being released now."""
        self.with_evictions = int(fitting_counts(shape, columns, self._mask, evictable).sum())
        """Number of tasks that would fit, at creation, if everything evictable were evicted."""
        session.state.placer.add_effort(1)

    def is_candidate(self, node: str) -> bool:
        """Return whether the node passes every filter that evictions cannot change."""
        return bool(self._mask[self._columns.rows[node]])

    def recount(self, node: str) -> None:
        """Count a node again after an eviction or placement there."""
        row = self._columns.rows[node]
        if self._mask[row]:
            fitting = min(
                self._columns.future_idle(name).item(row) // amount for name, amount in self._requests.items()
            )
            fitting = max(fitting, 0)
            self.free += fitting - self._rows.item(row)
            self._rows[row] = fitting


def _depends_on_others(shape: Shape) -> bool:
    """Return whether the nodes for a task depend on other pods, on ports or on volumes."""
    return bool(shape.terms or shape.matched or shape.host_ports or shape.claims or shape.has_device_claims)


_ON_NODE = frozenset({*EVICTABLE, TaskStatus.RELEASING})
"""Evictable statuses, and that of tasks whose eviction may be undone."""


@dataclass(slots=True)
class _Order:
    """Tasks in order, and the keys of their jobs that the order follows from."""

    tasks: list[TaskInfo]
    keys: list[tuple[JobInfo, SortKey]]
    has_several_queues: bool


class VictimOrder:
    """The order of victims by node, kept for one action: within a session no evictable task is added to a node.

    The tasks of a node are sorted again when the place of one of their jobs in job order has changed.
    """

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._rules = session.rules
        self._orders: dict[str, _Order] = {}

    def clear(self) -> None:
        """Begin another action."""
        self._orders.clear()

    def on_node(self, node: str) -> Sequence[TaskInfo]:
        """Return the tasks on a node by job and task, regardless of queue; evicted ones may be included."""
        if (order := self._orders.get(node)) is None:
            tasks = self._session.state.ledger.tasks_by_node.get(node, {}).values()
            order = self._orders[node] = self._order([task for task in tasks if task.status in _ON_NODE])
        elif len(order.keys) > 1:
            key_of = self._session.job_key
            for job, key in order.keys:  # called for every node that is tried: a generator would double its cost
                if key_of(job) != key:
                    order = self._orders[node] = self._order(order.tasks)
                    break
        return order.tasks

    def by_queue(self, node: str, tasks: list[TaskInfo], preemptor: str) -> list[TaskInfo]:
        """Sort tasks on a node so that those of the queue that loses first come first."""
        if self._orders[node].has_several_queues:
            names = {task.job_info.queue for task in tasks if task.job_info is not None}
            if len(names) > 1:
                queues = self._session.queues
                ranks = self._rules.victim_ranks([queues[name] for name in names], queues[preemptor])
                tasks.sort(key=lambda task: ranks[task.job_info.queue] if task.job_info is not None else -1)
        return tasks

    def _order(self, tasks: Iterable[TaskInfo]) -> _Order:
        """Sort tasks so that those of the last job come first, within a job the last task."""
        rules, key_of = self._rules, self._session.job_key
        jobs = {task.job: task.job_info for task in tasks}
        keys = {key: key_of(job) if job is not None else () for key, job in jobs.items()}
        task_key = rules.task_key if rules.orders_tasks else None
        # `task.key` ends in the uid: no two are equal, and the tasks themselves are never compared
        keyed = [(keys[task.job], task_key and task_key(task), task.key, task) for task in tasks]
        keyed.sort(reverse=True)
        return _Order(
            [task for _, _, _, task in keyed],
            [(job, keys[key]) for key, job in jobs.items() if job is not None],
            len({job.queue for job in jobs.values() if job is not None}) > 1,
        )


_FUTURE = int(Quantity.FUTURE)
MAX_SCORES = 64
"""Number of shapes and queues whose scores are kept (80 kB each at 10,000 nodes)."""


class Victims:
    """Implements `session.Victims`."""

    __slots__ = ("_columns", "_excluded", "_failed", "_ledger", "_order", "_placer", "_rules", "_scores", "_session")

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._rules = session.rules
        self._ledger, self._columns, self._placer = session.state.ledger, session.nodes, session.state.placer
        self._failed: set[Hashable] = set()
        """Keys of alike jobs for which too few victims were found; cleared with each action, as all below."""
        self._excluded: dict[Hashable, NDArray[np.bool_]] = {}
        """Rows where too few victims were found, by the key of alike tasks."""
        self._scores: dict[Hashable, CandidateScores] = {}
        """Scores of nodes by purpose, queue and shape; see there what makes them invalid."""
        self._order = VictimOrder(session)

    def prepare(self) -> Iterator[None]:
        """Count the evictable resources per node; exhaust it before the first `candidate_nodes` of an action."""
        self._failed.clear()
        self._excluded.clear()
        self._scores.clear()
        self._order.clear()
        return self._session.state.victim_columns.refresh()

    def has_failed(self, purpose: Purpose, job: JobInfo, runs: Sequence[Run]) -> bool:
        """Return whether this action already found too few victims for an alike job."""
        if not self._failed or self._job_equivalence_key(purpose, job, runs) not in self._failed:
            return False
        _mark_unschedulable(self._session, job, runs)
        self._session.failed_jobs.add(job.key)
        return True

    def record_failure(self, purpose: Purpose, job: JobInfo, runs: Sequence[Run]) -> None:
        """Record that too few victims were found for the job and that its statement was discarded."""
        self._failed.add(self._job_equivalence_key(purpose, job, runs))
        _mark_unschedulable(self._session, job, runs)

    def is_unschedulable(self, job: JobInfo) -> bool:
        """Return whether the action failed for the job in an earlier cycle and nothing relevant changed since."""
        return self._session.state.unschedulable.has(self._session.action, job.key, self._session.now)

    def exclude_node(self, purpose: Purpose, task: TaskInfo, node: str) -> None:
        """Leave a node out of later searches for alike tasks."""
        key, columns = self._equivalence_key(purpose, task), self._session.nodes
        if (rows := self._excluded.get(key)) is None:
            rows = self._excluded[key] = np.zeros(columns.capacity, np.bool_)
        rows[columns.rows[node]] = True

    def job_starving(self, job: JobInfo) -> bool:
        """Return whether a job may have others evicted (Volcano: JobStarving)."""
        return self._rules.job_starving(job)

    def has_nominations(self, job: JobInfo) -> bool:
        """Return whether victims are already terminating for the job."""
        return job.key in self._session.state.nominations.jobs

    def preemptive(self, job: JobInfo, tasks: Sequence[TaskInfo]) -> bool:
        """Return whether the job's queue may reclaim for these tasks."""
        assert job.queue_info is not None
        return self._rules.preemptive(job.queue_info, tasks)

    def queue_allocatable(self, job: JobInfo, shape: Shape, count: int) -> int:
        """Return how many of `count` tasks of a shape the job's queue may allocate now."""
        assert job.queue_info is not None
        return self._rules.allocatable(job.queue_info, shape, count)

    def candidate_nodes(self, task: TaskInfo, purpose: Purpose, *, own_job: bool = False) -> CandidateNodes:
        """Return the nodes to search for victims for tasks like this one, without those excluded before."""
        for _ in self._session.state.victim_columns.refresh():  # what the action itself has changed: a few nodes
            pass
        session = self._session
        if own_job:
            return CandidateNodes(session, task, CandidateScores(session, task, purpose, own_job=True), None)
        assert task.job_info is not None
        key = (purpose, task.job_info.queue, task.shape.id)
        if (scores := self._scores.get(key)) is None or not scores.refresh(task):
            if len(self._scores) >= MAX_SCORES:
                self._scores.clear()
            scores = self._scores[key] = CandidateScores(session, task, purpose)
        excluded = self._excluded.get(self._equivalence_key(purpose, task)) if self._excluded else None
        return CandidateNodes(session, task, scores, excluded)

    def can_gain_victims(self, purpose: Purpose) -> bool:
        """Return whether evictions can make more tasks evictable: of several tiers, an empty one defers to the next."""
        return self._rules.has_several_victim_tiers(purpose)

    def is_node_local(self, task: TaskInfo) -> bool:
        """Return whether feasibility and score of a node for the task depend on that node alone."""
        return self._placer.is_node_local(task)

    def running_tasks(self) -> Sequence[TaskInfo]:
        """Return all Running tasks, by job and then in task order."""
        running: list[TaskInfo] = []
        for _, job in sorted(self._ledger.schedulable_jobs.items()):
            if job.counts[TaskStatus.RUNNING]:
                of_job = [task for task in job.members.values() if task.status is TaskStatus.RUNNING]
                running += sorted(of_job, key=lambda task: task.key)
        return running

    def has_room_without(self, node: str, shape: Shape, victims: Iterable[TaskInfo]) -> bool:
        """Return whether one task fits on a node once these victims are gone."""
        columns, row, missing = self._columns, self._columns.rows[node], {}
        for name, amount in shape.requests.items():
            if (room := columns.block.item(_FUTURE, columns.resources[name], row)) < amount:
                missing[name] = amount - room
        if not missing:
            return True
        for victim in victims:
            requests, is_enough = victim.shape.requests, True
            for name, amount in missing.items():
                missing[name] = amount = amount - requests.get(name, 0)
                is_enough &= amount <= 0
            if is_enough:
                return True
        return False

    def victims_on_node(self, purpose: Purpose, preemptor: TaskInfo, node: str, eligible: Eligible) -> list[TaskInfo]:
        """Return the tasks on a node that may be evicted for the preemptor, in eviction order."""
        assert preemptor.job_info is not None
        if not (ordered := cast("list[TaskInfo]", eligible(self._order.on_node(node), preemptor))):
            return ordered
        if purpose is Purpose.RECLAIM:
            ordered = self._order.by_queue(node, ordered, preemptor.job_info.queue)
        if not self._session.state.native_groups.disrupted_whole:
            return self._permitted(purpose, preemptor, ordered)
        whole = {task.job: task.job_info for task in ordered if task.job_info and task.job_info.is_evicted_whole}
        together = {key: _evictable_members(job) for key, job in whole.items()}
        here = {task.uid for task in ordered}
        elsewhere = [task for members in together.values() for task in members if task.uid not in here]
        permitted = self._permitted(purpose, preemptor, [*ordered, *elsewhere])
        allowed = {task.uid for task in permitted if task.preemptable}
        refused = {key for key, members in together.items() if not allowed.issuperset(task.uid for task in members)}
        refused.add(preemptor.job if whole.get(preemptor.job) else "")  # it would have to go itself
        return [task for task in permitted if task.uid in here and task.job not in refused]

    def _permitted(self, purpose: Purpose, preemptor: TaskInfo, candidates: list[TaskInfo]) -> list[TaskInfo]:
        rules = self._rules
        if purpose is Purpose.PREEMPT:
            return cast("list[TaskInfo]", rules.preemptable(preemptor, candidates))
        return cast("list[TaskInfo]", rules.reclaimable(preemptor, candidates))

    def fitting_tasks(self, task: TaskInfo, purpose: Purpose, hyper_node: str = CLUSTER) -> FittingTasks:
        """Count how many tasks like this one fit in a HyperNode, with and without evictions."""
        for _ in self._session.state.victim_columns.refresh():  # what the action itself has changed: a few nodes
            pass
        domain = None if hyper_node == CLUSTER else self._session.domains.domain(hyper_node)
        return FittingTasks(self._session, task, purpose, None if domain is None else domain.rows)

    def evictable(
        self, job: JobInfo, purpose: Purpose, candidates: Sequence[TaskInfo], *, partial: bool = False
    ) -> list[TaskInfo]:
        """Return the candidates that plugins allow the gang actions to evict for a job."""
        return cast("list[TaskInfo]", self._rules.evictable(job, purpose, candidates, partial=partial))

    def victim_queue_ranks(self, queues: Iterable[str], preemptor_queue: str) -> dict[str, int]:
        """Return the rank of each queue among those that lose tasks to the preemptor's queue; 0 loses first."""
        by_name = self._session.queues
        return self._rules.victim_ranks([by_name[name] for name in queues], by_name[preemptor_queue])

    def victim_tasks(self, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Return the candidates that plugins want to evict without a preemptor."""
        return cast("list[TaskInfo]", self._rules.victim_tasks(candidates))

    def movable(self, job: JobInfo, candidates: Sequence[TaskInfo]) -> list[TaskInfo]:
        """Return the candidates that no plugin protects from being evicted for a job, and whose budgets permit it."""
        allowed = {
            task.uid for purpose in Purpose for task in self._rules.evictable(job, purpose, candidates) if candidates
        }
        permitted = self._rules.permitted([task for task in candidates if task.uid in allowed])
        return cast("list[TaskInfo]", list(permitted))

    def fit_elsewhere(self, tasks: Sequence[TaskInfo], hyper_nodes: Collection[str]) -> bool:
        """Return whether all these evicted tasks fit on nodes outside HyperNodes, beside everything that is placed.

        The largest first, each on the node where it leaves least room.
        """
        columns = self._columns
        if any(_depends_on_others(task.shape) for task in tasks):
            return False
        outside = np.ones(len(columns), np.bool_)
        for name in hyper_nodes:
            outside[self._session.hyper_nodes.rows(name)] = False
        free = columns.block[Quantity.FUTURE][:, : len(columns)].copy()
        total: list[int] = np.maximum(columns.block[Quantity.ALLOCATABLE][:, : len(columns)].sum(axis=1), 1).tolist()

        def size(task: TaskInfo) -> float:
            return max(amount / total[columns.resource(name)] for name, amount in task.shape.requests.items())

        for task in sorted(tasks, key=size, reverse=True):
            requests = [(columns.resource(name), amount) for name, amount in task.shape.requests.items()]
            mask, _ = self._placer.candidate_scores(task)
            mask &= outside
            for at, amount in requests:
                mask &= free[at] >= amount
            if not mask.any():
                return False
            left = sum((free[at] - amount) / total[at] for at, amount in requests)
            row = int(np.where(mask, left, np.inf).argmin())
            for at, amount in requests:
                free[at, row] -= amount
        return True

    def fits(self, task: TaskInfo, node: str) -> bool:
        """Return whether a task passes every filter on a node and fits its free room or that being released."""
        return self._placer.fits(task, self._columns.rows[node])

    def can_simulate(self, task: TaskInfo, node: str) -> bool:
        """Return whether a dry run of evictions on the node can make the task fit."""
        columns = self._columns
        return all(part.allowed(task.shape, columns)[columns.rows[node]] for part in self._rules.unsimulated)

    def keeps_guarantee(self, victim: TaskInfo) -> bool:
        """Return whether the queue of the victim keeps its guarantee of what the victim requests without it."""
        queue = victim.job_info.queue_info if victim.job_info is not None else None
        if queue is None or not queue.guarantee:
            return True
        allocated, guarantee = queue.allocated, queue.guarantee
        return all(
            allocated.get(name, 0) - amount >= guarantee.get(name, 0)
            for name, amount in victim.shape.requests.items()
            if guarantee.get(name)
        )

    def would_evict_back(self, purpose: Purpose, evicted: Sequence[TaskInfo], placed: Sequence[TaskInfo]) -> bool:
        """Return whether any evicted task could immediately have a placed task evicted for itself."""
        preemptors = self._starving_preemptors(evicted)
        targets = [task for task in placed if task.preemptable] if preemptors else []
        if not targets or not any(self._can_evict(purpose, preemptor) for preemptor in preemptors):
            return False
        if purpose is Purpose.RECLAIM and not any(map(_is_reclaimable, targets)):
            return False
        ledger = self._ledger
        clean_jobs = [task.job for task in targets if task.job not in ledger.dirty]
        for task in targets:  # as if they were running already
            ledger.revert(task, TaskStatus.RUNNING, task.node)
        would_evict = any(
            self._would_evict(purpose, preemptor, targets)
            for preemptor in preemptors
            if self._can_evict(purpose, preemptor)  # again, as the targets count as running now
        )
        for task in targets:
            ledger.revert(task, TaskStatus.PIPELINED, task.node)
        for key in clean_jobs:
            ledger.dirty.pop(key, None)
        return would_evict

    def _starving_preemptors(self, evicted: Sequence[TaskInfo]) -> Collection[TaskInfo]:
        """Return the evicted tasks whose jobs starve now, one of each job, shape and priority; usually none."""
        starves = self._rules.job_starving
        jobs = {task.job: task.job_info for task in evicted}
        starving = {key for key, job in jobs.items() if job is not None and starves(job)}
        preemptors: dict[tuple[str, int, int], TaskInfo] = {}
        for task in evicted if starving else ():
            if task.job in starving and task.can_preempt:
                preemptors.setdefault((task.job, task.shape.id, task.priority), task)
        return preemptors.values()

    def record_attempt(self, victims: int) -> None:
        """Count an attempt on a node and the victims it found (Volcano's preemption metrics)."""
        self._session.stats.record_attempt(victims)

    def _equivalence_key(self, purpose: Purpose, task: TaskInfo) -> Hashable:
        """Return a key that tasks share which find the same victims on a node."""
        job = task.job_info
        assert job is not None
        return purpose, job.queue, job.priority, self._rules.preemptor_key(job, purpose), task.shape.id, task.priority

    def _job_equivalence_key(self, purpose: Purpose, job: JobInfo, runs: Sequence[Run]) -> Hashable:
        """Return a key that jobs share for which the search for victims ends the same way.

        Jobs with sub-jobs or a network topology share it with none: it also depends on where their tasks are.
        """
        return (
            job.min_available,
            (job.sub_job_table is not None or job.has_network_topology) and job.key,
            *job.role_minimums.items(),
            *job.counts,
            *[
                (
                    self._equivalence_key(purpose, cast("TaskInfo", run.tasks[0])),
                    run.role,
                    run.nominated,
                    len(run.tasks),
                )
                for run in runs
            ],
        )

    def _would_evict(self, purpose: Purpose, preemptor: TaskInfo, targets: Sequence[TaskInfo]) -> bool:
        """Return whether a configured action could evict one of the targets for the preemptor."""
        session, job = self._session, preemptor.job_info
        assert job is not None
        if session.is_action_configured(purpose):
            victims_of = self._rules.preemptable if purpose is Purpose.PREEMPT else self._rules.reclaimable
            eligible = [task for task in targets if task.shape.best_effort or not preemptor.shape.best_effort]
            if victims_of(preemptor, eligible):
                return True
        if not session.is_action_configured(f"gang{purpose}"):
            return False
        eligible = [
            task
            for task in targets
            if task.job_info is not None
            and task.job_info.preemptable
            and (purpose is Purpose.RECLAIM or task.job_info.priority < job.priority)
        ]
        return bool(eligible) and bool(self._rules.evictable(job, purpose, eligible))

    def _can_evict(self, purpose: Purpose, preemptor: TaskInfo) -> bool:
        """Return whether an evicted task could immediately have others evicted, if any were eligible."""
        job = preemptor.job_info
        if job is None or job.queue_info is None or not preemptor.can_preempt or not self._rules.job_starving(job):
            return False
        if purpose is Purpose.PREEMPT:
            return True
        return not self._rules.overused(job.queue_info) and self._rules.preemptive(job.queue_info, [preemptor])


def _evictable_members(job: JobInfo) -> list[TaskInfo]:
    return [task for task in job.members.values() if task.status in EVICTABLE]


def _is_reclaimable(task: TaskInfo) -> bool:
    """Return whether other queues may reclaim from the task's queue."""
    queue = task.job_info.queue_info if task.job_info is not None else None
    return queue is not None and queue.object.spec.reclaimable is not False


def _mark_unschedulable(session: SessionContext, job: JobInfo, runs: Sequence[Run]) -> None:
    """Skip the job in this action until the cluster generation changes, where another try would fail too."""
    rules, placer = session.rules, session.state.placer
    if not rules.keeps_verdicts or rules.traits or any(task.retry_at > session.now for task in job.pending.values()):
        return
    if all(placer.filters_ignore_placements(run.shape) and placer.is_time_independent(run.shape) for run in runs):
        until = session.now + jittered(RETRY_AFTER, job.uid or job.key)
        session.state.unschedulable.add(session.action, job.key, until)
