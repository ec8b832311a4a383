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
from volcanoio_plugins.scheduling.loadestimate import EstimatorArguments, Load

STALE = 300.0
"""Seconds after which figures say nothing any more."""
_DEFAULT_EVERY = 30.0

Floats = NDArray[np.float64]


class NodeLoads:
    """Columns over the nodes of a session, by row: `cpu` and `memory` in percent, `fresh` where they are not old.

    `every` is how often figures are asked for (seconds); `moved` whether anything is other than in the last session.
    """

    def __init__(self, given: EstimatorArguments) -> None:
        self._given = given
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

    def part(self, nodes: Nodes, rows: NDArray[np.intp] | slice, resource: str) -> Floats:
        """The part of a resource in use, 0 to 1, of some nodes: figures, young tasks, and what was placed since."""
        plain, risky = self._young[resource]
        real = (self.cpu if resource == CPU else self.memory)[rows] / 100
        capacity = np.maximum(nodes.allocatable(resource), 1)
        placed = (nodes.used(resource) - self._before[resource][rows]) * self._given.request_ratio
        part = real + (plain[rows] + placed) / capacity
        at_risk = real + (risky[rows] + placed * self._given.risk_factor) / capacity
        return np.minimum(np.where(part >= self._given.risk_threshold, at_risk, part), 1.0)

    def part_on(self, node: NodeRow, resource: str) -> float:
        """As `part`, of one node."""
        plain, risky = self._young[resource]
        row = node.row
        real = (self.cpu if resource == CPU else self.memory).item(row) / 100
        capacity = max(node.allocatable(resource), 1)
        placed = (node.used(resource) - self._before[resource].item(row)) * self._given.request_ratio
        part = real + (plain.item(row) + placed) / capacity
        if part >= self._given.risk_threshold:
            part = real + (risky.item(row) + placed * self._given.risk_factor) / capacity
        return min(part, 1.0)

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
