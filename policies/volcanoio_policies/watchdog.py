"""`watchdog`: says so when a job failed, waits too long, or uses too little of what it asked for.

Each is said once: as an event, a metric and, if wanted, to a webhook. What pods use is read from metrics.k8s.io, or
from Prometheus. The other half of the watchdog, which resizes queues, is `queue_capability`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from volcanoio.framework.arguments import ArgumentError, GoDuration, convert
from volcanoio.framework.decisions import Abstain, Alert, Decision
from volcanoio.framework.lifecycle import Occasion, PolicyContext
from volcanoio.framework.podusage import usage_of
from volcanoio.model import durations, kinds, quantity
from volcanoio.model.batch import Job, JobPhase
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup
from volcanoio.model.usage import PodMetrics
from volcanoio_policies.prometheus import Prometheus

EVERY = 15.0
"""Seconds between two looks at a job."""
GROUPS, METRICS = kinds.POD_GROUP.resource, kinds.POD_METRICS.resource
_WATCHED = ("cpu", "memory")


class WatchdogArguments(msgspec.Struct, frozen=True):
    """What is watched; what is not given is not.

    `failed`: whether a job that failed is told of. `waiting`: how long a job may wait. `share`: the least part of the
    cpu or memory it asked for that its running pods have to use, watched from `after` it began to run and told when
    it was less for as long. `webhook` is posted to; `prometheus` is the address that is asked for usage instead of
    metrics.k8s.io.
    """

    failed: bool = True
    waiting: GoDuration | None = None
    share: float | None = None
    after: GoDuration = GoDuration(600.0)
    webhook: str = ""
    prometheus: str = ""


class Watchdog:
    """Alerts about jobs."""

    name = "watchdog"
    events = (Occasion.TICK, Occasion.JOB_ENDED)
    every = EVERY
    indexes: tuple[str, ...] = (GROUPS, METRICS)
    job_arguments = ("failed", "waiting", "share", "after")

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        given = convert(arguments, WatchdogArguments, self.name)
        if given.share is not None and not 0 < given.share <= 1:
            msg = f'{self.name}: "share" must be more than 0 and at most 1, not {given.share:g}; 0.1 is a tenth'
            raise ArgumentError(msg, key="share")
        for key in ("webhook", "prometheus"):
            address = getattr(given, key)
            if address and not address.startswith(("http://", "https://")):
                msg = f'{self.name}: "{key}" must begin with http:// or https://, not "{address}"'
                raise ArgumentError(msg, key=key)
        self._arguments = given
        self._prometheus = Prometheus(given.prometheus) if given.prometheus else None
        reads_metrics = given.share is not None and not given.prometheus
        self.indexes = (GROUPS, METRICS) if reads_metrics else (GROUPS,)
        self._low: dict[str, float] = {}
        """Since when jobs use too little, by uid."""

    async def decide(self, context: PolicyContext) -> Decision:
        """Look at the job once."""
        state = context.job.status.state
        if context.event.name == Occasion.JOB_ENDED:
            return self._ended(context.job)
        if state.phase in ("", JobPhase.PENDING):
            return self._waits(context)
        if state.phase == JobPhase.RUNNING and self._arguments.share is not None:
            return await self._uses(context, self._arguments.share)
        return Abstain()

    def _alert(self, reason: str, message: str, key: str) -> Alert:
        return Alert(reason=reason, message=message, key=key, webhook=self._arguments.webhook)

    def _ended(self, job: Job) -> Decision:
        self._low.pop(job.metadata.uid, None)
        status = job.status
        if status.state.phase != JobPhase.FAILED or not self._arguments.failed:
            return Abstain()
        why = f": {status.state.message}" if status.state.message else ""
        message = f"job {job.metadata.key} failed after {status.retry_count} retries, {status.failed} pods failed{why}"
        return self._alert("JobFailed", message, f"failed/{status.version}")

    def _waits(self, context: PolicyContext) -> Decision:
        limit, job = self._arguments.waiting, context.job
        since = job.status.state.last_transition_time or job.metadata.creation_timestamp
        if limit is None or since is None or context.now - _epoch(since) < limit:
            return Abstain()
        why = job.status.state.message or _unscheduled(context)
        why = f"; {why}" if why else ""
        message = f"job {job.metadata.key} waits for longer than {durations.text(round(limit))}{why}"
        return self._alert("JobWaiting", message, f"waiting/{since}")

    async def _uses(self, context: PolicyContext, share: float) -> Decision:
        job, uid = context.job, context.job.metadata.uid
        began = job.status.state.last_transition_time
        if began is None or context.now - _epoch(began) < self._arguments.after:
            return Abstain()
        asked, used = await self._usage(context)
        low = [name for name in _WATCHED if asked[name] and name in used and used[name] < share * asked[name]]
        if not low:
            self._low.pop(uid, None)
            return Abstain()
        since = self._low.setdefault(uid, context.now)
        if context.now - since < self._arguments.after:
            return Abstain()
        told = ", ".join(f"{100 * used[name] / asked[name]:.0f} % of its {name}" for name in low)
        message = f"job {job.metadata.key} uses {told}, less than the {100 * share:g} % it has to"
        return self._alert("JobUsesLittle", message, f"usage/{job.status.version}")

    async def _usage(self, context: PolicyContext) -> tuple[dict[str, float], dict[str, float]]:
        """What the running pods asked for and what they use, in cores and bytes; only pods whose usage is known."""
        namespace = context.job.metadata.namespace
        running = {pod.metadata.name: pod for pod in context.pods if pod.status.phase == "Running"}
        if self._prometheus is not None:
            known = await self._prometheus.usage(namespace, context.now)
        else:
            metrics = context.indexes[METRICS].within(namespace)
            known = {name: _used(each) for name, each in metrics.items() if isinstance(each, PodMetrics)}
        asked, used = dict.fromkeys(_WATCHED, 0.0), dict.fromkeys(_WATCHED, 0.0)
        for name, pod in running.items():
            if name in known:
                for resource in _WATCHED:
                    asked[resource] += _asked(pod, resource)
                    used[resource] += known[name].get(resource, 0.0)
        return asked, used


def _unscheduled(context: PolicyContext) -> str:
    """Why the job's PodGroup is not scheduled: its newest condition that holds, unless it says Scheduled."""
    meta = context.job.metadata
    group = context.indexes[GROUPS].get(f"{meta.namespace}/{meta.name}-{meta.uid}")
    if not isinstance(group, PodGroup):
        return ""
    holding = [each for each in group.status.conditions if each.status == "True"]
    return holding[-1].message if holding and holding[-1].type != "Scheduled" else ""


def _asked(pod: Pod, resource: str) -> float:
    return usage_of(pod.spec).get(resource, 0) / 1000


def _used(metrics: PodMetrics) -> dict[str, float]:
    return {
        name: float(sum(quantity.parse(each.usage.get(name, "0")) for each in metrics.containers)) for name in _WATCHED
    }


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
