"""Plugin drf: the job with the smaller dominant share is first. For the hierarchy see `hdrf`."""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.cluster import ALLOCATED, Amounts, Job, Queue, Task
from tests.oracle.plugins.hdrf import OrderKey, ShareTree
from tests.oracle.plugins.plugin import Plugin


class Drf(Plugin):
    def open(self) -> None:
        jobs = self.session.cluster.jobs
        self.wanted = {job.uid: job.sum(*ALLOCATED, "pending") for job in jobs if job.count("pending")}

    def offers(self, method: str) -> bool:
        return super().offers(method) and (self.hierarchical or method not in ("queue_key", "reclaimable"))

    def share(self, held: Amounts) -> float:
        return max((held.get(name, 0) / amount for name, amount in self.session.total.items() if amount), default=0.0)

    def job_key(self, job: Job) -> float:
        return self.share(job.sum(*ALLOCATED, "pipelined"))

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        assert preemptor.job is not None
        wanted = preemptor.job.sum(*ALLOCATED, "pipelined")
        for name, amount in preemptor.requests.items():
            wanted[name] = wanted.get(name, 0) + amount
        own = self.share(wanted)
        left: dict[str, Amounts] = {}
        victims = []
        for task in candidates:
            if task.job is None:
                continue
            held = left.setdefault(task.job.uid, task.job.sum(*ALLOCATED, "pipelined"))
            for name, amount in task.requests.items():
                held[name] = held.get(name, 0) - amount
            other = self.share(held)
            if own < other or abs(own - other) <= 1e-6:
                victims.append(task)
        return victims

    # With a hierarchy.

    def queue_key(self, queue: Queue) -> OrderKey:
        return ShareTree(self.session, self.wanted).order_key(queue)

    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return the victims without which their queue is still ordered after the preemptor's queue with its task.

        Unlike Volcano, each victim is evaluated after the earlier ones are removed, not alone.
        """
        assert preemptor.job is not None
        queues = self.session.cluster.queues
        supposed: list[tuple[Task, int]] = [(preemptor, 1)]
        victims = []
        for task in candidates:
            if task.job is None:
                continue
            tree = ShareTree(self.session, self.wanted, [*supposed, (task, -1)])
            if tree.order_key(queues[preemptor.job.queue]) < tree.order_key(queues[task.job.queue]):
                supposed.append((task, -1))
                victims.append(task)
        return victims
