"""enqueue: makes Pending PodGroups Inqueue, as far as queues and cluster have quota and room.

Source: Volcano pkg/scheduler/actions/enqueue.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import Any

from volcanoio.framework.arguments import NoArguments, convert
from volcanoio.framework.scheduling.session import Backlog, Session
from volcanoio.framework.scheduling.verdicts import Vote
from volcanoio.framework.scheduling.views import Job

REJECTED_PER_STEP = 16
"""Jobs rejected in one step."""


class Enqueue:
    """Takes one job of each queue at a time; a rejected job is not voted on again in this session."""

    name = "enqueue"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, NoArguments, "action enqueue")

    def run(self, session: Session) -> Iterator[None]:
        """Vote on every pending job, in the order of queues and jobs."""
        backlogs = yield from session.backlogs(admitted=False)
        queues = session.ordered_queues(backlogs)
        while queues:
            if session.is_budget_exhausted():
                return
            queue = queues.pop()
            job = yield from self._next(session, backlogs[queue.name])
            if job is None:
                continue
            verdict = session.job_enqueueable(job)
            if verdict.vote is Vote.REJECT:
                session.reject_enqueue(job, verdict)
            else:
                session.enqueue(job)
            queues.push(queue)
            yield

    def _next(self, session: Session, backlog: Backlog) -> Generator[None, None, Job | None]:
        """Return the next job that is not certain to be rejected; reject those before it."""
        rejected = 0
        while (job := backlog.pop()) is not None and (verdict := session.certain_rejection(job)) is not None:
            session.reject_enqueue(job, verdict)
            rejected += 1
            if not rejected % REJECTED_PER_STEP:
                yield
        return job
