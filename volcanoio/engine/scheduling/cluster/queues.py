"""Queues with the sums of their jobs' requests, kept incrementally."""

from collections.abc import Collection, Mapping

from volcanoio.framework.scheduling.views import Amounts, Job, TaskStatus
from volcanoio.model.resources import add, stored_amounts
from volcanoio.model.scheduling import Queue


class QueueInfo:
    """One queue. Implements `views.QueueView`. Created when a job names it; `exists` once its object does."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.exists = False
        self.jobs_by_key: dict[str, Job] = {}
        self.jobs: Collection[Job] = self.jobs_by_key.values()
        """Its jobs."""
        self.allocated: dict[str, int] = {}
        self.requested: dict[str, int] = {}
        self.allocated_by_namespace: dict[str, dict[str, int]] | None = None
        """Allocated and Pipelined requests by namespace; None until `namespaces` is first read."""
        self.allocated_in_flight: dict[str, int] | None = None
        """status.allocated as last written and not yet observed."""
        self.allocated_written_at = float("-inf")
        self.observe(Queue())
        self.exists = False

    def observe(self, queue: Queue) -> None:
        """Update from the newest object."""
        self.object = queue
        self.status_allocated = {name: size for name, size in stored_amounts(queue.status.allocated).items() if size}
        """status.allocated without zeros."""
        self.is_open = queue.is_open
        """Whether its state is Open or still empty."""
        self.exists = True
        self.weight = queue.spec.weight
        self.priority = queue.spec.priority
        self.capability: Amounts = stored_amounts(queue.spec.capability)
        self.guarantee: Amounts = stored_amounts(queue.spec.guarantee.resource)
        self.deserved: Amounts = stored_amounts(queue.spec.deserved)

    def drop_observed_write(self) -> None:
        """Forget a write of status.allocated once the object shows it."""
        if self.status_allocated == self.allocated_in_flight:
            self.allocated_in_flight = None

    @property
    def namespaces(self) -> Mapping[str, Amounts]:
        """Allocated and Pipelined requests by namespace, kept up to date from the first read on."""
        if self.allocated_by_namespace is None:
            self.allocated_by_namespace = {}
            for job in self.jobs_by_key.values():
                total = self.allocated_by_namespace.setdefault(job.namespace, {})
                add(total, job.allocated)
                if job.count(TaskStatus.PIPELINED):
                    for task in job.tasks:
                        if task.status is TaskStatus.PIPELINED:
                            add(total, task.shape.requests)
        return self.allocated_by_namespace
