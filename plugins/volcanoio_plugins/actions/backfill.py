"""backfill: places pending best-effort tasks, regardless of quota.

Source: Volcano pkg/scheduler/actions/backfill. Unlike there, a job's tasks are placed in one statement, which is
committed only if the job is ready without those that found no node: a gang is never bound in part. And they are placed
within the network topology of their job.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.heap import PriorityQueue
from volcanoio.framework.scheduling.hypernodes import CLUSTER
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.views import Job
from volcanoio.model.scheduling import PodGroupPhase

EXAMINED_PER_STEP = 64
"""Jobs examined in one step."""


class BackfillArguments(msgspec.Struct, frozen=True):
    """`predicateErrorCacheEnable` is Volcano's; here tasks of one shape always share their results."""

    predicate_error_cache: bool = msgspec.field(default=True, name="predicateErrorCacheEnable")


class Backfill:
    """Places the best-effort tasks of each job once, queue by queue."""

    name = "backfill"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, BackfillArguments, "action backfill")

    def run(self, session: Session) -> Iterator[None]:
        """Place best-effort tasks in the order of queues, jobs and tasks."""
        heaps: dict[str, PriorityQueue[Job]] = {}
        for number, job in enumerate(session.jobs_with_pending_tasks()):
            if job.phase != PodGroupPhase.PENDING and job.pending_best_effort and session.job_valid(job):
                if job.queue not in heaps:
                    heaps[job.queue] = session.empty_job_order()
                heaps[job.queue].push(job)
            if not number % EXAMINED_PER_STEP:
                yield
        queues = session.ordered_queues(heaps)
        while queues:
            jobs = heaps[queues.pop().name]
            while jobs:
                if session.is_budget_exhausted():
                    return
                yield from self._place(session, jobs.pop())

    def _place(self, session: Session, job: Job) -> Iterator[None]:
        """Place the tasks of a job in the first HyperNode that suffices, without a network topology on any node."""
        if not job.has_network_topology:
            yield from self._place_within(session, job, CLUSTER)
        elif session.domains.are_known(job):
            runs = session.runs(job, best_effort=True)
            for level in session.domains.levels(job, evicting=False):
                for name in session.domains.promising(job, level, runs):
                    if (yield from self._place_within(session, job, name)):
                        return

    def _place_within(self, session: Session, job: Job, within: str) -> Generator[None, None, bool]:
        """Place the tasks of a job in a HyperNode; return whether some were, and the job is ready."""
        statement, number = session.statement(job), 0
        for run in session.runs(job, best_effort=True):
            start = 0
            while start < len(run.tasks):
                count = session.batch_size(run.shape, len(run.tasks) - start)
                placed, _ = statement.allocate(run, start, count, until_ready=False, idle_only=True, within=within)
                number += placed
                yield
                if placed < count:
                    break
                start += placed
        if session.job_ready(job):
            statement.commit()
            return number > 0
        statement.discard()
        return False
