"""preempt: within a queue, starving jobs of higher standing take the places of others.

Source: Volcano pkg/scheduler/actions/preempt, in both its modes. Unlike there, room that is there without evictions is
used before any node with victims, and what is placed passes every filter and limit (see `taking`).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.heap import Turns
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.victims import Eligible
from volcanoio.framework.scheduling.views import Job, Task, TaskStatus
from volcanoio_plugins.actions.dryrun import DryRun
from volcanoio_plugins.actions.taking import Taking, runs_of, takers

_TAKABLE = (TaskStatus.RUNNING, TaskStatus.BOUND)


class PreemptArguments(msgspec.Struct, frozen=True):
    """`predicateErrorCacheEnable` is Volcano's; here every task of one shape shares its answers anyway.

    With `enableTopologyAwarePreemption` the victims of several nodes are worked out, and the least harmful taken: of so
    many nodes, in percent of all and at least and at most in absolute numbers. `topologyAwarePreemptWorkerNum` is
    Volcano's number of threads for that; here there are none.
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
        jobs: dict[str, Turns[Job]] = {}
        members: dict[str, list[Job]] = {}
        for job in takers(session):
            spec = job.group.spec
            parts = [policy.network_topology for policy in spec.sub_group_policy]
            if any(topology is not None for topology in (spec.network_topology, *parts)):
                continue  # where its pods are matters as a whole: gangpreempt sees to that
            if job.queue not in jobs:
                jobs[job.queue], members[job.queue] = session.job_turns(), []
            jobs[job.queue].push(job)
            members[job.queue].append(job)
            yield
        if not jobs:
            return
        yield from session.victims.prepare()
        queues = session.queue_turns(jobs)
        while queues:
            queue = queues.pop()
            name, mates = queue.name, {job.key for job in queue.jobs} & session.jobs.keys()
            while jobs[name]:
                if session.exhausted():
                    return
                yield from self._between(session, jobs[name].pop(), mates)
            for job in members[name]:
                if session.exhausted():
                    return
                yield from self._within(session, job)

    def _between(self, session: Session, job: Job, mates: Collection[str]) -> Iterator[None]:
        """Let a job take from other jobs of its queue (by their keys), all it needs or nothing."""
        own = job.key

        def eligible(there: Sequence[Task], task: Task) -> list[Task]:
            return _takable(there, task, mates, own)

        runs, victims = runs_of(session, job), session.victims
        yield
        if victims.failed(Purpose.PREEMPT, job, runs):
            return
        taking = self._taking(session, job, eligible, own=False)
        for run in runs:
            if not victims.starving(job):
                break
            yield from taking.seat(run)
            yield
        if not taking.end():
            victims.fail(Purpose.PREEMPT, job, runs)

    def _within(self, session: Session, job: Job) -> Iterator[None]:
        """Let a job's tasks take from its own of lower standing, one by one until one finds nothing."""
        only = (job.key,)

        def eligible(there: Sequence[Task], task: Task) -> list[Task]:
            return _takable(there, task, only)

        if session.victims.awaits(job) or not job.count(*_TAKABLE):
            return
        for run in runs_of(session, job):
            for task in run.tasks:
                taking = self._taking(session, job, eligible, own=True)
                placed = yield from taking.seat(run._replace(tasks=[task]), starving=False)
                if not placed:
                    taking.give_up()
                    return
                if not taking.end():
                    return

    def _taking(self, session: Session, job: Job, eligible: Eligible, *, own: bool) -> Taking:
        options, what = self._options, (session, job, Purpose.PREEMPT, eligible, self.name)
        if options.dry_run:
            return DryRun(*what, percentage=options.percentage, least=options.least, most=options.most, own=own)
        return Taking(*what, own=own)


def _takable(there: Sequence[Task], task: Task, jobs: Container[str], but: str = "") -> list[Task]:
    """Those of some jobs, one of them left out, that may be evicted for a task."""
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
