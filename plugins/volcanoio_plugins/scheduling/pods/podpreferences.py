"""Kubernetes' scorer InterPodAffinity: preferred terms, those of pods on nodes about the shape included.

Source: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go. A required affinity of a pod on a node counts as
one that is preferred with weight 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.podterms import PodCounts, PodTerm, TermRole
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio_plugins.scheduling.nodes.nodeindex import Mask, NodeIndex
from volcanoio_plugins.scheduling.nodes.nodescores import MAX
from volcanoio_plugins.scheduling.pods.domaincounts import ByShape, DomainCounts

HARD_WEIGHT = 1
_FAR = 1 << 60

Floats = NDArray[np.float64]


class Points:
    """What terms give each node: `by_node` is kept as pods come and go."""

    def __init__(self, terms: Sequence[tuple[DomainCounts, int]], size: int) -> None:
        self._terms = terms
        self._counted = [pods.counts.copy() for pods, _ in terms]
        self.by_node: NDArray[np.int64] = np.zeros(size, np.int64)
        for pods, weight in terms:
            if pods.counts.any():
                self.by_node += pods.counts[pods.topology.codes] * weight

    def follow(self) -> NDArray[np.int64]:
        """`by_node` as of now."""
        for (pods, weight), counted in zip(self._terms, self._counted, strict=True):
            domains = pods.follow()
            if domains is None:
                domains = np.flatnonzero(pods.counts != counted).tolist()
            for domain in domains:
                more = pods.counts.item(domain) - counted.item(domain)
                if more:
                    counted[domain] += more
                    self.by_node[pods.topology.rows_of(domain)] += more * weight
        return self.by_node


class PodAffinityScorer:
    """Prefers nodes near what a shape wants near, and away from what it avoids."""

    def __init__(self, index: NodeIndex, weight: int) -> None:
        self._index = index
        self._weight = weight
        self._pods: PodCounts | None = None
        self._points = ByShape(index, self._points_of)

    def open(self, session: SessionView) -> None:
        """A session begins."""
        self._pods = session.pods
        self._points.open(session)

    def score_depends(self, shape: Shape) -> Depends:
        """Pods and the feasible nodes, where the shape has preferences, or others have such about it."""
        some = self._pods is not None and any(True for _ in _weighted(shape, self._pods))
        return Depends.PODS | Depends.NODE_SPEC | Depends.FEASIBLE_SET if some else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: Mask) -> Floats:
        """The score of all nodes of the session."""
        points = self._points.of(shape)
        if points is None:
            return np.zeros(len(nodes))
        by_node = points.follow()
        least = int(np.where(feasible, by_node, _FAR).min(initial=_FAR))
        span = int(np.where(feasible, by_node, -_FAR).max(initial=-_FAR)) - least
        if span <= 0:
            return np.zeros(len(nodes))
        scores: Floats = (by_node - least) / span
        scores *= MAX
        np.trunc(scores, out=scores)
        scores *= self._weight
        return scores

    def _points_of(self, shape: Shape, pods: PodCounts) -> Points | None:
        terms = [
            (
                DomainCounts(
                    pods.matching((term.topic,)) if own else pods.carrying(term),
                    self._index.topology(term.topology_key),
                    self._index,
                ),
                weight,
            )
            for term, weight, own in _weighted(shape, pods)
        ]
        return Points(terms, self._index.size) if terms else None


def _weighted(shape: Shape, pods: PodCounts) -> Iterator[tuple[PodTerm, int, bool]]:
    """The terms that count for a shape with their weights; whether they are its own."""
    for term in shape.terms.affinity if shape.terms else ():
        if term.role is TermRole.PREFERRED_AFFINITY:
            yield term, term.weight, True
        elif term.role is TermRole.PREFERRED_ANTI_AFFINITY:
            yield term, -term.weight, True
    for topic in shape.matched:
        for carried in pods.carried(topic):
            if isinstance(carried, PodTerm):
                weight = {
                    TermRole.REQUIRED_AFFINITY: HARD_WEIGHT,
                    TermRole.PREFERRED_AFFINITY: carried.weight,
                    TermRole.PREFERRED_ANTI_AFFINITY: -carried.weight,
                }.get(carried.role, 0)
                if weight:
                    yield carried, weight, False
