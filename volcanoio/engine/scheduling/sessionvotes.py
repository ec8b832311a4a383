"""What plugins together say of queues and jobs, and of jobs that ask to be admitted."""

from __future__ import annotations

from collections.abc import Iterator

from volcanoio.engine.scheduling.explanation import Precision, Reason
from volcanoio.engine.scheduling.jobs import Demand, JobInfo
from volcanoio.engine.scheduling.oneturn import place_next
from volcanoio.engine.scheduling.outbox import Outbox
from volcanoio.engine.scheduling.queuegates import Promises
from volcanoio.engine.scheduling.queues import QueueInfo
from volcanoio.engine.scheduling.sessionturns import SessionTurns
from volcanoio.engine.scheduling.subjobs import SubJobInfo
from volcanoio.framework.scheduling.points import SortKey
from volcanoio.framework.scheduling.session import Run
from volcanoio.framework.scheduling.verdicts import PERMIT, Verdict, Vote
from volcanoio.framework.scheduling.views import Shape
from volcanoio.model.scheduling import PodGroupPhase

FEW_AT_ONCE = 32
"""Tasks placed in one call at most where plugins are asked for each."""
MANY_AT_ONCE = 256
"""Tasks placed in one call at most."""


class SessionVotes(SessionTurns):
    """What `session.Session` asks the plugins."""

    outbox: Outbox
    promises: Promises | None
    refusals: dict[str, str]
    vain: set[str]
    _foreseen: dict[tuple[str, str, Demand], Verdict]
    """What was said at first of jobs with that queue, namespace and demand."""
    _asked: tuple[JobInfo, Verdict] | None = None
    """Who was asked about just now, and what was said."""

    def overused(self, queue: QueueInfo) -> bool:
        """As `session.Session`."""
        return self.rules.overused(queue)

    def allocatable(self, job: JobInfo, shape: Shape, count: int) -> int:
        """As `session.Session`."""
        assert job.queue_info is not None
        if self.promises is not None:
            allowed = self.promises.allocatable(job, shape, count)
        else:
            allowed = self.rules.allocatable(job.queue_info, shape, count)
        if allowed < count:
            job.attempts.limited = True
            text = f"queue {job.queue} has no room left for {count - allowed} of its tasks"
            job.attempts.explain(Reason("QueueQuota", text, Precision.QUOTA))
        return allowed

    def place_next(self, job: JobInfo, run: Run, start: int) -> bool:
        """As `session.Session`."""
        return place_next(self, job, run, start)

    def let_in(self, job: JobInfo) -> Iterator[None]:
        """As `session.Session`."""
        return iter(()) if self.promises is None else self.promises.let_in(job)

    def at_once(self, shape: Shape, count: int) -> int:
        """As `session.Session`."""
        if count <= FEW_AT_ONCE:
            return count
        return FEW_AT_ONCE if self.state.placer.asks_each(shape) else min(count, MANY_AT_ONCE)

    def job_valid(self, job: JobInfo) -> bool:
        """As `session.Session`."""
        verdict = self.rules.job_valid(job)
        if verdict.vote is Vote.REJECT:
            self.tried.add(job.key)
            job.attempts.explain(Reason(verdict.code, verdict.message, Precision.WAITING))
            return False
        return True

    def job_ready(self, job: JobInfo) -> bool:
        """As `session.Session`."""
        return self.rules.job_ready(job)

    def job_pipelined(self, job: JobInfo) -> bool:
        """As `session.Session`."""
        return self.rules.job_pipelined(job)

    def sub_job_key(self, part: SubJobInfo) -> SortKey:
        """As `session.Session`."""
        return self.rules.sub_job_key(part)

    def sub_job_ready(self, part: SubJobInfo) -> bool:
        """As `session.Session`."""
        return self.rules.sub_job_ready(part)

    def sub_job_pipelined(self, part: SubJobInfo) -> bool:
        """As `session.Session`."""
        return self.rules.sub_job_pipelined(part)

    def job_enqueueable(self, job: JobInfo) -> Verdict:
        """As `session.Session`; a job that demands nothing is asked nothing."""
        asked, self._asked = self._asked, None
        if asked is not None and asked[0] is job:
            return asked[1]
        return PERMIT if job.min_resources is None else self.rules.job_enqueueable(job)

    def foreseen(self, job: JobInfo) -> Verdict | None:
        """As `session.Session`."""
        if job.demand is None or not self.rules.refuses_alike:
            return None
        alike = job.queue, job.namespace, job.demand
        verdict = self._foreseen.get(alike)
        if verdict is None:
            verdict = self._foreseen[alike] = self.rules.job_enqueueable(job)
            self._asked = job, verdict
        return verdict if verdict.vote is Vote.REJECT else None

    def enqueue(self, job: JobInfo) -> None:
        """As `session.Session`."""
        self._asked = None
        self.rules.job_enqueued(job)
        self.promote(job)
        self.stats.enqueued += 1

    def promote(self, job: JobInfo) -> None:
        """As `session.Session`."""
        self.tried.add(job.key)
        self.state.rests.news += 1
        self.state.ledger.set_phase(job, PodGroupPhase.INQUEUE)

    def refuse(self, job: JobInfo, verdict: Verdict) -> None:
        """As `session.Session`."""
        self.tried.add(job.key)
        self.state.refused.add(job.key)
        if verdict.message != job.attempts.refusal:
            job.attempts.refusal = verdict.message
            self._look_again(job)
        job.attempts.explain(Reason(verdict.code, verdict.message, Precision.QUOTA))
        if verdict.message:
            self.refusals[job.key] = verdict.message

    def _look_again(self, job: JobInfo) -> None:
        """Why a job waits may be another reason: that is to be said."""
        if self.state.revisit.get(job.key, 0.0) > self.now:
            self.state.revisit[job.key] = self.now
