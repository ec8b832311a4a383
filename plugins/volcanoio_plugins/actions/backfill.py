"""backfill: places pending best-effort tasks, regardless of quota.

Source: Volcano pkg/scheduler/actions/backfill. Unlike there, a job's tasks are placed in one statement, which is
committed only if the job is ready without those that found no node: a gang is never bound in part. And they are placed
within the network topology of their job and sub-job.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.heap import PriorityQueue
from volcanoio.framework.scheduling.hypernodes import CLUSTER
from volcanoio.framework.scheduling.session import Run, Session, Statement
from volcanoio.framework.scheduling.views import Job, SubJob
from volcanoio.model.scheduling import PodGroupPhase

EXAMINED_PER_STEP = 64
"""Jobs examined in one step."""
Part: TypeAlias = tuple[SubJob | None, Sequence[Run]]
"""Tasks of one sub-job, or of a job whose sub-jobs are not placed one by one."""


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
            runs = session.runs(job, best_effort=True)
            yield from self._place_within(session, job, [(None, runs)], CLUSTER)
        elif session.domains.are_known(job):
            parts = _parts(session, job)
            runs = [run for _, some in parts for run in some]
            for level in session.domains.levels(job, evicting=False):
                for name in session.domains.promising(job, level, runs):
                    if (yield from self._place_within(session, job, parts, name)):
                        return

    def _place_within(
        self, session: Session, job: Job, parts: Sequence[Part], within: str
    ) -> Generator[None, None, bool]:
        """Place the tasks of a job in a HyperNode; return whether some were, and the job is ready."""
        statement, number = session.statement(job), 0
        for sub_job, runs in parts:
            if sub_job is None:
                number += yield from self._place_runs(session, statement, runs, within)
            else:
                number += yield from self._place_sub_job(session, statement, sub_job, runs, within)
        if session.job_ready(job):
            statement.commit()
            return number > 0
        statement.discard()
        return False

    def _place_sub_job(
        self, session: Session, statement: Statement, sub_job: SubJob, runs: Sequence[Run], within: str
    ) -> Generator[None, None, int]:
        """Place the tasks of a sub-job in the first HyperNode that suffices for it; return how many."""
        mark, domains = statement.savepoint(), session.domains
        levels = domains.levels(sub_job, within, evicting=False)
        names = [name for level in levels for name in (domains.promising(sub_job, level, runs) if level[1:] else level)]
        for name in names or [within]:  # without a HyperNode: try and undo, as tasks never tried count as placed
            number = yield from self._place_runs(session, statement, runs, name)
            if names and number and session.sub_job_ready(sub_job):
                return number
            statement.rollback(mark, record_attempts=True)
        return 0

    def _place_runs(
        self, session: Session, statement: Statement, runs: Sequence[Run], within: str
    ) -> Generator[None, None, int]:
        """Place tasks in a HyperNode; return how many."""
        number = 0
        for run in runs:
            start = 0
            while start < len(run.tasks):
                count = session.batch_size(run.shape, len(run.tasks) - start)
                placed, _ = statement.allocate(run, start, count, until_ready=False, idle_only=True, within=within)
                number += placed
                yield
                if placed < count:
                    break
                start += placed
        return number


def _parts(session: Session, job: Job) -> list[Part]:
    """Return the tasks of a job to place by sub-job, in the order of the sub-jobs."""
    if not job.sub_jobs:
        return [(None, session.runs(job, best_effort=True))]
    ordered = sorted(job.sub_jobs, key=session.sub_job_key)
    parts = [(sub_job, session.runs(job, best_effort=True, sub_job=sub_job)) for sub_job in ordered]
    return [part for part in parts if part[1]]
