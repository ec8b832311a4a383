"""Plugin rescheduling: moves tasks off overutilized nodes (Volcano: pkg/scheduler/plugins/rescheduling).

Once per interval its strategies select victims for action shuffle. The strategy lowNodeUtilization
(low_node_utilization.go): a node is low if all of cpu, memory and pods are below `thresholds` and it is schedulable,
overloaded if any is above `targetThresholds`. Tasks leave the busiest nodes first, by priority and quality of service,
until a node is at its target or the low nodes have no room left.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from volcanoio.framework.arguments import ArgumentError, GoDuration, convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.sources import NODE_METRICS, node_usage
from volcanoio.framework.scheduling.views import Task
from volcanoio.model.core import Container
from volcanoio.model.resources import CPU, MEMORY, PODS

DIMENSIONS = (CPU, MEMORY, PODS)
NO_CLASS = ""
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Percent in use. `pod` is another spelling of `pods`."""

    cpu: Percent = 100.0
    memory: Percent = 100.0
    pods: Percent | None = None
    pod: Percent | None = None

    def of(self, name: str) -> float:
        """Return the threshold of one of DIMENSIONS."""
        if name != PODS:
            return self.cpu if name == CPU else self.memory
        return next((given for given in (self.pods, self.pod) if given is not None), 100.0)


class LowNodeUtilizationArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Thresholds and exceptions of the strategy.

    `thresholdPriorityClassName` protects tasks of that priority and above; `nodeFit` those that fit no low node.
    """

    thresholds: Thresholds = Thresholds()
    target: Thresholds = msgspec.field(default=Thresholds(), name="targetThresholds")
    priority_class: str = msgspec.field(default=NO_CLASS, name="thresholdPriorityClassName")
    node_fit: bool = msgspec.field(default=False, name="nodeFit")


class _Node(NamedTuple):
    """A node and its usage in scheduling units; `free` is what the scheduler can still allocate."""

    name: str
    capacity: Mapping[str, int]
    used: dict[str, float]
    free: dict[str, int]

    def above(self, limits: Thresholds) -> bool:
        """Return whether any dimension is above its limit."""
        return any(self.used[name] * 100 > limits.of(name) * self.capacity[name] for name in DIMENSIONS)

    def below(self, limits: Thresholds) -> bool:
        """Return whether all dimensions are below their limits."""
        return all(self.used[name] * 100 < limits.of(name) * self.capacity[name] for name in DIMENSIONS)

    @property
    def score(self) -> float:
        return sum(self.used[name] / max(self.capacity[name], 1) for name in (CPU, MEMORY))


def select_victims(session: SessionView, candidates: Sequence[Task], given: LowNodeUtilizationArguments) -> list[Task]:
    """Return the tasks to evict."""
    nodes = _nodes(session)
    cordoned = {node.metadata.name for node in session.nodes.objects if node.spec.unschedulable}
    low = [node for node in nodes if node.name not in cordoned and node.below(given.thresholds)]
    overloaded = {node.name for node in nodes if node.above(given.target)} - {node.name for node in low}
    high = sorted((node for node in nodes if node.name in overloaded), key=lambda node: (-node.score, node.name))
    if not low or not high:
        return []
    capacity_left = {
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
        for task in sorted(by_node.get(node.name, ()), key=_eviction_order):
            if not node.above(given.target) or min(capacity_left.values()) <= 0:
                break
            if given.node_fit and not _reserve_on(low, task):
                continue
            chosen.append(task)
            for name in DIMENSIONS:
                amount = task.shape.requests.get(name, 0)
                node.used[name] -= amount
                capacity_left[name] -= amount
    return chosen


def _nodes(session: SessionView) -> list[_Node]:
    """Return the nodes with metrics."""
    columns, facts = session.nodes, session.facts(NODE_METRICS)
    capacity = {name: columns.allocatable(name).tolist() for name in DIMENSIONS}
    pods = columns.used(PODS).tolist()
    free = {name: columns.future_idle(name).tolist() for name in DIMENSIONS}
    found = []
    for row, name in enumerate(columns.names):
        if (usage := node_usage(facts.get(name))) is not None:
            whole = {each: capacity[each][row] for each in DIMENSIONS}
            used = {
                CPU: usage.cpu / 100 * whole[CPU],
                MEMORY: usage.memory / 100 * whole[MEMORY],
                PODS: float(pods[row]),
            }
            found.append(_Node(name, whole, used, {each: free[each][row] for each in DIMENSIONS}))
    return found


def _reserve_on(low: Iterable[_Node], task: Task) -> bool:
    """Reserve room for a task on a low node; return whether there is any."""
    asked = {name: task.shape.requests.get(name, 0) for name in DIMENSIONS}
    for node in low:
        if all(node.free[name] >= amount for name, amount in asked.items()):
            for name, amount in asked.items():
                node.free[name] -= amount
            return True
    return False


def _priority_of(name: str, tasks: Iterable[Task]) -> int | None:
    if name == NO_CLASS:
        return None
    if name in _SYSTEM_CLASSES:
        return _SYSTEM_CLASSES[name]
    return next((task.priority for task in tasks if task.priority_class_name == name), None)


def _eviction_order(task: Task) -> tuple[int, int, str, str]:
    """Order by priority, then BestEffort before Burstable before Guaranteed."""
    return task.priority, _qos(task), task.namespace, task.name


def _qos(task: Task) -> int:
    """Return 0 for BestEffort, 1 for Burstable, 2 for Guaranteed (Kubernetes: GetPodQOS)."""
    containers = (*task.pod.spec.containers, *task.pod.spec.init_containers)
    if not any(_asked(each, CPU) or _asked(each, MEMORY) for each in containers):
        return 0
    return 2 if all(_guaranteed(each) for each in containers) else 1


def _asked(container: Container, name: str) -> Any:
    return container.resources.requests.get(name) or container.resources.limits.get(name)


def _guaranteed(container: Container) -> bool:
    """Return whether cpu and memory have limits, and requests equal to them or left out."""
    limits, requests = container.resources.limits, container.resources.requests
    return all(name in limits and requests.get(name, limits[name]) == limits[name] for name in (CPU, MEMORY))


DEFAULT_INTERVAL = 300.0


class StrategyArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One strategy; only lowNodeUtilization exists."""

    name: Literal["lowNodeUtilization"]
    params: LowNodeUtilizationArguments = LowNodeUtilizationArguments()


class ReschedulingArguments(msgspec.Struct, frozen=True):
    """`metricsPeriod` has no effect: metrics are averages over ten minutes."""

    interval: GoDuration = GoDuration(DEFAULT_INTERVAL)
    metrics_period: GoDuration = msgspec.field(default=GoDuration(DEFAULT_INTERVAL), name="metricsPeriod")
    strategies: tuple[StrategyArguments, ...] = (StrategyArguments(name="lowNodeUtilization"),)


class Rescheduling:
    """Selects the victims of its strategies; for the first time an interval after its first session."""

    name = "rescheduling"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, ReschedulingArguments, self.name)
        if not given.interval:
            raise ArgumentError(f"{self.name}: interval must be more than 0; write for example 5m", key="interval")
        self._interval = given.interval
        self._strategies = given.strategies
        self._due: float | None = None
        self._session: SessionView | None = None

    def open(self, session: SessionView) -> None:
        """Keep the session."""
        self._session = session
        if self._due is None:
            self._due = session.now + self._interval

    def victims(self, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return the victims of the strategies, once an interval."""
        assert self._session is not None
        if self._due is None or self._session.now < self._due:
            return []
        self._due = self._session.now + self._interval
        named: dict[str, Task] = {}
        for strategy in self._strategies:
            named.update({task.uid: task for task in select_victims(self._session, candidates, strategy.params)})
        return list(named.values())
