"""reclaim: takes resources back for a queue below its deserved share from queues above theirs.

Source: Volcano pkg/scheduler/actions/reclaim. Unlike there, nodes are tried by score, a job may also use resources that
are free already, and placements pass every filter and limit (see `eviction`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.views import Job, Task, TaskStatus
from volcanoio_plugins.actions.eviction import (
    EvictionGoal,
    TaskEvictor,
    jobs_by_queue,
    must_stay_together,
    preemptors,
    runs_that_may_evict,
)


class ReclaimArguments(msgspec.Struct, frozen=True):
    """`predicateErrorCacheEnable` is Volcano's; here tasks of one shape always share their results."""

    predicate_error_cache: bool = msgspec.field(default=True, name="predicateErrorCacheEnable")


class Reclaim:
    """Each starving job once, queue by queue."""

    name = "reclaim"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, ReclaimArguments, "action reclaim")

    def run(self, session: Session) -> Iterator[None]:
        """Evict for jobs of queues that are not overused, in the order of queues and jobs."""
        # it chooses node by node: gangreclaim makes room for a job whose pods must be in one HyperNode
        free = (job for job in preemptors(session) if not must_stay_together(session, job))
        jobs = yield from jobs_by_queue(session, free)
        if not jobs:
            return
        yield from session.victims.prepare()
        queues = session.ordered_queues(jobs)
        while queues:
            queue = queues.pop()
            if session.overused(queue):
                continue
            while jobs[queue.name]:
                if session.is_budget_exhausted():
                    return
                yield from self._reclaim(session, jobs[queue.name].pop())

    def _reclaim(self, session: Session, job: Job) -> Iterator[None]:
        jobs = session.jobs
        reclaimable_queues = {
            name
            for name, queue in session.queues.items()
            if name != job.queue and queue.object.spec.reclaimable is not False
        }

        def eligible(there: Sequence[Task], task: Task) -> list[Task]:  # noqa: ARG001 - part of the signature
            running = TaskStatus.RUNNING
            return [
                victim
                for victim in there
                if victim.status is running
                and victim.preemptable
                and (owner := jobs.get(victim.job)) is not None
                and owner.queue in reclaimable_queues
            ]

        runs, victims = runs_that_may_evict(session, job), session.victims
        yield
        if victims.has_failed(Purpose.RECLAIM, job, runs):
            return
        evictor = TaskEvictor(session, job, EvictionGoal(Purpose.RECLAIM, self.name), eligible)
        for run in runs:
            if not victims.job_starving(job):
                break
            yield from evictor.place(run)
            yield
        yield
        if not evictor.end():
            victims.record_failure(Purpose.RECLAIM, job, runs)
