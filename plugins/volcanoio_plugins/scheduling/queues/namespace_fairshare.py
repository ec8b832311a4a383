"""Plugin namespace-fairshare: within a queue, namespaces have equal dominant shares, or shares by their weights.

What a namespace does not request is lent to the others; it is returned as their pods end, nothing is evicted. A
namespace is a user or a team: submitting more or earlier jobs gives no larger share of the queue.

The dominant share is the largest fraction that a namespace has of any resource of the cluster (Ghodsi et al.: Dominant
Resource Fairness, NSDI 2011), counted in one queue and divided by the weight. Jobs of the namespace with the smallest
share are first. A large job would never start while small jobs take all room that becomes free: if the namespace with
the smallest share has waited longer than its patience, namespaces with more get nothing new until it was served. It is
not known in advance whether the job fits at all, so they wait for at most that patience at a time, and after each
failed attempt they continue four times as long as before.

Put the plugin after `priority`, whose classes are assigned by administrators, and before `gang` and `drf`, so that
neither unfinished gangs nor small jobs of one namespace pass those of another.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec
import numpy as np

from volcanoio.framework.arguments import ArgumentError, GoDuration, convert
from volcanoio.framework.backoff import Backoff
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.points import Checkpoints
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.verdicts import ABSTAIN, PERMIT, Verdict, reject
from volcanoio.framework.scheduling.views import Amounts, Job, Nodes, QueueView, Shape, TaskStatus
from volcanoio.model import kinds
from volcanoio.model.names import FAIRSHARE_WEIGHT
from volcanoio.model.resources import add
from volcanoio.model.scheduling import PodGroupPhase
from volcanoio_plugins.scheduling.queues.attributes import DemandSums, admitted, minimum

_MAX_PAUSE = 6 * 3600.0
"""Longest time in seconds for which other namespaces continue before they hold back again."""


class Stage(StrEnum):
    """What a job waits for."""

    ADMISSION = PodGroupPhase.PENDING
    NODES = PodGroupPhase.INQUEUE


Share: TypeAlias = Callable[[str, str], float]
"""The weighted share of a namespace in a queue: queue, namespace."""


@dataclass(slots=True)
class Wait:
    """A namespace that waits: its smallest share so far, whether others hold back, and until when."""

    share: float
    until: float
    pause: float
    held_back: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """The namespace for which others hold back, and its share."""

    namespace: str
    share: float


class HoldBack:
    """Tracks across sessions how long namespaces wait. `seconds` 0 disables holding back."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._backoff = Backoff(base=seconds, cap=_MAX_PAUSE, factor=4.0)
        self._waiting_since: dict[tuple[str, Stage, str], Wait] = {}
        self._turns: dict[tuple[str, Stage], Turn] = {}

    def update(self, session: SessionView, share: Share) -> None:
        """Update the waiting namespaces as a session opens."""
        self._turns = {}
        if not self._seconds:
            return
        waits, self._waiting_since = self._waiting_since, {}
        for (queue, stage), jobs in _waiting_jobs(session).items():
            namespaces = session.queues[queue].namespaces
            least, namespace = min((share(queue, name), name) for name in jobs)
            if not any(share(queue, name) > least for name in namespaces):
                continue
            if (wait := waits.get((queue, stage, namespace))) is None or least > wait.share:
                wait = Wait(least, session.now + self._seconds, self._seconds)
            wait.share = least
            self._waiting_since[queue, stage, namespace] = wait
            if session.now >= wait.until:
                wait.held_back = not wait.held_back
                wait.until = session.now + (self._seconds if wait.held_back else wait.pause)
                if not wait.held_back:
                    wait.pause = self._backoff.grow(wait.pause)
            if wait.held_back and _fits_somewhere(jobs[namespace], session.nodes):
                self._turns[queue, stage] = Turn(namespace, least)

    def turn(self, job: Job, stage: Stage, share: Share) -> Turn | None:
        """Return for whom a job's namespace holds back, None if it does not."""
        turn = self._turns.get((job.queue, stage)) if self._turns else None
        if turn is None or job.namespace == turn.namespace or share(job.queue, job.namespace) <= turn.share:
            return None
        return turn


def _waiting_jobs(session: SessionView) -> Mapping[tuple[str, Stage], dict[str, Job]]:
    """Return a waiting job of each namespace, by queue and stage."""
    waiting: dict[tuple[str, Stage], dict[str, Job]] = {}
    for stage in Stage:
        for job in session.jobs_in(stage):
            if stage is Stage.NODES and not job.count(TaskStatus.PENDING):
                continue
            waiting.setdefault((job.queue, stage), {}).setdefault(job.namespace, job)
    return waiting


def _fits_somewhere(job: Job, nodes: Nodes) -> bool:
    """Return whether any node is large enough for the job's first pending task; true for a job without pods."""
    if (task := next((task for task in job.tasks if task.status is TaskStatus.PENDING), None)) is None:
        return True
    fits = np.ones(len(nodes), dtype=bool)
    for name, amount in task.shape.requests.items():
        fits &= nodes.allocatable(name) >= amount
    return bool(fits.any())


HELD_BACK = "NamespaceHoldsBack"
_NOTHING: Amounts = {}
_DIGITS = 9
"""Shares are rounded to this many digits: rounding errors of the weights must not order them."""


class FairshareArguments(msgspec.Struct, frozen=True):
    """`patience` is how long the namespace with the smallest share waits until others hold back for it; 0: never."""

    patience: GoDuration = GoDuration(60.0)


class NamespaceFairshare:
    """Orders the namespaces of a queue by dominant share over weight."""

    name = "namespace-fairshare"
    keeps_verdicts = True
    watches = (kinds.NAMESPACE.resource,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        if (patience := convert(arguments, FairshareArguments, self.name).patience) < 0:
            msg = f"{self.name}: patience is {patience:g}s; give a duration such as 60s, or 0 for never"
            raise ArgumentError(msg, key="patience")
        self._hold_back = HoldBack(patience)
        self._session: SessionView | None = None
        self._queues: Mapping[str, QueueView] = {}
        self._total: Amounts = {}
        self._weights: dict[str, float] = {}
        self._weights_version = -1
        self._admitted: dict[tuple[str, str], Table] = {}
        """Amounts admitted in this session, by queue and namespace."""
        self._demand = DemandSums(_queue_and_namespace, admitted)
        """Amounts admitted before and not placed yet."""
        self._released: Table | None = None
        self._reported: set[str] = set()

    def open(self, session: SessionView) -> Checkpoints:
        """Read changed weights, and count admitted amounts by namespace if any job waits for admission."""
        self._session, self._queues = session, session.queues
        self._total = {name: amount for name, amount in session.total.items() if amount > 0}
        self._released, self._admitted = session.table(self.name, "released"), {}
        if (version := session.version(kinds.NAMESPACE.resource)) != self._weights_version:
            self._weights_version = version
            self._weights = {
                name: weight
                for name, namespace in session.objects(kinds.NAMESPACE.resource).items()
                if (weight := weight_of((namespace.metadata.annotations or {}).get(FAIRSHARE_WEIGHT, ""))) != 1
            }
        return self._update(session)

    def _update(self, session: SessionView) -> Checkpoints:
        if session.has_jobs_in(PodGroupPhase.PENDING):
            yield from self._demand.update(session)
        self._hold_back.update(session, self._weighted_share)

    def job_valid(self, job: Job) -> Verdict:
        """Reject jobs whose namespace holds back for one that waits for nodes."""
        turn = self._hold_back.turn(job, Stage.NODES, self._weighted_share)
        return PERMIT if turn is None else _held_back(job, turn)

    def job_enqueueable(self, job: Job) -> Verdict:
        """Reject jobs whose namespace holds back for one that waits for admission; else abstain."""
        turn = self._hold_back.turn(job, Stage.ADMISSION, self._weighted_share)
        return ABSTAIN if turn is None else _held_back(job, turn)

    def namespace_key(self, job: Job) -> float:
        """Return the dominant share over the weight; for jobs waiting for admission, admitted amounts are included."""
        allocated = self._queues[job.queue].namespaces.get(job.namespace, _NOTHING)
        if job.phase == PodGroupPhase.PENDING:
            key = job.queue, job.namespace
            share = self._share(allocated, self._demand.of(key)[0], self._admitted.get(key))
        else:
            share = self._share(allocated)
        return round(share / self._weights.get(job.namespace, 1.0), _DIGITS)

    def namespace_generation(self) -> int:
        """Return a number that changes with each release, which makes shares smaller."""
        return 0 if self._released is None else self._released.version

    def job_enqueued(self, job: Job) -> None:
        """Count the admitted demand."""
        self._count(job, minimum(job))

    def released(self, job: Job, shape: Shape, count: int) -> None:  # noqa: ARG002 - only the event counts
        """Count that shares became smaller."""
        if self._released is not None:
            self._released.add("", 1)

    def report(self, probe: Probe) -> None:
        """Report share, weight and weighted share of each namespace over all queues (Volcano: metrics/namespace.go)."""
        allocated: dict[str, dict[str, int]] = {}
        for queue in self._queues.values():
            for namespace, amounts in queue.namespaces.items():
                add(allocated.setdefault(namespace, {}), amounts)
        for namespace, amounts in allocated.items():
            share, weight = self._share(amounts), self._weights.get(namespace, 1)
            probe.gauge("volcano_namespace_share", share, namespace_name=namespace)
            probe.gauge("volcano_namespace_weight", weight, namespace_name=namespace)
            probe.gauge("volcano_namespace_weighted_share", share / weight, namespace_name=namespace)
        for namespace in self._reported - allocated.keys():
            for figure in ("share", "weight", "weighted_share"):
                probe.forget(f"volcano_namespace_{figure}", namespace_name=namespace)
        self._reported = set(allocated)

    def _weighted_share(self, queue: str, namespace: str) -> float:
        allocated = self._queues[queue].namespaces.get(namespace, _NOTHING)
        return round(self._share(allocated) / self._weights.get(namespace, 1.0), _DIGITS)

    def _share(self, allocated: Amounts, waiting: Amounts = _NOTHING, admitted: Table | None = None) -> float:
        largest = 0.0
        for name, whole in self._total.items():  # called at each comparison: a generator would take twice as long
            amount = allocated.get(name, 0) + waiting.get(name, 0)
            if admitted is not None:
                amount += admitted.get(name)
            if amount > largest * whole:
                largest = amount / whole
        return largest

    def _count(self, job: Job, demand: Amounts) -> None:
        """Count demand admitted in this session."""
        assert self._session is not None
        key = job.queue, job.namespace
        if (table := self._admitted.get(key)) is None:
            table = self._admitted[key] = self._session.table(self.name, "admitted/" + "/".join(key))
        for name, amount in demand.items():
            table.add(name, amount)


def _held_back(job: Job, turn: Turn) -> Verdict:
    """Return the rejection of a job although there is room."""
    text = (
        f"namespace {turn.namespace} has less of queue {job.queue} and waits for room: it goes before {job.namespace}"
    )
    return reject(HELD_BACK, text)


def _queue_and_namespace(job: Job) -> tuple[str, str]:
    return job.queue, job.namespace


def weight_of(text: str) -> float:
    """Parse the weight in an annotation: a positive number; anything else counts as 1."""
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if math.isfinite(weight) and weight > 0 else 1.0
