"""Evictions node by node that make room for the tasks of a job: shared by preempt and reclaim.

A set of victims is evicted only if the task then passes every filter and the limits of its queue, no queue falls below
its guarantee, and the victims could not at once evict in return. Free resources are used first.
"""

from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

from volcanoio.framework.scheduling.heap import PriorityQueue
from volcanoio.framework.scheduling.hypernodes import CLUSTER
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.session import CandidateNodes, Eligible, Run, Session, Statement
from volcanoio.framework.scheduling.views import Job, SubJob, Task
from volcanoio.model.scheduling import PodGroupPhase


def preemptors(session: Session) -> Iterator[Job]:
    """Yield the jobs that may have others evicted: admitted, valid, starving, without nominations.

    A job whose network topology cannot be kept is not among them: no room helps it.
    """
    victims = session.victims
    for job in session.jobs_with_pending_tasks():
        if (
            job.phase != PodGroupPhase.PENDING
            and not victims.is_unschedulable(job)
            and not victims.has_nominations(job)
            and victims.job_starving(job)
            and session.job_valid(job)
            and (not job.has_network_topology or session.domains.are_known(job))
        ):
            yield job


def runs_that_may_evict(session: Session, job: Job) -> list[Run]:
    """Return the pending tasks for which others may be evicted, in task order."""
    runs = [*session.runs(job, best_effort=False), *session.runs(job, best_effort=True)]
    chosen = [Run(run.shape, run.role, [task for task in run.tasks if task.can_preempt], run.nominated) for run in runs]
    return [run for run in chosen if run.tasks]


def must_stay_together(session: Session, job: Job) -> bool:
    """Return whether a network topology keeps the job, or one of its sub-jobs, within less than the cluster."""
    if not job.has_network_topology:
        return False
    everywhere = session.hyper_nodes.tier(CLUSTER)
    gangs: list[Job | SubJob] = [job, *job.sub_jobs]
    limits = [session.highest_tier(gang) for gang in gangs]
    return any(limit is not None and limit < everywhere for limit in limits)


def pipeline_all(
    session: Session, statement: Statement, job: Job, runs: Sequence[Run], within: str
) -> Generator[None, None, bool]:
    """Pipeline all tasks of runs in a HyperNode, on idle room first; return whether all fit, also into the quota.

    Where one after the other fails for different tasks of a gang that must stay together, nodes are searched for them.
    """
    mark = statement.savepoint()
    if (yield from _pipeline_in_order(session, statement, job, runs, within)):
        return True
    if job.sub_jobs or len({run.shape.id for run in runs}) == 1:
        return False
    statement.rollback(mark)
    found = yield from session.domains.search(job, statement, [[within]], {"": runs})
    if found is None or len(found.nodes) < sum(len(run.tasks) for run in runs):
        return False
    single = [Run(task.shape, task.role, [task], node) for task, node in found.nodes]
    return (yield from _pipeline_in_order(session, statement, job, single, within))


def _pipeline_in_order(
    session: Session, statement: Statement, job: Job, runs: Iterable[Run], within: str
) -> Generator[None, None, bool]:
    for run in runs:
        number = 0
        while number < len(run.tasks):
            some = session.batch_size(run.shape, len(run.tasks) - number)
            if session.victims.queue_allocatable(job, run.shape, some) < some:
                return False
            placed = statement.pipeline(run, number, some, while_starving=False, idle_first=True, within=within)
            if placed < some:
                return False
            number += some
            yield
    return True


def jobs_by_queue(session: Session, jobs: Iterable[Job]) -> Generator[None, None, dict[str, PriorityQueue[Job]]]:
    """Return the jobs of each queue in job order."""
    found: dict[str, PriorityQueue[Job]] = {}
    for job in jobs:
        if job.queue not in found:
            found[job.queue] = session.empty_job_order()
        found[job.queue].push(job)
        yield
    return found


def worth_keeping(session: Session, job: Job, placed: Iterable[Task]) -> bool:
    """Return whether reservations help the job, and each sub-job that has some of them."""
    if not session.job_pipelined(job):
        return False
    parts = (
        {sub_job.key: sub_job for task in placed if (sub_job := job.sub_job_of(task)) is not None}
        if job.sub_jobs
        else {}
    )
    return all(session.sub_job_ready(sub_job) or session.sub_job_pipelined(sub_job) for sub_job in parts.values())


def conclude(session: Session, statement: Statement, job: Job, purpose: Purpose, *, without: bool) -> bool:
    """Commit a statement that is worth keeping, else discard it; return whether it was committed.

    `without`: commit even if nothing was evicted.
    """
    evicted = statement.evicted
    worth = worth_keeping(session, job, statement.pipelined) and (bool(evicted) or without)
    if worth and evicted and session.victims.would_evict_back(purpose, evicted, statement.pipelined):
        worth = False
    if worth:
        statement.commit()
    else:
        statement.discard()
    return worth


class EvictionGoal(NamedTuple):
    """What evictions are for, and the name of the action, which is their reason."""

    purpose: Purpose
    reason: str


class TaskEvictor:
    """Makes room for tasks of one job in one statement. `own`: victims are the job's own tasks."""

    def __init__(
        self, session: Session, job: Job, goal: EvictionGoal, eligible: Eligible, *, own: bool = False
    ) -> None:
        self._session = session
        self._victims = session.victims
        self._statement: Statement = session.statement(job)
        self._job = job
        self._purpose, self._reason = goal
        self._eligible = eligible
        self._own = own
        self._can_gain_nodes = False
        """Whether a node was excluded that later evictions can make possible: a limit or filter rejected the task, or
        other tiers may select victims there then.
        """
        self._limited = False
        """Whether the queue's limit was reached at the last check."""
        self._excluded: list[tuple[Task, str, bool]] = []
        """Tasks and nodes without victims, and whether the statement was still empty at that time."""

    def place(self, run: Run, *, while_starving: bool = True) -> Generator[None, None, int]:
        """Place tasks of a run, with `while_starving` only while the job starves; return how many were placed."""
        victims, statement = self._victims, self._statement
        number = yield from self._reserve(run, while_starving=while_starving)
        nodes: CandidateNodes | None = None
        at = ""
        alone: bool | None = None
        while number < len(run.tasks) and (not while_starving or victims.job_starving(self._job)):
            task = run.tasks[number]
            if not self._wants(task):
                break
            if at and self._fits(task, at):
                statement.pipeline_on(task, at, evicted=True)
                if nodes is not None:
                    nodes.rescore(at)
                number += 1
                continue
            if (self._limited or not alone) and at and self._elsewhere(run, number):
                if nodes is not None:
                    nodes.rescore(task.node)
                number += 1
                continue
            nodes = nodes or victims.candidate_nodes(task, self._purpose, own_job=self._own)
            at = yield from self.search(task, nodes)
            if not at:
                break
            if alone is None:
                alone = victims.is_node_local(task)
            if self._can_gain_nodes:
                nodes, self._can_gain_nodes = None, False
            else:
                nodes.rescore(at)
            number += 1
            yield  # a placement with evictions takes as long as two failed searches
        return number

    def _elsewhere(self, run: Run, number: int) -> bool:
        """Place a task that fits now without evictions, because earlier ones removed an obstacle or freed quota."""
        return self._within(run, 1) > 0 and self._statement.pipeline(run, number, 1) > 0

    def search(self, task: Task, nodes: CandidateNodes) -> Generator[None, None, str]:
        """Make room for a task on the best possible node and place it; return the node, "" when there is none."""
        while node := nodes.best():
            yield
            if self.take(task, node):
                return node
            self.exclude(task, node, nodes)
        return ""

    def exclude(self, task: Task, node: str, nodes: CandidateNodes) -> None:
        """Remove a node on which no suitable victims were found."""
        nodes.exclude(node)
        statement = self._statement
        self._excluded.append((task, node, not statement.evicted and not statement.pipelined))

    def take(self, task: Task, node: str) -> bool:
        """Evict on a node, first victims first, until the task fits, and place it; otherwise undo everything."""
        victims, statement = self._victims, self._statement
        chosen = self.candidates(task, node)
        victims.record_attempt(len(chosen))
        fits = self._fits(task, node)
        if not chosen and not fits:
            self._can_gain_nodes = self._can_gain_nodes or victims.can_gain_victims(self._purpose)
            return False
        mark = statement.savepoint()
        evicted: list[Task] = []
        for victim in chosen:
            if fits:
                break
            if self._purpose is Purpose.RECLAIM and not victims.keeps_guarantee(victim):
                continue
            statement.evict(victim, self._reason)
            evicted.append(victim)
            fits = self._fits(task, node)
        self._can_gain_nodes = self._can_gain_nodes or not fits
        if fits and self.pipeline_on(task, node, evicted):
            return True
        statement.rollback(mark)
        return False

    def candidates(self, task: Task, node: str) -> list[Task]:
        """Return the victims on a node in eviction order; none where evicting all would be too little."""
        victims = self._victims
        permitted = victims.victims_on_node(self._purpose, task, node, self._eligible)
        return permitted if permitted and victims.has_room_without(node, task.shape, permitted) else []

    def pipeline_on(self, task: Task, node: str, evicted: list[Task]) -> bool:
        """Place a task on a node where it fits now; False when its victims could immediately evict it."""
        self._statement.pipeline_on(task, node, evicted=bool(evicted))
        return not evicted or not self._victims.would_evict_back(self._purpose, evicted, [task])

    def give_up(self) -> None:
        """Discard the statement."""
        self._statement.discard()

    def end(self) -> bool:
        """Commit the statement if its result is worth keeping, else discard it; return whether it was committed.

        Without evictions it is left to allocate, if that will still run: the room is free.
        """
        session = self._session
        worth = conclude(
            session, self._statement, self._job, self._purpose, without=not session.is_action_pending("allocate")
        )
        if not self._own:
            for task, node, pure in self._excluded:
                if worth or pure:
                    session.victims.exclude_node(self._purpose, task, node)
        return worth

    def _reserve(self, run: Run, *, while_starving: bool) -> Generator[None, None, int]:
        """Pipeline the tasks that fit without evictions, in batches; return their number."""
        victims, number = self._victims, 0
        while number < len(run.tasks) and (not while_starving or victims.job_starving(self._job)):
            if not self._wants(run.tasks[number]):
                break
            some = self._session.batch_size(run.shape, len(run.tasks) - number)
            allowed = self._wanted(run.tasks[number : number + self._within(run, some)])
            placed = self._statement.pipeline(run, number, allowed) if allowed > 0 else 0
            number += placed
            if placed < some:
                break
            yield
        return number

    def _within(self, run: Run, count: int) -> int:
        """Return how many of `count` more tasks the queue may allocate."""
        allowed = self._victims.queue_allocatable(self._job, run.shape, count)
        self._limited = allowed < count
        return allowed

    def _wants(self, task: Task) -> bool:
        return self._purpose is Purpose.PREEMPT or self._victims.preemptive(self._job, [task])

    def _wanted(self, tasks: Sequence[Task]) -> int:
        """Return for how many of these alike tasks, from the first, the queue may evict others."""
        if self._purpose is Purpose.PREEMPT:
            return len(tasks)
        preemptive, job = self._victims.preemptive, self._job
        return bisect_left(range(1, len(tasks) + 1), x=True, key=lambda count: not preemptive(job, tasks[:count]))

    def _fits(self, task: Task, node: str) -> bool:
        """Return whether the task passes limits and filters on the node now."""
        return self._victims.fits(task, node) and self._victims.queue_allocatable(self._job, task.shape, 1) > 0
