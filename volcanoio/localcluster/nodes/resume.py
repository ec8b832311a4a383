"""A pod's run read back from its stored status, so that nodes go on after everything was killed."""

from __future__ import annotations

import msgspec

from volcanoio.localcluster.nodes.behaviour import Behaviour
from volcanoio.localcluster.nodes.containers import (
    ContainerRun,
    Ended,
    Role,
    State,
    back_off,
    longer,
    start,
)
from volcanoio.localcluster.nodes.lifecycle import fresh_containers, lost, mount, plan_of
from volcanoio.localcluster.nodes.podrun import Phase, PodRun
from volcanoio.localcluster.nodes.probes import pulses
from volcanoio.model.core import ContainerStateTerminated, ContainerStatus, Pod
from volcanoio.model.times import epoch


def was_accepted(pod: Pod) -> bool:
    """Whether a node has taken the pod in before and not ended it: its containers have statuses."""
    return bool(pod.status.container_statuses) and not is_finished(pod)


def is_finished(pod: Pod) -> bool:
    """Whether the stored phase is final."""
    return pod.status.phase in (Phase.SUCCEEDED, Phase.FAILED)


def resume(
    pod: Pod, behaviour: Behaviour, now: float, *, host_ip: str = "", pod_ip: str = "", earlier_starts: int = 0,
    external: frozenset[str] = frozenset(),
) -> PodRun:  # fmt: skip
    """The run as its stored status tells it. What ran goes on for the rest of its time, counted from its start.

    What a runtime had running (`external`) died with the process that ran it.
    """
    accepted = epoch(pod.status.start_time) or now
    run = PodRun(
        pod=pod, behaviour=behaviour, containers=(), accepted_at=accepted, host_ip=host_ip,
        pod_ip=pod.status.pod_ip or pod_ip, earlier_starts=earlier_starts,
    )  # fmt: skip
    stored = {s.name: s for s in (*pod.status.container_statuses, *pod.status.init_container_statuses)}
    fresh = fresh_containers(pod, external)
    containers = tuple(_container(run, one, stored.get(one.spec.name)) for one in fresh)
    pulled = frozenset(c.spec.image for c in containers if not c.never_started)
    run = msgspec.structs.replace(run, containers=containers, pulled=pulled)
    if not run.started:
        return run
    run = mount(run, now)
    return lost(run, now) if external else run


def _container(run: PodRun, fresh: ContainerRun, status: ContainerStatus | None) -> ContainerRun:
    if status is None:
        return fresh
    last = _ended(status.last_state.terminated)
    pause = 0.0
    for _ in range(min(status.restart_count, 8)):
        pause = longer(pause)
    known = msgspec.structs.replace(fresh, last=last, restarts=status.restart_count, pause=pause)
    state = status.state
    if state.terminated is not None:
        return msgspec.structs.replace(known, state=State.TERMINATED, waiting="", ended=_ended(state.terminated))
    if state.running is not None:
        return _running(run, known, epoch(state.running.get("startedAt")) or run.accepted_at, status.ready)
    if last is not None:
        return back_off(msgspec.structs.replace(known, ended=last), run.full_name)
    return fresh


def _running(run: PodRun, known: ContainerRun, started: float, ready: bool) -> ContainerRun:
    before = msgspec.structs.replace(known, restarts=max(0, known.restarts - (known.last is not None)))
    health = pulses(known.spec, started, run.behaviour.probes)
    going = start(before, plan_of(run, before), started, health)
    if health:
        return going
    return msgspec.structs.replace(going, ready=ready and known.role is not Role.INIT)


def _ended(state: ContainerStateTerminated | None) -> Ended | None:
    if state is None:
        return None
    return Ended(
        state.exit_code, state.reason, epoch(state.started_at) or 0.0, epoch(state.finished_at) or 0.0, state.message
    )
