"""Strategy lowNodeUtilization: from nodes that are used too much to room on nodes that are used little.

Source: Volcano pkg/scheduler/plugins/rescheduling/low_node_utilization.go. A node is low where all of cpu, memory and
pods are below `thresholds` and it is schedulable, high where any is above `targetThresholds`. Tasks leave the busiest
nodes first, by priority and quality of service, until a node is at its target or the low nodes have no room left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.sources import NODE_METRICS, NodeUsage
from volcanoio.framework.scheduling.views import Task
from volcanoio.model.core import Container
from volcanoio.model.resources import CPU, MEMORY, PODS

DIMENSIONS = (CPU, MEMORY, PODS)
NO_CLASS = ""
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Percent in use. `pod` is another way to write `pods`."""

    cpu: Percent = 100.0
    memory: Percent = 100.0
    pods: Percent | None = None
    pod: Percent | None = None

    def of(self, name: str) -> float:
        """The threshold of one of DIMENSIONS."""
        if name != PODS:
            return self.cpu if name == CPU else self.memory
        return next((given for given in (self.pods, self.pod) if given is not None), 100.0)


class LowNodeUtilizationArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`thresholdPriorityClassName` spares tasks of that priority and above; `nodeFit` those that fit no low node."""

    thresholds: Thresholds = Thresholds()
    target: Thresholds = msgspec.field(default=Thresholds(), name="targetThresholds")
    priority_class: str = msgspec.field(default=NO_CLASS, name="thresholdPriorityClassName")
    node_fit: bool = msgspec.field(default=False, name="nodeFit")


class _Node(NamedTuple):
    """A node and what is used of it, in scheduling units; `free` is what scheduling still has to give."""

    name: str
    capacity: Mapping[str, int]
    used: dict[str, float]
    free: dict[str, int]

    def above(self, limits: Thresholds) -> bool:
        """Whether any dimension is above its limit."""
        return any(self.used[name] * 100 > limits.of(name) * self.capacity[name] for name in DIMENSIONS)

    def below(self, limits: Thresholds) -> bool:
        """Whether all dimensions are below their limits."""
        return all(self.used[name] * 100 < limits.of(name) * self.capacity[name] for name in DIMENSIONS)

    @property
    def score(self) -> float:
        """How much of it is used, cpu and memory together."""
        return sum(self.used[name] / max(self.capacity[name], 1) for name in (CPU, MEMORY))


def overloading(session: SessionView, candidates: Sequence[Task], given: LowNodeUtilizationArguments) -> list[Task]:
    """The tasks to evict."""
    nodes = _nodes(session)
    cordoned = {node.metadata.name for node in session.nodes.objects if node.spec.unschedulable}
    low = [node for node in nodes if node.name not in cordoned and node.below(given.thresholds)]
    gives = {node.name for node in nodes if node.above(given.target)} - {node.name for node in low}
    high = sorted((node for node in nodes if node.name in gives), key=lambda node: (-node.score, node.name))
    if not low or not high:
        return []
    room = {
        name: sum(node.capacity[name] * given.target.of(name) / 100 - node.used[name] for node in low)
        for name in DIMENSIONS
    }
    spared_from = _priority_of(given.priority_class, candidates)
    by_node: dict[str, list[Task]] = {}
    for task in candidates:
        if task.preemptable and (spared_from is None or task.priority < spared_from):
            by_node.setdefault(task.node, []).append(task)
    chosen = []
    for node in high:
        for task in sorted(by_node.get(node.name, ()), key=_first_to_go):
            if not node.above(given.target) or min(room.values()) <= 0:
                break
            if given.node_fit and not _takes(low, task):
                continue
            chosen.append(task)
            for name in DIMENSIONS:
                amount = task.shape.requests.get(name, 0)
                node.used[name] -= amount
                room[name] -= amount
    return chosen


def _nodes(session: SessionView) -> list[_Node]:
    """The nodes of which figures are known."""
    columns, facts = session.nodes, session.facts(NODE_METRICS)
    capacity = {name: columns.allocatable(name).tolist() for name in DIMENSIONS}
    pods = columns.used(PODS).tolist()
    free = {name: columns.future_idle(name).tolist() for name in DIMENSIONS}
    found = []
    for row, name in enumerate(columns.names):
        if name in facts:
            usage = msgspec.convert(facts[name], NodeUsage)
            whole = {each: capacity[each][row] for each in DIMENSIONS}
            used = {
                CPU: usage.cpu / 100 * whole[CPU],
                MEMORY: usage.memory / 100 * whole[MEMORY],
                PODS: float(pods[row]),
            }
            found.append(_Node(name, whole, used, {each: free[each][row] for each in DIMENSIONS}))
    return found


def _takes(low: Iterable[_Node], task: Task) -> bool:
    """Whether a low node has room for a task, which is then taken."""
    asked = {name: task.shape.requests.get(name, 0) for name in DIMENSIONS}
    for node in low:
        if all(node.free[name] >= amount for name, amount in asked.items()):
            for name, amount in asked.items():
                node.free[name] -= amount
            return True
    return False


def _priority_of(name: str, tasks: Iterable[Task]) -> int | None:
    """The priority that a class stands for, as tasks of it show; None where none does."""
    if name == NO_CLASS:
        return None
    if name in _SYSTEM_CLASSES:
        return _SYSTEM_CLASSES[name]
    return next((task.priority for task in tasks if task.priority_class_name == name), None)


def _first_to_go(task: Task) -> tuple[int, int, str, str]:
    """By priority, then BestEffort before Burstable before Guaranteed."""
    return task.priority, _quality(task), task.namespace, task.name


def _quality(task: Task) -> int:
    """0 for BestEffort, 1 for Burstable, 2 for Guaranteed (Kubernetes: GetPodQOS)."""
    containers = (*task.pod.spec.containers, *task.pod.spec.init_containers)
    if not any(_asked(each, CPU) or _asked(each, MEMORY) for each in containers):
        return 0
    return 2 if all(_guaranteed(each) for each in containers) else 1


def _asked(container: Container, name: str) -> Any:
    return container.resources.requests.get(name) or container.resources.limits.get(name)


def _guaranteed(container: Container) -> bool:
    """Whether cpu and memory have limits, and requests that are equal to them or left out."""
    limits, requests = container.resources.limits, container.resources.requests
    return all(name in limits and requests.get(name, limits[name]) == limits[name] for name in (CPU, MEMORY))
