"""What is to be done next to the pods of a StatefulSet, and what its status counts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from volcanoio.localcluster.controllers.kinds import ControllerRevision, Workload
from volcanoio.localcluster.controllers.pods import active, available_at, finished, ready, terminating
from volcanoio.localcluster.controllers.quantities import count
from volcanoio.localcluster.controllers.statefulsets.members import first_ordinal, ordinal, revision_of
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod


@dataclass(slots=True)
class Steps:
    """What is to be done now: ordinals to make with their revision, and pods to delete."""

    make: list[tuple[int, ControllerRevision]] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.make or self.delete)


class Rollout:
    """One look at a StatefulSet: its pods by ordinal, those beyond its size, and its two revisions."""

    def __init__(
        self, owner: Workload, pods: Sequence[Pod], current: ControllerRevision, update: ControllerRevision, now: float
    ) -> None:
        spec = owner.spec
        self.owner = owner
        self.current = current
        self.update = update
        self.replicas = count(spec.get("replicas"), 1)
        self._now = now
        self._min_ready = float(spec.get("minReadySeconds") or 0)
        strategy = spec.get("updateStrategy") or {}
        self._rolling = strategy.get("type", "RollingUpdate") == "RollingUpdate"
        rolling = strategy.get("rollingUpdate")
        self._partition = None if rolling is None else count(rolling.get("partition"))
        self.ordered = spec.get("podManagementPolicy") != "Parallel"
        start = first_ordinal(owner)
        numbered = [(number, pod) for pod in pods if (number := ordinal(owner, pod)) is not None]
        self._range = range(start, start + self.replicas)
        self.members = {number: pod for number, pod in numbered if number in self._range}
        beyond = sorted((-number, pod.metadata.uid, pod) for number, pod in numbered if number not in self._range)
        self._condemned = [pod for _, _, pod in beyond]
        self._pods = [pod for _, pod in numbered]

    def steps(self) -> Steps:
        """What is to be done now; in an ordered set one thing at a time, each when what is before it is available."""
        steps = Steps()
        for number in self._range:
            if not self._keep(steps, number) and self.ordered:
                return steps
        if steps:
            return steps
        for pod in self._condemned:
            if not self._retire(steps, pod) and self.ordered:
                return steps
        if not steps and self._rolling:
            steps.delete += self._outdated()
        return steps

    def _keep(self, steps: Steps, number: int) -> bool:
        """See to one ordinal; whether it is as it should be."""
        pod = self.members.get(number)
        if pod is None:
            steps.make.append((number, self._revision(number)))
            return False
        if finished(pod):
            if not terminating(pod):
                steps.delete.append(pod)
            return False
        return self._is_available(pod)

    def _revision(self, number: int) -> ControllerRevision:
        """Of which revision a pod is made anew: those below the partition stay what they were."""
        if not self._rolling:
            return self.update
        old = count(self.owner.status.get("currentReplicas")) if self._partition is None else self._partition
        return self.current if number < self._range.start + old else self.update

    def _retire(self, steps: Steps, pod: Pod) -> bool:
        """See to one pod that is too much; whether the next may go, too."""
        if terminating(pod):
            return False
        if self.ordered and not self._is_available(pod) and pod is not self._first_unavailable():
            return False
        steps.delete.append(pod)
        return False

    def _first_unavailable(self) -> Pod | None:
        members = [self.members[number] for number in self._range if number in self.members]
        return next((pod for pod in (*members, *reversed(self._condemned)) if not self._is_available(pod)), None)

    def _outdated(self) -> Iterator[Pod]:
        """The pod that the update takes next: from the end, each when those after it are available."""
        lowest = self._range.start + (self._partition or 0)
        for number in reversed(self._range):
            pod = self.members.get(number)
            if pod is None or number < lowest:
                return
            if revision_of(pod) != self.update.metadata.name and not terminating(pod):
                yield pod
                return
            if not self._is_available(pod):
                return

    def _is_available(self, pod: Pod) -> bool:
        if not active(pod) or pod.status.phase != "Running":
            return False
        moment = available_at(pod, self._min_ready)
        return moment is not None and moment <= self._now

    def next_availability(self) -> float | None:
        """When the next ready pod becomes available."""
        moments = (available_at(pod, self._min_ready) for pod in self._pods if pod.status.phase == "Running")
        return min((moment for moment in moments if moment is not None and moment > self._now), default=None)

    def status(self) -> Manifest:
        """The status as it should be."""
        running = [pod for pod in self._pods if pod.status.phase == "Running" and ready(pod)]
        available = sum((available_at(pod, self._min_ready) or 0.0) <= self._now for pod in running)
        staying = [revision_of(pod) for pod in self._pods if not terminating(pod)]
        updated = staying.count(self.update.metadata.name)
        current, current_count = self.current.metadata.name, staying.count(self.current.metadata.name)
        if self._rolling and updated == len(running) == len(self._pods) == self.replicas:
            current, current_count = self.update.metadata.name, updated
        counts = {
            "observedGeneration": self.owner.metadata.generation,
            "readyReplicas": len(running),
            "currentReplicas": current_count,
            "updatedReplicas": updated,
        }
        return {
            "replicas": len(self._pods),
            "availableReplicas": available,
            **{name: number for name, number in counts.items() if number},
            "currentRevision": current,
            "updateRevision": self.update.metadata.name,
            "collisionCount": count(self.owner.status.get("collisionCount")),
        }
