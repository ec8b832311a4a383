"""enqueue: lets Pending PodGroups into the queue for nodes, as far as queues and cluster have room by their accounts.

Source: Volcano pkg/scheduler/actions/enqueue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.heap import Turns
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.verdicts import Vote
from volcanoio.framework.scheduling.views import Job

PASSED = 16
"""Jobs passed in one step."""


class EnqueueArguments(msgspec.Struct, frozen=True):
    """None."""


class Enqueue:
    """One job a turn of its queue; a job that is refused is not asked again in this session."""

    name = "enqueue"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, EnqueueArguments, "action enqueue")

    def run(self, session: Session) -> Iterator[None]:
        """Ask for every waiting job, in the order of queues and jobs."""
        jobs: dict[str, Turns[Job]] = {}
        for number, job in enumerate(session.waiting()):
            if (verdict := session.foreseen(job)) is not None:
                session.refuse(job, verdict)
            else:
                if job.queue not in jobs:
                    jobs[job.queue] = session.job_turns()
                jobs[job.queue].push(job)
            if not number % PASSED:
                yield
        queues = session.queue_turns(jobs)
        while queues:
            if session.exhausted():
                return
            queue = queues.pop()
            if not jobs[queue.name]:
                continue
            job = jobs[queue.name].pop()
            verdict = session.job_enqueueable(job)
            if verdict.vote is Vote.REJECT:
                session.refuse(job, verdict)
            else:
                session.enqueue(job)
            queues.push(queue)
            yield
