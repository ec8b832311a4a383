"""Queues and what their jobs hold and want, kept incrementally."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from volcanoio.framework.scheduling.views import Amounts, TaskStatus
from volcanoio.model.resources import add, amounts
from volcanoio.model.scheduling import Queue

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.jobs import JobInfo


def nonzero(values: Amounts) -> dict[str, int]:
    """The amounts that are not zero."""
    return {name: amount for name, amount in values.items() if amount}


class QueueInfo:
    """One queue. Implements `views.QueueView`. It exists as soon as a job names it; `known` once its object does."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.known = False
        self.members: dict[str, JobInfo] = {}
        self.held: dict[str, int] = {}
        self.wanted: dict[str, int] = {}
        self.by_namespace: dict[str, dict[str, int]] | None = None
        """As `namespaces`, once that was asked for."""
        self.written: dict[str, int] | None = None
        """status.allocated as last written and not yet seen."""
        self.written_at = float("-inf")
        self.observe(Queue())
        self.known = False

    def observe(self, queue: Queue) -> None:
        """Take in the newest object."""
        self.object = queue
        self.open = queue.is_open
        """As `views.QueueView`."""
        self.known = True
        self.weight = queue.spec.weight
        self.priority = queue.spec.priority
        self.capability: Amounts = amounts(queue.spec.capability)
        self.guarantee: Amounts = amounts(queue.spec.guarantee.resource)
        self.deserved: Amounts = amounts(queue.spec.deserved)

    def settle(self) -> None:
        """Forget a write of status.allocated once the object shows it."""
        if self.written is not None and nonzero(amounts(self.object.status.allocated)) == nonzero(self.written):
            self.written = None

    @property
    def allocated(self) -> Amounts:
        """As `views.QueueView`."""
        return self.held

    @property
    def requested(self) -> Amounts:
        """As `views.QueueView`."""
        return self.wanted

    @property
    def namespaces(self) -> Mapping[str, Amounts]:
        """As `views.QueueView`."""
        if self.by_namespace is None:
            self.by_namespace = {}
            for job in self.members.values():
                held = self.by_namespace.setdefault(job.namespace, {})
                add(held, job.held)
                if job.counts[TaskStatus.PIPELINED]:
                    for task in job.members.values():
                        if task.status is TaskStatus.PIPELINED:
                            add(held, task.shape.requests)
        return self.by_namespace

    @property
    def jobs(self) -> Collection[JobInfo]:
        """As `views.QueueView`."""
        return self.members.values()
