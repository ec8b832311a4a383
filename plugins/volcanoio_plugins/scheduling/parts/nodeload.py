"""How busy every node is in this session: figures of the source, estimates of what is young, and what is placed now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.sources import NODE_METRICS, NodeUsage
from volcanoio.framework.scheduling.views import NodeRow, Nodes
from volcanoio.model.resources import CPU, MEMORY
from volcanoio_plugins.scheduling.parts.loadestimate import EstimatorArguments, Load

STALE = 300.0
"""Seconds after which figures say nothing any more."""
_DEFAULT_EVERY = 30.0

Floats = NDArray[np.float64]


class NodeLoads:
    """Columns over the nodes of a session, by row: `cpu` and `memory` in percent, `fresh` where they are not old.

    `every` is how often figures are asked for (seconds); `moved` whether anything is other than in the last session.
    """

    def __init__(self, given: EstimatorArguments, weights: tuple[int, int]) -> None:
        self._given = given
        self._weights = weights
        self._ratios = given.request_ratio, min(given.request_ratio * given.risk_factor, 1.0)
        """The part of a request that counts at once, and where the node is at risk."""
        self.every = _DEFAULT_EVERY
        self.moved = True
        self.cpu: Floats = np.zeros(0)
        self.memory: Floats = np.zeros(0)
        self.fresh: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._at: Floats = np.zeros(0)
        self._version = -1
        self._nodes: Nodes | None = None
        self._names: list[str] = []
        self._row: dict[str, int] = {}
        self._young: dict[str, tuple[Floats, Floats]] = {}
        self._before: dict[str, NDArray[np.int64]] = {}

    def read(self, session: SessionView) -> None:
        """A session opens: take the figures over, where there are new ones or other nodes."""
        self._nodes = session.nodes
        names = list(session.nodes.names)
        fresh, before = self.fresh, self._before
        self.moved = names != self._names or session.version(NODE_METRICS) != self._version
        if self.moved:
            self._version = session.version(NODE_METRICS)
            self._names, self._row = names, {name: row for row, name in enumerate(names)}
            self._take(session.facts(NODE_METRICS))
        self.fresh = self._at + STALE >= session.now
        self._before = {name: session.nodes.used(name).copy() for name in (CPU, MEMORY)}
        self.moved = self.moved or not np.array_equal(fresh, self.fresh)
        self.moved = self.moved or any(not np.array_equal(used, before[name]) for name, used in self._before.items())

    def add(self, young: Iterable[tuple[str, Load]]) -> None:
        """Count the loads of tasks that no figure shows yet."""
        size = len(self._names)
        cpu, memory, risky_cpu, risky_memory = (np.zeros(size) for _ in range(4))
        for node, load in young:
            row = self._row.get(node)
            if row is not None:
                cpu[row] += load.cpu
                memory[row] += load.memory
                risky_cpu[row] += load.risky_cpu
                risky_memory[row] += load.risky_memory
        old, self._young = self._young, {CPU: (cpu, risky_cpu), MEMORY: (memory, risky_memory)}
        self.moved = self.moved or any(not np.array_equal(old[name], loads) for name, loads in self._young.items())

    def rows(self, nodes: Nodes) -> NDArray[np.intp] | slice:
        """Where these nodes stand in the columns."""
        if nodes is self._nodes:
            return slice(0, len(nodes))
        row = self._row
        return np.fromiter((row[name] for name in nodes.names), np.intp, len(nodes))

    def parts(self, nodes: Nodes, rows: NDArray[np.intp] | slice) -> tuple[Floats, Floats]:
        """The parts of cpu and of memory in use, 0 to 1, of some nodes: figures, young tasks, what was placed since.

        A node is at risk where both together, by their weights, reach the threshold.
        """
        cpu, memory = (self._part(nodes, rows, name, risky=False) for name in (CPU, MEMORY))
        at_risk = self._together(cpu, memory) >= self._given.risk_threshold
        if at_risk.any():
            cpu = np.where(at_risk, self._part(nodes, rows, CPU, risky=True), cpu)
            memory = np.where(at_risk, self._part(nodes, rows, MEMORY, risky=True), memory)
        return cpu, memory

    def parts_on(self, node: NodeRow) -> tuple[float, float]:
        """As `parts`, of one node."""
        cpu, memory = self._part_on(node, CPU, risky=False), self._part_on(node, MEMORY, risky=False)
        if self._together(cpu, memory) >= self._given.risk_threshold:
            cpu, memory = self._part_on(node, CPU, risky=True), self._part_on(node, MEMORY, risky=True)
        return cpu, memory

    def _together(self, cpu: Any, memory: Any) -> Any:
        """Both parts by their weights; numbers or columns."""
        weights = self._weights
        return (cpu * weights[0] + memory * weights[1]) / max(sum(weights), 1)

    def _part(self, nodes: Nodes, rows: NDArray[np.intp] | slice, resource: str, *, risky: bool) -> Floats:
        real = (self.cpu if resource == CPU else self.memory)[rows] / 100
        capacity = np.maximum(nodes.allocatable(resource), 1)
        placed = (nodes.used(resource) - self._before[resource][rows]) * self._ratios[risky]
        part: Floats = np.minimum(real + (self._young[resource][risky][rows] + placed) / capacity, 1.0)
        return part

    def _part_on(self, node: NodeRow, resource: str, *, risky: bool) -> float:
        row = node.row
        real = (self.cpu if resource == CPU else self.memory).item(row) / 100
        capacity = max(node.allocatable(resource), 1)
        placed = (node.used(resource) - self._before[resource].item(row)) * self._ratios[risky]
        return min(real + (self._young[resource][risky].item(row) + placed) / capacity, 1.0)

    def _take(self, facts: Mapping[str, Any]) -> None:
        size = len(self._names)
        self.cpu, self.memory = np.zeros(size), np.zeros(size)
        self._at = np.full(size, -np.inf)
        for name, fact in facts.items():
            row = self._row.get(name)
            if row is not None:
                usage = msgspec.convert(fact, NodeUsage)
                self.cpu[row], self.memory[row], self._at[row] = usage.cpu, usage.memory, usage.at
                self.every = usage.every
