"""Kubernetes' filter InterPodAffinity: required pod affinity and anti-affinity, also that of pods on nodes already.

Source: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from volcanoio.framework.scheduling.podterms import PodCounts, PodTerm, TermRole
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio_plugins.scheduling.nodes.nodeindex import Mask, NodeIndex, Topology
from volcanoio_plugins.scheduling.pods.domaincounts import ByShape, DomainCounts
from volcanoio_plugins.scheduling.pods.domainrules import Absent, Allowed, flip, forbidden

NEAR = "node(s) didn't match pod affinity rules"
APART = "node(s) didn't match pod anti-affinity rules"
APART_FROM_OTHERS = "node(s) didn't satisfy existing pods anti-affinity rules"
_REQUIRED = (TermRole.REQUIRED_AFFINITY, TermRole.REQUIRED_ANTI_AFFINITY)


class Company:
    """The topologies in which a pod must be near others.

    While there is no such pod in any of them, a pod that is one itself (`first`) may go wherever there are domains.
    """

    def __init__(self, pods: Sequence[DomainCounts], *, first: bool) -> None:
        self._first = first
        self.rules = [Present(self, each) for each in pods]
        self.alone = first and self._nobody()
        for rule in self.rules:
            rule.judge()

    def update(self) -> None:
        """Count what was placed since, in all topologies: in which of them matters to the others."""
        for rule in self.rules:
            rule.count()
        alone = self._first and self._nobody()
        if alone is not self.alone:
            self.alone = alone
            for rule in self.rules:
                rule.changed = None

    def _nobody(self) -> bool:
        return not any(rule.pods.counts.any() for rule in self.rules)


class Present:
    """Forbids domains where no pod is, and nodes in none."""

    def __init__(self, company: Company, pods: DomainCounts) -> None:
        self._company = company
        self.pods = pods
        self.changed: list[int] | None = []
        """Domains that changed since they were judged; None: all."""
        self.wrong: Mask = np.zeros(0, np.bool_)

    @property
    def topology(self) -> Topology:
        """As `DomainRule`."""
        return self.pods.topology

    def count(self) -> None:
        """Count what was placed since."""
        domains = self.pods.follow()
        if domains is None or self.changed is None:
            self.changed = None
        else:
            self.changed.extend(domains)

    def judge(self) -> None:
        """Judge all domains."""
        counts = self.pods.counts
        self.wrong = np.zeros(len(counts), np.bool_) if self._company.alone else counts <= 0
        self.wrong[self.topology.missing] = True

    def follow(self) -> Sequence[int] | None:
        """As `DomainRule`."""
        self._company.update()
        changed, self.changed = self.changed, []
        if changed is None:
            self.judge()
            return None
        if self._company.alone:
            return ()
        return flip(self.wrong, [(domain, self.pods.counts.item(domain) <= 0) for domain in changed])


class Rules:
    """What forbids nodes to a shape: too far from others, too close to those it avoids, or to those that avoid it."""

    def __init__(
        self, company: Company, apart: Sequence[DomainCounts], others: Sequence[DomainCounts], size: int
    ) -> None:
        self._size = size
        self._reasons = (
            (NEAR, company.rules),
            (APART, [Absent(pods) for pods in apart]),
            (APART_FROM_OTHERS, [Absent(pods) for pods in others]),
        )
        self.allowed = Allowed([rule for _, rules in self._reasons for rule in rules], size)

    def reasons(self) -> tuple[tuple[str, Mask], ...]:
        """The nodes that fail, by text, in Kubernetes' order."""
        masks = ((text, forbidden(rules, self._size)) for text, rules in self._reasons if rules)
        return tuple((text, mask) for text, mask in masks if mask.any())


class PodAffinityFilter:
    """Says where a shape's required terms, and those of others about it, let it go."""

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._pods: PodCounts | None = None
        self._rules = ByShape(index, self._rules_of)

    def open(self, session: SessionView) -> None:
        """A session begins."""
        self._pods = session.pods
        self._rules.open(session)

    def feasible_depends(self, shape: Shape) -> Depends:
        """The pods, where the shape has required terms, or others have anti-affinity to it."""
        own = shape.terms is not None and any(term.role in _REQUIRED for term in shape.terms.affinity)
        return Depends.PODS | Depends.NODE_SPEC if own or self._of_others(shape) else Depends.NOTHING

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """The nodes of the session that pass, and those that fail by each rule."""
        rules = self._rules.of(shape)
        if rules is None:
            return Feasibility(np.ones(len(nodes), np.bool_))
        return Feasibility(rules.allowed.follow(), rules.reasons())

    def allowed(self, shape: Shape, nodes: Nodes) -> Mask:
        """As `points.Follows`."""
        rules = self._rules.of(shape)
        return np.ones(len(nodes), np.bool_) if rules is None else rules.allowed.follow()

    def _of_others(self, shape: Shape) -> list[PodTerm]:
        """The anti-affinity of others to the shape."""
        if self._pods is None:
            return []
        carried = (carried for topic in shape.matched for carried in self._pods.carried(topic))
        return [term for term in carried if isinstance(term, PodTerm) and term.role is TermRole.REQUIRED_ANTI_AFFINITY]

    def _rules_of(self, shape: Shape, pods: PodCounts) -> Rules | None:
        index, terms = self._index, shape.terms
        near = terms.of(TermRole.REQUIRED_AFFINITY) if terms else ()
        apart = terms.of(TermRole.REQUIRED_ANTI_AFFINITY) if terms else ()
        others = self._of_others(shape)
        if not (near or apart or others):
            return None
        company = [
            DomainCounts(pods.matching(terms.required_near), index.topology(key), index)
            for key in dict.fromkeys(term.topology_key for term in near)
            if terms
        ]
        return Rules(
            Company(company, first=terms is not None and terms.first),
            [DomainCounts(pods.matching((term.topic,)), index.topology(term.topology_key), index) for term in apart],
            [DomainCounts(pods.carrying(term), index.topology(term.topology_key), index) for term in others],
            index.size,
        )
