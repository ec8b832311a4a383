"""The state of a pod on a node as a value: its containers, and the phase that follows from them.

Kubernetes: `pkg/kubelet/kubelet_pods.go` (getPhase), `pkg/kubelet/status` (a terminal phase only once nothing runs).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from volcanoio.localcluster.nodes.pods.behaviour import Behaviour
from volcanoio.localcluster.nodes.pods.containers import ContainerRun, Role, State
from volcanoio.model.core import Pod


class Phase(StrEnum):
    """Value of a pod's `status.phase`."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class RunContext(msgspec.Struct, frozen=True):
    """Node-dependent facts of a run.

    Addresses, earlier starts of this pod's place, and containers with a runtime.
    """

    host_ip: str = ""
    pod_ip: str = ""
    earlier_starts: int = 0
    external: frozenset[str] = frozenset()


class PodRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """State of a pod on a node. Times are epoch seconds.

    `earlier_starts` counts starts of this pod's place in its job before this pod. `volumes_at` is when all its
    volumes
    were found, None before. `pulled` are images that are there. `ending_at` is since when all of it is to end: it
    was
    deleted, evicted, too old, or has nothing left to do. `reason` and `message` are set when it failed as a whole.
    """

    pod: Pod
    behaviour: Behaviour
    containers: tuple[ContainerRun, ...]
    accepted_at: float
    host_ip: str = ""
    pod_ip: str = ""
    earlier_starts: int = 0
    volumes_at: float | None = None
    pulled: frozenset[str] = frozenset()
    ending_at: float | None = None
    kill_at: float = 0.0
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
        """Whether all containers of the pod have ended for good."""
        return self.ending_at is not None and not any(c.state is State.RUNNING or c.starting for c in self.containers)

    @property
    def done(self) -> bool:
        """Whether all main containers ended for good, or an init container failed for good."""
        left = False
        for c in self.containers:
            if c.state is not State.TERMINATED:
                left = left or c.role is Role.MAIN
            elif c.role is Role.INIT and c.failed:
                return True
        return not left

    @property
    def stuck(self) -> bool:
        """Whether the manifest prevents the pod from ever starting."""
        return any(c.waiting == "CreateContainerConfigError" for c in self.containers)

    @property
    def phase(self) -> Phase:
        """Value of `status.phase`."""
        if self.finished:
            well = not self.reason and all(c.succeeded for c in self.containers if c.role is not Role.SIDECAR)
            return Phase.SUCCEEDED if well else Phase.FAILED
        return Phase.PENDING if any(c.never_started for c in self.containers if c.role is Role.MAIN) else Phase.RUNNING

    @property
    def initialized_at(self) -> float | None:
        """Time when the last init container ended and the last sidecar started; None before that."""
        done = self.accepted_at
        for c in self.containers:
            if c.role is Role.INIT:
                if not c.succeeded or c.ended is None:
                    return None
                done = max(done, c.ended.finished_at)
            elif c.role is Role.SIDECAR:
                if not c.up and not self._has_run_mains:
                    return None
                done = max(done, c.started_at)
        return done

    @property
    def _has_run_mains(self) -> bool:
        return any(not c.never_started for c in self.containers if c.role is Role.MAIN)

    @property
    def due(self) -> float | None:
        """Time of the next change that needs no event from outside; None for never."""
        if self.finished:
            return None
        first = self.deadline if self.ending_at is None else None
        for c in self.containers:
            moment = c.next
            if moment is not None and (first is None or moment < first):
                first = moment
        return first

    @property
    def ends_at(self) -> float | None:
        """Time when the last container of a terminating pod ends; None while unknown."""
        if self.ending_at is None:
            return None
        last = self.ending_at
        for c in self.containers:
            if c.state is State.RUNNING or c.starting:
                if c.stop is None or c.stop.end_at is None:
                    return None
                last = max(last, c.stop.end_at)
        return last

    @property
    def futile(self) -> bool:
        """Whether only pulls of an image that fails again are left to do."""
        coming = [c.waiting for c in self.containers if c.next is not None]
        return self.deadline is None and all(each in ("ErrImagePull", "ImagePullBackOff") for each in coming)

    @property
    def deadline(self) -> float | None:
        """Time when `activeDeadlineSeconds` ends the pod."""
        limit = self.pod.spec.active_deadline_seconds
        return None if limit is None else self.accepted_at + limit

    @property
    def grace(self) -> float:
        """Grace period of the manifest, in seconds."""
        seconds = self.pod.spec.termination_grace_period_seconds
        return 30.0 if seconds is None else float(seconds)

    @property
    def full_name(self) -> str:
        """Name of the pod in a kubelet's messages."""
        meta = self.pod.metadata
        return f"{meta.name}_{meta.namespace}({meta.uid})"

    def with_container(self, index: int, container: ContainerRun) -> PodRun:
        """Return the pod with one container replaced."""
        containers = (*self.containers[:index], container, *self.containers[index + 1 :])
        return msgspec.structs.replace(self, containers=containers)
