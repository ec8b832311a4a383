"""The life of a simulated pod as a pure function of time: `advance(run, now)` applies all that was due.

A pod that is bound and admitted waits for its volumes, pulls its image, runs its init containers one after the other,
then its containers, restarts them as its policy says, and ends; a deletion or deadline ends it early. Times of
transitions are those at which they were due, not at which they were noticed, so a late caller changes nothing.
Kubernetes: `pkg/kubelet/kubelet_pods.go` (phase), `pkg/kubelet/status/generate.go` (conditions).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from volcanoio.localcluster.nodes.behaviour import NEVER, Behaviour, Plan, init_plan
from volcanoio.localcluster.nodes.containers import (
    KILLED,
    PULL_RETRY,
    TERMINATED_BY_SIGNAL,
    ContainerRun,
    Role,
    State,
    back_off,
    end,
    end_as_planned,
    refuse,
    start,
)
from volcanoio.model.core import Pod


class Phase(StrEnum):
    """`status.phase` of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class PodRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod on a node, now. Times are epoch seconds; `pace` is seconds per simulated second.

    `earlier_starts` counts starts of this pod's place in its job before this pod. `volumes_at` is when all its volumes
    were found, None before. `stop_at` is when a deletion takes effect. `reason` and `message` are set when the pod
    failed as a whole.
    """

    pod: Pod
    behaviour: Behaviour
    containers: tuple[ContainerRun, ...]
    accepted_at: float
    pace: float = 1.0
    host_ip: str = ""
    pod_ip: str = ""
    earlier_starts: int = 0
    volumes_at: float | None = None
    stop_at: float | None = None
    stop_code: int = TERMINATED_BY_SIGNAL
    stopped: bool = False
    reason: str = ""
    message: str = ""

    @property
    def mains(self) -> tuple[ContainerRun, ...]:
        """The containers that are not init containers."""
        return tuple(c for c in self.containers if c.role is Role.MAIN)

    @property
    def started(self) -> bool:
        """Whether any container has ever run."""
        return not all(c.never_started for c in self.containers)

    @property
    def finished(self) -> bool:
        """Whether nothing of the pod will run any more."""
        if self.reason or self.stopped:
            return True
        left = False
        for c in self.containers:
            if c.state is not State.TERMINATED:
                left = left or c.role is Role.MAIN
            elif c.role is Role.INIT and c.failed:
                return True
        return not left

    @property
    def stuck(self) -> bool:
        """Whether the manifest is such that the pod never starts."""
        return any(c.waiting == "CreateContainerConfigError" for c in self.containers)

    @property
    def phase(self) -> Phase:
        """`status.phase`."""
        if self.finished:
            lost = self.reason or (self.stopped and not all(c.ended for c in self.mains))
            failed = lost or any(c.failed for c in self.containers if c.role is not Role.SIDECAR)
            return Phase.FAILED if failed else Phase.SUCCEEDED
        return Phase.RUNNING if any(not c.never_started for c in self.mains) else Phase.PENDING

    @property
    def initialized_at(self) -> float | None:
        """When the last init container was done, None while one is left."""
        done = self.accepted_at
        for c in self.containers:
            if c.role is Role.INIT:
                if not c.succeeded or c.ended is None:
                    return None
                done = max(done, c.ended.finished_at)
        return done

    @property
    def due(self) -> float | None:
        """When something changes by itself, None when never."""
        if self.finished:
            return None
        first = self.deadline
        for moment in (self.stop_at, *[c.due for c in self.containers]):
            if moment is not None and (first is None or moment < first):
                first = moment
        return first

    @property
    def deadline(self) -> float | None:
        """When `activeDeadlineSeconds` ends the pod."""
        limit = self.pod.spec.active_deadline_seconds
        return None if limit is None else self.accepted_at + limit * self.pace


def accept(
    pod: Pod, behaviour: Behaviour, now: float, *, pace: float = 1.0, host_ip: str = "", pod_ip: str = "",
    earlier_starts: int = 0, has_volumes: bool = False,
) -> PodRun:  # fmt: skip
    """A pod that its node has admitted. With `has_volumes` it waits for `mount`."""
    run = PodRun(
        pod=pod,
        behaviour=behaviour,
        containers=fresh_containers(pod),
        accepted_at=now,
        pace=pace,
        host_ip=host_ip,
        pod_ip=pod_ip,
        earlier_starts=earlier_starts,
    )
    return run if has_volumes else mount(run, now)


def fresh_containers(pod: Pod) -> tuple[ContainerRun, ...]:
    """The containers of a pod, none started: init containers first."""
    inits = (
        ContainerRun(spec=c, role=Role.SIDECAR if c.restart_policy == "Always" else Role.INIT)
        for c in pod.spec.init_containers
    )
    waiting = "PodInitializing" if pod.spec.init_containers else "ContainerCreating"
    return (*inits, *(ContainerRun(spec=c, role=Role.MAIN, waiting=waiting) for c in pod.spec.containers))


def mount(run: PodRun, now: float) -> PodRun:
    """All volumes of the pod are there; its first container starts after the start latency and the image pull."""
    return run if run.volumes_at is not None else _open_gates(msgspec.structs.replace(run, volumes_at=now), now)


def misconfigured(run: PodRun, message: str) -> PodRun:
    """The pod cannot start because of what its manifest says."""
    containers = tuple(refuse(c, "CreateContainerConfigError", message) for c in run.containers)
    return msgspec.structs.replace(run, containers=containers)


def terminate(run: PodRun, now: float, grace: float) -> PodRun:
    """The pod is being deleted: SIGTERM now, the end after its stop duration, SIGKILL after `grace` (simulated s)."""
    if run.finished or run.stop_at is not None:
        return run
    alive = any(c.state is State.RUNNING for c in run.containers)
    wait = min(run.behaviour.stop, grace) if alive else 0.0
    code = TERMINATED_BY_SIGNAL if run.behaviour.stop <= grace else KILLED
    return msgspec.structs.replace(run, stop_at=now + wait * run.pace, stop_code=code)


def advance(run: PodRun, now: float) -> PodRun:
    """The pod at `now`: every transition that was due by then, in the order of their times."""
    while (due := run.due) is not None and due <= now:
        if run.stop_at is not None and run.stop_at <= due:
            run = _kill(run, due, run.stop_code)
            run = msgspec.structs.replace(run, stopped=True)
        elif run.deadline is not None and run.deadline <= due:
            run = msgspec.structs.replace(
                _kill(run, due, TERMINATED_BY_SIGNAL),
                reason="DeadlineExceeded",
                message="Pod was active on the node longer than the specified deadline",
            )
        else:
            index = next(i for i, c in enumerate(run.containers) if c.due == due)
            run = _open_gates(_with(run, index, _step(run, run.containers[index], due)), due)
    return run


def _step(run: PodRun, container: ContainerRun, at: float) -> ContainerRun:
    """What is due for one container."""
    if container.state is State.RUNNING:
        ended = end_as_planned(container, at)
        name = f"{run.pod.metadata.name}_{run.pod.metadata.namespace}({run.pod.metadata.uid})"
        return back_off(ended, name, run.pace) if _restarts(run, ended) else ended
    if container.waiting == "ErrImagePull":
        return refuse(container, "ImagePullBackOff", f'Back-off pulling image "{container.spec.image}"')
    if container.never_started and run.behaviour.pull == NEVER:
        message = f'failed to pull image "{container.spec.image}"'
        return refuse(container, "ErrImagePull", message, at + PULL_RETRY * run.pace)
    return start(container, plan_of(run, container), at, run.pace)


def plan_of(run: PodRun, container: ContainerRun) -> Plan:
    """How the next run of a container goes."""
    if container.role is not Role.MAIN:
        return init_plan(container.spec)
    restarts = container.restarts + (container.last is not None)
    return run.behaviour.plan(run.pod, container.spec, run.earlier_starts + restarts + 1)


def _restarts(run: PodRun, container: ContainerRun) -> bool:
    if run.stop_at is not None:
        return False
    if container.role is Role.SIDECAR:
        return True
    policy = run.pod.spec.restart_policy
    if container.role is Role.INIT:
        return container.failed and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and container.failed)


def _open_gates(run: PodRun, at: float) -> PodRun:
    """Give a start time to every container whose turn it is, and end sidecars when they are no longer needed."""
    if run.volumes_at is None:
        return run
    if run.finished:
        return _kill(run, at, 0, only=Role.SIDECAR)
    first = not run.started
    wait = (run.behaviour.start_latency + (0.0 if run.behaviour.pull == NEVER else run.behaviour.pull)) * run.pace
    begin = at + wait if first else at
    containers = list(run.containers)
    for index, c in enumerate(containers):
        blocked = c.waiting in ("ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError")
        if c.never_started and c.due is None and not blocked:
            containers[index] = msgspec.structs.replace(c, due=begin)
        if (c.role is Role.INIT and not c.succeeded) or (c.role is Role.SIDECAR and c.never_started):
            break
    return msgspec.structs.replace(run, containers=tuple(containers))


def _kill(run: PodRun, at: float, exit_code: int, only: Role | None = None) -> PodRun:
    reason = "Error" if exit_code else "Completed"
    containers = tuple(
        end(c, exit_code, reason, at) if c.state is State.RUNNING and only in (None, c.role) else c
        for c in run.containers
    )
    return msgspec.structs.replace(run, containers=containers)


def _with(run: PodRun, index: int, container: ContainerRun) -> PodRun:
    containers = (*run.containers[:index], container, *run.containers[index + 1 :])
    return msgspec.structs.replace(run, containers=containers)
