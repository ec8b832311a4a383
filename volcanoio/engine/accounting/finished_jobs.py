"""The account of a job: what is kept of it after it has finished and is deleted.

Everything follows from the stored Job and its pods, except for pods that are deleted while the job exists and for
measured usage: these are added up in an `OpenAccount`. Times are in epoch seconds; resources in unit-seconds:
core-seconds of cpu, byte-seconds of memory, piece-seconds of all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from volcanoio.framework.podusage import spec_usage
from volcanoio.model import names
from volcanoio.model.batch import Job, JobPhase
from volcanoio.model.core import ContainerStateTerminated, Pod
from volcanoio.model.quantity import QuantityError
from volcanoio.model.times import epoch_or_none, positive_duration

FINAL_PHASES = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.ABORTED, JobPhase.TERMINATED})
DELETED = "Deleted"
"""Phase in the history of a job that was deleted before it had finished."""
_LONGEST_MESSAGE = 1024
"""Characters of a message that are kept."""

MOST_PLACES = 2000
"""Pods of a job whose places are kept; those of larger jobs are not."""


class Place(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where and when a pod ran."""

    node: str
    started: float
    ended: float


UnitSeconds: TypeAlias = dict[str, float]
"""Amounts times seconds, by resource."""


class FinishedJob(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A job that has finished, or was deleted before.

    - `owner`: the user who created it, or its controller as in `CronJob/nightly`; "" if not known
    - `started`: when it first ran, None if it never did
    - `exit_code`: that of the first container that failed, 0 for a completed job, None if not known
    - `restarts`: restarts of the whole job; `pods` are its replicas
    - `estimate`: its `runningEstimate` in seconds
    - `requested`, `used`: unit-seconds; what is used is known of `measured_seconds` of the `pod_seconds` only
    - `places`: where and when its pods ran, () where that is not kept or was not read
    """

    uid: str
    namespace: str
    name: str
    owner: str = ""
    queue: str = ""
    created: float
    started: float | None = None
    finished: float
    phase: str
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    restarts: int = 0
    pods: int = 0
    min_available: int = 0
    estimate: float | None = None
    requested: UnitSeconds = {}
    used: UnitSeconds = {}
    pod_seconds: float = 0.0
    measured_seconds: float = 0.0
    places: tuple[Place, ...] = ()

    @property
    def wait(self) -> float:
        """Seconds from its creation to its start, or to its end if it never ran."""
        return max(0.0, (self.finished if self.started is None else self.started) - self.created)

    @property
    def run_time(self) -> float | None:
        """Seconds from its first start to its end, None if it never ran."""
        return None if self.started is None else max(0.0, self.finished - self.started)

    @property
    def measured(self) -> float:
        """Share of its pods' time of which usage is known, 0 to 1."""
        return min(1.0, self.measured_seconds / self.pod_seconds) if self.pod_seconds else 0.0


class OpenAccount(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What has to be added up while a job lives: `pods` that are gone, measured usage, and its first start."""

    started: float | None = None
    requested: UnitSeconds = {}
    pod_seconds: float = 0.0
    used: UnitSeconds = {}
    measured_seconds: float = 0.0
    exit_code: int | None = None
    places: tuple[Place, ...] = ()

    def add_pods(self, pods: Iterable[Pod], now: float) -> None:
        """Add what pods requested during their time."""
        places = list[Place]()
        for pod in pods:
            if self.exit_code is None:
                self.exit_code = failed_exit_code(pod)
            if (place := _place_of(pod, now)) is None:
                continue
            places.append(place)
            seconds = place.ended - place.started
            self.pod_seconds += seconds
            for resource, amount in _requests(pod).items():
                self.requested[resource] = self.requested.get(resource, 0.0) + amount * seconds
        if len(self.places) + len(places) <= MOST_PLACES:
            self.places = (*self.places, *places)

    def add_usage(self, used: Mapping[str, float], seconds: float) -> None:
        """Add measured unit-seconds of pods that ran for so many pod-seconds together."""
        self.measured_seconds += seconds
        for resource, amount in used.items():
            self.used[resource] = self.used.get(resource, 0.0) + amount


def account(job: Job, pods: Iterable[Pod], kept: OpenAccount, now: float) -> FinishedJob:
    """Return the account of a job with its existing `pods`; one that has not finished is being deleted at `now`."""
    total = msgspec.structs.replace(kept, requested=dict(kept.requested), used=dict(kept.used))
    total.add_pods(pods, now)
    meta, status, spec = job.metadata, job.status, job.spec
    is_final = status.state.phase in FINAL_PHASES
    finished = (epoch_or_none(status.state.last_transition_time) if is_final else None) or now
    started = earliest_start(job) if kept.started is None else kept.started
    return FinishedJob(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        owner=owner_of(job),
        queue=spec.queue or names.DEFAULT_QUEUE,
        created=epoch_or_none(meta.creation_timestamp) or finished,
        started=started,
        finished=finished,
        phase=status.state.phase if is_final else DELETED,
        reason=status.state.reason,
        message=status.state.message[:_LONGEST_MESSAGE],
        exit_code=0 if status.state.phase == JobPhase.COMPLETED else total.exit_code,
        restarts=status.retry_count,
        pods=sum(task.replicas for task in spec.tasks),
        min_available=spec.min_available,
        estimate=positive_duration(spec.running_estimate) if spec.running_estimate else None,
        requested=total.requested,
        used=total.used,
        pod_seconds=total.pod_seconds,
        measured_seconds=total.measured_seconds,
        places=total.places,
    )


def owner_of(job: Job) -> str:
    """Return the user who created a job, else its controller as `Kind/name`, "" if neither is known."""
    if creator := job.metadata.annotations.get(names.CREATOR, ""):
        return creator
    owner = job.metadata.controller
    return f"{owner.kind}/{owner.name}" if owner is not None else ""


def earliest_start(job: Job) -> float | None:
    """Return when a job began to run as its conditions show, None if it never did.

    A condition is moved when the phase is entered again, so that this is the last start of a job that was restarted.
    """
    times = (each.last_transition_time for each in job.status.conditions if each.status == JobPhase.RUNNING)
    return next((moment for text in times if (moment := epoch_or_none(text)) is not None), None)


def failed_exit_code(pod: Pod) -> int | None:
    """Return the exit code of the first container of a pod that failed, None if none did."""
    return next((each.exit_code for each in _terminations(pod) if each.exit_code), None)


def _terminations(pod: Pod) -> Iterable[ContainerStateTerminated]:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return (each.state.terminated for each in statuses if each.state.terminated is not None)


def _place_of(pod: Pod, now: float) -> Place | None:
    """Return where a pod ran, from its start on its node to the end of its last container, or to now."""
    if (started := epoch_or_none(pod.status.start_time)) is None:
        return None
    ends = [epoch_or_none(each.finished_at) for each in _terminations(pod)]
    ended = [moment for moment in ends if moment is not None]
    is_over = pod.status.phase in ("Succeeded", "Failed") and ended
    return Place(pod.spec.node_name, started, max(started, max(ended) if is_over else now))


def _requests(pod: Pod) -> dict[str, float]:
    """Return the requests of a pod in units, {} for quantities that cannot be read."""
    try:
        usage = spec_usage(pod.spec)
    except QuantityError:
        return {}
    return {name: amount / 1000 for name, amount in usage.items() if f"requests.{name}" in usage}
