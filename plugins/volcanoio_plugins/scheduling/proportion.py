"""Plugin proportion: queues share the cluster by weight (Volcano: pkg/scheduler/plugins/proportion).

The arithmetic of shares is in `waterfilling`. Only queues that have jobs take part.
"""

from __future__ import annotations

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
from volcanoio_plugins.scheduling.queues.accounts import Account
from volcanoio_plugins.scheduling.queues.demand import admitted, elastic, minimum, queue_of
from volcanoio_plugins.scheduling.queues.quantities import fits_within, shortage
from volcanoio_plugins.scheduling.queues.queuegauges import QueueGauges
from volcanoio_plugins.scheduling.queues.sums import Sums
from volcanoio_plugins.scheduling.queues.waterfilling import Claim, fill, reachable

QUEUE_CLOSED, QUOTA_INSUFFICIENT = "QueueClosed", "QueueQuotaInsufficient"


class ProportionArguments(msgspec.Struct, frozen=True):
    """The plugin takes none."""


class Proportion:
    """Orders queues by share, stops those that have theirs, and admits jobs within what a queue can ever have."""

    name = "proportion"
    refuses_alike = True
    keeps_verdicts = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, ProportionArguments, self.name)
        self._accounts: dict[str, Account] = {}
        self._jobs: Mapping[str, Job] = {}
        self._queues: Mapping[str, QueueView] = {}
        self._demand = Sums(queue_of, elastic, admitted)
        self._gauges = QueueGauges(Account.overused)

    def open(self, session: SessionView) -> Checkpoints:
        """Share out the cluster among the queues with jobs."""
        self._jobs, self._queues = session.jobs, session.queues
        names = sorted(session.queues)
        guaranteed: Amounts = {}
        for name in names:
            add(guaranteed, session.queues[name].guarantee)
        claims = [
            Claim(
                name=name,
                weight=queue.weight,
                request=queue.requested,
                guarantee=queue.guarantee,
                ceiling=reachable(session.total, guaranteed, queue.guarantee, queue.capability),
            )
            for name in names
            if len((queue := session.queues[name]).jobs)
        ]
        deserved = fill(session.total, claims)
        self._accounts = {
            claim.name: Account(
                session.queues[claim.name], deserved[claim.name], dict(claim.ceiling), partial(session.table, self.name)
            )
            for claim in claims
        }
        return self._count_admitted(session)

    def queue_key(self, queue: QueueView) -> tuple[int, float]:
        """Higher priority first, then the smaller share."""
        account = self._accounts.get(queue.name)
        return -queue.priority, account.share() if account else 0.0

    def overused(self, queue: QueueView) -> bool:
        """Whether the queue holds all it deserves."""
        account = self._accounts.get(queue.name)
        return account is not None and account.overused()

    def fits(self, queue: QueueView, shape: Shape, count: int) -> int:
        """How many tasks stay within what the queue deserves; none if it is closed."""
        account = self._accounts.get(queue.name)
        if account is None or not queue.open:
            return 0
        return account.fits(shape.requests, count, account.deserved)

    def preemptive(self, queue: QueueView, tasks: Sequence[Task]) -> bool:
        """Whether the queue stays within what it deserves with all of these."""
        account = self._accounts.get(queue.name)
        if account is None or not queue.open:
            return False
        return account.fits(total(task.shape.requests for task in tasks), 1, account.deserved) == 1

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any reclaimer
        """Tasks of queues that hold more than they deserve, as long as they do and keep what they are guaranteed."""
        held: dict[str, Amounts] = {}
        victims = []
        for task in candidates:
            job = self._jobs.get(task.job)
            account = self._accounts.get(job.queue) if job else None
            if account is None:
                continue
            allocated = held.setdefault(account.queue.name, account.allocated())
            requests = task.shape.requests
            if not fits_within(allocated, account.deserved) and not _takes_guaranteed(account, allocated, requests):
                add(allocated, requests, -1)
                victims.append(task)
        return victims

    def job_enqueueable(self, job: Job) -> Verdict:
        """Whether the queue could ever hold the job's minResources beside what it holds and has admitted."""
        account = self._accounts.get(job.queue)
        if account is None or not account.queue.open:
            return reject(QUEUE_CLOSED, f"queue {job.queue} is not open")
        if job.min_resources is None:
            return PERMIT
        if over := account.refused(job.min_resources):
            return reject(QUOTA_INSUFFICIENT, shortage("queue resource quota insufficient", "insufficient", over))
        return PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Count the admitted demand."""
        if account := self._accounts.get(job.queue):
            account.admit(minimum(job))

    def allocated(self, job: Job, shape: Shape, count: int) -> None:
        """Count what was placed or reserved."""
        if account := self._accounts.get(job.queue):
            account.add(shape.requests, count)

    def released(self, job: Job, shape: Shape, count: int) -> None:
        """Count what was taken back."""
        if account := self._accounts.get(job.queue):
            account.add(shape.requests, -count)

    def report(self, probe: Probe) -> None:
        """Tell what each queue has, wants and may have."""
        idle = [(queue, queue.guarantee) for name, queue in self._queues.items() if name not in self._accounts]
        self._gauges.tell(probe, self._accounts.values(), idle)

    def _count_admitted(self, session: SessionView) -> Checkpoints:
        """Take over what is admitted and what jobs hold beyond their minimum."""
        yield from self._demand.follow(session)
        for name, account in self._accounts.items():
            account.elastic, account.queued = self._demand.of(name)


def _takes_guaranteed(account: Account, held: Mapping[str, int], requests: Mapping[str, int]) -> bool:
    """Whether a queue would hold less than its guarantee of what it loses with a task (Volcano takes that too)."""
    return any(
        requests.get(name, 0) > 0 and held.get(name, 0) - requests[name] < amount
        for name, amount in account.guarantee.items()
    )
