"""Bundles of tasks that can be evicted together for a gang, and their order.

A job has up to two bundles: its surplus, whose loss leaves the gang running, and the rest, whose loss ends it. Source:
Volcano, pkg/scheduler/actions/utils (CreateJobBundles), gangpreempt and gangreclaim (selectDomainBundles).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from volcanoio.framework.scheduling.points import Purpose, SortKey
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Job, SubJob, Task, TaskStatus
from volcanoio.model.resources import add

READY = (*sorted(ALLOCATED_STATUSES), TaskStatus.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class Bundle:
    """Tasks of one job that may be evicted: any of them or, if `whole`, all or none.

    For whole bundles, `freed` is what evicting them frees and `lost` what the gang requests in total.
    """

    job: Job
    whole: bool
    tasks: list[Task]
    freed: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)

    def worth(self, need: Mapping[str, int]) -> float:
        """Return the share of the needed room that it frees, relative to the amounts evicted (Volcano: ROI)."""
        useful = total = 0.0
        for name, amount in need.items():
            if amount > 0:
                useful += min(self.freed.get(name, 0) / amount, 1.0)
                total += self.lost.get(name, 0) / amount
        return useful / total if total else float("inf")


def bundles(job: Job, tasks: Collection[Task]) -> list[Bundle]:
    """Return the evictable tasks of a job in bundles: its surplus first."""
    if not (ordered := sorted(tasks, key=lambda task: (task.priority, task.uid))):
        return []
    if job.is_evicted_whole:
        is_all = len(ordered) == job.count(TaskStatus.RUNNING, TaskStatus.BOUND)
        return [Bundle(job, True, ordered, _sum(ordered), _sum(job.tasks))] if is_all else []
    if job.ready_count < job.min_available:  # not ready: evicting any of its tasks cannot break the gang
        return [Bundle(job, False, ordered)]
    spare = _Surplus(job)
    safe: list[Task] = []
    rest: list[Task] = []
    for task in ordered:
        (safe if spare.takes(task) else rest).append(task)
    found = [Bundle(job, False, safe)] if safe else []
    return [*found, Bundle(job, True, rest, _sum(rest), _sum(job.tasks))] if rest else found


class _Surplus:
    """Tasks that a job can lose without falling below its minimums: in total, by role, and sub-jobs by group."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._tasks = job.ready_count - job.min_available
        self._roles: dict[str, int] = {}
        if 0 < sum(job.role_minimums.values()) <= job.min_available:
            held = Counter(task.role for task in job.tasks if _counts(task))
            self._roles = {role: held[role] - minimum for role, minimum in job.role_minimums.items()}
        self._groups: dict[str, int] = {}
        self._parts: dict[str, int] = {}
        """Number of tasks above its minimum by sub-job; negative when the sub-job is not ready."""
        if job.sub_job_minimums:
            for sub_job in job.sub_jobs:
                self._parts[sub_job.key] = sub_job.ready_count + sub_job.pending_best_effort - sub_job.min_available
                if self._parts[sub_job.key] >= 0:
                    self._groups[sub_job.group] = self._groups.get(sub_job.group, 0) + 1
            for group, minimum in job.sub_job_minimums.items():
                self._groups[group] = self._groups.get(group, 0) - minimum

    def takes(self, task: Task) -> bool:
        """Return whether the task is surplus; if so, it is counted as evicted."""
        sub_job = self._job.sub_job_of(task) if self._parts else None
        if (
            self._tasks <= 0
            or self._roles.get(task.role, 1) <= 0
            or (sub_job is not None and not self._can_lose(sub_job))
        ):
            return False
        self._tasks -= 1
        if task.role in self._roles:
            self._roles[task.role] -= 1
        if sub_job is not None:
            if self._parts[sub_job.key] == 0:
                self._groups[sub_job.group] -= 1
            self._parts[sub_job.key] -= 1
        return True

    def _can_lose(self, sub_job: SubJob) -> bool:
        """Return whether a sub-job is not ready, has surplus tasks, or is not needed by its group."""
        return self._parts[sub_job.key] != 0 or self._groups[sub_job.group] > 0


def _counts(task: Task) -> bool:
    return task.status in READY or (task.status is TaskStatus.PENDING and task.shape.best_effort)


def _sum(tasks: Collection[Task]) -> dict[str, int]:
    total: dict[str, int] = {}
    for task in tasks:
        add(total, task.shape.requests)
    return total


FIRST = 256
"""Tasks in the first call of plugins; four times as many in each further call."""
BETWEEN = 32
"""Jobs in one step, where their tasks are examined."""
KEYS = 512
"""Jobs in one step, where only their keys are read."""
_EVICTABLE_STATUSES = {Purpose.PREEMPT: (TaskStatus.RUNNING, TaskStatus.BOUND), Purpose.RECLAIM: (TaskStatus.RUNNING,)}


class Domain(NamedTuple):
    """A HyperNode within which all tasks of a job are placed, and the names of its nodes."""

    name: str
    nodes: frozenset[str]


def domains(session: Session, job: Job, most: int) -> Iterator[Domain]:
    """Yield the domains to try for a job, in order, at most `most`: the whole cluster without a network topology."""
    levels = session.domains.levels(job, evicting=True)
    names = dict.fromkeys([name for level in levels for name in level])
    for name in islice(names, most):
        yield Domain(name, session.domains.nodes(name))


class OrderedJobs:
    """Jobs of a queue in job order; `seen` is the number of recorded losses that the order includes."""

    __slots__ = ("_key_of", "_keys", "jobs", "seen")

    def __init__(self, keyed: list[tuple[SortKey, Job]], seen: int) -> None:
        self._keys = [key for key, _ in keyed]
        self.jobs = [job for _, job in keyed]
        self._key_of = {job.key: key for key, job in keyed}
        self.seen = seen

    def reposition(self, name: str, ask: Callable[[Job], SortKey]) -> None:
        """Move a job (by key) to its current position, if it is one of these."""
        if (old := self._key_of.get(name)) is None:
            return
        at = bisect_left(self._keys, old)  # keys end in the job's: no two are equal
        job = self.jobs.pop(at)
        del self._keys[at]
        key = self._key_of[name] = ask(job)
        at = bisect_left(self._keys, key)
        self._keys.insert(at, key)
        self.jobs.insert(at, job)


class CandidateBundles:
    """The jobs with evictable bundles, for one action of one session; cached per job until it loses tasks."""

    def __init__(self, session: Session, purpose: Purpose, *, whole: bool) -> None:
        """`whole`: gangs may be ended."""
        self._session = session
        self._purpose = purpose
        self._kinds = (False, True) if whole else (False,)
        self._evictable_jobs: dict[str, list[Job]] = {}
        """By queue the jobs with evictable tasks."""
        self._bundles: dict[tuple[str, str], list[Bundle]] = {}
        """By domain and job."""
        self._gangs: dict[Hashable, tuple[int, list[tuple[float, str, Job]]]] = {}
        """By domain, queue and need: jobs with whole bundles, most worth first, and the losses included."""
        self._job_orders: dict[str, OrderedJobs] = {}
        """By queue its jobs in job order."""
        self._losses: list[str] = []
        """The keys of jobs that lost tasks."""

    def lost(self, jobs: Iterable[str]) -> None:
        """Record that tasks of these jobs (by key) were evicted."""
        gone = set(jobs)
        for at in [at for at in self._bundles if at[1] in gone]:
            del self._bundles[at]
        self._losses += sorted(gone)

    def ordered(self, job: Job, domain: Domain, need: Mapping[str, int]) -> Iterator[Bundle | None]:
        """Yield all bundles for a job: surplus tasks, then whole gangs; None where other work may run.

        Each by the lowest job first, or by the queue that loses first, within which the gangs that are worth most come
        first.
        """
        preempting = self._purpose is Purpose.PREEMPT
        names = [job.queue] if preempting else self._losing(job)
        for whole in self._kinds:
            for name in names:
                if preempting:
                    jobs = self._lowest(job)
                else:
                    jobs = self._worthiest(name, domain, need) if whole else iter(self._in(name))
                for at, other in enumerate(jobs):
                    if at % BETWEEN == BETWEEN - 1:
                        yield None
                    if other is None:
                        yield None
                        continue
                    yield from (bundle for bundle in self._of(other, domain) if bundle.whole is whole)

    def permitted(self, job: Job, bundles: Iterator[Bundle | None]) -> Iterator[Bundle | None]:
        """Yield the bundles that no plugin vetoes: surplus may be reduced, a gang goes whole or not at all."""
        seen: list[Bundle] = []
        start, number, wanted, last, given = 0, 0, FIRST, False, False
        while not last:
            last = True
            for bundle in bundles:
                if bundle is None:
                    yield None
                    continue
                seen.append(bundle)
                number += len(bundle.tasks)
                if number >= wanted:
                    last = False
                    break
            wanted *= 4
            if start == len(seen) and (given or not seen):
                return
            candidates = [task for bundle in seen for task in bundle.tasks]
            named = self._session.victims.evictable(job, self._purpose, candidates, partial=not last)
            allowed = {task.uid for task in named}
            for bundle in seen[0 if last and not given else start :]:
                left = [task for task in bundle.tasks if task.uid in allowed]
                if left and (not bundle.whole or len(left) == len(bundle.tasks)):
                    given = True
                    yield Bundle(bundle.job, bundle.whole, left)
            start = len(seen)

    def _lowest(self, job: Job) -> Iterator[Job | None]:
        """Yield the jobs of its queue with lower priority, last in job order first; None where other work may run."""
        queue, steady = job.queue, self._session.has_stable_job_keys
        if (order := self._job_orders.get(queue)) is None or (not steady and order.seen != len(self._losses)):
            keyed = []
            for at, other in enumerate(self._in(queue)):
                if at % KEYS == KEYS - 1:
                    yield None
                keyed.append((self._session.job_key(other), other))
            keyed.sort(key=lambda entry: entry[0])
            order = self._job_orders[queue] = OrderedJobs(keyed, len(self._losses))
        for key in self._losses[order.seen :]:
            order.reposition(key, self._session.job_key)
        order.seen = len(self._losses)
        for other in reversed(order.jobs):
            if other.priority < job.priority:
                yield other

    def _losing(self, job: Job) -> list[str]:
        """Return the other queues that may be reclaimed from, the one that loses first first."""
        queues = self._session.queues
        names = [name for name, one in queues.items() if name != job.queue and one.object.spec.reclaimable is not False]
        ranks = self._session.victims.victim_queue_ranks([name for name in names if self._in(name)], job.queue)
        return sorted(ranks, key=lambda name: ranks[name])

    def _worthiest(self, queue: str, domain: Domain, need: Mapping[str, int]) -> Iterator[Job | None]:
        """Yield the jobs of a queue that may be evicted whole, most worth first; None where other work may run."""
        at = domain.name, queue, tuple(sorted(need.items()))
        since, known = self._gangs.get(at, (-1, []))
        if since != len(self._losses):
            changed = None if since < 0 else set(self._losses[since:])
            known = [] if changed is None else [entry for entry in known if entry[2].key not in changed]
            for number, job in enumerate(self._in(queue)):
                if changed is not None and job.key not in changed:
                    continue
                if number % BETWEEN == BETWEEN - 1:
                    yield None
                known += [(-bundle.worth(need), job.key, job) for bundle in self._of(job, domain) if bundle.whole]
            known.sort(key=lambda entry: entry[:2])
            self._gangs[at] = len(self._losses), known
        for _, _, job in known:
            yield job

    def _in(self, queue: str) -> list[Job]:
        if (known := self._evictable_jobs.get(queue)) is None:
            jobs, evictable = self._session.jobs, _EVICTABLE_STATUSES[self._purpose]
            known = [
                job
                for job in self._session.queues[queue].jobs
                if job.preemptable and job.key in jobs and job.count(*evictable)
            ]
            known.sort(key=lambda job: job.key)
            self._evictable_jobs[queue] = known
        return known

    def _of(self, job: Job, domain: Domain) -> list[Bundle]:
        at = domain.name, job.key
        if (known := self._bundles.get(at)) is None:
            evictable, nodes = _EVICTABLE_STATUSES[self._purpose], domain.nodes
            known = self._bundles[at] = bundles(
                job,
                [task for task in job.tasks if task.status in evictable and task.preemptable and task.node in nodes],
            )
        return known
