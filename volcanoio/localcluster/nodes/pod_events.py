"""Kubernetes Events of kubelets, derived from two states of a pod.

Kubernetes: `pkg/kubelet/events`, `kuberuntime_container.go`, `images/image_manager.go`, `prober/prober.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from volcanoio.framework.effects import Record
from volcanoio.kube.clock import Clock
from volcanoio.kube.event_recorder import EventRecorder
from volcanoio.kube.transport import Transport
from volcanoio.localcluster.nodes.pods.containers import ContainerRun, Role, State
from volcanoio.localcluster.nodes.pods.podrun import PodRun
from volcanoio.model import times
from volcanoio.model.base import ObjectReference
from volcanoio.model.core import Pod


class PodEvent(NamedTuple):
    """Type, reason and message of an Event about a pod; `field_path` names its container."""

    type: str
    reason: str
    message: str
    field_path: str = ""


def pod_events(before: PodRun | None, after: PodRun) -> list[PodEvent]:
    """Return the Events that a kubelet records when a pod goes from one state to the next."""
    events: list[PodEvent] = []
    ending = after.ending_at is not None and (before is None or before.ending_at is None)
    if ending and after.reason == "DeadlineExceeded":
        events.append(PodEvent("Normal", after.reason, after.message))
    if ending and after.reason == "Evicted":
        events.append(PodEvent("Warning", after.reason, after.message))
    for index, c in enumerate(after.containers):
        old = before.containers[index] if before is not None and before.containers else None
        if old is c and not ending:
            continue
        path = f"spec.{'containers' if c.role is Role.MAIN else 'initContainers'}{{{c.spec.name}}}"
        events.extend(PodEvent(*each, path) for each in _of_container(after, old, c, ending))
    return events


def _of_container(
    run: PodRun, old: ContainerRun | None, c: ContainerRun, ending: bool
) -> Iterator[tuple[str, str, str]]:
    image = c.spec.image
    if c.pulling and not (old is not None and old.pulling):
        yield "Normal", "Pulling", f'Pulling image "{image}"'
    if _runs(c) > _runs(old):
        if old is not None and old.pulling:
            took = times.go_duration(round(c.started_at - old.pulling))
            yield "Normal", "Pulled", f'Successfully pulled image "{image}" in {took} ({took} including waiting).'
        elif run.behaviour.pull and c.restarts == 0:  # the whole pull happened between two transitions
            yield "Normal", "Pulling", f'Pulling image "{image}"'
            took = times.go_duration(round(run.behaviour.pull))
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
    """Return the number of started runs of a container."""
    return 0 if c is None or c.never_started else c.restarts + 1


def _trouble(run: PodRun, c: ContainerRun) -> Iterator[tuple[str, str, str]]:
    image = c.spec.image
    match c.waiting:
        case "CrashLoopBackOff":
            message = f"Back-off restarting failed container {c.spec.name} in pod {run.full_name}"
            yield "Warning", "BackOff", message
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
        yield "Warning", "Unhealthy", "Readiness probe failed: set by an annotation of the pod"
    if ending:
        yield "Normal", "Killing", f"Stopping container {c.spec.name}"
    elif c.stop is not None and (old is None or old.stop is None):
        probe = "liveness" if c.up else "startup"
        yield "Warning", "Unhealthy", f"{probe.capitalize()} probe failed: set by an annotation of the pod"
        name = f"{'Init container' if c.role is not Role.MAIN else 'Container'} {c.spec.name}"
        yield "Normal", "Killing", f"{name} failed {probe} probe{', will be restarted' if c.role is Role.MAIN else ''}"


class KubeletEvents:
    """Recorder of Events in the name of the kubelets of several nodes."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._recorder = EventRecorder(transport, component="kubelet", clock=clock)

    async def run(self) -> None:
        """Write Events until cancelled."""
        await self._recorder.run(writers=1)  # kept in order

    def record_pod(self, pod: Pod, node: str, event: PodEvent) -> None:
        """Record an Event about a pod of a node; never waits."""
        meta = pod.metadata
        reference = ObjectReference(
            api_version="v1",
            kind="Pod",
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            field_path=event.field_path,
        )
        self._record(reference, node, event)

    def record_node(self, node: str, uid: str, event: PodEvent) -> None:
        """Record an Event about a node; never waits."""
        reference = ObjectReference(api_version="v1", kind="Node", name=node, uid=uid)
        self._record(reference, node, event)

    def _record(self, regarding: ObjectReference, node: str, event: PodEvent) -> None:
        record = Record(regarding=regarding, type=event.type, reason=event.reason, message=event.message)
        self._recorder.record(record, host=node)
