"""Plugin nodeorder: Kubernetes' scorers, each 0 to 100 times its weight (Volcano: pkg/scheduler/plugins/nodeorder).

The formulas are in `nodescores`. Preferences (node affinity, soft taints) are normalised over the feasible nodes, so
shapes that have any depend on the whole set; all others on the row's own node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import NodeRow, Nodes, Shape
from volcanoio.model.core import PreferredSchedulingTerm
from volcanoio_plugins.scheduling import nodescores
from volcanoio_plugins.scheduling.nodeindex import Mask, NodeIndex
from volcanoio_plugins.scheduling.nodematch import effective, soft_untolerated


class NodeorderArguments(msgspec.Struct, frozen=True):
    """Weights; 0 turns a scorer off. Image locality, pod affinity and spread have nothing to score by yet: 0."""

    least: int = msgspec.field(default=1, name="leastrequested.weight")
    most: int = msgspec.field(default=0, name="mostrequested.weight")
    balanced: int = msgspec.field(default=1, name="balancedresource.weight")
    affinity: int = msgspec.field(default=2, name="nodeaffinity.weight")
    taints: int = msgspec.field(default=3, name="tainttoleration.weight")
    images: int = msgspec.field(default=1, name="imagelocality.weight")
    pod_affinity: int = msgspec.field(default=2, name="podaffinity.weight")
    spread: int = msgspec.field(default=2, name="podtopologyspread.weight")


class Nodeorder:
    """The sum of the weighted scorers."""

    name = "nodeorder"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._weights = convert(arguments, NodeorderArguments, self.name)
        self._index = NodeIndex()
        self._nodes: Nodes | None = None
        self._soft: dict[int, bool] = {}
        weighted = (
            (self._weights.least, nodescores.least_allocated),
            (self._weights.most, nodescores.most_allocated),
            (self._weights.balanced, nodescores.balanced),
        )
        self._usage = tuple((weight, scorer) for weight, scorer in weighted if weight)
        self._untainted = float(nodescores.MAX * self._weights.taints)

    def open(self, session: SessionView) -> None:
        """Nodes may have changed since the last cycle."""
        self._nodes = session.nodes
        self._index.begin(session.nodes)
        self._soft.clear()

    def score_depends(self, shape: Shape) -> Depends:
        """The node's own amounts, and the feasible set if the shape has preferences among these nodes."""
        depends = Depends.NODE_AMOUNTS | (Depends.NODE_USAGE if self._usage else Depends.NOTHING)
        if self._preferred(shape) or (self._nodes is not None and self._minds_taints(shape, self._nodes)):
            depends |= Depends.NODE_SPEC | Depends.FEASIBLE_SET
        return depends

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The score of all nodes."""
        weights = self._weights
        total = np.zeros(len(nodes))
        for weight, scorer in self._usage:
            scores = scorer(shape, nodes)
            if weight != 1:
                scores *= weight
            total += scores
        if preferred := self._preferred(shape):
            total += self._affinity(preferred, nodes, feasible) * weights.affinity
        if self._minds_taints(shape, self._nodes or nodes):
            total += nodescores.normalised(self._soft_taints(shape, nodes), feasible, reverse=True) * weights.taints
        else:
            total += self._untainted
        return total

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        """The score of one node, for shapes without preferences: the same operations in the same order."""
        weights = self._weights
        total = 0.0
        if weights.least:
            total += nodescores.least_allocated_on(shape, node) * weights.least
        if weights.most:
            total += nodescores.most_allocated_on(shape, node) * weights.most
        if weights.balanced:
            total += nodescores.balanced_on(shape, node) * weights.balanced
        return total + self._untainted

    def _preferred(self, shape: Shape) -> tuple[PreferredSchedulingTerm, ...]:
        """The preferences of the shape that count."""
        affinity = shape.affinity.node_affinity if shape.affinity else None
        if affinity is None or not self._weights.affinity:
            return ()
        return tuple(effective(affinity.preferred_during_scheduling_ignored_during_execution))

    def _affinity(
        self, preferred: tuple[PreferredSchedulingTerm, ...], nodes: Nodes, feasible: Mask
    ) -> NDArray[np.int64]:
        index = self._index.over(nodes)
        counts = np.zeros(len(nodes), np.int64)
        for term in preferred:
            counts += index.matches(term.preference) * term.weight
        return nodescores.normalised(counts, feasible, reverse=False)

    def _minds_taints(self, shape: Shape, nodes: Nodes) -> bool:
        """Whether any of the session's nodes has a PreferNoSchedule taint that the shape does not tolerate."""
        minds = self._soft.get(shape.id)
        if minds is None:
            values = self._index.over(nodes).taints.present() if self._weights.taints else []
            minds = any(soft_untolerated(taints, shape.tolerations) for taints in values)
            if nodes is self._nodes:
                self._soft[shape.id] = minds
        return minds

    def _soft_taints(self, shape: Shape, nodes: Nodes) -> NDArray[np.int64]:
        """How many untolerated PreferNoSchedule taints each node has."""
        taints = self._index.over(nodes).taints
        table = [soft_untolerated(values, shape.tolerations) for values in taints.values]
        return np.array(table, np.int64)[taints.codes]
