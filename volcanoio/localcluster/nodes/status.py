"""What a node writes about a pod: `PodRun` → `status`, and the events between two of its states."""

from __future__ import annotations

from typing import Any, NamedTuple

from volcanoio.localcluster.clock import rfc3339
from volcanoio.localcluster.nodes.admission import Rejection
from volcanoio.localcluster.nodes.containers import ContainerRun, Ended, Role, State
from volcanoio.localcluster.nodes.lifecycle import Phase, PodRun

Json = dict[str, Any]


def status_of(run: PodRun) -> Json:
    """The whole status this node is responsible for. PodScheduled is the scheduler's and not among the conditions."""
    status: Json = {
        "phase": run.phase.value,
        "startTime": rfc3339(run.accepted_at),
        "hostIP": run.host_ip,
        "hostIPs": [{"ip": run.host_ip}],
        "conditions": _conditions(run),
        "containerStatuses": [_container(run, c) for c in run.containers if c.role is Role.MAIN],
    }
    inits = [_container(run, c) for c in run.containers if c.role is not Role.MAIN]
    if inits:
        status["initContainerStatuses"] = inits
    if run.started:
        status["podIP"] = run.pod_ip
        status["podIPs"] = [{"ip": run.pod_ip}]
    if run.reason:
        status["reason"] = run.reason
        status["message"] = run.message
    return status


def rejected_status(rejection: Rejection, now: float) -> Json:
    """The status of a pod that its node refused."""
    return {
        "phase": Phase.FAILED.value,
        "reason": rejection.reason,
        "message": rejection.message,
        "startTime": rfc3339(now),
    }


def _conditions(run: PodRun) -> list[Json]:
    initialized = run.initialized_at
    ready, since, reason = _readiness(run)
    return [
        _condition("PodReadyToStartContainers", run.started and not run.finished, run.accepted_at),
        _condition(
            "Initialized", initialized is not None, initialized or run.accepted_at,
            "" if initialized is not None else "ContainersNotInitialized",
        ),
        _condition("Ready", ready, since, reason),
        _condition("ContainersReady", ready, since, reason),
    ]  # fmt: skip


def _readiness(run: PodRun) -> tuple[bool, float, str]:
    """Whether all containers run, since when, and why not."""
    ends = [e.finished_at for c in run.containers for e in (c.ended, c.last) if e is not None]
    if run.finished:
        reason = "PodCompleted" if run.phase is Phase.SUCCEEDED else "PodFailed"
        return False, max(ends, default=run.accepted_at), reason
    if all(c.state is State.RUNNING for c in run.mains):
        return True, max((c.started_at for c in run.mains), default=run.accepted_at), ""
    return False, max(ends, default=run.accepted_at), "ContainersNotReady"


def _condition(kind: str, holds: bool, since: float, reason: str = "") -> Json:
    condition: Json = {
        "type": kind,
        "status": "True" if holds else "False",
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(since),
    }
    if reason:
        condition["reason"] = reason
    return condition


def _container(run: PodRun, container: ContainerRun) -> Json:
    running = container.state is State.RUNNING
    status: Json = {
        "name": container.spec.name,
        "image": container.spec.image,
        "imageID": "" if container.never_started else f"simulated://{container.spec.image}",
        "ready": running or (container.role is Role.INIT and container.succeeded),
        "started": running,
        "restartCount": container.restarts,
        "state": _state(run, container),
        "lastState": {} if container.last is None else {"terminated": _ended(run, container, container.last)},
    }
    if not container.never_started:
        status["containerID"] = _container_id(run, container, container.restarts)
    return status


def _state(run: PodRun, container: ContainerRun) -> Json:
    if container.state is State.RUNNING:
        return {"running": {"startedAt": rfc3339(container.started_at)}}
    if container.ended is not None:
        return {"terminated": _ended(run, container, container.ended)}
    waiting: Json = {"reason": container.waiting}
    return {"waiting": {**waiting, "message": container.message} if container.message else waiting}


def _ended(run: PodRun, container: ContainerRun, ended: Ended) -> Json:
    count = container.restarts if ended is container.ended else max(0, container.restarts - 1)
    return {
        "exitCode": ended.exit_code,
        "reason": ended.reason,
        "startedAt": rfc3339(ended.started_at),
        "finishedAt": rfc3339(ended.finished_at),
        "containerID": _container_id(run, container, count),
    }


def _container_id(run: PodRun, container: ContainerRun, restarts: int) -> str:
    return f"simulated://{run.pod.metadata.uid}/{container.spec.name}/{restarts}"


class Happening(NamedTuple):
    """An Event to be told about a pod."""

    type: str
    reason: str
    message: str


def happenings(before: PodRun | None, after: PodRun) -> list[Happening]:
    """What a kubelet would tell about the way from one state to the next."""
    told: list[Happening] = []
    earlier = {c.spec.name: c for c in before.containers} if before is not None else {}
    for c in after.containers:
        old = earlier.get(c.spec.name)
        runs_before = 0 if old is None or old.never_started else old.restarts + 1
        runs_now = 0 if c.never_started else c.restarts + 1
        if runs_now > runs_before:
            if runs_before == 0:
                told.append(Happening("Normal", "Pulled", f'Container image "{c.spec.image}" is present'))
            told.append(Happening("Normal", "Created", f"Created container: {c.spec.name}"))
            told.append(Happening("Normal", "Started", f"Started container {c.spec.name}"))
        if c.state is State.WAITING and c.message and (old is None or old.message != c.message):
            told.append(Happening("Warning", "BackOff" if "ackOff" in c.waiting else "Failed", c.message))
    if after.stop_at is not None and (before is None or before.stop_at is None):
        told.extend(
            Happening("Normal", "Killing", f"Stopping container {c.spec.name}")
            for c in after.containers
            if c.state is State.RUNNING
        )
    return told
