"""Kubernetes' scorers by what nodes are: preferred node affinity and soft taints, relative to the feasible nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio.model.core import PreferredSchedulingTerm, Toleration
from volcanoio_plugins.scheduling.nodes import nodescores
from volcanoio_plugins.scheduling.nodes.nodeindex import Mask, NodeIndex
from volcanoio_plugins.scheduling.nodes.nodematch import effective, soft_untolerated

Floats = NDArray[np.float64]
_RELATIVE = Depends.NODE_SPEC | Depends.FEASIBLE_SET


class Preference:
    """Points by node, scaled to 0..100 of the most that a feasible node has, times a weight.

    The most is nearly always the same, so the last scale is kept.
    """

    def __init__(self, points: NDArray[np.int64], weight: int, *, reverse: bool) -> None:
        self._points = points
        self._weight = weight
        self._reverse = reverse
        self._most = -1
        self._scaled: Floats = np.zeros(0)

    def scaled(self, feasible: Mask) -> Floats:
        """The scores; not to be written to."""
        most = int(np.where(feasible, self._points, 0).max(initial=0))
        if most != self._most:
            self._most = most
            self._scaled = (nodescores.scaled(self._points, most, reverse=self._reverse) * self._weight).astype(float)
        return self._scaled


class _Preferences:
    """What both scorers have in common: preferences by shape, kept for a session."""

    def __init__(self, index: NodeIndex, weight: int) -> None:
        self._index = index
        self._weight = weight
        self._nodes: Nodes | None = None
        self._known: dict[int, Preference] = {}

    def open(self, session: SessionView) -> None:
        """Nodes may have changed since the last cycle."""
        self._nodes = session.nodes
        self._known.clear()


class AffinityScorer(_Preferences):
    """Prefers nodes that match more, or heavier, preferred terms of node affinity."""

    def score_depends(self, shape: Shape) -> Depends:
        """The feasible nodes, where the shape has preferences."""
        return _RELATIVE if preferred(shape) else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: Mask) -> Floats:
        """The score of all nodes."""
        known = self._known.get(shape.like) if nodes is self._nodes else None
        if known is None:
            index, terms = self._index.over(nodes), preferred(shape)
            points = np.zeros(len(nodes), np.int64)
            for term in terms:
                points += index.matches(term.preference) * term.weight
            known = Preference(points, self._weight, reverse=False)
            if nodes is self._nodes and shape.like >= 0:
                self._known[shape.like] = known
        return known.scaled(feasible)


class TaintScorer(_Preferences):
    """Avoids nodes with PreferNoSchedule taints that the shape does not tolerate."""

    def __init__(self, index: NodeIndex, weight: int) -> None:
        super().__init__(index, weight)
        self._minds: dict[tuple[Toleration, ...], bool] = {}
        """By tolerations: many shapes have the same, mostly none."""

    def open(self, session: SessionView) -> None:
        """Nodes may have changed since the last cycle."""
        super().open(session)
        self._minds.clear()

    def score_depends(self, shape: Shape) -> Depends:
        """The feasible nodes, where any of the session's nodes has a taint that the shape minds."""
        return _RELATIVE if self._nodes is not None and self._is_minded(shape, self._nodes) else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: Mask) -> Floats:
        """The score of all nodes."""
        known = self._known.get(shape.like) if nodes is self._nodes else None
        if known is None:
            taints = self._index.over(nodes).taints
            table = [soft_untolerated(values, shape.tolerations) for values in taints.values]
            known = Preference(np.array(table, np.int64)[taints.codes], self._weight, reverse=True)
            if nodes is self._nodes and shape.like >= 0:
                self._known[shape.like] = known
        return known.scaled(feasible)

    def _is_minded(self, shape: Shape, nodes: Nodes) -> bool:
        tolerations = shape.tolerations
        minds = self._minds.get(tolerations)
        if minds is None:
            present = self._index.over(nodes).taints.present()
            minds = self._minds[tolerations] = any(soft_untolerated(taints, tolerations) for taints in present)
        return minds


def preferred(shape: Shape) -> tuple[PreferredSchedulingTerm, ...]:
    """The preferences of the shape that count."""
    affinity = shape.affinity.node_affinity if shape.affinity else None
    return tuple(effective(affinity.preferred_during_scheduling_ignored_during_execution)) if affinity else ()
