"""`watchdog`: alerts when a job failed, waits too long, or uses too little of what it requested.

Each alert is sent once: as an event, a metric and, if configured, to a webhook. The usage of pods is read from
metrics.k8s.io, or from Prometheus, for a whole namespace at once and cached for a while. The other half of the
watchdog, which resizes queues, is `queue_capability`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import aiohttp
import msgspec

from volcanoio.framework.arguments import ArgumentError, GoDuration, convert, pluralize
from volcanoio.framework.decisions import Abstain, Alert, Decision
from volcanoio.framework.lifecycle import PolicyContext, PolicyEvent
from volcanoio.framework.podusage import spec_usage
from volcanoio.model import kinds, quantity, times
from volcanoio.model.batch import Job, JobPhase
from volcanoio.model.core import Pod
from volcanoio.model.workloads import PodMetrics

QUERIES = {
    "cpu": 'sum by (pod) (rate(container_cpu_usage_seconds_total{{namespace="{namespace}",container!=""}}[5m]))',
    "memory": 'sum by (pod) (container_memory_working_set_bytes{{namespace="{namespace}",container!=""}})',
}
"""The metrics exported by the kubelets' cAdvisor, in cores and bytes."""
CACHE_SECONDS = 15.0
TIMEOUT = 5.0

Usage = dict[str, dict[str, float]]
"""By pod, then by resource: cores, bytes."""


class Prometheus:
    """A Prometheus server."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        self._cache: dict[str, tuple[float, Usage]] = {}

    async def usage(self, namespace: str, now: float) -> Usage:
        """Return the usage of a namespace's pods.

        Raises aiohttp.ClientError without a response, ValueError for an invalid one.
        """
        at, known = self._cache.get(namespace, (float("-inf"), {}))
        if not at <= now < at + CACHE_SECONDS:
            known = await self._ask(namespace)
            self._cache[namespace] = (now, known)
        return known

    async def _ask(self, namespace: str) -> Usage:
        found: Usage = {}
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT)) as session:
            for resource, query in QUERIES.items():
                parameters = {"query": query.format(namespace=namespace)}
                async with session.get(f"{self._address}/api/v1/query", params=parameters) as response:
                    response.raise_for_status()
                    body = await response.json()
                if body.get("status") != "success":
                    raise ValueError(f"Prometheus at {self._address} answered {body.get('error') or body}")
                for series in body["data"]["result"]:
                    found.setdefault(series["metric"].get("pod", ""), {})[resource] = float(series["value"][1])
        return found


INTERVAL = 15.0
"""Seconds between two checks of a job."""
METRICS = kinds.POD_METRICS.resource
_WATCHED = ("cpu", "memory")


class WatchdogArguments(msgspec.Struct, frozen=True):
    """What to watch; a check without an argument is disabled.

    `failed`: whether to alert when a job failed. `waiting`: how long a job may wait. `share`: the fraction of requested
    cpu or memory that its running pods must use; the check starts `after` the job began to run, and alerts when usage
    was lower for as long. `webhook` receives the alerts; `prometheus` is an address to read usage from instead of
    metrics.k8s.io.
    """

    failed: bool = True
    waiting: GoDuration | None = None
    share: float | None = None
    after: GoDuration = GoDuration(600.0)
    webhook: str = ""
    prometheus: str = ""


class Watchdog:
    """Raises alerts about jobs."""

    name = "watchdog"
    events = (PolicyEvent.TICK, PolicyEvent.JOB_ENDED)
    every = INTERVAL
    indexes: tuple[str, ...] = (METRICS,)
    job_arguments = ("failed", "waiting", "share", "after")

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        given = convert(arguments, WatchdogArguments, self.name)
        if given.share is not None and not 0 < given.share <= 1:
            msg = f'{self.name}: "share" must be more than 0 and at most 1, not {given.share:g}; 0.1 is a tenth'
            raise ArgumentError(msg, key="share")
        for key in ("webhook", "prometheus"):
            if (address := getattr(given, key)) and not address.startswith(("http://", "https://")):
                msg = f'{self.name}: "{key}" must begin with http:// or https://, not "{address}"'
                raise ArgumentError(msg, key=key)
        self._arguments = given
        self._prometheus = Prometheus(given.prometheus) if given.prometheus else None
        reads_metrics = given.share is not None and not given.prometheus
        self.indexes = (METRICS,) if reads_metrics else ()
        self._low_since: dict[str, float] = {}
        """When usage of jobs fell below the share, by uid."""

    async def decide(self, context: PolicyContext) -> Decision:
        """Check the job once."""
        state = context.job.status.state
        if context.event.name == PolicyEvent.JOB_ENDED:
            return self._check_failed(context.job)
        if state.phase in ("", JobPhase.PENDING):
            return self._check_waiting(context)
        if state.phase == JobPhase.RUNNING and self._arguments.share is not None:
            return await self._check_usage(context, self._arguments.share)
        return Abstain()

    def _alert(self, reason: str, message: str, key: str) -> Alert:
        return Alert(reason=reason, message=message, key=key, webhook=self._arguments.webhook)

    def _check_failed(self, job: Job) -> Decision:
        self._low_since.pop(job.metadata.uid, None)
        status = job.status
        if status.state.phase != JobPhase.FAILED or not self._arguments.failed:
            return Abstain()
        why = f": {status.state.message}" if status.state.message else ""
        retries, pods = pluralize(status.retry_count, "retry", "retries"), pluralize(status.failed, "pod")
        message = f"job {job.metadata.key} failed after {retries}, {pods} failed{why}"
        return self._alert("JobFailed", message, f"failed/{status.version}")

    def _check_waiting(self, context: PolicyContext) -> Decision:
        limit, job = self._arguments.waiting, context.job
        since = job.status.state.last_transition_time or job.metadata.creation_timestamp
        if limit is None or since is None or context.now - _epoch(since) < limit:
            return Abstain()
        why = f"; {job.status.state.message}" if job.status.state.message else ""
        message = f"job {job.metadata.key} has been waiting for more than {times.go_duration(round(limit))}{why}"
        return self._alert("JobWaiting", message, f"waiting/{since}")

    async def _check_usage(self, context: PolicyContext, share: float) -> Decision:
        job, uid = context.job, context.job.metadata.uid
        began = job.status.state.last_transition_time
        if began is None or context.now - _epoch(began) < self._arguments.after:
            return Abstain()
        asked, used = await self._usage(context)
        low = [name for name in _WATCHED if asked[name] and name in used and used[name] < share * asked[name]]
        if not low:
            self._low_since.pop(uid, None)
            return Abstain()
        since = self._low_since.setdefault(uid, context.now)
        if context.now - since < self._arguments.after:
            return Abstain()
        parts = ", ".join(f"{100 * used[name] / asked[name]:.0f} % of its {name}" for name in low)
        message = f"job {job.metadata.key} uses {parts}, less than {100 * share:g} %"
        return self._alert("JobUsesLittle", message, f"usage/{job.status.version}")

    async def _usage(self, context: PolicyContext) -> tuple[dict[str, float], dict[str, float]]:
        """Return requests and usage of the running pods whose usage is known, in cores and bytes."""
        namespace = context.job.metadata.namespace
        running = {pod.metadata.name: pod for pod in context.pods if pod.status.phase == "Running"}
        if self._prometheus is not None:
            known = await self._prometheus.usage(namespace, context.now)
        else:
            metrics = context.indexes[METRICS].in_namespace(namespace)
            known = {name: _used(each) for name, each in metrics.items() if isinstance(each, PodMetrics)}
        asked, used = dict.fromkeys(_WATCHED, 0.0), dict.fromkeys(_WATCHED, 0.0)
        for name, pod in running.items():
            if name in known:
                for resource in _WATCHED:
                    asked[resource] += _asked(pod, resource)
                    used[resource] += known[name].get(resource, 0.0)
        return asked, used


def _asked(pod: Pod, resource: str) -> float:
    return spec_usage(pod.spec).get(resource, 0) / 1000


def _used(metrics: PodMetrics) -> dict[str, float]:
    return {
        name: float(sum(quantity.parse(each.usage.get(name, "0")) for each in metrics.containers)) for name in _WATCHED
    }


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
