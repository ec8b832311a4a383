"""Kubernetes' scorer PodTopologySpread: constraints with ScheduleAnyway.

Source: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go. Fewer pods in a node's domains are better; domains
of which there are many count less a pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.podterms import PodCounts, SpreadConstraint
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio_plugins.scheduling.nodes.nodeindex import Mask, NodeIndex
from volcanoio_plugins.scheduling.nodes.nodescores import MAX
from volcanoio_plugins.scheduling.pods.domaincounts import ByShape, DomainCounts
from volcanoio_plugins.scheduling.pods.podpreferences import Points
from volcanoio_plugins.scheduling.pods.topologyspread import constraints, counting_nodes

HOSTNAME = "kubernetes.io/hostname"
"""Of this key all nodes' pods count, whatever the policies, and every feasible node is a domain."""
_FAR = 1 << 60

Floats = NDArray[np.float64]


class Crowded:
    """How crowded nodes are for a shape: by all its constraints; nodes that lack any of the labels do not count."""

    def __init__(self, parts: Sequence[tuple[SpreadConstraint, DomainCounts | None]], index: NodeIndex) -> None:
        self._index = index
        self._parts = [
            (constraint, index.topology(constraint.topology_key), Points([(pods, 1)] if pods else [], index.size))
            for constraint, pods in parts
        ]
        self._labelled: Mask = np.ones(index.size, np.bool_)
        for constraint, _ in parts:
            self._labelled &= ~index.topology(constraint.topology_key).lacking

    def score(self, feasible: Mask, weight: int) -> Floats:
        """The scores, times the weight."""
        scored = feasible & self._labelled
        total: Floats = np.zeros(len(feasible))
        nodes = int(np.count_nonzero(scored))
        for constraint, topology, points in self._parts:
            number = nodes if constraint.topology_key == HOSTNAME else topology.domains_among(scored, nodes)
            total += points.follow() * log(number + 2)
            total += constraint.max_skew - 1
        rounded = np.floor(total + 0.5).astype(np.int64)
        most = int(np.where(scored, rounded, 0).max(initial=0))
        if not most:
            return np.where(scored, float(MAX * weight), 0.0)
        least = int(np.where(scored, rounded, _FAR).min(initial=_FAR))
        relative = (most + least - rounded) * MAX // most
        scores: Floats = np.where(scored, relative, 0).astype(np.float64)
        scores *= weight
        return scores


class SpreadScorer:
    """Prefers nodes whose domains have fewer of the pods that a shape is to be spread among."""

    def __init__(self, index: NodeIndex, weight: int) -> None:
        self._index = index
        self._weight = weight
        self._crowded = ByShape(index, self._crowded_of)

    def open(self, session: SessionView) -> None:
        """A session begins."""
        self._crowded.open(session)

    def score_depends(self, shape: Shape) -> Depends:
        """Pods and the feasible nodes, where the shape has such constraints."""
        soft = constraints(shape, hard=False)
        return Depends.PODS | Depends.NODE_SPEC | Depends.FEASIBLE_SET if soft else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: Mask) -> Floats:
        """The score of all nodes of the session."""
        crowded = self._crowded.of(shape)
        return np.zeros(len(nodes)) if crowded is None else crowded.score(feasible, self._weight)

    def _crowded_of(self, shape: Shape, pods: PodCounts) -> Crowded | None:
        soft, index = constraints(shape, hard=False), self._index
        parts = []
        for constraint, within in zip(soft, counting_nodes(index, shape, soft), strict=True):
            counts = None
            if constraint.selector is not None:
                tally = pods.matching((constraint.selector,), terminating=False)
                everywhere = constraint.topology_key == HOSTNAME
                topology = index.topology(constraint.topology_key)
                counts = DomainCounts(tally, topology, index, None if everywhere else within)
            parts.append((constraint, counts))
        return Crowded(parts, index) if parts else None
