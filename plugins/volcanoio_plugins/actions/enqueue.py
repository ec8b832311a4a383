"""enqueue: lets Pending PodGroups into the queue for nodes, as far as queues and cluster have room by their accounts.

Source: Volcano pkg/scheduler/actions/enqueue.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.session import Backlog, Session
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
        backlogs = yield from session.backlogs(admitted=False)
        queues = session.queue_turns(backlogs)
        while queues:
            if session.exhausted():
                return
            queue = queues.pop()
            job = yield from self._next(session, backlogs[queue.name])
            if job is None:
                continue
            verdict = session.job_enqueueable(job)
            if verdict.vote is Vote.REJECT:
                session.refuse(job, verdict)
            else:
                session.enqueue(job)
            queues.push(queue)
            yield

    def _next(self, session: Session, backlog: Backlog) -> Generator[None, None, Job | None]:
        """The next job that is not certain to be refused; those before it are."""
        passed = 0
        while (job := backlog.pop()) is not None and (verdict := session.foreseen(job)) is not None:
            session.refuse(job, verdict)
            passed += 1
            if not passed % PASSED:
                yield
        return job
