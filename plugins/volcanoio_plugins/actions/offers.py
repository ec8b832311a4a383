"""What could be evicted for a job in a domain of nodes, in the order in which it goes.

Source: Volcano, pkg/scheduler/actions/gangpreempt and gangreclaim (selectDomainBundles).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from volcanoio.framework.scheduling.points import Purpose, SortKey
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.views import Job, TaskStatus
from volcanoio_plugins.actions.bundles import Bundle, bundles

FIRST = 256
"""About how many tasks plugins are asked about at first; four times as many each time these are not enough."""
BETWEEN = 32
"""After how many jobs other work may run, where their tasks are looked at."""
KEYS = 512
"""And where only their keys are."""
_TAKABLE = {Purpose.PREEMPT: (TaskStatus.RUNNING, TaskStatus.BOUND), Purpose.RECLAIM: (TaskStatus.RUNNING,)}


class Domain(NamedTuple):
    """Nodes within which a job is to have all its room; "" is the whole cluster."""

    name: str
    nodes: frozenset[str]


def domains(session: Session, job: Job, most: int) -> list[Domain]:  # noqa: ARG001 - no plugin divides nodes by job yet
    """Where to look for room for a job, in order, so many at most: the whole cluster."""
    return [Domain("", frozenset(session.nodes.names))][:most]


class Turns:
    """Jobs of a queue by the order of their turns; `seen` is how many losses are told of in it."""

    __slots__ = ("_key_of", "_keys", "jobs", "seen")

    def __init__(self, keyed: list[tuple[SortKey, Job]], seen: int) -> None:
        self._keys = [key for key, _ in keyed]
        self.jobs = [job for _, job in keyed]
        self._key_of = {job.key: key for key, job in keyed}
        self.seen = seen

    def again(self, name: str, ask: Callable[[Job], SortKey]) -> None:
        """Put a job (by its key) where it stands now, if it is one of these."""
        if (old := self._key_of.get(name)) is None:
            return
        at = bisect_left(self._keys, old)  # keys end in the job's: no two are equal
        job = self.jobs.pop(at)
        del self._keys[at]
        key = self._key_of[name] = ask(job)
        at = bisect_left(self._keys, key)
        self._keys.insert(at, key)
        self.jobs.insert(at, job)


class Offers:
    """The jobs of which something could be evicted, for one action of one session.

    What follows from a job alone is kept until it loses tasks.
    """

    def __init__(self, session: Session, purpose: Purpose, *, whole: bool) -> None:
        """`whole`: gangs may be ended."""
        self._session = session
        self._purpose = purpose
        self._kinds = (False, True) if whole else (False,)
        self._holders: dict[str, list[Job]] = {}
        """By queue the jobs that hold nodes."""
        self._bundles: dict[tuple[str, str], list[Bundle]] = {}
        """By domain and job."""
        self._gangs: dict[Hashable, tuple[int, list[tuple[float, str, Job]]]] = {}
        """By domain, queue and need the jobs with whole bundles, those that are worth most first, as of so many losses.
        """
        self._turns: dict[str, Turns] = {}
        """By queue its jobs in the order of their turns."""
        self._losses: list[str] = []
        """The keys of jobs that lost tasks."""

    def lost(self, jobs: Iterable[str]) -> None:
        """Tasks of these jobs (by key) were evicted."""
        gone = set(jobs)
        for at in [at for at in self._bundles if at[1] in gone]:
            del self._bundles[at]
        self._losses += sorted(gone)

    def ordered(self, job: Job, domain: Domain, need: Mapping[str, int]) -> Iterator[Bundle | None]:
        """All bundles for a job: what others can spare, then whole gangs; None where other work may run.

        Each by the lowest job first, or by the queue that loses first: of one the gangs that are worth most for what is
        needed.
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
        """The bundles that no plugin vetoes: of what a job can spare the rest stays, a gang goes whole or not."""
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
        """The jobs of its queue with lower priority, those first that have their turns last; None for other work."""
        queue, steady = job.queue, self._session.steady_job_keys
        turns = self._turns.get(queue)
        if turns is None or (not steady and turns.seen != len(self._losses)):
            keyed = []
            for at, other in enumerate(self._in(queue)):
                if at % KEYS == KEYS - 1:
                    yield None
                keyed.append((self._session.job_key(other), other))
            keyed.sort(key=lambda entry: entry[0])
            turns = self._turns[queue] = Turns(keyed, len(self._losses))
        for key in self._losses[turns.seen :]:
            turns.again(key, self._session.job_key)
        turns.seen = len(self._losses)
        for other in reversed(turns.jobs):
            if other.priority < job.priority:
                yield other

    def _losing(self, job: Job) -> list[str]:
        """The other queues that may be reclaimed from, the one first that loses first."""
        queues = self._session.queues
        names = [name for name, one in queues.items() if name != job.queue and one.object.spec.reclaimable is not False]
        ranks = self._session.victims.queue_ranks([name for name in names if self._in(name)], job.queue)
        return sorted(ranks, key=lambda name: ranks[name])

    def _worthiest(self, queue: str, domain: Domain, need: Mapping[str, int]) -> Iterator[Job | None]:
        """The jobs of a queue that may be ended, those first that are worth most; None for other work."""
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
                known += [(-bundle.worth(need), job.uid, job) for bundle in self._of(job, domain) if bundle.whole]
            known.sort(key=lambda entry: entry[:2])
            self._gangs[at] = len(self._losses), known
        for _, _, job in known:
            yield job

    def _in(self, queue: str) -> list[Job]:
        known = self._holders.get(queue)
        if known is None:
            jobs, takable = self._session.jobs, _TAKABLE[self._purpose]
            known = [
                job
                for job in self._session.queues[queue].jobs
                if job.expendable and job.key in jobs and job.count(*takable)
            ]
            known.sort(key=lambda job: job.uid)
            self._holders[queue] = known
        return known

    def _of(self, job: Job, domain: Domain) -> list[Bundle]:
        at = domain.name, job.key
        known = self._bundles.get(at)
        if known is None:
            takable, nodes = _TAKABLE[self._purpose], domain.nodes
            known = self._bundles[at] = bundles(
                job, [task for task in job.tasks if task.status in takable and task.preemptable and task.node in nodes]
            )
        return known
