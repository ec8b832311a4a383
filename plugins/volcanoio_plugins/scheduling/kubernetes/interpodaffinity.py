"""Kubernetes' filter and scorer InterPodAffinity, including the terms of existing pods.

Source: pkg/scheduler/framework/plugins/interpodaffinity (filtering.go, scoring.go). In the score, a required affinity
of an existing pod counts as a preferred one with weight 1.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.podterms import PodCounts, PodTerm, TermRole
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio_plugins.scheduling.kubernetes.nodeindex import Mask, NodeIndex, Topology
from volcanoio_plugins.scheduling.kubernetes.noderesources import MAX
from volcanoio_plugins.scheduling.kubernetes.topologydomains import (
    AllowedNodes,
    DomainCounts,
    ForbidsPods,
    ShapeCache,
    flip,
    forbidden,
)

AFFINITY_MISMATCH = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY_MISMATCH = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY_MISMATCH = "node(s) didn't satisfy existing pods anti-affinity rules"
_REQUIRED = (TermRole.REQUIRED_AFFINITY, TermRole.REQUIRED_ANTI_AFFINITY)


class RequiredAffinity:
    """The topologies in which a pod must be near others.

    While there is no matching pod in any of them, a pod that matches itself (`first`) may go to any domain.
    """

    def __init__(self, pods: Sequence[DomainCounts], *, first: bool) -> None:
        self._first = first
        self.rules = [RequiresPods(self, each) for each in pods]
        self.unmatched = first and self._has_no_match()
        for rule in self.rules:
            rule.recompute()

    def update(self) -> None:
        """Count new placements in all topologies: each affects the others."""
        for rule in self.rules:
            rule.count()
        unmatched = self._first and self._has_no_match()
        if unmatched is not self.unmatched:
            self.unmatched = unmatched
            for rule in self.rules:
                rule.changed = None

    def _has_no_match(self) -> bool:
        return not any(rule.pods.counts.any() for rule in self.rules)


class RequiresPods:
    """Forbids domains without a matching pod, and nodes in no domain."""

    def __init__(self, affinity: RequiredAffinity, pods: DomainCounts) -> None:
        self._affinity = affinity
        self.pods = pods
        self.changed: list[int] | None = []
        """Domains that changed since the last evaluation; None: all."""
        self.wrong: Mask = np.zeros(0, np.bool_)

    @property
    def topology(self) -> Topology:
        """The domains."""
        return self.pods.topology

    def count(self) -> None:
        """Count new placements."""
        if (domains := self.pods.update()) is None or self.changed is None:
            self.changed = None
        else:
            self.changed.extend(domains)

    def recompute(self) -> None:
        """Evaluate all domains."""
        counts = self.pods.counts
        self.wrong = np.zeros(len(counts), np.bool_) if self._affinity.unmatched else counts <= 0
        self.wrong[self.topology.missing] = True

    def update(self) -> Sequence[int] | None:
        """Update `wrong`; return the domains where it changed, None if any may have changed."""
        self._affinity.update()
        changed, self.changed = self.changed, []
        if changed is None:
            self.recompute()
            return None
        if self._affinity.unmatched:
            return ()
        return flip(self.wrong, [(domain, self.pods.counts.item(domain) <= 0) for domain in changed])


class AffinityRules:
    """The rules that forbid nodes to a shape: its affinity, its anti-affinity, and that of existing pods."""

    def __init__(
        self, affinity: RequiredAffinity, apart: Sequence[DomainCounts], others: Sequence[DomainCounts], size: int
    ) -> None:
        self._size = size
        self._reasons = (
            (AFFINITY_MISMATCH, affinity.rules),
            (ANTI_AFFINITY_MISMATCH, [ForbidsPods(pods) for pods in apart]),
            (EXISTING_ANTI_AFFINITY_MISMATCH, [ForbidsPods(pods) for pods in others]),
        )
        self.allowed = AllowedNodes([rule for _, rules in self._reasons for rule in rules], size)

    def reasons(self) -> tuple[tuple[str, Mask], ...]:
        """Return the nodes that fail, by text, in Kubernetes' order."""
        masks = ((text, forbidden(rules, self._size)) for text, rules in self._reasons if rules)
        return tuple((text, mask) for text, mask in masks if mask.any())


class PodAffinityFilter:
    """Filters nodes by a shape's required terms, and those of existing pods that match it."""

    simulated = True
    applies_to = ("terms", "matched")

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._rules = ShapeCache(index, self._rules_of)

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on pods if the shape has required terms, or existing pods have anti-affinity to it."""
        own = shape.terms is not None and any(term.role in _REQUIRED for term in shape.terms.affinity)
        return Depends.PODS | Depends.NODE_SPEC if own or self._existing_anti_affinity(shape) else Depends.SKIP

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the nodes of the session that pass, and those that fail by each rule."""
        if (rules := self._rules.of(shape)) is None:
            return Feasibility(np.ones(len(nodes), np.bool_))
        return Feasibility(rules.allowed.update(), rules.reasons())

    def allowed(self, shape: Shape, nodes: Nodes) -> Mask:
        """Return the `ok` of `feasible` for all nodes of the session."""
        rules = self._rules.of(shape)
        return np.ones(len(nodes), np.bool_) if rules is None else rules.allowed.update()

    def _existing_anti_affinity(self, shape: Shape) -> list[PodTerm]:
        carried = (carried for topic in shape.matched for carried in self._index.session.pods.carried(topic))
        return [term for term in carried if isinstance(term, PodTerm) and term.role is TermRole.REQUIRED_ANTI_AFFINITY]

    def _rules_of(self, shape: Shape, pods: PodCounts) -> AffinityRules | None:
        index, terms = self._index, shape.terms
        near = terms.of(TermRole.REQUIRED_AFFINITY) if terms else ()
        apart = terms.of(TermRole.REQUIRED_ANTI_AFFINITY) if terms else ()
        others = self._existing_anti_affinity(shape)
        if not (near or apart or others):
            return None
        affinity = [
            DomainCounts(pods.matching(terms.required_affinity_selectors), index.topology(key), index)
            for key in dict.fromkeys(term.topology_key for term in near)
            if terms
        ]
        return AffinityRules(
            RequiredAffinity(affinity, first=terms is not None and terms.satisfies_own_affinity),
            [DomainCounts(pods.matching((term.topic,)), index.topology(term.topology_key), index) for term in apart],
            [DomainCounts(pods.carrying(term), index.topology(term.topology_key), index) for term in others],
            index.size,
        )


HARD_WEIGHT = 1
_FAR = 1 << 60

Floats = NDArray[np.float64]


class AffinityScores:
    """The points of each node by terms: `by_node` is updated as pods are added and removed."""

    def __init__(self, terms: Sequence[tuple[DomainCounts, int]], size: int) -> None:
        self._terms = terms
        self._counted = [pods.counts.copy() for pods, _ in terms]
        self.by_node: NDArray[np.int64] = np.zeros(size, np.int64)
        for pods, weight in terms:
            if pods.counts.any():
                self.by_node += pods.counts[pods.topology.codes] * weight

    def update(self) -> NDArray[np.int64]:
        """Return the current `by_node`."""
        for (pods, weight), counted in zip(self._terms, self._counted, strict=True):
            if (domains := pods.update()) is None:
                domains = np.flatnonzero(pods.counts != counted).tolist()
            for domain in domains:
                if more := pods.counts.item(domain) - counted.item(domain):
                    counted[domain] += more
                    self.by_node[pods.topology.rows_of(domain)] += more * weight
        return self.by_node


class PodAffinityScorer:
    """Prefers nodes near pods that a shape attracts, and away from pods it avoids."""

    applies_to = ("terms", "matched")

    def __init__(self, index: NodeIndex, weight: int) -> None:
        self._index = index
        self._weight = weight
        self._points = ShapeCache(index, self._scores_of)

    def score_depends(self, shape: Shape) -> Depends:
        """Depend on pods and feasible nodes if there are preferred terms, of the shape or of existing pods."""
        some = any(True for _ in _weighted(shape, self._index.session.pods))
        return Depends.PODS | Depends.NODE_SPEC | Depends.FEASIBLE_SET if some else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: Mask) -> Floats:
        """Score all nodes of the session."""
        if (points := self._points.of(shape)) is None:
            return np.zeros(len(nodes))
        by_node = points.update()
        least = int(np.where(feasible, by_node, _FAR).min(initial=_FAR))
        if (span := int(np.where(feasible, by_node, -_FAR).max(initial=-_FAR)) - least) <= 0:
            return np.zeros(len(nodes))
        scores: Floats = (by_node - least) / span
        scores *= MAX
        np.trunc(scores, out=scores)
        scores *= self._weight
        return scores

    def _scores_of(self, shape: Shape, pods: PodCounts) -> AffinityScores | None:
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
        return AffinityScores(terms, self._index.size) if terms else None


def _weighted(shape: Shape, pods: PodCounts) -> Iterator[tuple[PodTerm, int, bool]]:
    """Yield the terms that count for a shape, with weight and whether they are its own."""
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
