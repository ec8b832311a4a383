"""Dependencies between flows: whether their graph is valid, and whether targets are ready.

A target that has completed is always ready. Without a probe no other is; with one, a running target is ready once
every entry of the probe holds for its task: as many pods as the task's minAvailable are in the phase, or respond. A
target without any of the probe's tasks must complete.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from volcanoio.engine.admission.jobtasks import find_cycle, format_cycle
from volcanoio.engine.flows.jobs import job_name
from volcanoio.engine.jobs.pods.manifests import pod_name
from volcanoio.framework.arguments import suggestion
from volcanoio.framework.controller import Lookup
from volcanoio.framework.effects import CheckEndpoint
from volcanoio.model import kinds
from volcanoio.model.batch import Job, JobPhase, TaskSpec
from volcanoio.model.core import Pod
from volcanoio.model.flow import Flow, FlowProbe, HttpGet, JobFlow, TaskStatusProbe, TcpSocket

NOT_DAG_MESSAGE = "jobflow Flow is not DAG"
_SUGGESTIONS = 5


def graph_problems(flows: Sequence[Flow]) -> Iterator[tuple[str, str]]:
    """Iterate over field and rule of the problems with the names and dependencies of flows; a cycle comes alone.

    The work is linear in the size of the flows: only the first unknown targets get a suggestion.
    """
    counts = Counter(flow.name for flow in flows)
    for name, count in counts.items():
        if count > 1:
            yield (
                "spec.flows",
                f'flow "{name}" is named {count} times; each makes one job, so its name must be unique',
            )
    targets = [flow.depends_on.targets if flow.depends_on is not None else () for flow in flows]
    unknown = 0
    for number, wanted in enumerate(targets):
        for target in wanted:
            if target not in counts:
                unknown += 1
                hint = suggestion(target, counts) if unknown <= _SUGGESTIONS else ""
                rule = f"{NOT_DAG_MESSAGE}: vertex is not defined: {target}{hint}"
                yield f"spec.flows[{number}].dependsOn.targets", rule
    if unknown or len(counts) < len(flows):
        return
    if circle := find_cycle({flow.name: wanted for flow, wanted in zip(flows, targets, strict=True)}):
        yield "spec.flows", f"{NOT_DAG_MESSAGE}: {format_cycle(circle)}; remove one of these dependencies"


PROBE_PHASES: Mapping[str, tuple[str, ...]] = {
    "Pending": ("Pending",),
    "Running": ("Running", "Succeeded"),
    "Succeeded": ("Succeeded",),
    "Completed": ("Succeeded",),
    "Failed": ("Failed",),
}
"""Pod phases that satisfy `taskStatusList[].phase`: a pod that succeeded was running."""

MAX_CHECKED_PODS = 100
"""Pods of a task that are checked, by index: of a larger task these represent all."""


class Wait(msgspec.Struct, frozen=True):
    """Why a flow's targets are not ready, and the checks whose results could change that.

    `awaits_results`: it waits for checks, whether or not any can be sent now.
    """

    reason: str
    checks: tuple[CheckEndpoint, ...] = ()
    awaits_results: bool = False


class CheckResults(msgspec.Struct, frozen=True):
    """The successful checks. Pods are examined only if `can_check`, as a task may have thousands."""

    passed: frozenset[str]
    can_check: bool
    lookup: Lookup


def unmet_dependencies(
    flow: JobFlow, part: Flow, phases: Mapping[str, str], own_jobs: Mapping[str, Job], results: CheckResults
) -> Wait | None:
    """Return what a flow waits for; None when it may start. `phases` are those of the jobs by name."""
    if (depends := part.depends_on) is None:
        return None
    reasons: list[str] = []
    checks: list[CheckEndpoint] = []
    awaits_results = False
    for target in depends.targets:
        name = job_name(flow, target)
        if phases.get(name) == JobPhase.COMPLETED:
            continue
        if (job := own_jobs.get(name)) is None or depends.probe is None or depends.probe.empty:
            reasons.append(f"{name} to complete")
            continue
        if (found := _target_wait(job, depends.probe, results)) is not None:
            reasons.append(found.reason)
            checks += found.checks
            awaits_results = awaits_results or found.awaits_results
    return Wait(", ".join(reasons), tuple(checks), awaits_results) if reasons else None


def unknown_tasks(flow: JobFlow, part: Flow, own_jobs: Mapping[str, Job]) -> list[str]:
    """Return tasks that a probe names and no target has, once all targets exist."""
    if (depends := part.depends_on) is None or depends.probe is None:
        return []
    jobs = [own_jobs.get(job_name(flow, target)) for target in depends.targets]
    if None in jobs:
        return []
    known = {task.name for job in jobs if job is not None for task in job.spec.tasks}
    return sorted({entry.task_name for entry in _probe_entries(depends.probe)} - known - {""})


def _probe_entries(probe: FlowProbe) -> Iterator[HttpGet | TcpSocket | TaskStatusProbe]:
    yield from probe.http_get_list
    yield from probe.tcp_socket_list
    yield from probe.task_status_list


def _target_wait(job: Job, probe: FlowProbe, results: CheckResults) -> Wait | None:
    """Return what a running target still needs. An entry without a task applies to each of them."""
    named = {entry.task_name for entry in _probe_entries(probe)}
    if "" not in named and named.isdisjoint(task.name for task in job.spec.tasks):
        return Wait(f"{job.metadata.name} to complete")
    for task in job.spec.tasks:
        for entry in _probe_entries(probe):
            matches = entry.task_name in ("", task.name)
            if matches and (found := _task_wait(job, task, entry, results)) is not None:
                return found
    return None


def _task_wait(
    job: Job, task: TaskSpec, entry: HttpGet | TcpSocket | TaskStatusProbe, results: CheckResults
) -> Wait | None:
    needed = task.replicas if task.min_available is None else task.min_available
    where = f"task {task.name} of {job.metadata.name}"
    if isinstance(entry, TaskStatusProbe):
        counts = job.status.task_status_count.get(task.name)
        count = sum(counts.phase.get(phase, 0) for phase in PROBE_PHASES.get(entry.phase, ())) if counts else 0
        return None if count >= needed else Wait(f"{where} to be {entry.phase} ({count} of {needed} pods are)")
    if not results.can_check:
        return Wait(f"{where} to answer at port {entry.port}", awaits_results=True)
    needed = min(needed, MAX_CHECKED_PODS)
    checks = [_endpoint_check(pod, entry) for pod in _checkable_pods(job, task, results.lookup)]
    if (count := sum(check.check in results.passed for check in checks)) >= needed:
        return None
    message = f"{where} to answer at port {entry.port} ({count} of {needed} pods do)"
    return Wait(message, tuple(check for check in checks if check.check not in results.passed), awaits_results=True)


def _checkable_pods(job: Job, task: TaskSpec, lookup: Lookup) -> Iterator[Pod]:
    """Iterate over the pods of a task that run and have an address."""
    for index in range(min(task.replicas, MAX_CHECKED_PODS)):
        pod = lookup.get(kinds.POD, pod_name(job, task, index), job.metadata.namespace)
        if isinstance(pod, Pod) and pod.status.phase == "Running" and pod.status.pod_ip:
            yield pod


def _endpoint_check(pod: Pod, entry: HttpGet | TcpSocket) -> CheckEndpoint:
    path = (entry.path or "/") if isinstance(entry, HttpGet) else ""
    header = entry.http_header if isinstance(entry, HttpGet) else None
    headers = {header.name: header.value} if header is not None and header.name else {}
    header_text = "".join(f" {name}: {value}" for name, value in headers.items())
    return CheckEndpoint(
        check=f"{pod.metadata.uid} {entry.port}{path}{header_text}",
        host=pod.status.pod_ip,
        port=entry.port,
        pod=pod.metadata.uid,
        path=path,
        headers=headers,
    )
