"""Amounts of queues: limits, what is allocated, and the demand of jobs that are admitted but not placed yet.

Demand is counted so that no more jobs are admitted than the cluster can soon run. `DemandSums` keeps sums over jobs
across sessions and reads only the jobs that changed; `QueueAttributes` is for one session.

Volcano: queueAttr in the plugins capacity and proportion; pkg/scheduler/plugins/util/util.go.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Generic, TypeVar

import msgspec

from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.verdicts import Verdict, reject
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Amounts, Job, QueueView
from volcanoio.model.resources import CPU, MEMORY, PODS, amount_text
from volcanoio.model.scheduling import PodGroupPhase
from volcanoio_plugins.scheduling.queues.quantities import TOLERANCE, Quantities, exceeding, ordered, shortage

QUEUE_CLOSED, QUOTA_INSUFFICIENT = "QueueClosed", "QueueQuotaInsufficient"
"""Codes of rejections."""
BATCH_SIZE = 512
"""Number of jobs processed between two checkpoints; also the limit per session if only metrics depend on them."""
Key = TypeVar("Key", bound=Hashable)


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts that a queue deserves, can have at most (a missing resource: nothing), and is guaranteed."""

    deserved: Mapping[str, float]
    real_capability: Mapping[str, int]
    guarantee: Mapping[str, int]


def compute_real_capability(
    total: Mapping[str, int], guaranteed: Mapping[str, int], own: Mapping[str, int], capability: Mapping[str, int]
) -> dict[str, int]:
    """Return the most a queue can have: the cluster less the others' guarantees, at most its capability.

    A capability for cpu or memory that is not positive means none.
    """
    result = {name: max(amount - guaranteed.get(name, 0), 0) for name, amount in total.items()}
    for name, amount in own.items():
        result[name] = result.get(name, 0) + amount
    for name, limit in capability.items():
        if name in result and (limit > 0 or name not in (CPU, MEMORY)):
            result[name] = min(result[name], limit)
    return result


class QueueAttributes:
    """The limits and amounts of one queue; the counts are undone when a statement is discarded.

    `allocated` and `requested` are the amounts of its jobs when the session opens, by default those of the queue;
    `queued` was admitted before and is not placed yet, `elastic` is allocated beyond the jobs' minimum, both as in
    `DemandSums`.
    """

    def __init__(
        self,
        queue: QueueView,
        limits: QueueLimits,
        table: Callable[[str], Table],
        *,
        allocated: Amounts | None = None,
        requested: Amounts | None = None,
    ) -> None:
        self.queue = queue
        self.deserved = limits.deserved
        self.real_capability = limits.real_capability
        self.guarantee = limits.guarantee
        self.elastic: Mapping[str, int] = {}
        self.queued: Mapping[str, int] = {}
        self.requested = queue.requested if requested is None else requested
        self._initial = dict(queue.allocated) if allocated is None else allocated
        self._names = sorted({*self._initial, *self.deserved, *self.requested})
        self._deserving = [
            (name, self._initial.get(name, 0), amount) for name, amount in self.deserved.items() if amount >= TOLERANCE
        ]
        """The resources of which it deserves some: name, initial allocation, deserved amount."""
        self._delta: Table = table(f"allocated/{queue.name}")
        self._deltas = self._delta.values
        self._inqueue: Table = table(f"inqueue/{queue.name}")
        self._table = table
        self._reserved: Table | None = None
        self._share = 0.0
        self._shared_at = -1

    def allocated(self) -> dict[str, int]:
        """Return what its jobs have allocated now, reservations included."""
        return {name: self.allocated_amount(name) for name in self._names}

    def admitted(self) -> Amounts:
        """Return what is admitted and not placed yet."""
        names = {*self._names, *self.queued, *self._inqueue.values}
        return {name: self.queued.get(name, 0) + self._inqueue.get(name) for name in names}

    def allocated_amount(self, name: str) -> int:
        """Return what its jobs have allocated now of one resource."""
        return self._initial.get(name, 0) + self._deltas.get(name, 0)

    def add(self, requests: Mapping[str, int], count: int) -> None:
        """Count `count` more tasks (fewer when negative)."""
        self._delta.add_all(requests, count)

    def reserve(self, requests: Mapping[str, int], count: int) -> None:
        """Reserve quota for `count` more tasks (fewer when negative)."""
        if self._reserved is None:
            self._reserved = self._table(f"reserved/{self.queue.name}")
        for name, amount in requests.items():
            self._reserved.add(name, amount * count)

    def share(self) -> float:
        """Return the largest fraction of a deserved amount that is allocated, over all resources."""
        if self._shared_at != self._delta.version:
            largest = 0.0
            counted = self._deltas.get
            for name, base, amount in self._deserving:  # called at each comparison of queues
                if (part := (base + counted(name, 0)) / amount) > largest:
                    largest = part
            self._share, self._shared_at = largest, self._delta.version
        return self._share

    def fits(self, requests: Mapping[str, int], count: int, limit: Quantities) -> int:
        """Return how many of `count` more tasks stay within a limit; a missing limit is 0, pods do not count."""
        base, counted, reserved = self._initial.get, self._deltas.get, self._reserved
        for name, amount in requests.items():  # called before every placement
            if amount > 0 and name != PODS:
                left = limit.get(name, 0) - base(name, 0) - counted(name, 0)
                if reserved is not None:
                    left -= reserved.get(name)
                if left < count * amount:
                    count = max(int(left // amount), 0)
        return count

    def within_deserved(self, requests: Mapping[str, int]) -> bool:
        """Return whether with these requests its allocation of any of the resources is at most what it deserves."""
        for name, amount in requests.items():
            if amount > 0 and name != PODS:
                future, deserved = self.allocated_amount(name) + amount, self.deserved.get(name, 0)
                if future <= deserved and deserved >= TOLERANCE:
                    return True
        return False

    def covers_guarantee(self, held: Mapping[str, int], requests: Mapping[str, int]) -> bool:
        """Return whether the allocation covers its guarantee after a task with these requests is removed."""
        return all(held.get(name, 0) - requests.get(name, 0) >= amount for name, amount in self.guarantee.items())

    @property
    def tie_breaker(self) -> tuple[str, str]:
        """The order of queues that the plugin ranks equally: creation time, name."""
        return self.queue.object.metadata.creation_timestamp or "", self.queue.name

    def insufficient(self, minimum: Mapping[str, int]) -> list[str]:
        """Return the resources of which the limit is exceeded by a job's minimum and what is allocated and admitted."""
        base, counted, queued, elastic = self._initial.get, self._deltas.get, self.queued.get, self.elastic.get
        inqueue = self._inqueue.values.get
        demand = {
            name: amount + (base(name, 0) + counted(name, 0) + queued(name, 0) + inqueue(name, 0) - elastic(name, 0))
            for name, amount in minimum.items()
        }
        return exceeding(demand, self.real_capability, minimum)

    def rejection(self, minimum: Mapping[str, int], queue: str) -> Verdict | None:
        """Return the rejection of a job of `queue` (itself or one below it) whose minimum exceeds the limit."""
        if not (over := self.insufficient(minimum)):
            return None
        text = shortage("queue resource quota insufficient", "insufficient", over)
        return reject(QUOTA_INSUFFICIENT, text, partial(self.explain_shortage, minimum, over, queue))

    def explain_shortage(self, minimum: Mapping[str, int], names: Iterable[str], queue: str) -> str:
        """Explain why a job of `queue` (itself or one below it) cannot have its minimum of these resources.

        Usage is that of the session's opening, as in `insufficient`.
        """
        texts = []
        for name in names:
            admitted, elastic = self.queued.get(name, 0) + self._inqueue.get(name), self.elastic.get(name, 0)
            text = f"needs {name} {amount_text(name, minimum[name])}"
            text += f", in use {amount_text(name, self._initial.get(name, 0))}"
            if elastic:
                text += f", {amount_text(name, elastic)} of it beyond minAvailable"
            if admitted:
                text += f", admitted {amount_text(name, admitted)}"
            texts.append(f"{text}, limit {amount_text(name, self.real_capability.get(name, 0))}")
        above = f", above queue {queue}" if queue != self.queue.name else ""
        return f"queue {self.queue.name}{above}: {'; '.join(texts)}"

    def explain_limit(self, requests: Mapping[str, int], count: int, limit: Quantities, word: str) -> str:
        """Explain which resources put some of `count` more tasks beyond a limit, "" for none.

        `word` is the name of the limit.
        """
        texts = [
            f"needs {name} {amount_text(name, requests[name] * count)}"
            f", in use {amount_text(name, self.allocated_amount(name))}"
            f", {word} {amount_text(name, limit.get(name, 0))}"
            for name in ordered(requests)
            if self.fits({name: requests[name]}, count, limit) < count
        ]
        return f"queue {self.queue.name}: {'; '.join(texts)}" if texts else ""

    def admit(self, minimum: Mapping[str, int]) -> None:
        """Count a minimum that is admitted."""
        for name, amount in minimum.items():
            self._inqueue.add(name, amount)

    def overused(self) -> bool:
        """Return whether it has allocated all it deserves."""
        counted = self._deltas.get
        for name, base, amount in self._deserving:  # noqa: SIM110 - called at each comparison of queues
            if amount - base - counted(name, 0) >= TOLERANCE:
                return False
        return True


class DemandSums(Generic[Key]):
    """Sums of parts of jobs, by a key of the job. A part depends on the job alone.

    The sums are complete in sessions in which a job waits for admission; in others changes may be missing.
    """

    def __init__(self, by: Callable[[Job], Key], *parts: Callable[[Job], Amounts]) -> None:
        self._by = by
        self._parts = parts
        self._counted: dict[str, tuple[Key, list[Amounts]]] = {}
        """The counted parts of each job, by its key."""
        self._totals: dict[Key, list[dict[str, int]]] = {}
        self._updates = 0
        """Number of updated jobs since deleted jobs were last removed."""

    def update(self, session: SessionView) -> Iterator[None]:
        """Count the jobs that changed since the last update; all of them if a job waits for admission, else some."""
        admission_pending = session.has_jobs_in(PodGroupPhase.PENDING)
        jobs = session.jobs
        while True:
            changed = session.changed_jobs(self, BATCH_SIZE)
            for job in changed:
                self._update_job(jobs, job)
            self._updates += len(changed)
            if self._updates >= max(len(session.jobs), BATCH_SIZE) and len(changed) < BATCH_SIZE:
                self._remove_deleted(session)
            if not admission_pending or len(changed) < BATCH_SIZE:
                return
            yield

    def _update_job(self, jobs: Mapping[str, Job], job: Job) -> None:
        key = job.key
        counted = self._counted.get(key)
        amounts = [part(job) for part in self._parts] if key in jobs else []
        if any(amounts):
            now = self._by(job), amounts
            if now != counted:
                if counted is not None:
                    self._add(*counted, -1)
                self._counted[key] = now
                self._add(*now, 1)
        elif counted is not None:
            del self._counted[key]
            self._add(*counted, -1)

    def _remove_deleted(self, session: SessionView) -> None:
        """Remove deleted jobs, which `changed_jobs` leaves out when it returns everything after too many changes."""
        self._updates = 0
        jobs = session.jobs
        for gone in [key for key in self._counted if key not in jobs]:
            self._add(*self._counted.pop(gone), -1)

    def of(self, key: Key) -> list[dict[str, int]]:
        """Return the sums of the parts; never write to them."""
        return self._totals.get(key) or [{} for _ in self._parts]

    def _add(self, key: Key, amounts: list[Amounts], times: int) -> None:
        if (totals := self._totals.get(key)) is None:
            totals = self._totals[key] = [{} for _ in self._parts]
        emptied = False
        for total, part in zip(totals, amounts):  # noqa: B905 - called for every job; the lengths are equal
            for name, amount in part.items():
                if value := total.get(name, 0) + amount * times:
                    total[name] = value
                else:
                    total.pop(name, None)
                    emptied = True
        if emptied and not any(totals):
            del self._totals[key]


_INQUEUE, _RUNNING = PodGroupPhase.INQUEUE.value, PodGroupPhase.RUNNING.value
"""Plain texts: compared for every job that changed."""


def outstanding(job: Job) -> Amounts:
    """Return minResources not allocated yet, without the requests of gated tasks."""
    allocated, minimum_amounts = job.allocated, job.min_resources
    if not allocated or not minimum_amounts:
        return minimum(job)
    return _ungated(
        job, {name: left for name, amount in minimum_amounts.items() if (left := amount - allocated.get(name, 0)) > 0}
    )


def minimum(job: Job) -> Amounts:
    """Return minResources without the requests of gated tasks."""
    return _ungated(job, job.min_resources or {})


def elastic(job: Job) -> Amounts:
    """Return what the job has allocated beyond its minResources."""
    held, minimum_amounts = job.allocated, job.min_resources or {}
    if not held:
        return {}
    return {name: more for name, amount in held.items() if (more := amount - minimum_amounts.get(name, 0)) > 0}


def has_running_minimum(job: Job) -> bool:
    """Return whether the job runs with at least minAvailable members: one whose driver has finished does not count."""
    return job.phase == _RUNNING and job.count(*ALLOCATED_STATUSES) >= job.min_available


def admitted(job: Job) -> Amounts:
    """Return the part of a job's minResources that is admitted to its queue and not allocated yet."""
    if job.min_resources is None or not (job.phase == _INQUEUE or has_running_minimum(job)):
        return {}
    return outstanding(job)


def _ungated(job: Job, demand: Amounts) -> Amounts:
    gated = job.gated
    return {name: max(amount - gated.get(name, 0), 0) for name, amount in demand.items()} if gated else demand


def queue_of(job: Job) -> str:
    """Return the name of the job's queue: a key to sum by."""
    return job.queue
