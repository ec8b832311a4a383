"""Conversion between a `PodRun` and the `status` that a node writes, in both directions.

`status_of` builds the status; `resume` restores a run from a stored status after a restart. Kubernetes:
`pkg/kubelet/status/generate.go` (conditions), `pkg/kubelet/kubelet_pods.go` (container statuses).
"""

from __future__ import annotations

from typing import Any

import msgspec

from volcanoio.localcluster.nodes.pods.behaviour import Behaviour
from volcanoio.localcluster.nodes.pods.containers import BACKOFF, ContainerRun, Ended, Role, State, back_off, start
from volcanoio.localcluster.nodes.pods.lifecycle import fresh_containers, lost, mount, plan_of
from volcanoio.localcluster.nodes.pods.podrun import Phase, PodRun, RunContext
from volcanoio.localcluster.nodes.pods.predicates import Rejection
from volcanoio.localcluster.nodes.pods.probes import pulses
from volcanoio.model.core import Container, ContainerStateTerminated, ContainerStatus, Pod
from volcanoio.model.times import epoch, rfc3339

Json = dict[str, Any]
SCHEME = "simulated"
"""What the ids of simulated containers and images begin with."""
_TRUE = ("True", "", "")


def status_of(run: PodRun, scheme: str = SCHEME, *, clearing: bool = False) -> Json:
    """Return the whole status that this node is responsible for.

    PodScheduled is the scheduler's and not among the conditions.

    `scheme` is what the ids of containers that a runtime carries out begin with. With `clearing` it is a patch that
    also takes away what an earlier status of this node said and this one does not.
    """
    mains = [_container(run, c, scheme) for c in run.containers if c.role is Role.MAIN]
    status: Json = {
        "phase": run.phase.value,
        "startTime": rfc3339(run.accepted_at),
        "hostIP": run.host_ip,
        "hostIPs": [{"ip": run.host_ip}],
        "conditions": _conditions(run, clearing),
        "containerStatuses": sorted(mains, key=_name) if len(mains) > 1 else mains,
    }
    if run.pod.metadata.generation:
        status["observedGeneration"] = run.pod.metadata.generation
    inits = [_container(run, c, scheme) for c in run.containers if c.role is not Role.MAIN]
    if inits:
        status["initContainerStatuses"] = inits
    if run.started:
        status["podIP"] = run.pod_ip
        status["podIPs"] = [{"ip": run.pod_ip}]
    if run.reason and run.finished:
        status["reason"] = run.reason
        status["message"] = run.message
    return status


def _name(status: Json) -> str:
    return str(status["name"])


def rejected_status(pod: Pod, rejection: Rejection, now: float) -> Json:
    """Return the status of a pod that its node refused."""
    status: Json = {
        "phase": Phase.FAILED.value,
        "reason": rejection.reason,
        "message": f"Pod was rejected: {rejection.message}",
        "startTime": rfc3339(now),
    }
    if pod.metadata.generation:
        status["observedGeneration"] = pod.metadata.generation
    return status


def _conditions(run: PodRun, clearing: bool) -> list[Json]:
    initialized = run.initialized_at
    holds, reason, message, since = _readiness(run)
    ready = (holds, reason, message)
    gates = _gates(run) if holds == "True" else ready
    sandbox = run.started and not run.finished
    conditions = [
        _condition(run, "PodReadyToStartContainers", ("True" if sandbox else "False", "", ""), run.volumes_at),
        _condition(run, "Initialized", _initialization(run, initialized), initialized),
        _condition(run, "Ready", gates, since),
        _condition(run, "ContainersReady", ready, since),
    ]
    if run.reason == "Evicted" and run.finished:
        conditions.append(
            _condition(run, "DisruptionTarget", ("True", "TerminationByKubelet", run.message), run.ending_at)
        )
    if clearing:
        for condition in conditions:
            if condition["status"] == "True":
                condition.setdefault("reason", None)
                condition.setdefault("message", None)
    return conditions


def _initialization(run: PodRun, initialized: float | None) -> tuple[str, str, str]:
    if run.phase is Phase.SUCCEEDED:
        return "True", "PodCompleted", ""
    if initialized is not None:
        return _TRUE
    left = [
        c.spec.name
        for c in run.containers
        if (c.role is Role.INIT and not c.succeeded) or (c.role is Role.SIDECAR and not c.up)
    ]
    return "False", "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(left)}]"


def _readiness(run: PodRun) -> tuple[str, str, str, float]:
    """Return status, reason, message and time of the ContainersReady condition."""
    if run.finished:
        reason = "PodCompleted" if run.phase is Phase.SUCCEEDED else "PodFailed"
        ends = [c.ended.finished_at for c in run.containers if c.ended is not None]
        return "False", reason, "", max(ends, default=run.ending_at or run.accepted_at)
    counted = [c for c in run.containers if c.role is not Role.INIT]
    unready = [c for c in counted if not c.ready]
    if not unready:
        return "True", "", "", max((c.ready_since for c in counted), default=run.accepted_at)
    names = " ".join(c.spec.name for c in unready)
    since = min(c.ready_since for c in unready)
    return "False", "ContainersNotReady", f"containers with unready status: [{names}]", since or run.accepted_at


def _gates(run: PodRun) -> tuple[str, str, str]:
    """Return status, reason and message of the Ready condition by the pod's readiness gates."""
    if not run.pod.spec.readiness_gates:
        return _TRUE
    stored = {condition.type: condition.status for condition in run.pod.status.conditions}
    messages = []
    for gate in run.pod.spec.readiness_gates:
        kind = str(gate.get("conditionType", ""))
        if kind not in stored:
            messages.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif stored[kind] != "True":
            messages.append(f'the status of pod readiness gate "{kind}" is not "True", but {stored[kind]}')
    return ("False", "ReadinessGatesNotReady", ", ".join(messages)) if messages else _TRUE


def _condition(run: PodRun, kind: str, holds: tuple[str, str, str], since: float | None) -> Json:
    status, reason, message = holds
    condition: Json = {
        "type": kind,
        "status": status,
        "lastTransitionTime": rfc3339(run.accepted_at if since is None else since),
    }
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    if run.pod.metadata.generation:
        condition["observedGeneration"] = run.pod.metadata.generation
    return condition


def _container(run: PodRun, container: ContainerRun, scheme: str) -> Json:
    spec = container.spec
    done = container.role is Role.INIT and container.succeeded
    status: Json = {
        "name": spec.name,
        "image": spec.image,
        "imageID": "" if container.never_started else f"{SCHEME}://{spec.image}",
        "ready": container.ready or done,
        "started": container.up,
        "restartCount": container.restarts,
        "state": _state(run, container, scheme),
        "lastState": {} if container.last is None else {"terminated": _ended(run, container, container.last, scheme)},
    }
    if not container.never_started:
        status["containerID"] = container_id(run, container, container.restarts, scheme)
        status |= _resources(spec)
    return status


def _resources(spec: Container) -> Json:
    """Return the resources that a created container has."""
    requests, limits = spec.resources.requests, spec.resources.limits
    if not requests and not limits:
        return {"resources": {}}
    given: Json = {}
    if limits:
        given["limits"] = limits
    if requests:
        given["requests"] = requests
    return {"allocatedResources": requests, "resources": given} if requests else {"resources": given}


def _state(run: PodRun, container: ContainerRun, scheme: str) -> Json:
    if container.state is State.RUNNING:
        return {"running": {"startedAt": rfc3339(container.started_at)}}
    if container.ended is not None:
        return {"terminated": _ended(run, container, container.ended, scheme)}
    waiting: Json = {"reason": container.waiting}
    return {"waiting": {**waiting, "message": container.message} if container.message else waiting}


def _ended(run: PodRun, container: ContainerRun, ended: Ended, scheme: str) -> Json:
    first = ended is container.ended or container.state is State.WAITING
    count = container.restarts if first else max(0, container.restarts - 1)
    state: Json = {
        "exitCode": ended.exit_code,
        "reason": ended.reason,
        "startedAt": rfc3339(ended.started_at),
        "finishedAt": rfc3339(ended.finished_at),
        "containerID": container_id(run, container, count, scheme),
    }
    if ended.message:
        state["message"] = ended.message
    return state


def container_id(run: PodRun, container: ContainerRun, restarts: int, scheme: str) -> str:
    """Return the id of a container's run: SCHEME://POD UID/CONTAINER/RESTARTS."""
    return f"{scheme if container.external else SCHEME}://{run.pod.metadata.uid}/{container.spec.name}/{restarts}"


def was_accepted(pod: Pod) -> bool:
    """Return whether a node accepted the unfinished pod before: its containers have statuses."""
    return bool(pod.status.container_statuses) and not is_finished(pod)


def is_finished(pod: Pod) -> bool:
    """Return whether the stored phase is final."""
    return pod.status.phase in (Phase.SUCCEEDED, Phase.FAILED)


def resume(pod: Pod, behaviour: Behaviour, now: float, context: RunContext) -> PodRun:
    """Return the run of a stored status.

    A running container continues for the rest of its time since its start.

    Containers that a runtime had running (`context.external`) died with the process that ran them.
    """
    accepted = epoch(pod.status.start_time) or now
    run = PodRun(
        pod=pod, behaviour=behaviour, containers=(), accepted_at=accepted, host_ip=context.host_ip,
        pod_ip=pod.status.pod_ip or context.pod_ip, earlier_starts=context.earlier_starts,
    )  # fmt: skip
    stored = {s.name: s for s in (*pod.status.container_statuses, *pod.status.init_container_statuses)}
    fresh = fresh_containers(pod, context.external)
    containers = tuple(_resume_container(run, one, stored.get(one.spec.name)) for one in fresh)
    pulled = frozenset(c.spec.image for c in containers if not c.never_started)
    run = msgspec.structs.replace(run, containers=containers, pulled=pulled)
    if not run.started:
        return run
    run = mount(run, now)
    return lost(run, now) if context.external else run


def _resume_container(run: PodRun, fresh: ContainerRun, status: ContainerStatus | None) -> ContainerRun:
    if status is None:
        return fresh
    last = _stored_end(status.last_state.terminated)
    pause = BACKOFF.delay(status.restart_count)
    known = msgspec.structs.replace(fresh, last=last, restarts=status.restart_count, pause=pause)
    state = status.state
    if state.terminated is not None:
        return msgspec.structs.replace(known, state=State.TERMINATED, waiting="", ended=_stored_end(state.terminated))
    if state.running is not None:
        return _resume_running(run, known, epoch(state.running.get("startedAt")) or run.accepted_at, status.ready)
    if last is not None:
        return back_off(msgspec.structs.replace(known, ended=last), run.full_name)
    return fresh


def _resume_running(run: PodRun, known: ContainerRun, started: float, ready: bool) -> ContainerRun:
    before = msgspec.structs.replace(known, restarts=max(0, known.restarts - (known.last is not None)))
    health = pulses(known.spec, started, run.behaviour.probes)
    going = start(before, plan_of(run, before), started, health)
    if health:
        return going
    return msgspec.structs.replace(going, ready=ready and known.role is not Role.INIT)


def _stored_end(state: ContainerStateTerminated | None) -> Ended | None:
    if state is None:
        return None
    return Ended(
        state.exit_code, state.reason, epoch(state.started_at) or 0.0, epoch(state.finished_at) or 0.0, state.message
    )
