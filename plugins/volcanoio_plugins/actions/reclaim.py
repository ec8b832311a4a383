"""reclaim: takes room back for a queue below its share from queues above theirs.

Source: Volcano pkg/scheduler/actions/reclaim. Unlike there, nodes are tried by score, a job may also use room that is
there without evictions, and what is placed passes every filter and limit (see `taking`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.views import Job, Task, TaskStatus
from volcanoio_plugins.actions.taking import Taking, in_queues, runs_of, takers


class ReclaimArguments(msgspec.Struct, frozen=True):
    """`predicateErrorCacheEnable` is Volcano's; here every task of one shape shares its answers anyway."""

    predicate_error_cache: bool = msgspec.field(default=True, name="predicateErrorCacheEnable")


class Reclaim:
    """Queue by queue, each starving job once."""

    name = "reclaim"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, ReclaimArguments, "action reclaim")

    def run(self, session: Session) -> Iterator[None]:
        """Evict for jobs of queues that are not overused, in the order of queues and jobs."""
        jobs = yield from in_queues(session, takers(session))
        if not jobs:
            return
        yield from session.victims.prepare()
        queues = session.queue_turns(jobs)
        while queues:
            queue = queues.pop()
            if session.overused(queue):
                continue
            while jobs[queue.name]:
                if session.exhausted():
                    return
                yield from self._reclaim(session, jobs[queue.name].pop())

    def _reclaim(self, session: Session, job: Job) -> Iterator[None]:
        jobs = session.jobs
        open_to_us = {
            name
            for name, queue in session.queues.items()
            if name != job.queue and queue.object.spec.reclaimable is not False
        }

        def eligible(there: Sequence[Task], task: Task) -> list[Task]:  # noqa: ARG001 - whoever it is for
            running = TaskStatus.RUNNING
            return [
                victim
                for victim in there
                if victim.status is running
                and victim.preemptable
                and (owner := jobs.get(victim.job)) is not None
                and owner.queue in open_to_us
            ]

        runs, victims = runs_of(session, job), session.victims
        yield
        if victims.failed(Purpose.RECLAIM, job, runs):
            return
        taking = Taking(session, job, Purpose.RECLAIM, eligible, self.name)
        for run in runs:
            if not victims.starving(job):
                break
            yield from taking.seat(run)
            yield
        yield
        if not taking.end():
            victims.fail(Purpose.RECLAIM, job, runs)
