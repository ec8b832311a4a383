"""Plugin overcommit: limits the demand of admitted jobs (Volcano: pkg/scheduler/plugins/overcommit)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.points import Checkpoints
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.verdicts import PERMIT, Verdict, reject
from volcanoio.framework.scheduling.views import Amounts, Job
from volcanoio.model.resources import amount_text
from volcanoio.model.scheduling import PodGroupPhase
from volcanoio_plugins.scheduling.queues.attributes import DemandSums, has_running_minimum, minimum, outstanding
from volcanoio_plugins.scheduling.queues.quantities import exceeding, shortage

DEFAULT_FACTOR = 1.2
OVERUSED, INSUFFICIENT = "ClusterOverused", "ClusterInsufficient"


class OvercommitArguments(msgspec.Struct, frozen=True):
    """`overcommit-factor` multiplies the cluster's capacity; below 1 means the default."""

    factor: float = msgspec.field(default=DEFAULT_FACTOR, name="overcommit-factor")


class Overcommit:
    """Admits jobs while the cluster's capacity, times the factor, less what is used, covers all admitted demand."""

    name = "overcommit"
    keeps_enqueue_verdicts = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        factor = convert(arguments, OvercommitArguments, self.name).factor
        self._factor = factor if factor >= 1 else DEFAULT_FACTOR
        self._session: SessionView | None = None
        self._limit: Mapping[str, float] = {}
        """The limit of demand when nothing is in use."""
        self._used: Mapping[str, int] = {}
        self._idle: Mapping[str, float] = {}
        self._demand = DemandSums(lambda _: "", _admitted)
        self._admitted: Mapping[str, int] = {}
        self._inqueue: Table | None = None

    def open(self, session: SessionView) -> Checkpoints | None:
        """Sum what is idle and what is admitted, if any job waits for admission."""
        self._session, self._inqueue = session, None
        if not session.has_jobs_in(PodGroupPhase.PENDING):
            return None
        self._inqueue = session.table(self.name, "inqueue")
        self._used = used = session.used
        self._limit = {name: amount * self._factor for name, amount in session.total.items()}
        self._idle = {name: amount - used.get(name, 0) for name, amount in self._limit.items()}
        return self._count(session)

    def _count(self, session: SessionView) -> Checkpoints:
        yield from self._demand.update(session)
        (self._admitted,) = self._demand.of("")

    def job_enqueueable(self, job: Job) -> Verdict:
        """Permit the job if its minResources fit beside what is admitted already."""
        if job.min_resources is None or self._inqueue is None:
            return PERMIT
        admitted, inqueue = self._admitted.get, self._inqueue.values.get
        demand = {name: admitted(name, 0) + inqueue(name, 0) + amount for name, amount in job.min_resources.items()}
        if over := exceeding(demand, self._idle, job.min_resources):
            return self._rejection(job, job.min_resources, over)
        return PERMIT

    def _rejection(self, job: Job, requested: Amounts, over: Sequence[str]) -> Verdict:
        """Explain a rejection; unlike in Volcano a cluster that is idle, or too small for the job, is not called
        overused.
        """
        most = self._limit.get
        if unfit := [name for name in over if requested[name] > most(name, 0)]:
            text = shortage("resource in cluster is insufficient", "insufficient", unfit)
            return reject(INSUFFICIENT, text, partial(self._size_details, job.queue, requested, unfit))
        details = partial(self._usage_details, job.queue, requested, over)
        if not any(self._used.get(name) for name in over):
            return reject(INSUFFICIENT, shortage("resource in cluster is insufficient", "insufficient", over), details)
        return reject(OVERUSED, shortage("resource in cluster is overused", "overused", over), details)

    def _size_details(self, queue: str, requested: Amounts, names: Sequence[str]) -> str:
        assert self._session is not None
        total, nodes = self._session.total, self._session.nodes
        texts = []
        for name in names:
            largest = int(nodes.allocatable(name).max(initial=0))
            has = f"the cluster has {amount_text(name, total.get(name, 0))}"
            needs = f"needs {name} {amount_text(name, requested[name])}"
            texts.append(f"{needs}; {has}, its largest node {amount_text(name, largest)}")
        return f"queue {queue}: {'; '.join(texts)}"

    def _usage_details(self, queue: str, requested: Amounts, names: Sequence[str]) -> str:
        assert self._session is not None
        assert self._inqueue is not None
        texts = []
        for name in names:
            admitted = self._admitted.get(name, 0) + self._inqueue.get(name)
            has = f"the cluster has {amount_text(name, self._session.total.get(name, 0))}"
            taken = f"in use {amount_text(name, self._used.get(name, 0))}, admitted {amount_text(name, admitted)}"
            limit = f"limit {amount_text(name, self._limit.get(name, 0))}"
            texts.append(f"needs {name} {amount_text(name, requested[name])}; {has}, {taken}, {limit}")
        return f"queue {queue}: {'; '.join(texts)}"

    def job_enqueued(self, job: Job) -> None:
        """Count the admitted demand."""
        assert self._inqueue is not None
        for name, amount in minimum(job).items():
            self._inqueue.add(name, amount)


def _admitted(job: Job) -> Amounts:
    """Return the demand of an admitted job: all of minResources until it runs (as in Volcano), then what is missing."""
    if job.phase == PodGroupPhase.INQUEUE:
        return minimum(job)
    return outstanding(job) if job.min_resources is not None and has_running_minimum(job) else {}
