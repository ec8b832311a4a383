"""Metrics of Jobs: phase, start and completion, and what their running pods request, use and leave unused.

All follow from the stored Jobs and pods, so that a new process reports the same. What pods use is read from the
resource metrics API (metrics.k8s.io, which metrics-server serves), by namespace; without that API there are no series
of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import structlog
from anyio.lowlevel import checkpoint

from volcanoio.engine.hosting.host import Host
from volcanoio.engine.jobs.controller import NAME as JOBS
from volcanoio.engine.jobs.state.job_state import JobState
from volcanoio.framework.controller import Rule
from volcanoio.framework.probe import Probe
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock
from volcanoio.kube.decoding import UndecodableError
from volcanoio.kube.errors import ApiError
from volcanoio.kube.transport import TransportError
from volcanoio.model import kinds
from volcanoio.model.batch import Job, JobPhase
from volcanoio.model.core import Pod
from volcanoio.model.quantity import QuantityError
from volcanoio.model.resources import CPU, MEMORY, PODS, Amounts, add, amounts
from volcanoio.model.times import epoch_or_none
from volcanoio.model.workloads import PodMetrics

INTERVAL: Final = 15.0
"""Seconds between two reports."""
USAGE_INTERVAL: Final = 60.0
"""Seconds between two reads of what pods use."""
MISSING_INTERVAL: Final = 600.0
"""Seconds until the resource metrics API is tried again where it is missing or forbidden."""
JOBS_PER_STEP: Final = 50
PHASE, STARTED = "volcanoio_job_phase", "volcanoio_job_start_time_seconds"
COMPLETED = "volcanoio_job_completion_time_seconds"
REQUESTED, USED, UNUSED = "volcanoio_job_requested", "volcanoio_job_used", "volcanoio_job_unused"
RULES: Final = (Rule(kinds.POD_METRICS.group, (kinds.POD_METRICS.plural,), ("list",)),)
"""Rights to read what pods use."""
_FINAL: Final = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.ABORTED, JobPhase.TERMINATED})
_WHOLE_UNITS: Final = frozenset({MEMORY, PODS})
_log = structlog.get_logger(__name__)
Usage: TypeAlias = dict[tuple[str, str], Amounts]
"""What pods use, by namespace and name."""
_Series: TypeAlias = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""Values by metric and labels."""


UsageListener: TypeAlias = Callable[[str, Mapping[str, float], float], None]
"""Called with a job's uid, the unit-seconds that its pods used, and the pod-seconds that were measured."""


class JobFigures:
    """Reports the metrics of all Jobs of `host` periodically; `run` until cancelled.

    Each read of what pods use is passed to `listener`, multiplied by the time since the last one.
    """

    def __init__(
        self, host: Host, client: Client, *, probe: Probe, clock: Clock, listener: UsageListener | None = None
    ) -> None:
        self._host = host
        self._client = client
        self._probe = probe
        self._clock = clock
        self._reported: dict[str, _Series] = {}
        """Series by job."""
        self._usage: Usage | None = None
        self._usage_due = 0.0
        self._listener = listener
        self._measured_at = 0.0
        """When `_usage` was read, in the cluster's time; 0 if it was not known then."""
        self._unreadable = ""
        """Error of the last answer that could not be read, "" after one that could."""

    async def run(self) -> None:
        """Report until cancelled."""
        while JOBS in self._host.controllers:
            await self._clock.idle(INTERVAL)
            await self.report()

    async def report(self) -> None:
        """Read what pods use, if that is due, and set the gauges; series of deleted jobs and of old phases end."""
        states: dict[str, JobState] = {}
        for key in self._host[JOBS].keys:
            state = self._host[JOBS].state(key)
            if state is not None and state.job is not None:
                states[key] = state
        if (now := self._clock.monotonic()) >= self._usage_due:
            self._usage_due = now + USAGE_INTERVAL
            self._usage = await self._read_usage(sorted({key.partition("/")[0] for key in states}))
            self._pass_on(states.values())
        for number, (key, state) in enumerate(states.items(), 1):
            assert state.job is not None
            running = [pod for pod in state.pods.values() if pod.status.phase == "Running"]
            self._set(key, series_of(state.job, running, self._usage))
            if not number % JOBS_PER_STEP:
                await checkpoint()
        for key in self._reported.keys() - states.keys():
            self._set(key, {})

    def _pass_on(self, states: Iterable[JobState]) -> None:
        """Pass on what the pods used since the last read, as if it had been what they use now."""
        now, before = self._clock.now(), self._measured_at
        self._measured_at = now if self._usage is not None else 0.0
        if self._listener is None or self._usage is None:
            return
        longest = min(now - before, 2 * USAGE_INTERVAL) if before else USAGE_INTERVAL
        for state in states:
            used, measured = dict[str, float](), 0.0
            for pod in state.pods.values():
                meta, started = pod.metadata, epoch_or_none(pod.status.start_time)
                uses = self._usage.get((meta.namespace, meta.name))
                if uses is None or started is None or pod.status.phase != "Running":
                    continue
                seconds = max(0.0, min(longest, now - started))
                measured += seconds
                for resource, amount in uses.items():
                    used[resource] = used.get(resource, 0.0) + _units(resource, amount) * seconds
            if measured and state.job is not None:
                self._listener(state.job.metadata.uid, used, measured)

    def _set(self, key: str, series: _Series) -> None:
        """Replace the series of a job."""
        before = self._reported.pop(key, {})
        for name, labels in before.keys() - series.keys():
            self._probe.forget(name, **dict(labels))
        for (name, labels), value in series.items():
            if before.get((name, labels)) != value:
                self._probe.gauge(name, value, **dict(labels))
        if series:
            self._reported[key] = series

    async def _read_usage(self, namespaces: Sequence[str]) -> Usage | None:
        """Return what the pods of these namespaces use, None if the API does not answer or cannot be understood."""
        usage: Usage = {}
        for namespace in namespaces:
            try:
                found = await self._client.list(kinds.POD_METRICS, namespace)
            except (ApiError, TransportError) as error:
                if isinstance(error, ApiError) and error.code in (403, 404):
                    self._usage_due = self._clock.monotonic() + MISSING_INTERVAL
                _log.debug("what pods use is not reported", namespace=namespace, error=str(error))
                return None
            except (UndecodableError, msgspec.DecodeError, RecursionError) as error:
                self._report_unreadable(namespace, str(error))
                return None
            for item in found:
                if isinstance(item, PodMetrics):
                    usage[namespace, item.metadata.name] = _used(item)
            await checkpoint()
        self._unreadable = ""
        return usage

    def _report_unreadable(self, namespace: str, error: str) -> None:
        """Count an answer that cannot be read; an error is logged once while it lasts."""
        self._probe.count("volcanoio_undecodable_objects_total", resource=kinds.POD_METRICS.resource)
        if error != self._unreadable:
            self._unreadable = error
            _log.warning(
                "what pods use is not reported: the answer of metrics.k8s.io cannot be read; check metrics-server",
                namespace=namespace,
                error=error,
            )


def series_of(job: Job, running: Sequence[Pod], usage: Usage | None) -> _Series:
    """Return the series of a job; `running` are its running pods, `usage` None if it is not known."""
    meta = job.metadata
    base = {"job_name": meta.name, "job_namespace": meta.namespace, "queue": job.spec.queue}
    series: _Series = {}

    def put(name: str, value: float | None, **more: str) -> None:
        if value is not None:
            series[name, tuple(sorted({**base, **more}.items()))] = value

    status = job.status
    put(PHASE, 1.0, phase=status.state.phase or JobPhase.PENDING)
    began = [each.last_transition_time for each in status.conditions if each.status == JobPhase.RUNNING]
    put(STARTED, epoch_or_none(began[0]) if began else None)
    if status.state.phase in _FINAL:
        put(COMPLETED, epoch_or_none(status.state.last_transition_time))
    requested: Amounts = {}
    used: Amounts = {}
    measured: Amounts = {}
    for pod in running:
        asked = _requests(pod)
        add(requested, asked)
        if usage is not None and (uses := usage.get((meta.namespace, pod.metadata.name))) is not None:
            add(measured, asked)
            add(used, uses)
    for resource, amount in requested.items():
        put(REQUESTED, _units(resource, amount), resource=resource)
    for resource, amount in used.items():
        put(USED, _units(resource, amount), resource=resource)
        put(UNUSED, _units(resource, measured.get(resource, 0) - amount), resource=resource)
    return series


def _requests(pod: Pod) -> Amounts:
    """Return the requests of a pod's containers, without those that have ended before them."""
    total: Amounts = {}
    for container in pod.spec.containers:
        add(total, amounts(container.resources.requests))
    return total


def _used(item: PodMetrics) -> Amounts:
    """Return the cpu and memory that a pod uses; nothing for quantities that cannot be read."""
    total: Amounts = {}
    try:
        for container in item.containers:
            usage: Mapping[str, str | int | float] = container.usage
            add(total, amounts({name: usage[name] for name in (CPU, MEMORY) if name in usage}))
    except QuantityError:
        return {}
    return total


def _units(resource: str, amount: int) -> float:
    """Return an amount in cores, bytes or pieces."""
    return float(amount) if resource in _WHOLE_UNITS else amount / 1000
