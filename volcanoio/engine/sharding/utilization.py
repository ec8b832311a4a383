"""What pods request of each node, kept up to date with every change of a pod."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from volcanoio.framework.events import Change, Observed
from volcanoio.model.core import Node, Pod
from volcanoio.model.resources import CPU, MEMORY, stored_amounts

MIRROR_POD = "kubernetes.io/config.mirror"
"""Annotation of the copies that kubelets show of static pods."""
FINISHED = ("Succeeded", "Failed")


class Requested(NamedTuple):
    """CPU (millicores) and memory (bytes)."""

    cpu: int = 0
    memory: int = 0


def counted_request(pod: Pod) -> Requested | None:
    """Return what a pod requests of its node; None if it does not count there."""
    if not pod.spec.node_name or pod.status.phase in FINISHED or MIRROR_POD in pod.metadata.annotations:
        return None
    cpu = memory = 0
    for container in pod.spec.containers:
        amounts = stored_amounts(container.resources.requests)
        cpu += amounts.get(CPU, 0)
        memory += amounts.get(MEMORY, 0)
    return Requested(cpu, memory)


class RequestsByNode:
    """Sums by node name."""

    def __init__(self) -> None:
        self._sums: dict[str, Requested] = {}

    def rebuild(self, pods: Iterable[Pod]) -> None:
        """Sum all pods again."""
        self._sums.clear()
        for pod in pods:
            self._add(pod, 1)

    def observe(self, event: Observed) -> str:
        """Follow a change of a pod; return the node whose sum changed, "" if none did."""
        before = event.previous if event.change is Change.CHANGED else event.object if _is_gone(event) else None
        node = self._add(before, -1) if isinstance(before, Pod) else ""
        return (self._add(event.object, 1) or node) if not _is_gone(event) else node

    def _add(self, pod: Pod, sign: int) -> str:
        if (requested := counted_request(pod)) is None:
            return ""
        node = pod.spec.node_name
        total = self._sums.get(node, Requested())
        self._sums[node] = Requested(total.cpu + sign * requested.cpu, total.memory + sign * requested.memory)
        return node

    def utilization(self, node: Node) -> tuple[float | None, float | None]:
        """Return the requested shares of a node's CPU and memory capacity, at most 1; None without a capacity."""
        capacity, requested = stored_amounts(node.status.capacity), self._sums.get(node.metadata.name, Requested())
        return _share(requested.cpu, capacity.get(CPU, 0)), _share(requested.memory, capacity.get(MEMORY, 0))


def _is_gone(event: Observed) -> bool:
    return event.change is Change.GONE


def _share(requested: int, capacity: int) -> float | None:
    return min(requested / capacity, 1.0) if capacity > 0 else None
