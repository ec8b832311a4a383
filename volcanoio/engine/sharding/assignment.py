"""Assignment of nodes to schedulers: each in turn filters, orders and cuts the nodes that earlier ones did not take.

Source: Volcano pkg/controllers/sharding. Unlike there, more than 50 nodes are not divided into batches, in each of
which a node limit would count again. `RequestsByNode` sums what pods request of each node, by which policies choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from volcanoio.engine.sharding.configuration import SchedulerShard
from volcanoio.engine.sharding.policies import Filters, NodeFacts, Scores, Selects
from volcanoio.framework.events import Change, Observed
from volcanoio.model.core import Node, Pod
from volcanoio.model.resources import CPU, MEMORY, stored_amounts

CHANGED_SHARE = 0.1
"""Share of a shard's nodes that must differ before it is written, if their number stays the same."""


def assign(schedulers: Sequence[SchedulerShard], nodes: Iterable[NodeFacts]) -> dict[str, tuple[str, ...]]:
    """Return the sorted nodes of each scheduler, by its name; no node has two."""
    left = sorted(nodes, key=lambda node: node.name)
    assigned: dict[str, tuple[str, ...]] = {}
    for scheduler in schedulers:
        names = sorted(node.name for node in _choose(scheduler, left))
        assigned[scheduler.name] = tuple(names)
        taken = frozenset(names)
        left = [node for node in left if node.name not in taken]
    return assigned


def _choose(scheduler: SchedulerShard, nodes: Sequence[NodeFacts]) -> Sequence[NodeFacts]:
    filters = [policy for policy, _ in scheduler.policies if isinstance(policy, Filters)]
    chosen: Sequence[NodeFacts] = [node for node in nodes if all(each.accepts(node) for each in filters)]
    if scorers := [(policy, weight) for policy, weight in scheduler.policies if isinstance(policy, Scores)]:
        chosen = sorted(chosen, key=lambda node: -sum(weight * policy.score(node) for policy, weight in scorers))
    for policy, _ in scheduler.policies:
        if isinstance(policy, Selects):
            chosen = policy.select(chosen)
    return chosen


def due_writes(
    assigned: Mapping[str, tuple[str, ...]], stored: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Return the shards to write, by name: all that differ, if any of them differs enough or is missing."""
    differing = {
        name: nodes for name, nodes in assigned.items() if name not in stored or set(stored[name]) != set(nodes)
    }
    enough = any(name not in stored or _is_large(stored[name], nodes) for name, nodes in differing.items())
    return differing if enough else {}  # one alone could leave a node in two shards


def _is_large(stored: Sequence[str], nodes: Sequence[str]) -> bool:
    before, after = set(stored), set(nodes)
    changed = max(len(before - after), len(after - before))
    return len(before) != len(after) or changed >= max(1, ceil(CHANGED_SHARE * len(after)))


MIRROR_POD = "kubernetes.io/config.mirror"
"""Annotation of the API objects that kubelets create for static pods."""
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
