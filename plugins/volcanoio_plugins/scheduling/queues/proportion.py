"""Plugin proportion: queues share the cluster by weight (Volcano: pkg/scheduler/plugins/proportion).

The arithmetic of shares is in `waterfilling`. Only queues that have jobs take part.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.points import Checkpoints
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import PERMIT, Verdict, reject
from volcanoio.framework.scheduling.views import Job, QueueView, Shape, Task
from volcanoio.model.resources import Amounts, add, total
from volcanoio_plugins.scheduling.queues.attributes import QueueAttributes, QueueGauges, QueueLimits
from volcanoio_plugins.scheduling.queues.demand import DemandSums, admitted, elastic, minimum, queue_of
from volcanoio_plugins.scheduling.queues.quantities import fits_within, shortage
from volcanoio_plugins.scheduling.queues.waterfilling import QueueRequest, compute_deserved, compute_real_capability

QUEUE_CLOSED, QUOTA_INSUFFICIENT = "QueueClosed", "QueueQuotaInsufficient"


class ProportionArguments(msgspec.Struct, frozen=True):
    """The plugin takes none."""


class Proportion:
    """Orders queues by share, stops those at their share, and admits jobs within what a queue can have."""

    name = "proportion"
    keeps_enqueue_verdicts = True
    keeps_verdicts = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, ProportionArguments, self.name)
        self._attrs: dict[str, QueueAttributes] = {}
        self._jobs: Mapping[str, Job] = {}
        self._queues: Mapping[str, QueueView] = {}
        self._demand = DemandSums(queue_of, elastic, admitted)
        self._gauges = QueueGauges(QueueAttributes.overused)

    def open(self, session: SessionView) -> Checkpoints:
        """Divide the cluster among the queues with jobs."""
        self._jobs, self._queues = session.jobs, session.queues
        names = sorted(session.queues)
        guaranteed: Amounts = {}
        for name in names:
            add(guaranteed, session.queues[name].guarantee)
        requests = [
            QueueRequest(
                name=name,
                weight=queue.weight,
                request=queue.requested,
                guarantee=queue.guarantee,
                real_capability=compute_real_capability(session.total, guaranteed, queue.guarantee, queue.capability),
            )
            for name in names
            if len((queue := session.queues[name]).jobs)
        ]
        deserved = compute_deserved(session.total, requests)
        table = partial(session.table, self.name)
        self._attrs = {}
        for request in requests:
            limits = QueueLimits(
                deserved=deserved[request.name], real_capability=request.real_capability, guarantee=request.guarantee
            )
            self._attrs[request.name] = QueueAttributes(session.queues[request.name], limits, table)
        return self._count_admitted(session)

    def queue_key(self, queue: QueueView) -> tuple[int, float]:
        """Return the queue's key: higher priority first, then the smaller share."""
        attr = self._attrs.get(queue.name)
        return -queue.priority, attr.share() if attr else 0.0

    def overused(self, queue: QueueView) -> bool:
        """Whether the queue has allocated all it deserves."""
        return (attr := self._attrs.get(queue.name)) is not None and attr.overused()

    def fits(self, queue: QueueView, shape: Shape, count: int) -> int:
        """Return how many tasks stay within what the queue deserves; 0 if it is closed."""
        if (attr := self._attrs.get(queue.name)) is None or not queue.is_open:
            return 0
        return attr.fits(shape.requests, count, attr.deserved)

    def room_details(self, queue: QueueView, shape: Shape, count: int) -> str:
        """Explain why the deserved amount excludes some of `count` tasks."""
        if not queue.is_open:
            return f"queue {queue.name} is not open"
        attr = self._attrs.get(queue.name)
        return attr.explain_limit(shape.requests, count, attr.deserved, "deserved") if attr is not None else ""

    def preemptive(self, queue: QueueView, tasks: Sequence[Task]) -> bool:
        """Whether the queue stays within what it deserves with all of these tasks."""
        if (attr := self._attrs.get(queue.name)) is None or not queue.is_open:
            return False
        return attr.fits(total(task.shape.requests for task in tasks), 1, attr.deserved) == 1

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any reclaimer
        """Return tasks of queues that have more than they deserve, while they do and keep their guarantee."""
        remaining: dict[str, Amounts] = {}
        victims = []
        for task in candidates:
            job = self._jobs.get(task.job)
            attr = self._attrs.get(job.queue) if job else None
            if attr is None:
                continue
            allocated = remaining.setdefault(attr.queue.name, attr.allocated())
            requests = task.shape.requests
            if not fits_within(allocated, attr.deserved) and not _takes_guaranteed(attr, allocated, requests):
                add(allocated, requests, -1)
                victims.append(task)
        return victims

    def job_enqueueable(self, job: Job) -> Verdict:
        """Permit the job if the queue could hold its minResources beside what is allocated and admitted."""
        if (attr := self._attrs.get(job.queue)) is None or not attr.queue.is_open:
            return reject(QUEUE_CLOSED, f"queue {job.queue} is not open")
        if job.min_resources is None:
            return PERMIT
        if over := attr.insufficient(job.min_resources):
            text = shortage("queue resource quota insufficient", "insufficient", over)
            return reject(QUOTA_INSUFFICIENT, text, partial(attr.explain_shortage, job.min_resources, over, job.queue))
        return PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Count the admitted demand."""
        if attr := self._attrs.get(job.queue):
            attr.admit(minimum(job))

    def allocated(self, job: Job, shape: Shape, count: int) -> None:
        """Count allocated and pipelined tasks."""
        if attr := self._attrs.get(job.queue):
            attr.add(shape.requests, count)

    def released(self, job: Job, shape: Shape, count: int) -> None:
        """Count released tasks."""
        if attr := self._attrs.get(job.queue):
            attr.add(shape.requests, -count)

    def report(self, probe: Probe) -> None:
        """Report the amounts of each queue."""
        idle = [(queue, queue.guarantee) for name, queue in self._queues.items() if name not in self._attrs]
        self._gauges.report(probe, self._attrs.values(), idle)

    def _count_admitted(self, session: SessionView) -> Checkpoints:
        yield from self._demand.update(session)
        for name, attr in self._attrs.items():
            attr.elastic, attr.queued = self._demand.of(name)


def _takes_guaranteed(attr: QueueAttributes, allocated: Mapping[str, int], requests: Mapping[str, int]) -> bool:
    """Whether a queue would have less than its guarantee of a resource that it loses with a task (Volcano takes that
    too).
    """
    return any(
        requests.get(name, 0) > 0 and allocated.get(name, 0) - requests[name] < amount
        for name, amount in attr.guarantee.items()
    )
