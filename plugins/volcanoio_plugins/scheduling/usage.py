"""Plugin usage: busy nodes get nothing more, and less busy nodes are preferred (Volcano: plugins/usage).

The load of a node comes from the source `node-metrics`. Recently started tasks are not in these metrics yet, so their
load is estimated: request·request_ratio + (limit − request)·burst_ratio, times risk_factor if the node is at risk
already; never more than the task's limit, or its request if that is not below it.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.sources import NODE_METRICS, node_usage
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Job, NodeRow, Nodes, Shape, Task, TaskStatus
from volcanoio.model.resources import CPU, MEMORY
from volcanoio.model.times import epoch_or_none

_MIB = 1 << 20
_STARTING = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND)
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]


class EstimatorArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`be_cpu` (milli-cores) and `be_mem` (MiB) are the estimates of pods that request neither cpu nor memory."""

    request_ratio: Fraction = 0.7
    burst_ratio: Fraction = 0.0
    risk_threshold: Fraction = 0.6
    risk_factor: Annotated[float, msgspec.Meta(ge=1)] = 1.2
    be_cpu: Annotated[int, msgspec.Meta(ge=0)] = 250
    be_mem: Annotated[int, msgspec.Meta(ge=0)] = 200


class Load(NamedTuple):
    """An estimate of cpu (milli-cores) and memory (bytes), and of both if the node is at risk."""

    cpu: float
    memory: float
    risky_cpu: float
    risky_memory: float


class Estimator:
    """Estimates load by shape."""

    def __init__(self, given: EstimatorArguments) -> None:
        self._given = given
        self._cached: dict[int, Load] = {}

    def of(self, shape: Shape) -> Load:
        """Return the load of one task."""
        if (load := self._cached.get(shape.id)) is None:
            factor = self._given.risk_factor
            if shape.requests.get(CPU) or shape.requests.get(MEMORY):
                plain, risky = self._estimates(shape, 1.0), self._estimates(shape, factor)
            else:
                plain = float(self._given.be_cpu), float(self._given.be_mem * _MIB)
                risky = plain[0] * factor, plain[1] * factor
            load = self._cached[shape.id] = Load(*plain, *risky)
        return load

    def _estimates(self, shape: Shape, factor: float) -> tuple[float, float]:
        return self._estimate(shape, CPU, factor), self._estimate(shape, MEMORY, factor)

    def _estimate(self, shape: Shape, name: str, factor: float) -> float:
        request = shape.requests.get(name, 0)
        limit = max(shape.limits.get(name, 0), request)
        amount = request * self._given.request_ratio + (limit - request) * self._given.burst_ratio
        return min(amount * factor, float(limit))


class UnmeasuredTasks:
    """Tasks that are not in their node's metrics yet: starting ones, and those that run for less than `every`.

    Kept across cycles: only changed jobs are read again.
    """

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._by_job: dict[str, list[tuple[float, str, Load]]] = {}

    def update(self, jobs: Iterable[Job], now: float, every: float) -> None:
        """Read these jobs again."""
        for job in jobs:
            unmeasured = []
            if job.count(*_STARTING, TaskStatus.RUNNING):
                unmeasured = [
                    (until, task.node, self._estimator.of(task.shape))
                    for task in job.tasks
                    if (until := _unmeasured_until(task, every)) > now and task.node
                ]
            if unmeasured:
                self._by_job[job.key] = unmeasured
            else:
                self._by_job.pop(job.key, None)

    def loads(self, jobs: Iterable[str], now: float) -> list[tuple[str, Load]]:
        """Return node and load of every unmeasured task; jobs that are not among `jobs` are removed."""
        known = set(jobs) if self._by_job else set()
        found: list[tuple[str, Load]] = []
        for key in list(self._by_job):
            left = [unmeasured for unmeasured in self._by_job[key] if unmeasured[0] > now] if key in known else []
            if left:
                self._by_job[key] = left
                found.extend((node, load) for _, node, load in left)
            else:
                del self._by_job[key]
        return found


def _unmeasured_until(task: Task, every: float) -> float:
    if task.status in _STARTING:
        return float("inf")
    if task.status is not TaskStatus.RUNNING:
        return 0.0
    return (epoch_or_none(task.pod.status.start_time) or 0.0) + every


MAX_AGE = 300.0
"""Seconds after which metrics are ignored."""
_DEFAULT_EVERY = 30.0

Floats = NDArray[np.float64]


class NodeLoads:
    """Columns over the nodes of a session: `cpu` and `memory` in percent, `fresh` if they are recent.

    `every` is the polling interval (seconds); `changed` whether anything differs from the last session.
    """

    def __init__(self, given: EstimatorArguments, weights: tuple[int, int]) -> None:
        self._given = given
        self._weights = weights
        self._ratios = given.request_ratio, min(given.request_ratio * given.risk_factor, 1.0)
        """The fraction of a request that counts at once, and that for a node at risk."""
        self.every = _DEFAULT_EVERY
        self.changed = True
        self.cpu: Floats = np.zeros(0)
        self.memory: Floats = np.zeros(0)
        self.fresh: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._at: Floats = np.zeros(0)
        self._version = -1
        self._nodes: Nodes | None = None
        self._names: list[str] = []
        self._row: dict[str, int] = {}
        self._unmeasured: dict[str, tuple[Floats, Floats]] = {}
        self._before: dict[str, NDArray[np.int64]] = {}

    def read(self, session: SessionView) -> None:
        """Read new metrics or nodes as a session opens."""
        self._nodes = session.nodes
        names = list(session.nodes.names)
        fresh, before = self.fresh, self._before
        self.changed = names != self._names or session.version(NODE_METRICS) != self._version
        if self.changed:
            self._version = session.version(NODE_METRICS)
            self._names, self._row = names, {name: row for row, name in enumerate(names)}
            self._read_facts(session.facts(NODE_METRICS))
        self.fresh = self._at + MAX_AGE >= session.now
        self._before = {name: session.nodes.used(name).copy() for name in (CPU, MEMORY)}
        self.changed = self.changed or not np.array_equal(fresh, self.fresh)
        self.changed = self.changed or any(
            not np.array_equal(used, before[name]) for name, used in self._before.items()
        )

    def add(self, unmeasured: Iterable[tuple[str, Load]]) -> None:
        """Add the loads of unmeasured tasks."""
        size = len(self._names)
        cpu, memory, risky_cpu, risky_memory = (np.zeros(size) for _ in range(4))
        for node, load in unmeasured:
            if (row := self._row.get(node)) is not None:
                cpu[row] += load.cpu
                memory[row] += load.memory
                risky_cpu[row] += load.risky_cpu
                risky_memory[row] += load.risky_memory
        old, self._unmeasured = self._unmeasured, {CPU: (cpu, risky_cpu), MEMORY: (memory, risky_memory)}
        self.changed = self.changed or any(
            not np.array_equal(old[name], loads) for name, loads in self._unmeasured.items()
        )

    def rows(self, nodes: Nodes) -> NDArray[np.intp] | slice:
        """Return the rows of these nodes in the columns."""
        if nodes is self._nodes:
            return slice(0, len(nodes))
        row = self._row
        return np.fromiter((row[name] for name in nodes.names), np.intp, len(nodes))

    def fractions(self, nodes: Nodes, rows: NDArray[np.intp] | slice) -> tuple[Floats, Floats]:
        """Return the used fractions of cpu and memory, 0 to 1: metrics, unmeasured tasks and placements since.

        A node is at risk if their weighted mean reaches the threshold.
        """
        cpu, memory = (self._fraction(nodes, rows, name, risky=False) for name in (CPU, MEMORY))
        at_risk = self._combined(cpu, memory) >= self._given.risk_threshold
        if at_risk.any():
            cpu = np.where(at_risk, self._fraction(nodes, rows, CPU, risky=True), cpu)
            memory = np.where(at_risk, self._fraction(nodes, rows, MEMORY, risky=True), memory)
        return cpu, memory

    def fractions_on(self, node: NodeRow) -> tuple[float, float]:
        """Return the used fractions of cpu and memory of one node."""
        cpu, memory = self._fraction_on(node, CPU, risky=False), self._fraction_on(node, MEMORY, risky=False)
        if self._combined(cpu, memory) >= self._given.risk_threshold:
            cpu, memory = self._fraction_on(node, CPU, risky=True), self._fraction_on(node, MEMORY, risky=True)
        return cpu, memory

    def _combined(self, cpu: Any, memory: Any) -> Any:
        """Return the weighted mean of both fractions; numbers or columns."""
        weights = self._weights
        return (cpu * weights[0] + memory * weights[1]) / max(sum(weights), 1)

    def _fraction(self, nodes: Nodes, rows: NDArray[np.intp] | slice, resource: str, *, risky: bool) -> Floats:
        real = (self.cpu if resource == CPU else self.memory)[rows] / 100
        capacity = np.maximum(nodes.allocatable(resource), 1)
        placed = (nodes.used(resource) - self._before[resource][rows]) * self._ratios[risky]
        part: Floats = np.minimum(real + (self._unmeasured[resource][risky][rows] + placed) / capacity, 1.0)
        return part

    def _fraction_on(self, node: NodeRow, resource: str, *, risky: bool) -> float:
        row = node.row
        real = (self.cpu if resource == CPU else self.memory).item(row) / 100
        capacity = max(node.allocatable(resource), 1)
        placed = (node.used(resource) - self._before[resource].item(row)) * self._ratios[risky]
        return min(real + (self._unmeasured[resource][risky].item(row) + placed) / capacity, 1.0)

    def _read_facts(self, facts: Mapping[str, Any]) -> None:
        size = len(self._names)
        self.cpu, self.memory = np.zeros(size), np.zeros(size)
        self._at = np.full(size, -np.inf)
        for name, fact in facts.items():
            if (row := self._row.get(name)) is not None and (usage := node_usage(fact)) is not None:
                self.cpu[row], self.memory[row], self._at[row] = usage.cpu, usage.memory, usage.at
                self.every = usage.every


MAX_SCORE = 100
CPU_BUSY = "the CPU load of the node exceeds the upper limit."
MEMORY_BUSY = "the memory load of the node exceeds the upper limit."

Limit = Annotated[float, msgspec.Meta(ge=0, le=100)]


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Percent of cpu and memory in use above which a node gets nothing more."""

    cpu: Limit = 80.0
    mem: Limit = 80.0


class UsageArguments(msgspec.Struct, frozen=True):
    """Weights of the score, and of cpu and memory in it; a negative one means its default."""

    weight: int = msgspec.field(default=5, name="usage.weight")
    cpu: int = msgspec.field(default=1, name="cpu.weight")
    memory: int = msgspec.field(default=1, name="memory.weight")
    thresholds: Thresholds = Thresholds()
    estimator: EstimatorArguments = EstimatorArguments()


class Usage:
    """score = ((1 − c)·cpu.weight + (1 − m)·memory.weight) / sum of both × 100 × usage.weight.

    c and m are used fractions, estimates included, at most 1. A node whose metrics are old scores 0 and passes.
    """

    name = "usage"
    reads = (NODE_METRICS,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, UsageArguments, self.name)
        self._weights = (given.cpu if given.cpu >= 0 else 1, given.memory if given.memory >= 0 else 1)
        weight = given.weight if given.weight >= 0 else 5
        self._factor = float(MAX_SCORE * weight) / sum(self._weights) if any(self._weights) else 0.0
        self._limits = given.thresholds
        self._unmeasured = UnmeasuredTasks(Estimator(given.estimator))
        self._loads = NodeLoads(given.estimator, self._weights)
        self.moment = 0

    def open(self, session: SessionView) -> None:
        """Read the metrics and the placements since."""
        loads = self._loads
        loads.read(session)
        self._unmeasured.update(session.changed_jobs(self), session.now, loads.every)
        loads.add(self._unmeasured.loads(session.jobs, session.now))
        self.moment += loads.changed

    def feasible_depends(self, shape: Shape) -> Depends:  # noqa: ARG002 - the same for all shapes
        """Depend on the metrics and their age."""
        return Depends.SOURCE | Depends.NOW

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:  # noqa: ARG002 - the same for all shapes
        """Return nodes that are not too busy."""
        rows = self._loads.rows(nodes)
        fresh = self._loads.fresh[rows]
        cpu = fresh & (self._loads.cpu[rows] > self._limits.cpu)
        memory = fresh & (self._loads.memory[rows] > self._limits.mem)
        return Feasibility(~cpu & ~memory, ((CPU_BUSY, cpu), (MEMORY_BUSY, memory)))

    def score_depends(self, shape: Shape) -> Depends:  # noqa: ARG002 - the same for all shapes
        """Depend on the metrics, their age, and the placements since."""
        if not self._factor:
            return Depends.NOTHING
        return Depends.SOURCE | Depends.NOW | Depends.NODE_USAGE | Depends.NODE_AMOUNTS

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:  # noqa: ARG002 - not relative to other nodes
        """Score all nodes."""
        if not self._factor:
            return np.zeros(len(nodes))
        rows = self._loads.rows(nodes)
        cpu, memory = self._weights
        cpu_part, memory_part = self._loads.fractions(nodes, rows)
        total = (1 - cpu_part) * cpu + (1 - memory_part) * memory
        return np.where(self._loads.fresh[rows], total * self._factor, 0.0)

    def score_on(self, shape: Shape, node: NodeRow) -> float:  # noqa: ARG002 - the same for all shapes
        """Score one node: the same operations in the same order."""
        if not self._factor or not self._loads.fresh.item(node.row):
            return 0.0
        cpu, memory = self._weights
        cpu_part, memory_part = self._loads.fractions_on(node)
        total = (1 - cpu_part) * cpu + (1 - memory_part) * memory
        return total * self._factor
