"""Events that a kubelet would tell about a pod, between two of its states.

Kubernetes: `pkg/kubelet/events`, `kuberuntime_container.go`, `images/image_manager.go`, `prober/prober.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from volcanoio.localcluster.nodes.containers import ContainerRun, Role, State
from volcanoio.localcluster.nodes.podrun import PodRun
from volcanoio.model import durations


class Happening(NamedTuple):
    """An Event to be told about a pod; `field_path` names the container it is about."""

    type: str
    reason: str
    message: str
    field_path: str = ""


def happenings(before: PodRun | None, after: PodRun) -> list[Happening]:
    """What a kubelet would tell about the way from one state to the next."""
    told: list[Happening] = []
    ending = after.ending_at is not None and (before is None or before.ending_at is None)
    if ending and after.reason == "DeadlineExceeded":
        told.append(Happening("Normal", after.reason, after.message))
    if ending and after.reason == "Evicted":
        told.append(Happening("Warning", after.reason, after.message))
    for index, c in enumerate(after.containers):
        old = before.containers[index] if before is not None and before.containers else None
        if old is c and not ending:
            continue
        path = f"spec.{'containers' if c.role is Role.MAIN else 'initContainers'}{{{c.spec.name}}}"
        told.extend(Happening(*each, path) for each in _of_container(after, old, c, ending))
    return told


def _of_container(
    run: PodRun, old: ContainerRun | None, c: ContainerRun, ending: bool
) -> Iterator[tuple[str, str, str]]:
    image = c.spec.image
    if c.pulling and not (old is not None and old.pulling):
        yield "Normal", "Pulling", f'Pulling image "{image}"'
    if _runs(c) > _runs(old):
        if old is not None and old.pulling:
            took = durations.text(round(c.started_at - old.pulling))
            yield "Normal", "Pulled", f'Successfully pulled image "{image}" in {took} ({took} including waiting).'
        elif run.behaviour.pull and c.restarts == 0:  # the whole pull fell into one look
            yield "Normal", "Pulling", f'Pulling image "{image}"'
            took = durations.text(round(run.behaviour.pull))
            yield "Normal", "Pulled", f'Successfully pulled image "{image}" in {took} ({took} including waiting).'
        else:
            yield (
                "Normal",
                "Pulled",
                f'Container image "{image}" already present on machine and can be accessed by the pod',
            )
        yield "Normal", "Created", "Container created"
        yield "Normal", "Started", "Container started"
    if c.state is State.WAITING and c.message and (old is None or old.message != c.message):
        yield from _trouble(run, c)
    if c.state is State.RUNNING:
        yield from _health(old, c, ending)


def _runs(c: ContainerRun | None) -> int:
    """How many runs of a container have begun."""
    return 0 if c is None or c.never_started else c.restarts + 1


def _trouble(run: PodRun, c: ContainerRun) -> Iterator[tuple[str, str, str]]:
    image = c.spec.image
    match c.waiting:
        case "CrashLoopBackOff":
            told = f"Back-off restarting failed container {c.spec.name} in pod {run.full_name}"
            yield "Warning", "BackOff", told
        case "ErrImagePull":
            yield "Normal", "Pulling", f'Pulling image "{image}"'
            yield "Warning", "Failed", f'Failed to pull image "{image}": {c.message}'
            yield "Warning", "Failed", "Error: ErrImagePull"
        case "ImagePullBackOff":
            yield "Normal", "BackOff", f'Back-off pulling image "{image}"'
            yield "Warning", "Failed", "Error: ImagePullBackOff"
        case "ErrImageNeverPull":
            yield "Warning", "ErrImageNeverPull", c.message
            yield "Warning", "Failed", "Error: ErrImageNeverPull"
        case _:
            yield "Warning", "Failed", f"Error: {c.message}"


def _health(old: ContainerRun | None, c: ContainerRun, ending: bool) -> Iterator[tuple[str, str, str]]:
    if old is not None and old.ready and not c.ready:
        yield "Warning", "Unhealthy", "Readiness probe failed: the pod says so"
    if ending:
        yield "Normal", "Killing", f"Stopping container {c.spec.name}"
    elif c.stop is not None and (old is None or old.stop is None):
        probe = "liveness" if c.up else "startup"
        yield "Warning", "Unhealthy", f"{probe.capitalize()} probe failed: the pod says so"
        name = f"{'Init container' if c.role is not Role.MAIN else 'Container'} {c.spec.name}"
        yield "Normal", "Killing", f"{name} failed {probe} probe{', will be restarted' if c.role is Role.MAIN else ''}"
