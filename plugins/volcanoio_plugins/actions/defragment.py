"""defragment: moves small jobs out of a HyperNode so that a waiting gang fits it.

For a gang whose hard network topology leaves it no HyperNode with enough free nodes, though enough are free in all.
Pods of small, preemptable jobs are evicted only after a dry run has shown that the gang then has its nodes, and that
every evicted pod fits on a node elsewhere beside it. Volcano has no such action; put it after allocate.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from volcanoio.framework.arguments import GoDuration, convert
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.session import FittingTasks, Run, Session, Statement
from volcanoio.framework.scheduling.views import Job, Task, TaskStatus
from volcanoio.model.times import epoch_or_none
from volcanoio_plugins.actions.bundles import Domain, domains
from volcanoio_plugins.actions.eviction import conclude, must_stay_together, pipeline_all, preemptors
from volcanoio_plugins.actions.gangeviction import runs_to_start


class DefragmentArguments(msgspec.Struct, frozen=True):
    """Limits of a move.

    `maxJobSize` is the number of pods up to which a job counts as small, `maxPods` the most pods moved for one gang,
    `maxDomains` the most HyperNodes tried for it. Pods are not moved before they are `minAge` old: a pod that was
    moved is a new one.
    """

    max_job_size: int = msgspec.field(default=4, name="maxJobSize")
    max_pods: int = msgspec.field(default=32, name="maxPods")
    max_domains: int = msgspec.field(default=8, name="maxDomains")
    min_age: GoDuration = msgspec.field(default=GoDuration(300.0), name="minAge")


class _Plan(NamedTuple):
    """The HyperNode for a gang, and the tasks that are moved out of it, by job."""

    domain: Domain
    moved: Sequence[Sequence[Task]]

    @property
    def size(self) -> int:
        return sum(map(len, self.moved))


class Defragment:
    """Each waiting gang with a hard topology once: the plan that moves the fewest pods is carried out."""

    name = "defragment"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._options = convert(arguments, DefragmentArguments, f"action {self.name}")

    def run(self, session: Session) -> Iterator[None]:
        """Make room for gangs that must stay together, whatever their queues: no job loses its place."""
        small: list[Job] | None = None
        for job in preemptors(session):
            if session.is_budget_exhausted():
                return
            if must_stay_together(session, job) and not job.sub_jobs:
                if small is None:
                    yield from session.victims.prepare()
                    small = [other for other in session.jobs.values() if self._is_small(session, other)]
                yield from self._make_room(session, job, small)
            yield

    def _make_room(self, session: Session, job: Job, small: Sequence[Job]) -> Generator[None, None, None]:
        """Carry out the plan for a job that moves the fewest pods, if there is one."""
        runs, victims = runs_to_start(session, job), session.victims
        if not runs or victims.has_failed(Purpose.PREEMPT, job, runs):
            return
        movable = [other for other in small if other.key != job.key and other.priority <= job.priority]
        best: _Plan | None = None
        for domain in domains(session, job, self._options.max_domains):
            plan = yield from self._plan(session, job, runs, domain, movable)
            if plan is not None and (best is None or plan.size < best.size):
                best = plan
        if best is not None:
            statement = session.statement(job)
            self._evict(statement, best.moved)
            if not (yield from pipeline_all(session, statement, job, runs, best.domain.name)):
                statement.discard()
            elif conclude(session, statement, job, Purpose.PREEMPT, without=False):
                return
        victims.record_failure(Purpose.PREEMPT, job, runs)

    def _plan(
        self, session: Session, job: Job, runs: Sequence[Run], domain: Domain, small: Sequence[Job]
    ) -> Generator[None, None, _Plan | None]:
        """Find which small jobs to move out of a HyperNode, by a dry run; None if that does not help."""
        victims, statement = session.victims, session.statement(job)
        wanted = Counter[int]()
        for run in runs:
            wanted[run.shape.id] += len(run.tasks)
        shapes = {run.shape.id: run.tasks[0] for run in runs}
        fitting = {key: victims.fitting_tasks(task, Purpose.PREEMPT, domain.name) for key, task in shapes.items()}
        start = statement.savepoint()
        chosen: list[list[Task]] = []
        enough = False
        for tasks in self._movable(session, job, domain, fitting.values(), small):
            if sum(map(len, chosen)) + len(tasks) > self._options.max_pods:
                break
            self._evict(statement, [tasks])
            chosen.append(tasks)
            for node in {task.node for task in tasks}:
                for each in fitting.values():
                    each.recount(node)
            yield
            if any(fitting[key].free < number for key, number in wanted.items()):
                continue
            mark = statement.savepoint()
            if enough := (yield from pipeline_all(session, statement, job, runs, domain.name)):
                break
            statement.rollback(mark)
        if enough:
            chosen = yield from self._needed(session, statement, job, runs, domain, chosen, start)
        flat = [task for tasks in chosen for task in tasks]
        proven = enough and victims.fit_elsewhere(flat, domain.name)
        statement.discard()
        return _Plan(domain, chosen) if proven else None

    def _needed(  # noqa: PLR0913 - the state of one dry run
        self,
        session: Session,
        statement: Statement,
        job: Job,
        runs: Sequence[Run],
        domain: Domain,
        chosen: list[list[Task]],
        start: Any,
    ) -> Generator[None, None, list[list[Task]]]:
        """Leave out each job without which the gang is still placed; the statement has the result.

        `start` is the savepoint before anything was evicted.
        """
        for tasks in list(chosen):
            statement.rollback(start)
            fewer = [others for others in chosen if others is not tasks]
            self._evict(statement, fewer)
            if fewer and (yield from pipeline_all(session, statement, job, runs, domain.name)):
                chosen = fewer
        statement.rollback(start)
        self._evict(statement, chosen)
        yield from pipeline_all(session, statement, job, runs, domain.name)
        return chosen

    def _movable(
        self, session: Session, job: Job, domain: Domain, fitting: Iterable[FittingTasks], small: Sequence[Job]
    ) -> list[list[Task]]:
        """Return by job the tasks in a HyperNode that may be moved and use room of the gang, the fewest first."""
        useful = {node for each in fitting for node in domain.nodes if each.is_candidate(node)}
        found = [[task for task in other.tasks if task.node in domain.nodes] for other in small]
        found = [tasks for tasks in found if useful.intersection(task.node for task in tasks)]
        found.sort(key=lambda tasks: (len(tasks), tasks[0].job))
        allowed = {task.uid for task in session.victims.movable(job, [task for tasks in found for task in tasks])}
        return [tasks for tasks in found if all(task.uid in allowed for task in tasks)]

    def _is_small(self, session: Session, job: Job) -> bool:
        """Return whether a job is small, and all its pods run, may be evicted and are old enough."""
        return (
            job.preemptable
            and not job.has_network_topology
            and 0 < len(job.tasks) <= self._options.max_job_size
            and all(self._can_move(session, task) for task in job.tasks)
        )

    def _can_move(self, session: Session, task: Task) -> bool:
        created = epoch_or_none(task.created)
        is_old = created is not None and session.now >= created + self._options.min_age
        return is_old and task.preemptable and task.status in (TaskStatus.RUNNING, TaskStatus.BOUND)

    def _evict(self, statement: Statement, moved: Iterable[Sequence[Task]]) -> None:
        for tasks in moved:
            for task in tasks:
                statement.evict(task, self.name)
