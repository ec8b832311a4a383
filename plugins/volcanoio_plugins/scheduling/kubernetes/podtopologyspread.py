"""Kubernetes' filter and scorer PodTopologySpread: constraints with DoNotSchedule and with ScheduleAnyway.

Source: pkg/scheduler/framework/plugins/podtopologyspread (filtering.go, scoring.go). A domain is forbidden when one
more pod there would exceed the emptiest domain by more than maxSkew. In the score, fewer pods in a node's domains are
better; where there are many domains, each pod counts less.
"""

from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.podterms import PodCounts, SpreadConstraint
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio_plugins.scheduling.kubernetes.interpodaffinity import AffinityScores
from volcanoio_plugins.scheduling.kubernetes.nodeaffinity import affine, tainted
from volcanoio_plugins.scheduling.kubernetes.nodeindex import Mask, NodeIndex, Topology
from volcanoio_plugins.scheduling.kubernetes.noderesources import MAX
from volcanoio_plugins.scheduling.kubernetes.topologydomains import AllowedNodes, DomainCounts, ShapeCache, flip

UNEVEN = "node(s) didn't match pod topology spread constraints"
MISSING_LABEL = f"{UNEVEN} (missing required label)"
_NO_DOMAIN = 1 << 40


class MaxSkewRule:
    """Forbids domains with too many pods, and nodes in no domain. Only nodes in `within` count."""

    def __init__(
        self, constraint: SpreadConstraint, pods: DomainCounts | None, topology: Topology, within: Mask
    ) -> None:
        self._pods = pods
        self._topology = topology
        self._max_difference = constraint.max_skew - constraint.matches_self
        self._counts_by_domain: NDArray[np.int64] = np.full(topology.missing + 1, _NO_DOMAIN)
        """Pods by domain, for domains with a node that counts."""
        self._counts_by_domain[topology.codes[within]] = 0
        self._counts_by_domain[topology.missing] = _NO_DOMAIN
        number = int(np.count_nonzero(self._counts_by_domain == 0))
        self._from_zero = number < max(constraint.min_domains, 1)
        """Whether the emptiest domain counts as empty, because there are fewer than minDomains."""
        self._lowest_count = 0
        self.wrong: Mask = np.zeros(topology.missing + 1, np.bool_)
        self._recompute()

    @property
    def topology(self) -> Topology:
        """The domains."""
        return self._topology

    def update(self) -> Sequence[int] | None:
        """Update `wrong`; return the domains where it changed, None if any may have changed."""
        if self._pods is None:
            return ()
        if (domains := self._pods.update()) is None:
            self._recompute()
            return None
        if not domains:
            return ()
        counts = self._pods.counts
        for domain in domains:
            self._counts_by_domain[domain] = counts[domain]
        if self._lowest() != self._lowest_count:
            self._recompute()
            return None
        limit = self._lowest_count + self._max_difference
        return flip(self.wrong, [(domain, counts.item(domain) > limit) for domain in domains])

    def _lowest(self) -> int:
        return 0 if self._from_zero else int(self._counts_by_domain.min())

    def _recompute(self) -> None:
        if self._pods is None:
            counts: NDArray[np.int64] = np.zeros(len(self.wrong), np.int64)
        else:
            counts = self._pods.counts
            self._counts_by_domain = np.where(self._counts_by_domain < _NO_DOMAIN, counts, _NO_DOMAIN)
        self._lowest_count = self._lowest()
        self.wrong = counts > self._lowest_count + self._max_difference
        self.wrong[self._topology.missing] = True


class SpreadRules:
    """The constraints of a shape, in order."""

    def __init__(self, rules: Sequence[MaxSkewRule], size: int) -> None:
        self._rules = rules
        self._size = size
        self.allowed = AllowedNodes(rules, size)

    def reasons(self) -> tuple[tuple[str, Mask], ...]:
        """Return the nodes that fail, by text: a node fails by the first constraint that forbids it."""
        missing_label, uneven = np.zeros(self._size, np.bool_), np.zeros(self._size, np.bool_)
        for rule in self._rules:
            unlabelled = rule.topology.unlabelled
            missing_label |= unlabelled & ~uneven
            uneven |= rule.wrong[rule.topology.codes] & ~unlabelled & ~missing_label
        return tuple((text, mask) for text, mask in ((UNEVEN, uneven), (MISSING_LABEL, missing_label)) if mask.any())


class TopologySpreadFilter:
    """Filters nodes by a shape's hard constraints."""

    applies_to = ("terms",)

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._spread = ShapeCache(index, self._spread_of)

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on pods if the shape has constraints."""
        return Depends.PODS | Depends.NODE_SPEC if constraints(shape, hard=True) else Depends.SKIP

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the nodes of the session that pass, and those that fail."""
        if (spread := self._spread.of(shape)) is None:
            return Feasibility(np.ones(len(nodes), np.bool_))
        return Feasibility(spread.allowed.update(), spread.reasons())

    def allowed(self, shape: Shape, nodes: Nodes) -> Mask:
        """Return the `ok` of `feasible` for all nodes of the session."""
        spread = self._spread.of(shape)
        return np.ones(len(nodes), np.bool_) if spread is None else spread.allowed.update()

    def _spread_of(self, shape: Shape, pods: PodCounts) -> SpreadRules | None:
        hard, index = constraints(shape, hard=True), self._index
        rules = []
        for constraint, within in zip(hard, counting_nodes(index, shape, hard), strict=True):
            topology = index.topology(constraint.topology_key)
            counts = None
            if constraint.selector is not None:
                node_counts = pods.matching((constraint.selector,), terminating=False)
                counts = DomainCounts(node_counts, topology, index, within)
            rules.append(MaxSkewRule(constraint, counts, topology, within))
        return SpreadRules(rules, index.size) if rules else None


def constraints(shape: Shape, *, hard: bool) -> tuple[SpreadConstraint, ...]:
    """Return a shape's constraints, those with DoNotSchedule or the others."""
    return tuple(item for item in shape.terms.spread if item.hard is hard) if shape.terms else ()


def counting_nodes(index: NodeIndex, shape: Shape, among: Sequence[SpreadConstraint]) -> list[Mask]:
    """Return by constraint the nodes whose pods and domains count.

    They have the labels of all constraints, and pass the affinity and taint checks that the constraint honors.
    """
    labelled: Mask = np.ones(index.size, np.bool_)
    for constraint in among:
        labelled &= ~index.topology(constraint.topology_key).unlabelled
    masks = []
    for constraint in among:
        within = labelled.copy()
        if constraint.honors_affinity and (matching := affine(index, shape)) is not None:
            within &= matching
        if constraint.honors_taints:
            for _, failed in tainted(index, shape):
                within &= ~failed
        masks.append(within)
    return masks


HOSTNAME = "kubernetes.io/hostname"
"""With this key the pods of all nodes count, whatever the policies, and every feasible node is a domain."""
_FAR = 1 << 60

Floats = NDArray[np.float64]


class SpreadCounts:
    """Pod counts of nodes by all soft constraints; nodes without one of the labels do not count."""

    def __init__(self, parts: Sequence[tuple[SpreadConstraint, DomainCounts | None]], index: NodeIndex) -> None:
        self._index = index
        self._parts = [
            (
                constraint,
                index.topology(constraint.topology_key),
                AffinityScores([(pods, 1)] if pods else [], index.size),
            )
            for constraint, pods in parts
        ]
        self._labelled: Mask = np.ones(index.size, np.bool_)
        for constraint, _ in parts:
            self._labelled &= ~index.topology(constraint.topology_key).unlabelled

    def score(self, feasible: Mask, weight: int) -> Floats:
        """Return the scores, times the weight."""
        scored = feasible & self._labelled
        total: Floats = np.zeros(len(feasible))
        nodes = int(np.count_nonzero(scored))
        for constraint, topology, points in self._parts:
            number = nodes if constraint.topology_key == HOSTNAME else topology.domains_among(scored, nodes)
            total += points.update() * log(number + 2)
            total += constraint.max_skew - 1
        rounded = np.floor(total + 0.5).astype(np.int64)
        if not (most := int(np.where(scored, rounded, 0).max(initial=0))):
            return np.where(scored, float(MAX * weight), 0.0)
        least = int(np.where(scored, rounded, _FAR).min(initial=_FAR))
        relative = (most + least - rounded) * MAX // most
        scores: Floats = np.where(scored, relative, 0).astype(np.float64)
        scores *= weight
        return scores


class SpreadScorer:
    """Prefers nodes whose domains have fewer matching pods."""

    applies_to = ("terms",)

    def __init__(self, index: NodeIndex, weight: int) -> None:
        self._index = index
        self._weight = weight
        self._counts = ShapeCache(index, self._counts_of)

    def score_depends(self, shape: Shape) -> Depends:
        """Depend on pods and feasible nodes if the shape has soft constraints."""
        soft = constraints(shape, hard=False)
        return Depends.PODS | Depends.NODE_SPEC | Depends.FEASIBLE_SET if soft else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: Mask) -> Floats:
        """Score all nodes of the session."""
        crowded = self._counts.of(shape)
        return np.zeros(len(nodes)) if crowded is None else crowded.score(feasible, self._weight)

    def _counts_of(self, shape: Shape, pods: PodCounts) -> SpreadCounts | None:
        soft, index = constraints(shape, hard=False), self._index
        parts = []
        for constraint, within in zip(soft, counting_nodes(index, shape, soft), strict=True):
            counts = None
            if constraint.selector is not None:
                node_counts = pods.matching((constraint.selector,), terminating=False)
                everywhere = constraint.topology_key == HOSTNAME
                topology = index.topology(constraint.topology_key)
                counts = DomainCounts(node_counts, topology, index, None if everywhere else within)
            parts.append((constraint, counts))
        return SpreadCounts(parts, index) if parts else None
