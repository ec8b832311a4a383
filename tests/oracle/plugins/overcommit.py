"""Plugin overcommit: jobs are enqueued up to the cluster's capacity times a factor."""

from __future__ import annotations

from tests.oracle.cluster import Amounts, Job, total
from tests.oracle.plugins.demand import minimum, outstanding, runs_whole
from tests.oracle.plugins.plugin import Plugin


class Overcommit(Plugin):
    def open(self) -> None:
        factor = self.arguments.get("overcommit-factor", 1.2)
        factor = factor if factor >= 1 else 1.2
        cluster = self.session.cluster
        self.idle = {
            name: amount * factor - sum(node.used(name) for node in cluster.nodes)
            for name, amount in self.session.total.items()
        }
        self.inqueue: list[Amounts] = [self._admitted(job) for job in cluster.jobs if job.minimum_resources is not None]

    @staticmethod
    def _admitted(job: Job) -> Amounts:
        """Return the whole demand of a job until it runs, even if part of it is placed."""
        if job.phase == "Inqueue":
            return minimum(job)
        return outstanding(job) if runs_whole(job) else {}

    def enqueueable(self, job: Job) -> int:
        waiting = total(self.inqueue)
        for name, amount in (job.minimum_resources or {}).items():
            if amount > 0 and name != "pods" and waiting.get(name, 0) + amount > self.idle.get(name, 0):
                return -1
        return 1

    def enqueued(self, job: Job) -> None:
        self.inqueue.append(minimum(job))
