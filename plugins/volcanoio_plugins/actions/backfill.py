"""backfill: places pending tasks that request nothing, whatever queues hold.

Source: Volcano pkg/scheduler/actions/backfill. Unlike there, a job's tasks are placed in one statement, which is
committed only if the job is ready without counting those that found no node: a gang is never bound in part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.heap import Turns
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.views import Job
from volcanoio.model.scheduling import PodGroupPhase

PASSED = 64
"""Jobs passed in one step."""


class BackfillArguments(msgspec.Struct, frozen=True):
    """`predicateErrorCacheEnable` is Volcano's; here every task of one shape shares its answers anyway."""

    predicate_error_cache: bool = msgspec.field(default=True, name="predicateErrorCacheEnable")


class Backfill:
    """Queue by queue, job by job, each once."""

    name = "backfill"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, BackfillArguments, "action backfill")

    def run(self, session: Session) -> Iterator[None]:
        """Place what requests nothing, in the order of queues, jobs and tasks."""
        heaps: dict[str, Turns[Job]] = {}
        for number, job in enumerate(session.pending()):
            if job.phase != PodGroupPhase.PENDING and job.pending_best_effort and session.job_valid(job):
                if job.queue not in heaps:
                    heaps[job.queue] = session.job_turns()
                heaps[job.queue].push(job)
            if not number % PASSED:
                yield
        queues = session.queue_turns(heaps)
        while queues:
            jobs = heaps[queues.pop().name]
            while jobs:
                if session.exhausted():
                    return
                yield from self._place(session, jobs.pop())

    def _place(self, session: Session, job: Job) -> Iterator[None]:
        statement = session.statement(job)
        for run in session.runs(job, best_effort=True):
            start = 0
            while start < len(run.tasks):
                count = session.at_once(run.shape, len(run.tasks) - start)
                placed, _ = statement.place(run, start, count, until_ready=False, idle_only=True)
                yield
                if placed < count:
                    break
                start += placed
        if session.job_ready(job):
            statement.commit()
        else:
            statement.discard()
