"""Plugin overcommit: how much demand may wait for places (Volcano: pkg/scheduler/plugins/overcommit)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.points import Checkpoints
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.verdicts import PERMIT, Verdict, reject
from volcanoio.framework.scheduling.views import Amounts, Job
from volcanoio.model.scheduling import PodGroupPhase
from volcanoio_plugins.scheduling.queues.demand import minimum, outstanding, runs_whole
from volcanoio_plugins.scheduling.queues.quantities import exceeding, shortage
from volcanoio_plugins.scheduling.queues.sums import Sums

DEFAULT_FACTOR = 1.2
OVERUSED = "ClusterOverused"


class OvercommitArguments(msgspec.Struct, frozen=True):
    """`overcommit-factor` is how many times the cluster's capacity may be asked for; below 1 means the default."""

    factor: float = msgspec.field(default=DEFAULT_FACTOR, name="overcommit-factor")


class Overcommit:
    """Admits jobs while the cluster's capacity, times the factor, less what is used, covers all admitted demand."""

    name = "overcommit"
    refuses_alike = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        factor = convert(arguments, OvercommitArguments, self.name).factor
        self._factor = factor if factor >= 1 else DEFAULT_FACTOR
        self._idle: Mapping[str, float] = {}
        self._demand = Sums(lambda _: "", _admitted)
        self._admitted: Mapping[str, int] = {}
        self._inqueue: Table | None = None

    def open(self, session: SessionView) -> Checkpoints | None:
        """Sum what is free and what is admitted, if any job waits to be admitted."""
        self._inqueue = session.table(self.name, "inqueue")
        if not session.any_in(PodGroupPhase.PENDING):
            return None
        used = session.used
        self._idle = {name: amount * self._factor - used.get(name, 0) for name, amount in session.total.items()}
        return self._count(session)

    def _count(self, session: SessionView) -> Checkpoints:
        yield from self._demand.follow(session)
        (self._admitted,) = self._demand.of("")

    def job_enqueueable(self, job: Job) -> Verdict:
        """Whether the job's minResources fit beside what is admitted already."""
        if job.min_resources is None or self._inqueue is None:
            return PERMIT
        admitted, inqueue = self._admitted.get, self._inqueue.values.get
        demand = {name: admitted(name, 0) + inqueue(name, 0) + amount for name, amount in job.min_resources.items()}
        if over := exceeding(demand, self._idle, job.min_resources):
            return reject(OVERUSED, shortage("resource in cluster is overused", "overused", over))
        return PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Count the admitted demand."""
        assert self._inqueue is not None
        for name, amount in minimum(job).items():
            self._inqueue.add(name, amount)


def _admitted(job: Job) -> Amounts:
    """minResources of a job that is admitted: all of them until it runs (Volcano counts them so), then what lacks."""
    if job.phase == PodGroupPhase.INQUEUE:
        return minimum(job)
    return outstanding(job) if job.min_resources is not None and runs_whole(job) else {}
