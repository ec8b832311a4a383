"""Plugin proportion: queues share by weight, and no queue gets more than it deserves.

The shares are computed by `waterfilling`, which has its own tests.
"""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio_plugins.scheduling.queues.proportion import QueueRequest, compute_deserved

from tests.oracle.cluster import ALLOCATED, Amounts, Job, Queue, Task, total
from tests.oracle.plugins.demand import admitted, elastic, minimum
from tests.oracle.plugins.plugin import Plugin


def reachable(available: Amounts, others: Amounts, queue: Queue, capability: Amounts) -> Amounts:
    """Return the limit of a queue: its capability, and what is not guaranteed to others."""
    result = {name: max(amount - others.get(name, 0), 0) for name, amount in available.items()}
    for name, amount in queue.guarantee.items():
        result[name] = result.get(name, 0) + amount
    for name, limit in capability.items():
        if name in result and (limit > 0 or name not in ("cpu", "memory")):
            result[name] = min(result[name], limit)
    return result


class Proportion(Plugin):
    def open(self) -> None:
        queues = self.session.cluster.queues
        guaranteed = total(queue.guarantee for queue in queues.values())
        self.having = {name: queue for name, queue in sorted(queues.items()) if queue.jobs}
        self.ceilings = {
            name: reachable(self.session.total, guaranteed, queue, queue.capability)
            for name, queue in self.having.items()
        }
        self.deserved = compute_deserved(
            self.session.total,
            [
                QueueRequest(
                    name=name,
                    weight=queue.weight,
                    request=queue.sum(*ALLOCATED, "pending"),
                    guarantee=queue.guarantee,
                    real_capability=self.ceilings[name],
                )
                for name, queue in self.having.items()
            ],
        )
        self.inqueue = {name: [admitted(job) for job in queue.jobs] for name, queue in self.having.items()}
        self.elastic = {name: total(elastic(job) for job in queue.jobs) for name, queue in self.having.items()}

    @staticmethod
    def held(queue: Queue) -> Amounts:
        return queue.sum(*ALLOCATED, "pipelined")

    def queue_key(self, queue: Queue) -> tuple[int, float]:
        held = self.held(queue)
        shares = [
            held.get(name, 0) / deserved for name, deserved in self.deserved[queue.name].items() if deserved > 0.1
        ]
        return -queue.priority, max(shares, default=0.0)

    def overused(self, queue: Queue) -> bool:
        held = self.held(queue)
        return all(amount - held.get(name, 0) < 0.1 for name, amount in self.deserved[queue.name].items())

    def allocatable(self, queue: Queue, requests: Amounts) -> bool:
        held, deserved = self.held(queue), self.deserved[queue.name]
        return queue.open and all(
            held.get(name, 0) + amount <= deserved.get(name, 0)
            for name, amount in requests.items()
            if amount > 0 and name != "pods"
        )

    preemptive = allocatable

    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return victims while their queue has more than it deserves and, unlike Volcano, keeps its guarantee."""
        left = {name: dict(self.held(queue)) for name, queue in self.having.items()}
        victims = []
        for task in candidates:
            if task.job is None:
                continue
            queue = self.session.cluster.queues[task.job.queue]
            held, deserved = left[queue.name], self.deserved[queue.name]
            if all(held.get(name, 0) - deserved.get(name, 0) < 0.1 for name in {**held, **deserved}):
                continue
            if any(
                task.requests.get(name, 0) > 0 and held.get(name, 0) - task.requests[name] < amount
                for name, amount in queue.guarantee.items()
            ):
                continue
            for name, amount in task.requests.items():
                held[name] = held.get(name, 0) - amount
            victims.append(task)
        return victims

    def enqueueable(self, job: Job) -> int:
        queue = self.session.cluster.queues[job.queue]
        if not queue.open:
            return -1
        held, waiting = self.held(queue), total(self.inqueue[queue.name])
        for name, amount in (job.minimum_resources or {}).items():
            demand = amount + held.get(name, 0) + waiting.get(name, 0) - self.elastic[queue.name].get(name, 0)
            if amount > 0 and name != "pods" and demand > self.ceilings[queue.name].get(name, 0):
                return -1
        return 1

    def enqueued(self, job: Job) -> None:
        self.inqueue[job.queue].append(minimum(job))
