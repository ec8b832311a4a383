"""What could be evicted for a job in a domain of nodes, in the order in which it goes.

Source: Volcano, pkg/scheduler/actions/gangpreempt and gangreclaim (selectDomainBundles).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import NamedTuple

from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.views import Job, TaskStatus
from volcanoio_plugins.actions.bundles import Bundle, bundles

FIRST = 256
"""About how many tasks plugins are asked about at first; four times as many each time these are not enough."""
BETWEEN = 32
"""After how many jobs other work may run."""
_TAKABLE = {Purpose.PREEMPT: (TaskStatus.RUNNING, TaskStatus.BOUND), Purpose.RECLAIM: (TaskStatus.RUNNING,)}


class Domain(NamedTuple):
    """Nodes within which a job is to have all its room; "" is the whole cluster."""

    name: str
    nodes: frozenset[str]


def domains(session: Session, job: Job, most: int) -> list[Domain]:  # noqa: ARG001 - no plugin divides nodes by job yet
    """Where to look for room for a job, in order, so many at most: the whole cluster."""
    return [Domain("", frozenset(session.nodes.names))][:most]


class Offers:
    """The jobs of which something could be evicted, for one action of one session."""

    def __init__(self, session: Session, purpose: Purpose, *, whole: bool) -> None:
        """`whole`: gangs may be ended."""
        self._session = session
        self._purpose = purpose
        self._whole = whole
        self._holders: dict[str, list[Job]] = {}
        """By queue the jobs that hold nodes."""
        self._bundles: dict[tuple[str, str], list[Bundle]] = {}
        """By domain and job."""

    def lost(self, jobs: Iterable[str]) -> None:
        """Tasks of these jobs (by key) were evicted."""
        gone = set(jobs)
        for at in [at for at in self._bundles if at[1] in gone]:
            del self._bundles[at]

    def victims_of(self, job: Job) -> list[Job]:
        """The jobs that may lose tasks to a job by the action's own rule."""
        if self._purpose is Purpose.PREEMPT:
            return [other for other in self._in(job.queue) if other.priority < job.priority]
        queues = self._session.queues
        return [
            other
            for name in sorted(queues)
            if name != job.queue and queues[name].object.spec.reclaimable is not False
            for other in self._in(name)
        ]

    def ordered(self, job: Job, domain: Domain, need: Mapping[str, int]) -> Generator[None, None, list[Bundle]]:
        """All bundles: what jobs can spare before whole gangs; then lowest jobs, or queues that lose first, first."""
        found: list[Bundle] = []
        for at, other in enumerate(self.victims_of(job)):
            if at % BETWEEN == BETWEEN - 1:
                yield
            found += [bundle for bundle in self._of(other, domain) if self._whole or not bundle.whole]
        if self._purpose is Purpose.PREEMPT:
            keys = {bundle.job.key: self._session.job_key(bundle.job) for bundle in found}
            found.sort(key=lambda bundle: keys[bundle.job.key], reverse=True)
        else:
            ranks = self._session.victims.queue_ranks({bundle.job.queue for bundle in found}, job.queue)
            found.sort(key=lambda bundle: (ranks[bundle.job.queue], -bundle.worth(need), bundle.job.uid))
        found.sort(key=lambda bundle: bundle.whole)
        return found

    def permitted(self, job: Job, ordered: list[Bundle]) -> Iterator[Bundle]:
        """The bundles that no plugin vetoes: of what a job can spare the rest stays, a gang goes whole or not."""
        asked, wanted, offered = 0, FIRST, False
        while asked < len(ordered):
            start, number = asked, sum(len(bundle.tasks) for bundle in ordered[:asked])
            while asked < len(ordered) and number < wanted:
                number += len(ordered[asked].tasks)
                asked += 1
            wanted *= 4
            last = asked == len(ordered)
            candidates = [task for bundle in ordered[:asked] for task in bundle.tasks]
            named = self._session.victims.evictable(job, self._purpose, candidates, partial=not last)
            allowed = {task.uid for task in named}
            for bundle in ordered[0 if last and not offered else start : asked]:
                left = [task for task in bundle.tasks if task.uid in allowed]
                if left and (not bundle.whole or len(left) == len(bundle.tasks)):
                    offered = True
                    yield Bundle(bundle.job, bundle.whole, left)

    def _in(self, queue: str) -> list[Job]:
        known = self._holders.get(queue)
        if known is None:
            jobs, takable = self._session.jobs, _TAKABLE[self._purpose]
            known = self._holders[queue] = [
                job
                for job in self._session.queues[queue].jobs
                if job.expendable and job.key in jobs and job.count(*takable)
            ]
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
