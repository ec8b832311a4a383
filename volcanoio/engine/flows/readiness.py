"""Whether a flow's targets have come far enough, and which endpoints would have to answer for it.

A target that has completed is always enough. Without a probe nothing else is; with one, a target that goes on is enough
once every entry of the probe holds for its task: as many pods as the task's minAvailable are in the phase, or answer.
A target that has none of the tasks of the probe must complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from volcanoio.engine.flows.jobs import job_name
from volcanoio.engine.jobs.pods import pod_name
from volcanoio.framework.controller import Lookup
from volcanoio.framework.effects import CheckEndpoint
from volcanoio.model import kinds
from volcanoio.model.batch import Job, JobPhase, TaskSpec
from volcanoio.model.core import Pod
from volcanoio.model.flow import Flow, FlowProbe, HttpGet, JobFlow, TaskStatusProbe, TcpSocket

PHASES: Mapping[str, tuple[str, ...]] = {
    "Pending": ("Pending",),
    "Running": ("Running", "Succeeded"),
    "Succeeded": ("Succeeded",),
    "Completed": ("Succeeded",),
    "Failed": ("Failed",),
}
"""What `taskStatusList[].phase` may say, and the pod phases that count for it: who has succeeded was running."""

MOST = 100
"""Pods of a task that are asked, the first by index: of those of a larger task these stand for all."""


class Waiting(msgspec.Struct, frozen=True):
    """A flow whose targets are not far enough: why, and the checks whose answers could change that.

    `asks` says that it waits for answers, whether or not anybody can be asked now.
    """

    reason: str
    checks: tuple[CheckEndpoint, ...] = ()
    asks: bool = False


class Asked(msgspec.Struct, frozen=True):
    """The checks that `passed`. Pods are gone through only where `look` says so: a task may have thousands."""

    passed: frozenset[str]
    look: bool


def waiting(
    flow: JobFlow,
    part: Flow,
    of_jobs: Mapping[str, str],
    own: Mapping[str, Job],
    asked: Asked,
    lookup: Lookup,
) -> Waiting | None:
    """What a flow waits for; None when it may start. `of_jobs` are the phases of the jobs by name."""
    depends = part.depends_on
    if depends is None:
        return None
    reasons: list[str] = []
    checks: list[CheckEndpoint] = []
    asks = False
    for target in depends.targets:
        name = job_name(flow, target)
        if of_jobs.get(name) == JobPhase.COMPLETED:
            continue
        job = own.get(name)
        if job is None or depends.probe is None or depends.probe.empty:
            reasons.append(f"{name} to complete")
            continue
        found = _of_target(job, depends.probe, asked, lookup)
        if found is not None:
            reasons.append(found.reason)
            checks += found.checks
            asks = asks or found.asks
    return Waiting(", ".join(reasons), tuple(checks), asks) if reasons else None


def unknown_tasks(flow: JobFlow, part: Flow, own: Mapping[str, Job]) -> list[str]:
    """Tasks that a probe names and none of its targets has, once all targets are there."""
    depends = part.depends_on
    if depends is None or depends.probe is None:
        return []
    jobs = [own.get(job_name(flow, target)) for target in depends.targets]
    if None in jobs:
        return []
    known = {task.name for job in jobs if job is not None for task in job.spec.tasks}
    return sorted({entry.task_name for entry in _entries(depends.probe)} - known - {""})


def _entries(probe: FlowProbe) -> Iterator[HttpGet | TcpSocket | TaskStatusProbe]:
    yield from probe.http_get_list
    yield from probe.tcp_socket_list
    yield from probe.task_status_list


def _of_target(job: Job, probe: FlowProbe, asked: Asked, lookup: Lookup) -> Waiting | None:
    """What a target that goes on lacks. An entry that names no task is about each of them."""
    named = {entry.task_name for entry in _entries(probe)}
    if "" not in named and named.isdisjoint(task.name for task in job.spec.tasks):
        return Waiting(f"{job.metadata.name} to complete")
    for task in job.spec.tasks:
        for entry in _entries(probe):
            if entry.task_name in ("", task.name):
                found = _of_task(job, task, entry, asked, lookup)
                if found is not None:
                    return found
    return None


def _of_task(
    job: Job, task: TaskSpec, entry: HttpGet | TcpSocket | TaskStatusProbe, asked: Asked, lookup: Lookup
) -> Waiting | None:
    needed = task.replicas if task.min_available is None else task.min_available
    where = f"task {task.name} of {job.metadata.name}"
    if isinstance(entry, TaskStatusProbe):
        counts = job.status.task_status_count.get(task.name)
        count = sum(counts.phase.get(phase, 0) for phase in PHASES.get(entry.phase, ())) if counts else 0
        return None if count >= needed else Waiting(f"{where} to be {entry.phase} ({count} of {needed} pods are)")
    if not asked.look:
        return Waiting(f"{where} to answer at port {entry.port}", asks=True)
    needed = min(needed, MOST)
    checks = [_check(pod, entry) for pod in _pods(job, task, lookup)]
    count = sum(check.check in asked.passed for check in checks)
    if count >= needed:
        return None
    told = f"{where} to answer at port {entry.port} ({count} of {needed} pods do)"
    return Waiting(told, tuple(check for check in checks if check.check not in asked.passed), asks=True)


def _pods(job: Job, task: TaskSpec, lookup: Lookup) -> Iterator[Pod]:
    """Pods of a task that can be asked: they run and have an address."""
    for index in range(min(task.replicas, MOST)):
        pod = lookup.get(kinds.POD, pod_name(job, task, index), job.metadata.namespace)
        if isinstance(pod, Pod) and pod.status.phase == "Running" and pod.status.pod_ip:
            yield pod


def _check(pod: Pod, entry: HttpGet | TcpSocket) -> CheckEndpoint:
    path = (entry.path or "/") if isinstance(entry, HttpGet) else ""
    header = entry.http_header if isinstance(entry, HttpGet) else None
    headers = {header.name: header.value} if header is not None and header.name else {}
    told = "".join(f" {name}: {value}" for name, value in headers.items())
    return CheckEndpoint(
        check=f"{pod.metadata.uid} {entry.port}{path}{told}",
        host=pod.status.pod_ip,
        port=entry.port,
        pod=pod.metadata.uid,
        path=path,
        headers=headers,
    )
