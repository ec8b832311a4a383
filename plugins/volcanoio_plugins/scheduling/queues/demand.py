"""Demand of jobs that are admitted but not placed yet (Volcano: pkg/scheduler/plugins/util/util.go).

Demand is counted so that no more jobs are admitted than the cluster can soon run. `DemandSums` keeps sums over jobs
across sessions and reads only the jobs that changed.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Amounts, Job
from volcanoio.model.scheduling import PodGroupPhase

BATCH_SIZE = 512
"""Number of jobs processed between two checkpoints; also the limit per session if only metrics depend on them."""
Key = TypeVar("Key", bound=Hashable)


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
    """Whether the job runs with at least minAvailable members: one whose driver has finished does not count."""
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
