"""Kubernetes' filter PodTopologySpread: constraints with DoNotSchedule.

Source: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go. A domain is forbidden when one pod more there
would make it exceed the emptiest domain by more than maxSkew.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.podterms import PodCounts, SpreadConstraint
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio_plugins.scheduling.nodes.nodefilter import affine, tainted
from volcanoio_plugins.scheduling.nodes.nodeindex import Mask, NodeIndex, Topology
from volcanoio_plugins.scheduling.pods.domaincounts import ByShape, DomainCounts
from volcanoio_plugins.scheduling.pods.domainrules import Allowed, flip

UNEVEN = "node(s) didn't match pod topology spread constraints"
LABELLESS = f"{UNEVEN} (missing required label)"
_NO_DOMAIN = 1 << 40


class Even:
    """Forbids the domains that have too many pods already, and nodes in none. Only nodes in `within` count."""

    def __init__(
        self, constraint: SpreadConstraint, pods: DomainCounts | None, topology: Topology, within: Mask
    ) -> None:
        self._pods = pods
        self._topology = topology
        self._most = constraint.max_skew - constraint.of_itself
        self._level: NDArray[np.int64] = np.full(topology.missing + 1, _NO_DOMAIN)
        """Pods by domain, where it has a node that counts."""
        self._level[topology.codes[within]] = 0
        self._level[topology.missing] = _NO_DOMAIN
        number = int(np.count_nonzero(self._level == 0))
        self._from_zero = number < max(constraint.min_domains, 1)
        """The emptiest domain counts as empty, as there are fewer than there should be."""
        self._least = 0
        self.wrong: Mask = np.zeros(topology.missing + 1, np.bool_)
        self._judge()

    @property
    def topology(self) -> Topology:
        """As `DomainRule`."""
        return self._topology

    def follow(self) -> Sequence[int] | None:
        """As `DomainRule`."""
        if self._pods is None:
            return ()
        domains = self._pods.follow()
        if domains is None:
            self._judge()
            return None
        if not domains:
            return ()
        counts = self._pods.counts
        for domain in domains:
            self._level[domain] = counts[domain]
        if self._emptiest() != self._least:
            self._judge()
            return None
        limit = self._least + self._most
        return flip(self.wrong, [(domain, counts.item(domain) > limit) for domain in domains])

    def _emptiest(self) -> int:
        return 0 if self._from_zero else int(self._level.min())

    def _judge(self) -> None:
        if self._pods is None:
            counts: NDArray[np.int64] = np.zeros(len(self.wrong), np.int64)
        else:
            counts = self._pods.counts
            self._level = np.where(self._level < _NO_DOMAIN, counts, _NO_DOMAIN)
        self._least = self._emptiest()
        self.wrong = counts > self._least + self._most
        self.wrong[self._topology.missing] = True


class Spread:
    """What forbids nodes to a shape: its constraints in their order."""

    def __init__(self, rules: Sequence[Even], size: int) -> None:
        self._rules = rules
        self._size = size
        self.allowed = Allowed(rules, size)

    def reasons(self) -> tuple[tuple[str, Mask], ...]:
        """The nodes that fail, by text: a node fails by the first constraint that forbids it."""
        labelless, uneven = np.zeros(self._size, np.bool_), np.zeros(self._size, np.bool_)
        for rule in self._rules:
            lacking = rule.topology.lacking
            labelless |= lacking & ~uneven
            uneven |= rule.wrong[rule.topology.codes] & ~lacking & ~labelless
        return tuple((text, mask) for text, mask in ((UNEVEN, uneven), (LABELLESS, labelless)) if mask.any())


class TopologySpreadFilter:
    """Says where a shape's constraints let it go."""

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._spread = ByShape(index, self._spread_of)

    def open(self, session: SessionView) -> None:
        """A session begins."""
        self._spread.open(session)

    def feasible_depends(self, shape: Shape) -> Depends:
        """The pods, where the shape has constraints."""
        return Depends.PODS | Depends.NODE_SPEC if constraints(shape, hard=True) else Depends.NOTHING

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """The nodes of the session that pass, and those that fail."""
        spread = self._spread.of(shape)
        if spread is None:
            return Feasibility(np.ones(len(nodes), np.bool_))
        return Feasibility(spread.allowed.follow(), spread.reasons())

    def allowed(self, shape: Shape, nodes: Nodes) -> Mask:
        """As `points.Follows`."""
        spread = self._spread.of(shape)
        return np.ones(len(nodes), np.bool_) if spread is None else spread.allowed.follow()

    def _spread_of(self, shape: Shape, pods: PodCounts) -> Spread | None:
        hard, index = constraints(shape, hard=True), self._index
        rules = []
        for constraint, within in zip(hard, counting_nodes(index, shape, hard), strict=True):
            topology = index.topology(constraint.topology_key)
            counts = None
            if constraint.selector is not None:
                tally = pods.matching((constraint.selector,), terminating=False)
                counts = DomainCounts(tally, topology, index, within)
            rules.append(Even(constraint, counts, topology, within))
        return Spread(rules, index.size) if rules else None


def constraints(shape: Shape, *, hard: bool) -> tuple[SpreadConstraint, ...]:
    """A shape's constraints, those with DoNotSchedule or the others."""
    return tuple(item for item in shape.terms.spread if item.hard is hard) if shape.terms else ()


def counting_nodes(index: NodeIndex, shape: Shape, among: Sequence[SpreadConstraint]) -> list[Mask]:
    """By constraint the nodes whose pods and domains count: with all labels, and open to the shape if it says so."""
    labelled: Mask = np.ones(index.size, np.bool_)
    for constraint in among:
        labelled &= ~index.topology(constraint.topology_key).lacking
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
