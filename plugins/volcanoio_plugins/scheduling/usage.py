"""Plugin usage: nodes that are busy get nothing more, and the less busy come first (Volcano: plugins/usage).

How busy a node is, the source `node-metrics` says; what was placed since is estimated (`loadestimate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.sources import NODE_METRICS
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import NodeRow, Nodes, Shape
from volcanoio_plugins.scheduling.parts.loadestimate import Estimator, EstimatorArguments, YoungTasks
from volcanoio_plugins.scheduling.parts.nodeload import NodeLoads

MAX_SCORE = 100
CPU_BUSY = "the CPU load of the node exceeds the upper limit."
MEMORY_BUSY = "the memory load of the node exceeds the upper limit."

Limit = Annotated[float, msgspec.Meta(ge=0, le=100)]


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Percent of cpu and memory in use above which a node gets nothing more."""

    cpu: Limit = 80.0
    mem: Limit = 80.0


class UsageArguments(msgspec.Struct, frozen=True):
    """Weights of the score, of cpu and of memory in it; a negative one means its default."""

    weight: int = msgspec.field(default=5, name="usage.weight")
    cpu: int = msgspec.field(default=1, name="cpu.weight")
    memory: int = msgspec.field(default=1, name="memory.weight")
    thresholds: Thresholds = Thresholds()
    estimator: EstimatorArguments = EstimatorArguments()


class Usage:
    """score = ((1 − c)·cpu.weight + (1 − m)·memory.weight) / sum of both × 100 × usage.weight.

    c and m are parts in use, estimates included, at most 1. A node whose figures are old scores 0 and passes.
    """

    name = "usage"
    reads = (NODE_METRICS,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, UsageArguments, self.name)
        self._weights = (given.cpu if given.cpu >= 0 else 1, given.memory if given.memory >= 0 else 1)
        weight = given.weight if given.weight >= 0 else 5
        self._factor = float(MAX_SCORE * weight) / sum(self._weights) if any(self._weights) else 0.0
        self._limits = given.thresholds
        self._young = YoungTasks(Estimator(given.estimator))
        self._loads = NodeLoads(given.estimator, self._weights)
        self.moment = 0

    def open(self, session: SessionView) -> None:
        """Take in the figures and what was placed since."""
        loads = self._loads
        loads.read(session)
        self._young.follow(session.changes(self), session.now, loads.every)
        loads.add(self._young.loads(session.jobs, session.now))
        self.moment += loads.moved

    def feasible_depends(self, shape: Shape) -> Depends:  # noqa: ARG002 - the same for all shapes
        """The figures and their age."""
        return Depends.SOURCE | Depends.NOW

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:  # noqa: ARG002 - the same for all shapes
        """Nodes that are not too busy."""
        rows = self._loads.rows(nodes)
        fresh = self._loads.fresh[rows]
        cpu = fresh & (self._loads.cpu[rows] > self._limits.cpu)
        memory = fresh & (self._loads.memory[rows] > self._limits.mem)
        return Feasibility(~cpu & ~memory, ((CPU_BUSY, cpu), (MEMORY_BUSY, memory)))

    def score_depends(self, shape: Shape) -> Depends:  # noqa: ARG002 - the same for all shapes
        """The figures, their age, and what was placed since."""
        if not self._factor:
            return Depends.NOTHING
        return Depends.SOURCE | Depends.NOW | Depends.NODE_USAGE | Depends.NODE_AMOUNTS

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:  # noqa: ARG002 - not relative to other nodes
        """The score of all nodes."""
        if not self._factor:
            return np.zeros(len(nodes))
        rows = self._loads.rows(nodes)
        cpu, memory = self._weights
        cpu_part, memory_part = self._loads.parts(nodes, rows)
        total = (1 - cpu_part) * cpu + (1 - memory_part) * memory
        return np.where(self._loads.fresh[rows], total * self._factor, 0.0)

    def score_on(self, shape: Shape, node: NodeRow) -> float:  # noqa: ARG002 - the same for all shapes
        """The score of one node: the same operations in the same order."""
        if not self._factor or not self._loads.fresh.item(node.row):
            return 0.0
        cpu, memory = self._weights
        cpu_part, memory_part = self._loads.parts_on(node)
        total = (1 - cpu_part) * cpu + (1 - memory_part) * memory
        return total * self._factor
