"""A pod's run read back from its stored status, so that nodes go on after everything was killed."""

from __future__ import annotations

import msgspec

from volcanoio.localcluster.clock import epoch
from volcanoio.localcluster.nodes.behaviour import NEVER, Behaviour
from volcanoio.localcluster.nodes.containers import ContainerRun, Ended, State, back_off
from volcanoio.localcluster.nodes.lifecycle import Phase, PodRun, fresh_containers, mount, plan_of
from volcanoio.model.core import ContainerStateTerminated, ContainerStatus, Pod


def was_accepted(pod: Pod) -> bool:
    """Whether a node has taken the pod in before and not ended it: its containers have statuses."""
    return bool(pod.status.container_statuses) and not is_finished(pod)


def is_finished(pod: Pod) -> bool:
    """Whether the stored phase is final."""
    return pod.status.phase in (Phase.SUCCEEDED, Phase.FAILED)


def resume(
    pod: Pod, behaviour: Behaviour, now: float, *, pace: float = 1.0, host_ip: str = "", pod_ip: str = "",
    earlier_starts: int = 0,
) -> PodRun:  # fmt: skip
    """The run as its stored status tells it. What ran goes on for the rest of its time, counted from its start."""
    accepted = epoch(pod.status.start_time) or now
    run = PodRun(
        pod=pod, behaviour=behaviour, containers=(), accepted_at=accepted, pace=pace, host_ip=host_ip,
        pod_ip=pod.status.pod_ip or pod_ip, earlier_starts=earlier_starts,
    )  # fmt: skip
    stored = {s.name: s for s in (*pod.status.container_statuses, *pod.status.init_container_statuses)}
    containers = tuple(_container(run, fresh, stored.get(fresh.spec.name)) for fresh in fresh_containers(pod))
    run = msgspec.structs.replace(run, containers=containers)
    return mount(run, now) if run.started else run


def _container(run: PodRun, fresh: ContainerRun, status: ContainerStatus | None) -> ContainerRun:
    if status is None:
        return fresh
    last = _ended(status.last_state.terminated)
    known = msgspec.structs.replace(fresh, last=last, restarts=status.restart_count)
    state = status.state
    if state.terminated is not None:
        return msgspec.structs.replace(known, state=State.TERMINATED, ended=_ended(state.terminated))
    if state.running is not None:
        started = epoch(state.running.get("startedAt")) or run.accepted_at
        before = msgspec.structs.replace(known, restarts=max(0, known.restarts - (last is not None)))
        plan = plan_of(run, before)
        return msgspec.structs.replace(
            known,
            state=State.RUNNING,
            waiting="",
            started_at=started,
            plan=plan,
            due=None if plan.duration == NEVER else started + plan.duration * run.pace,
        )
    if last is not None:
        name = f"{run.pod.metadata.name}_{run.pod.metadata.namespace}({run.pod.metadata.uid})"
        return back_off(msgspec.structs.replace(known, ended=last), name, run.pace)
    return fresh


def _ended(state: ContainerStateTerminated | None) -> Ended | None:
    if state is None:
        return None
    return Ended(state.exit_code, state.reason, epoch(state.started_at) or 0.0, epoch(state.finished_at) or 0.0)
