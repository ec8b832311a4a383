"""Why something waits or was evicted by conditions and Events alone: for users who may read one namespace only.

There is less in them than a scheduler knows: no place in the queue, no nearest node; and they are as old as the last
write.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import cast

from volcanoio.engine.scheduling.cluster.native_groups import as_pod_group, status_of
from volcanoio.engine.scheduling.cluster.pod_fields import job_key, native_key
from volcanoio.engine.scheduling.diagnosis import codes
from volcanoio.engine.scheduling.diagnosis.answers import (
    Beneficiary,
    EvictionAnswer,
    UnknownTargetError,
    Waiting,
    job_owners,
    parse_target,
)
from volcanoio.engine.scheduling.diagnosis.codes import CODES, Stage, node_code
from volcanoio.engine.scheduling.diagnosis.diagnosis import Diagnosis, NodeReason
from volcanoio.kube.client import Client
from volcanoio.kube.errors import Forbidden, NotFound
from volcanoio.model import kinds
from volcanoio.model.batch import FINISHED_PHASES, Job, JobPhase
from volcanoio.model.core import Event, Pod
from volcanoio.model.scheduling import PodGroup, PodGroupPhase
from volcanoio.model.workloads import NativePodGroup, named_queue

_OWN = re.compile(r"[(;] ?([A-Z][A-Za-z]+): ")
"""Our sentence in a condition: the code, and what it means."""
_NODES = re.compile(r"0/[0-9]+ nodes are (?:un)?available: ([^;]*?)\.(?: |$|\()")
_EVICTED = re.compile(r"because of ([a-z]+)(?: \(for (\S+) in queue (\S*), priority (-?[0-9]+)\))?")
_QUOTA = "has no room left for"
_STARTED = (PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED)


async def waiting_by_conditions(client: Client, target: str, namespace: str) -> Waiting:
    """Return why a job, PodGroup or pod waits. Raises UnknownTargetError and ApiError."""
    kind, name = parse_target(target)
    if kind == "queue":
        raise UnknownTargetError("what waits in a queue is in no condition: ask the scheduler, or name a job")
    groups, workloads = await _groups(client, namespace)
    pods = cast("list[Pod]", await client.list(kinds.POD, namespace))
    if kind in ("", "job", "podgroup", "workload") and (found := _group(groups, workloads, kind, name)) is not None:
        return _of_group(found, groups[found], [pod for pod in pods if job_key(pod) == found])
    if kind in ("", "pod") and (pod := next((pod for pod in pods if pod.metadata.name == name), None)) is not None:
        return _of_pod(pod, groups, pods)
    if (waiting := await job_without_group(client, target, namespace)) is not None:
        return waiting
    raise UnknownTargetError(f'no {kind or "job, podgroup or pod"} "{name}" is in namespace {namespace}')


async def job_without_group(client: Client, target: str, namespace: str) -> Waiting | None:
    """Return the phase of a Job without PodGroup, and unless it has ended, that the PodGroup is missing.

    Returns None if there is no such Job. Raises ApiError.
    """
    kind, name = parse_target(target)
    if kind not in ("", "job"):
        return None
    try:
        job = cast("Job", await client.get(kinds.JOB, name, namespace))
    except NotFound:
        return None
    phase = job.status.state.phase
    if phase in (*FINISHED_PHASES, JobPhase.ABORTED):
        return Waiting(target=job.metadata.key, phase=phase)
    text = "it has no PodGroup yet; do the controllers run?"
    diagnosis = Diagnosis(stage=Stage.GROUP, code=codes.POD_GROUP_NOT_FOUND, message=text)
    return Waiting(target=job.metadata.key, phase=phase, diagnosis=diagnosis)


async def _groups(client: Client, namespace: str) -> tuple[dict[str, PodGroup], dict[str, str]]:
    """Return the PodGroups by job key, and the names of the Workloads of native groups by job key.

    Native groups are Volcano's PodGroups that correspond to them.
    """
    listed = cast("list[PodGroup]", await client.list(kinds.POD_GROUP, namespace))
    groups, workloads = {group.metadata.key: group for group in listed}, dict[str, str]()
    try:
        natives = cast("list[NativePodGroup]", await client.list(kinds.NATIVE_POD_GROUP, namespace))
    except (Forbidden, NotFound):  # not every Kubernetes serves them
        return groups, workloads
    for native in natives:
        key = native_key(namespace, native.metadata.name)
        groups[key] = as_pod_group(native, native.queue or named_queue((native,)), status_of(native))
        workloads[key] = native.workload_key.partition("/")[2]
    return groups, workloads


def _group(groups: Mapping[str, PodGroup], workloads: Mapping[str, str], kind: str, name: str) -> str | None:
    """Return the job key of a Job's, PodGroup's or Workload's name; for a Workload a group that waits comes first."""
    if kind in ("", "job"):
        for key, group in groups.items():
            if name in job_owners(key, group):
                return key
    if kind in ("", "podgroup"):
        wanted = (name, native_key("", name).removeprefix("/"))
        for key in groups:
            if key.partition("/")[2] in wanted:
                return key
    of_workload = sorted(key for key, workload in workloads.items() if workload == name and kind in ("", "workload"))
    return min(of_workload, key=lambda key: groups[key].status.phase in _STARTED, default=None)


def _of_pod(pod: Pod, groups: Mapping[str, PodGroup], pods: Sequence[Pod]) -> Waiting:
    if pod.spec.node_name or pod.status.phase != "Pending":
        return Waiting(target=pod.metadata.key, phase=pod.status.phase)
    key = job_key(pod)
    if (group := groups.get(key)) is not None:
        return _of_group(key, group, [each for each in pods if job_key(each) == key])
    condition = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    text = condition.message if condition is not None else "no scheduler has written a condition yet"
    code = codes.POD_GROUP_NOT_FOUND if key else codes.NO_POD_GROUP
    diagnosis = Diagnosis(stage=Stage.GROUP, code=code, message=text, pending=1)
    return Waiting(target=pod.metadata.key, phase=pod.status.phase, diagnosis=diagnosis)


def _of_group(key: str, group: PodGroup, members: Sequence[Pod]) -> Waiting:
    """Return what the newest condition of a PodGroup, and those of its pods, contain."""
    status = group.status
    pending = [pod for pod in members if not pod.spec.node_name and pod.status.phase == "Pending"]
    newest = status.conditions[-1] if status.conditions else None
    waits = newest is not None and newest.type == "Unschedulable"
    if not pending and (not waits or status.phase in _STARTED):
        return Waiting(target=key, phase=status.phase)
    reason, message = (newest.reason, newest.message) if waits and newest is not None else _of_pods(pending)
    code, stage, nodes = _code(reason, message, group, members)
    diagnosis = Diagnosis(
        stage=stage,
        code=code,
        message=message or f"no condition says why; it is {status.phase or 'new'}",
        queue=group.spec.queue,
        min_available=group.spec.min_member,
        pods=len(members),
        ready=len(members) - len(pending),
        pending=len(pending),
        nodes=nodes,
    )
    return Waiting(target=key, phase=status.phase, diagnosis=diagnosis)


def _of_pods(pending: Sequence[Pod]) -> tuple[str, str]:
    """Return the most frequent reason and message of conditions PodScheduled."""
    found = Counter(
        (each.reason, each.message) for pod in pending for each in pod.status.conditions if each.type == "PodScheduled"
    )
    return found.most_common(1)[0][0] if found else ("", "")


def _code(
    reason: str, message: str, group: PodGroup, members: Sequence[Pod]
) -> tuple[str, str, tuple[NodeReason, ...]]:
    """Return code, stage and the nodes by reason."""
    nodes = _nodes(message)
    own = next((each for each in reversed(_OWN.findall(message)) if each in CODES), "")
    if own or reason in CODES:
        code = own or reason
    elif reason == "SchedulerError":
        code = codes.BIND_REFUSED
    elif nodes:
        code = nodes[0].code
    elif _QUOTA in message:
        code = codes.QUEUE_QUOTA
    elif not members and group.status.phase == PodGroupPhase.INQUEUE:
        code = codes.PODS_MISSING
    elif members and len(members) < group.spec.min_member:
        code = "NotEnoughTasks"
    else:
        code = codes.NOT_TRIED
    return code, CODES[code].stage, nodes


def _nodes(message: str) -> tuple[NodeReason, ...]:
    """Return the nodes by reason in a text such as `0/3 nodes are unavailable: 3 Insufficient cpu.`."""
    if (found := _NODES.search(message)) is None:
        return ()
    parts = [part.strip().partition(" ") for part in found[1].split(", ")]
    counted = [NodeReason(node_code(text), text, int(count)) for count, _, text in parts if count.isdecimal()]
    return tuple(sorted(counted, key=lambda each: (-each.nodes, each.reason)))


async def evictions_by_events(client: Client, target: str, namespace: str) -> tuple[EvictionAnswer, ...]:
    """Return the evictions of a pod, or of a job's pods, of which there are Events, the newest first.

    Raises UnknownTargetError and ApiError.
    """
    kind, name = parse_target(target)
    if kind == "queue":
        raise UnknownTargetError(f'"queue/{name}" is not evicted; name a job or a pod')
    found, tasks = [], await _task_names(client, name, namespace)
    for event in cast("list[Event]", await client.list(kinds.EVENT, namespace, field_selector="reason=Evict")):
        about, text = event.involved_object, _EVICTED.search(event.message)
        is_of_job = about.name.rpartition("-")[0] in tasks if tasks else about.name.startswith(f"{name}-")
        is_meant = about.name == name or (kind != "pod" and is_of_job)
        if about.kind == kinds.POD.kind and text is not None and is_meant:
            found.append(_eviction(event, text, "" if kind == "pod" else f"{namespace}/{name}"))
    return tuple(sorted(found, key=lambda each: each.at, reverse=True))


async def _task_names(client: Client, job: str, namespace: str) -> frozenset[str]:
    """Return the names of a Job's pods without their index; none if the Job is not known."""
    with suppress(Forbidden, NotFound):
        found = cast("Job", await client.get(kinds.JOB, job, namespace))
        return frozenset(f"{job}-{task.name}" for task in found.spec.tasks)
    return frozenset()


def _eviction(event: Event, text: re.Match[str], job: str) -> EvictionAnswer:
    when = event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp or ""
    about = event.involved_object
    by = Beneficiary(job=text[2], queue=text[3], priority=int(text[4])) if text[2] else None
    return EvictionAnswer(
        pod=f"{about.namespace}/{about.name}",
        job=job,
        queue="",
        priority=0,
        node="",
        action=text[1],
        at=_seconds(when),
        by=by,
    )


def _seconds(timestamp: str) -> float:
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0
