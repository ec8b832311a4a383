"""defragment: moves small jobs out of a HyperNode so that a waiting gang fits it.

For a gang whose hard network topology leaves it no HyperNode with enough free nodes, though enough are free in all.
Pods of small, preemptable jobs are evicted only after a dry run has shown that the gang then has its nodes, and that
every evicted pod fits on a node elsewhere beside it. Volcano has no such action; put it after allocate.
"""

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from volcanoio.framework.arguments import GoDuration, convert
from volcanoio.framework.scheduling.hypernodes import CLUSTER
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.session import FittingTasks, Run, Session, Statement
from volcanoio.framework.scheduling.views import Job, SubJob, Task, TaskStatus
from volcanoio.model.times import epoch_or_none
from volcanoio_plugins.actions.bundles import domains
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


JOBS_PER_STEP = 256
"""Jobs looked at in one step."""
_MOVED = (TaskStatus.RUNNING, TaskStatus.BOUND)


class _Plan(NamedTuple):
    """The HyperNode for tasks of a gang, and the tasks that are moved out of it, by job."""

    domain: str
    runs: Sequence[Run]
    moved: Sequence[Sequence[Task]]

    @property
    def size(self) -> int:
        return sum(map(len, self.moved))


def _size(plans: Sequence[_Plan]) -> int:
    return sum(plan.size for plan in plans)


class _Part(NamedTuple):
    """Tasks of a gang that are placed in one HyperNode; `sub_job` has its own network topology, or is None."""

    sub_job: SubJob | None
    runs: Sequence[Run]


def _parts(job: Job, runs: Sequence[Run]) -> list[_Part]:
    """Return the tasks of each sub-job with a network topology of its own, and all others; the most tasks first."""
    found: dict[str, _Part] = {}
    for run in runs:
        sub_job = job.sub_job_of(run.tasks[0])
        if sub_job is not None and sub_job.network_topology is None:
            sub_job = None
        part = found.setdefault("" if sub_job is None else sub_job.key, _Part(sub_job, []))
        found["" if sub_job is None else sub_job.key] = part._replace(runs=[*part.runs, run])
    return sorted(found.values(), key=lambda part: (part.sub_job is None, -sum(len(run.tasks) for run in part.runs)))


class _DryRun:
    """Searches plans for one gang in a statement of it. `movable` are the jobs that may be moved, by key."""

    def __init__(
        self,
        session: Session,
        job: Job,
        runs: Sequence[Run],
        movable: Mapping[str, Job],
        options: DefragmentArguments,
    ) -> None:
        self._session = session
        self._victims = session.victims
        self._job = job
        self._parts = _parts(job, runs)
        self._movable_jobs = movable
        self._options = options
        self.statement: Statement = session.statement(job)

    def plans(self, within: str) -> Generator[None, None, list[_Plan] | None]:
        """Return a plan for each part of the gang inside a HyperNode, None if that does not help."""
        start = self.statement.savepoint()
        chosen: list[_Plan] = []
        for part in self._parts:
            plan = yield from self._cheapest_plan(part, within, self._options.max_pods - _size(chosen))
            if plan is None:
                self.statement.rollback(start)
                return None
            chosen.append(plan)
            yield from self._apply(plan)
        moved = [task for plan in chosen for tasks in plan.moved for task in tasks]
        is_proven = self._victims.fit_elsewhere(moved, {plan.domain for plan in chosen if plan.domain != CLUSTER})
        self.statement.rollback(start)
        return chosen if is_proven else None

    def carry_out(self, plans: Sequence[_Plan]) -> Generator[None, None, bool]:
        """Evict and pipeline the tasks of these plans; return whether the gang has its nodes."""
        for plan in plans:
            if not (yield from self._apply(plan)):
                return False
        return True

    def _apply(self, plan: _Plan) -> Generator[None, None, bool]:
        self._evict(plan.moved)
        return (yield from pipeline_all(self._session, self.statement, self._job, plan.runs, plan.domain))

    def _cheapest_plan(self, part: _Part, within: str, most: int) -> Generator[None, None, _Plan | None]:
        """Return the plan for a part that moves the fewest pods, at most `most`; none are moved where it fits now."""
        best: _Plan | None = None
        start = self.statement.savepoint()
        for name in self._promising(part, within) if len(self._parts) > 1 else ():
            fits = yield from pipeline_all(self._session, self.statement, self._job, part.runs, name)
            self.statement.rollback(start)
            if fits:
                return _Plan(name, part.runs, ())
        for name in self._domains(part, within)[: self._options.max_domains]:
            plan = yield from self._plan_in(name, part.runs, most)
            if plan is not None and (best is None or plan.size < best.size):
                best = plan
        return best

    def _promising(self, part: _Part, within: str) -> list[str]:
        """Return the HyperNodes inside one that may have room for a part now."""
        if part.sub_job is None:
            return [within]
        domains = self._session.domains
        levels = domains.levels(part.sub_job, within, evicting=False)
        return [name for level in levels for name in domains.promising(part.sub_job, level, part.runs)]

    def _domains(self, part: _Part, within: str) -> list[str]:
        """Return the HyperNodes inside one that small jobs may be moved out of for a part."""
        if part.sub_job is None:
            return [within] if within != CLUSTER else []
        levels = self._session.domains.levels(part.sub_job, within, evicting=True)
        return [name for level in levels for name in level if name != CLUSTER]

    def _plan_in(self, name: str, runs: Sequence[Run], most: int) -> Generator[None, None, _Plan | None]:
        """Find which small jobs to move out of a HyperNode, by a dry run; None if that does not help."""
        victims, statement = self._victims, self.statement
        wanted = Counter[int]()
        for run in runs:
            wanted[run.shape.id] += len(run.tasks)
        shapes = {run.shape.id: run.tasks[0] for run in runs}
        fitting = {key: victims.fitting_tasks(task, Purpose.PREEMPT, name) for key, task in shapes.items()}
        start = statement.savepoint()
        chosen: list[list[Task]] = []
        enough = False
        for tasks in self._movable(self._session.domains.nodes(name), fitting.values()):
            if sum(map(len, chosen)) + len(tasks) > most:
                break
            self._evict([tasks])
            chosen.append(tasks)
            for node in {task.node for task in tasks}:
                for each in fitting.values():
                    each.recount(node)
            yield
            if any(fitting[key].free < number for key, number in wanted.items()):
                continue
            mark = statement.savepoint()
            if enough := (yield from pipeline_all(self._session, statement, self._job, runs, name)):
                break
            statement.rollback(mark)
        proven = False
        if enough:
            chosen = yield from self._needed(runs, name, chosen, start)
            flat = [task for tasks in chosen for task in tasks]
            proven = victims.fit_elsewhere(flat, [name])
        statement.rollback(start)
        return _Plan(name, runs, chosen) if proven else None

    def _needed(
        self, runs: Sequence[Run], name: str, chosen: list[list[Task]], start: Any
    ) -> Generator[None, None, list[list[Task]]]:
        """Leave out each job without which the tasks are still placed; the statement has the result.

        `start` is the savepoint before anything was evicted.
        """
        for tasks in list(chosen):
            self.statement.rollback(start)
            fewer = [others for others in chosen if others is not tasks]
            if fewer and (yield from self._apply(_Plan(name, runs, fewer))):
                chosen = fewer
        self.statement.rollback(start)
        yield from self._apply(_Plan(name, runs, chosen))
        return chosen

    def _movable(self, nodes: Collection[str], fitting: Iterable[FittingTasks]) -> list[list[Task]]:
        """Return by job the tasks on nodes that may be moved and use room of the gang, the fewest first."""
        useful = {node for each in fitting for node in nodes if each.is_candidate(node)}
        keys = {task.job for node in useful for task in self._session.tasks_on(node)}
        found = [
            [task for task in self._movable_jobs[key].tasks if task.node in nodes and task.status in _MOVED]
            for key in keys & self._movable_jobs.keys()
        ]
        found = [tasks for tasks in found if useful.intersection(task.node for task in tasks)]
        found.sort(key=lambda tasks: (len(tasks), tasks[0].job))
        allowed = {task.uid for task in self._victims.movable(self._job, [task for tasks in found for task in tasks])}
        return [tasks for tasks in found if all(task.uid in allowed for task in tasks)]

    def _evict(self, moved: Iterable[Sequence[Task]]) -> None:
        for tasks in moved:
            for task in tasks:
                self.statement.evict(task, Defragment.name)


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
            if must_stay_together(session, job):
                if small is None:
                    yield from session.victims.prepare()
                    small = yield from self._small_jobs(session)
                yield from self._make_room(session, job, small)
            yield

    def _make_room(self, session: Session, job: Job, small: Sequence[Job]) -> Generator[None, None, None]:
        """Carry out the plan for a job that moves the fewest pods, if there is one."""
        runs, victims = runs_to_start(session, job), session.victims
        if not runs or victims.has_failed(Purpose.PREEMPT, job, runs):
            return
        movable = {other.key: other for other in small if other.key != job.key and other.priority <= job.priority}
        trial = _DryRun(session, job, runs, movable, self._options)
        best: list[_Plan] | None = None
        for domain in domains(session, job, self._options.max_domains):
            plans = yield from trial.plans(domain.name)
            if plans is not None and (best is None or _size(plans) < _size(best)):
                best = plans
        if best is None or not (yield from trial.carry_out(best)):
            trial.statement.discard()
        elif conclude(session, trial.statement, job, Purpose.PREEMPT, without=False):
            return
        victims.record_failure(Purpose.PREEMPT, job, runs)

    def _small_jobs(self, session: Session) -> Generator[None, None, list[Job]]:
        """Return the jobs that may be moved for some gang."""
        small = []
        for number, job in enumerate(list(session.jobs.values()), 1):
            if self._is_small(session, job):
                small.append(job)
            if not number % JOBS_PER_STEP:
                yield
        return small

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
        return is_old and task.preemptable and task.status in _MOVED
