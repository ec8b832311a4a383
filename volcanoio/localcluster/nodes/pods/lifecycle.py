"""The life of a pod as a pure function of time: `advance(run, now)` applies all transitions that are due.

A pod that is bound and admitted waits for its volumes, pulls its images, runs its init containers one after the other,
then its containers, restarts them by their policies, and ends; a deletion, a deadline or exceeded limits end it early.
Transitions carry the time at which they were due, so a late caller changes nothing. Containers that a runtime executes
(`external`) begin and end when it reports so: `began`, `exited`.
"""

from __future__ import annotations

import msgspec

from volcanoio.localcluster.nodes.container_runtime import Exit
from volcanoio.localcluster.nodes.pods.behaviour import NEVER, Behaviour, Plan, init_plan
from volcanoio.localcluster.nodes.pods.containers import (
    BACKOFF,
    ContainerRun,
    Role,
    State,
    back_off,
    end,
    end_as_planned,
    hurried,
    refuse,
    restarts,
    start,
    stopping,
)
from volcanoio.localcluster.nodes.pods.podrun import PodRun, RunContext
from volcanoio.localcluster.nodes.pods.probes import Change, hook_seconds, probe_grace, pulses
from volcanoio.model.core import Pod

PULL_SHOWN = 1.0
"""Seconds for which ErrImagePull is shown before ImagePullBackOff."""
_DEADLINE = "Pod was active on the node longer than the specified deadline"
_CONFIG = "CreateContainerConfigError"
_LOST = "The container could not be located when the pod was terminated"


def accept(pod: Pod, behaviour: Behaviour, now: float, context: RunContext, *, has_volumes: bool = False) -> PodRun:
    """Return the run of a pod that its node admitted. With `has_volumes` it waits for `mount`."""
    run = PodRun(
        pod=pod,
        behaviour=behaviour,
        containers=fresh_containers(pod, context.external),
        accepted_at=now,
        host_ip=context.host_ip,
        pod_ip=context.pod_ip,
        earlier_starts=context.earlier_starts,
    )
    return run if has_volumes else mount(run, now)


def fresh_containers(pod: Pod, external: frozenset[str] = frozenset()) -> tuple[ContainerRun, ...]:
    """Return the containers of a pod, none started: init containers first."""
    inits = pod.spec.init_containers
    waiting = "PodInitializing" if inits else "ContainerCreating"
    return (
        *(
            ContainerRun(
                spec=c,
                role=Role.SIDECAR if c.restart_policy == "Always" else Role.INIT,
                waiting=waiting,
                external=c.name in external,
            )
            for c in inits
        ),
        *(
            ContainerRun(spec=c, role=Role.MAIN, waiting=waiting, external=c.name in external)
            for c in pod.spec.containers
        ),
    )


def mount(run: PodRun, now: float) -> PodRun:
    """Mount all volumes; the first container starts after the start latency and the image pull."""
    return run if run.volumes_at is not None else _open_gates(msgspec.structs.replace(run, volumes_at=now), now)


def misconfigured(run: PodRun, message: str) -> PodRun:
    """Refuse to start a pod with an invalid manifest."""
    containers = tuple(refuse(c, _CONFIG, message) for c in run.containers)
    return msgspec.structs.replace(run, containers=containers)


def terminate(run: PodRun, now: float, grace: float) -> PodRun:
    """Terminate a pod: SIGTERM now, SIGKILL after `grace` seconds.

    A second call can only shorten the grace.
    """
    if run.finished:
        return run
    if run.ending_at is None:
        return _end_all(run, now, grace)
    if now + grace >= run.kill_at:
        return run
    containers = tuple(hurried(c, now + grace, run.behaviour.stop) for c in run.containers)
    return msgspec.structs.replace(run, containers=containers, kill_at=now + grace)


def began(run: PodRun, name: str, at: float) -> PodRun:
    """Record that a runtime started a container."""
    index = _index(run, name)
    c = run.containers[index]
    if not c.starting:
        return run
    running = start(c, Plan(NEVER), at, pulses(c.spec, at, run.behaviour.probes))
    run = run.with_container(index, running)
    if run.ending_at is not None:
        return run.with_container(index, _stopped(run, running, at, max(0.0, run.kill_at - at)))
    return _open_gates(run, at)


def exited(run: PodRun, name: str, at: float, how: Exit) -> PodRun:
    """Record that a run of a runtime ended or could not start."""
    index = _index(run, name)
    c = run.containers[index]
    if not c.starting and c.state is not State.RUNNING:
        return run
    if c.starting:
        c = start(c, Plan(NEVER), at, ())
    ended = end(c, how.code, how.reason or ("Error" if how.code else "Completed"), at, how.message)
    return _after_end(run, index, ended, at)


def lost(run: PodRun, at: float) -> PodRun:
    """Apply the loss of all running containers after the runtime's process died."""
    for c in run.containers:
        if c.external and c.state is State.RUNNING:
            run = exited(run, c.spec.name, at, Exit(137, "ContainerStatusUnknown", _LOST))
    return run


def advance(run: PodRun, now: float) -> PodRun:
    """Return the pod at `now`, after every transition due by then, in order of time."""
    while (due := run.due) is not None and due <= now:
        if run.ending_at is None and run.deadline is not None and run.deadline <= due:
            run = _end_all(run, due, run.grace, "DeadlineExceeded", _DEADLINE)
        else:
            index = next(i for i, c in enumerate(run.containers) if c.next == due)
            run = _step(run, index, due)
    return run


def _step(run: PodRun, index: int, at: float) -> PodRun:
    """Apply the due transition of one container."""
    c = run.containers[index]
    if c.state is State.WAITING:
        return _try_start(run, index, at)
    if c.due is not None and c.due <= at:
        ended = end_as_planned(c, at)
        if c.plan is not None and c.plan.evicted and run.ending_at is None:
            return _end_all(run.with_container(index, ended), at, 0.0, "Evicted", c.plan.evicted)
        return _after_end(run, index, ended, at)
    if c.stop is not None and c.stop.due is not None and c.stop.due <= at:
        if c.stop.end_at is not None:
            return _after_end(run, index, end(c, c.stop.code, "Error", at), at)
        stop = msgspec.structs.replace(c.stop, signalled=True, killed=c.stop.signalled)
        return run.with_container(index, msgspec.structs.replace(c, stop=stop))
    return _pulse(run, index, at)


def _pulse(run: PodRun, index: int, at: float) -> PodRun:
    """Apply the result of a probe."""
    c = run.containers[index]
    change = c.health[0].change
    c = msgspec.structs.replace(c, health=c.health[1:])
    match change:
        case Change.UP:
            c = msgspec.structs.replace(c, up=True)
        case Change.READY if c.role is not Role.INIT:
            c = msgspec.structs.replace(c, ready=True, ready_since=at)
        case Change.UNREADY:
            c = msgspec.structs.replace(c, ready=False, ready_since=at)
        case Change.STARTUP_FAILED | Change.LIVENESS_FAILED if c.stop is None:
            grace = probe_grace(c.spec, change)
            c = _stopped(run, c, at, run.grace if grace is None else grace)
    return _open_gates(run.with_container(index, c), at)


def _try_start(run: PodRun, index: int, at: float) -> PodRun:
    """Start a due container, pull its image, or back off from pulling it."""
    c, behaviour = run.containers[index], run.behaviour
    image = c.spec.image
    if c.waiting == "ErrImagePull":
        message = f'Back-off pulling image "{image}": ErrImagePull: {c.message}'
        return run.with_container(index, refuse(c, "ImagePullBackOff", message, at - PULL_SHOWN + c.pause))
    if c.never_started and image not in run.pulled:
        if behaviour.pull == NEVER:
            return run.with_container(index, _unpulled(c, at))
        if behaviour.pull and not c.pulling:
            return run.with_container(index, msgspec.structs.replace(c, pulling=at, due=at + behaviour.pull))
        run = msgspec.structs.replace(run, pulled=run.pulled | {image})
    if c.external:
        return run.with_container(index, msgspec.structs.replace(c, starting=True, due=None, message="", pulling=0.0))
    running = start(c, plan_of(run, c), at, pulses(c.spec, at, behaviour.probes))
    return _open_gates(run.with_container(index, running), at)


def _unpulled(c: ContainerRun, at: float) -> ContainerRun:
    image = c.spec.image
    if c.spec.image_pull_policy == "Never":
        return refuse(c, "ErrImageNeverPull", f'Container image "{image}" is not present with pull policy of Never')
    message = f'failed to pull image "{image}": its pod says that it cannot be pulled'
    return msgspec.structs.replace(refuse(c, "ErrImagePull", message, at + PULL_SHOWN), pause=BACKOFF.grow(c.pause))


def plan_of(run: PodRun, container: ContainerRun) -> Plan:
    """Return the plan of the next run of a container."""
    if container.external:
        return Plan(NEVER)
    if container.role is not Role.MAIN:
        return init_plan(container.spec, run.behaviour)
    count = container.restarts + (container.last is not None)
    return run.behaviour.plan(run.pod, container.spec, run.earlier_starts + count + 1)


def _after_end(run: PodRun, index: int, ended: ContainerRun, at: float) -> PodRun:
    """Restart an ended container, or start the next ones."""
    again = run.ending_at is None and restarts(run.pod, ended)
    return _open_gates(run.with_container(index, back_off(ended, run.full_name) if again else ended), at)


def _open_gates(run: PodRun, at: float) -> PodRun:
    """Set the start time of every container that may start; end the pod when all have ended."""
    if run.ending_at is not None:
        return _next_sidecar(run, at)
    if run.done:
        return _end_all(run, at, run.grace)
    if run.volumes_at is None:
        return run
    begin = at if run.started else at + run.behaviour.start_latency
    containers: list[ContainerRun] | None = None
    for index, c in enumerate(run.containers):
        if c.never_started and c.due is None and not c.message and not c.starting:
            containers = containers or list(run.containers)
            containers[index] = msgspec.structs.replace(c, due=begin)
            begin += hook_seconds(c.spec, "postStart")
        if (c.role is Role.INIT and not c.succeeded) or (c.role is Role.SIDECAR and not c.up and not _mains_began(run)):
            break
    return run if containers is None else msgspec.structs.replace(run, containers=tuple(containers))


def _mains_began(run: PodRun) -> bool:
    return any(c.role is Role.MAIN and not c.never_started for c in run.containers)


def _end_all(run: PodRun, at: float, grace: float, reason: str = "", message: str = "") -> PodRun:
    """Stop starting containers and end the running ones.

    Sidecars end after the others, the last first.
    """
    containers = []
    for c in run.containers:
        if c.state is State.RUNNING:
            c = _stopped(run, c, at + grace if c.role is Role.SIDECAR else at, 0.0 if c.role is Role.SIDECAR else grace)
        elif c.state is State.WAITING:
            c = msgspec.structs.replace(c, due=None, pulling=0.0)
        containers.append(c)
    run = msgspec.structs.replace(
        run, containers=tuple(containers), ending_at=at, kill_at=at + grace, reason=reason, message=message
    )
    return _next_sidecar(run, at)


def _next_sidecar(run: PodRun, at: float) -> PodRun:
    """Terminate the last running sidecar of an ending pod once the main containers have ended."""
    if any(c.state is State.RUNNING and c.role is not Role.SIDECAR for c in run.containers):
        return run
    for index in range(len(run.containers) - 1, -1, -1):
        c = run.containers[index]
        if c.state is State.RUNNING:
            if c.stop is not None and c.stop.term_at > at:
                grace = max(0.0, run.kill_at - at)
                return run.with_container(index, _stopped(run, c, at, grace))
            return run
    return run


def _stopped(run: PodRun, c: ContainerRun, at: float, grace: float) -> ContainerRun:
    return stopping(c, at, hook_seconds(c.spec, "preStop"), grace, run.behaviour.stop)


def _index(run: PodRun, name: str) -> int:
    return next(i for i, c in enumerate(run.containers) if c.spec.name == name)
