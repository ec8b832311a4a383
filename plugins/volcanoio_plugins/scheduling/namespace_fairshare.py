"""Plugin namespace-fairshare: within a queue, namespaces have equal dominant shares, or shares by their weights.

What a namespace does not ask for is lent to the others; it comes back as their pods end, nothing is evicted. A
namespace is a user, a team: whoever submits more or earlier jobs has no more of the queue by that.

The dominant share is the largest part that a namespace holds of any resource of the cluster (Ghodsi et al.: Dominant
Resource Fairness, NSDI 2011), counted in the queue at hand and divided by the weight. Jobs of the namespace
with the smaller result have the next turn; when they need more at once than ever becomes free, `patience` sees to it
that it gathers. The plugin's place in the configuration decides what goes before it: put it
after `priority`, whose classes are given out by administrators, and before `gang` and `drf`, so that neither unfinished
gangs nor small jobs of one namespace pass those of another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import ArgumentError, GoDuration, convert
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.points import Checkpoints
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.verdicts import ABSTAIN, PERMIT, Verdict, reject
from volcanoio.framework.scheduling.views import Amounts, Job, QueueView, Shape
from volcanoio.model import kinds
from volcanoio.model.names import FAIRSHARE_WEIGHT
from volcanoio.model.resources import add
from volcanoio.model.scheduling import PodGroupPhase
from volcanoio_plugins.scheduling.queues.demand import admitted, minimum
from volcanoio_plugins.scheduling.queues.patience import Patience, Stage, Turn
from volcanoio_plugins.scheduling.queues.sums import Sums

HELD_BACK = "NamespaceHoldsBack"
_NOTHING: Amounts = {}
_DIGITS = 9
"""Shares that agree so far are equal: dividing by weights must not decide between them."""


class FairshareArguments(msgspec.Struct, frozen=True):
    """`patience` is how long (a Go duration) the namespace with least waits until others hold back for it; 0: never."""

    patience: GoDuration = GoDuration(60.0)


class NamespaceFairshare:
    """Orders the namespaces of a queue by dominant share over weight."""

    name = "namespace-fairshare"
    keeps_verdicts = True
    watches = (kinds.NAMESPACE.resource,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        patience = convert(arguments, FairshareArguments, self.name).patience
        if patience < 0:
            msg = f"{self.name}: patience is {patience:g}s; give a duration such as 60s, or 0 for never"
            raise ArgumentError(msg, key="patience")
        self._patience = Patience(patience)
        self._session: SessionView | None = None
        self._queues: Mapping[str, QueueView] = {}
        self._total: Amounts = {}
        self._weights: dict[str, float] = {}
        self._weighed_at = -1
        self._admitted: dict[tuple[str, str], Table] = {}
        """What is admitted in this session, by queue and namespace."""
        self._demand = Sums(_place, admitted)
        """What was admitted before and is not placed yet."""
        self._released: Table | None = None
        self._told: set[str] = set()

    def open(self, session: SessionView) -> Checkpoints:
        """Read the weights that changed, and count what each namespace has admitted, where any job waits for that."""
        self._session, self._queues = session, session.queues
        self._total = {name: amount for name, amount in session.total.items() if amount > 0}
        self._released, self._admitted = session.table(self.name, "released"), {}
        version = session.version(kinds.NAMESPACE.resource)
        if version != self._weighed_at:
            self._weighed_at = version
            self._weights = {
                name: weight
                for name, namespace in session.objects(kinds.NAMESPACE.resource).items()
                if (weight := weight_of((namespace.metadata.annotations or {}).get(FAIRSHARE_WEIGHT, ""))) != 1
            }
        return self._catch_up(session)

    def _catch_up(self, session: SessionView) -> Checkpoints:
        if session.any_in(PodGroupPhase.PENDING):
            yield from self._demand.follow(session)
        self._patience.look(session, self._standing)

    def job_valid(self, job: Job) -> Verdict:
        """Whether its namespace need not hold back for one that has less and waits for nodes."""
        turn = self._patience.turn(job, Stage.NODES, self._standing)
        return PERMIT if turn is None else _held_back(job, turn)

    def job_enqueueable(self, job: Job) -> Verdict:
        """Rejects while its namespace holds back for one that has less and waits to be admitted; else it abstains."""
        turn = self._patience.turn(job, Stage.ADMISSION, self._standing)
        return ABSTAIN if turn is None else _held_back(job, turn)

    def namespace_key(self, job: Job) -> float:
        """Its dominant share over its weight; where the job waits to be admitted, what is admitted already included."""
        held = self._queues[job.queue].namespaces.get(job.namespace, _NOTHING)
        if job.phase == PodGroupPhase.PENDING:
            key = job.queue, job.namespace
            share = self._share(held, self._demand.of(key)[0], self._admitted.get(key))
        else:
            share = self._share(held)
        return round(share / self._weights.get(job.namespace, 1.0), _DIGITS)

    def namespace_epoch(self) -> int:
        """What is evicted makes shares smaller."""
        return 0 if self._released is None else self._released.version

    def job_enqueued(self, job: Job) -> None:
        """Count the admitted demand."""
        self._count(job, minimum(job))

    def released(self, job: Job, shape: Shape, count: int) -> None:  # noqa: ARG002 - that anything was is enough
        """Shares became smaller."""
        if self._released is not None:
            self._released.add("", 1)

    def report(self, probe: Probe) -> None:
        """Tell share, weight and weighted share of each namespace over all queues (Volcano: metrics/namespace.go)."""
        held: dict[str, dict[str, int]] = {}
        for queue in self._queues.values():
            for namespace, amounts in queue.namespaces.items():
                add(held.setdefault(namespace, {}), amounts)
        for namespace, amounts in held.items():
            share, weight = self._share(amounts), self._weights.get(namespace, 1)
            probe.gauge("volcano_namespace_share", share, namespace_name=namespace)
            probe.gauge("volcano_namespace_weight", weight, namespace_name=namespace)
            probe.gauge("volcano_namespace_weighted_share", share / weight, namespace_name=namespace)
        for namespace in self._told - held.keys():
            for figure in ("share", "weight", "weighted_share"):
                probe.forget(f"volcano_namespace_{figure}", namespace_name=namespace)
        self._told = set(held)

    def _standing(self, queue: str, namespace: str) -> float:
        held = self._queues[queue].namespaces.get(namespace, _NOTHING)
        return round(self._share(held) / self._weights.get(namespace, 1.0), _DIGITS)

    def _share(self, held: Amounts, waiting: Amounts = _NOTHING, admitted: Table | None = None) -> float:
        largest = 0.0
        for name, whole in self._total.items():  # asked at every turn: a generator would cost twice
            amount = held.get(name, 0) + waiting.get(name, 0)
            if admitted is not None:
                amount += admitted.get(name)
            if amount > largest * whole:
                largest = amount / whole
        return largest

    def _count(self, job: Job, demand: Amounts) -> None:
        """Count what is admitted in this session."""
        assert self._session is not None
        key = job.queue, job.namespace
        table = self._admitted.get(key)
        if table is None:
            table = self._admitted[key] = self._session.table(self.name, "admitted/" + "/".join(key))
        for name, amount in demand.items():
            table.add(name, amount)


def _held_back(job: Job, turn: Turn) -> Verdict:
    """Why a job waits though there is room."""
    text = (
        f"namespace {turn.namespace} has less of queue {job.queue} and waits for room: it goes before {job.namespace}"
    )
    return reject(HELD_BACK, text)


def _place(job: Job) -> tuple[str, str]:
    return job.queue, job.namespace


def weight_of(text: str) -> float:
    """The weight in an annotation: a positive number; anything else counts as 1."""
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if math.isfinite(weight) and weight > 0 else 1.0
