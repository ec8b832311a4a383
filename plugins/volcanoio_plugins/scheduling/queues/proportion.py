"""Plugin proportion: queues share the cluster by weight (Volcano: pkg/scheduler/plugins/proportion).

What a queue deserves is computed in rounds: each gives every open queue its part, by weight, of what remains; a queue
that has all it requests, or all it can have, is closed, and the rest remains for the others. Only queues that have jobs
take part. Amounts shared by weight may be fractional.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from volcanoio.framework.arguments import NoArguments, convert
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.points import Checkpoints
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import PERMIT, Verdict, reject
from volcanoio.framework.scheduling.views import Job, QueueView, Shape, Task
from volcanoio.model.resources import PODS, Amounts, add, total
from volcanoio_plugins.scheduling.queues.attributes import (
    QUEUE_CLOSED,
    DemandSums,
    QueueAttributes,
    QueueLimits,
    admitted,
    compute_real_capability,
    elastic,
    minimum,
    queue_of,
)
from volcanoio_plugins.scheduling.queues.gauges import QueueGauges
from volcanoio_plugins.scheduling.queues.quantities import TOLERANCE, Quantities

_WHOLE = 1e-3
"""A share this close to an integer is rounded to it: amounts are integers, and division by weights must not lose a
unit.
"""


class QueueRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of one queue. `real_capability` is the most it can have; missing resources are unlimited."""

    name: str
    weight: int
    request: Mapping[str, int]
    guarantee: Mapping[str, int]
    real_capability: Mapping[str, int]


class Proportion:
    """Orders queues by share, stops those at their share, and admits jobs within what a queue can have."""

    name = "proportion"
    keeps_enqueue_verdicts = True
    keeps_verdicts = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, NoArguments, self.name)
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
        """Return whether the queue has allocated all it deserves."""
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
        """Return whether the queue stays within what it deserves with all of these tasks."""
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
        return attr.rejection(job.min_resources, job.queue) or PERMIT

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
    """Return whether losing the task leaves a queue less than its guarantee of a resource that the task requests.

    Volcano evicts such tasks too.
    """
    return any(
        requests.get(name, 0) > 0 and allocated.get(name, 0) - requests[name] < amount
        for name, amount in attr.guarantee.items()
    )


def compute_deserved(total: Mapping[str, int], requests: Sequence[QueueRequest]) -> dict[str, dict[str, float]]:
    """Return what each queue deserves, by name."""
    deserved: dict[str, dict[str, float]] = {queue.name: {} for queue in requests}
    remaining: dict[str, float] = dict(total)
    waiting = list(requests)
    while (weights := sum(queue.weight for queue in waiting)) > 0:
        taken: dict[str, float] = {}
        still: list[QueueRequest] = []
        for queue in waiting:
            before = deserved[queue.name]
            after = _offered(queue, before, remaining, weights)
            deserved[queue.name] = after
            for name in {**before, **after}:
                taken[name] = taken.get(name, 0) + after.get(name, 0) - before.get(name, 0)
            if not fits_within(queue.request, after) and not _equal(before, after):
                still.append(queue)
        waiting = still
        left = {name: max(amount - taken.get(name, 0), 0) for name, amount in remaining.items()}
        if _equal(left, remaining) or all(amount < TOLERANCE for name, amount in left.items() if name != PODS):
            break
        remaining = left
    return deserved


def _offered(
    queue: QueueRequest, before: Mapping[str, float], remaining: Mapping[str, float], weights: int
) -> dict[str, float]:
    """Return what a queue deserves after one more round."""
    after: dict[str, float] = {}
    for name in {**before, **remaining, **queue.guarantee}:
        amount = before.get(name, 0) + remaining.get(name, 0) * queue.weight / weights
        amount = min(amount, queue.real_capability.get(name, amount), queue.request.get(name, 0))
        amount = max(amount, queue.guarantee.get(name, 0))
        nearest = round(amount)
        after[name] = float(nearest) if abs(amount - nearest) < _WHOLE else amount
    return after


def _equal(left: Quantities, right: Quantities) -> bool:
    return fits_within(left, right) and fits_within(right, left)


def fits_within(left: Quantities, right: Quantities) -> bool:
    """Return whether left is at most right for every resource; a missing one is 0."""
    return all(left.get(name, 0) - right.get(name, 0) < TOLERANCE for name in {**left, **right})
