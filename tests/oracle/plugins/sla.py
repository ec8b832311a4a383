"""Plugin sla: jobs are ordered by deadline; overdue jobs are enqueued unless an earlier tier rejects them."""

from __future__ import annotations

from tests.oracle.cluster import Job
from tests.oracle.plugins.plugin import Plugin
from tests.oracle.plugins.times import epoch, seconds


class Sla(Plugin):
    def deadline(self, job: Job) -> float | None:
        said = job.annotations.get("volcano.sh/sla-waiting-time") or job.annotations.get("sla-waiting-time")
        waiting = seconds(said or self.arguments.get("sla-waiting-time"))
        return None if waiting is None else epoch(job.created) + waiting

    def job_key(self, job: Job) -> tuple[bool, float]:
        deadline = self.deadline(job)
        return deadline is None, deadline or 0.0

    def enqueueable(self, job: Job) -> int:
        deadline = self.deadline(job)
        return 1 if deadline is not None and self.session.now > deadline else 0

    pipelined = enqueueable
