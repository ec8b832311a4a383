"""What pods ask of other pods, and how many such pods there are on nodes.

Terms are those of Kubernetes' specs, resolved for their pod: namespaces are filled in, `matchLabelKeys` and
`mismatchLabelKeys` are part of the selector. Equal terms of different pods are equal values.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from enum import IntEnum
from typing import Protocol, TypeAlias

import msgspec

from volcanoio.model.core import Requirement


class PodSelector(msgspec.Struct, frozen=True):
    """Pods by namespace and labels.

    `namespaces` are names; `namespace_labels` selects further ones by their labels (None: no others, (): all).
    `labels` are requirements that must all hold, None matches no pod.
    """

    namespaces: tuple[str, ...] = ()
    namespace_labels: tuple[Requirement, ...] | None = None
    labels: tuple[Requirement, ...] | None = ()


Selectors: TypeAlias = tuple[PodSelector, ...]
"""Pods that all of these select."""


class TermRole(IntEnum):
    """What a pod asks with a term."""

    REQUIRED_AFFINITY = 0
    REQUIRED_ANTI_AFFINITY = 1
    PREFERRED_AFFINITY = 2
    PREFERRED_ANTI_AFFINITY = 3


class PodTerm(msgspec.Struct, frozen=True):
    """A term of pod affinity or anti-affinity; `weight` is 0 where it is required."""

    role: TermRole
    topic: PodSelector
    topology_key: str
    weight: int = 0


class HostPort(msgspec.Struct, frozen=True):
    """A port of the node that a pod takes; `topic` is protocol and number, `ip` 0.0.0.0 all addresses."""

    topic: tuple[str, int]
    ip: str


Carried: TypeAlias = PodTerm | HostPort
"""What pods carry to their node, so that it matters to others."""


class SpreadConstraint(msgspec.Struct, frozen=True):
    """A topology spread constraint. `hard`: DoNotSchedule. `of_itself`: whether the selector selects the pod.

    `selector` None counts no pod: Kubernetes' empty selector. Policies say whether nodes count that the pod's node
    affinity, or the node's taints, keep it off.
    """

    selector: PodSelector | None
    of_itself: bool
    topology_key: str
    max_skew: int
    min_domains: int
    hard: bool
    honors_affinity: bool
    honors_taints: bool


class PodTerms(msgspec.Struct, frozen=True):
    """All that a pod asks of other pods. `first`: it satisfies its own required affinity, so it may be the first."""

    affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    ports: tuple[HostPort, ...] = ()
    first: bool = False

    def of(self, role: TermRole) -> tuple[PodTerm, ...]:
        """The terms of a role."""
        return tuple(term for term in self.affinity if term.role is role)

    @property
    def carried(self) -> tuple[Carried, ...]:
        """What matters to others once the pod is on a node."""
        return (*self.affinity, *self.ports)

    @property
    def required_near(self) -> Selectors:
        """The selectors of required affinity: only pods that all of them select count."""
        return tuple(dict.fromkeys(term.topic for term in self.of(TermRole.REQUIRED_AFFINITY)))


class Tally(Protocol):
    """How many pods of a kind are on which node: a count that is kept as pods are placed, moved and taken back."""

    @property
    def version(self) -> int:
        """Grows with every change, by one a pod."""
        ...

    @property
    def by_node(self) -> Mapping[str, int]:
        """Pods by the node's name, also where such a node is not known (any more); nodes without any are left out."""
        ...

    def since(self, version: int) -> Sequence[tuple[str, int]] | None:
        """The changes after a version, each a node and 1 or -1; None when that is too long ago: read `by_node`."""
        ...


class PodCounts(Protocol):
    """The pods on nodes: bound, binding, running, terminating, and those that this session has placed there.

    What the session has evicted is left out. Only what was asked for is counted: the terms in pods' specs, and what
    plugins ask for at least once a cycle.
    """

    @property
    def version(self) -> int:
        """Another number when other things are counted than before; a tally is good while it is the same."""
        ...

    @property
    def topology_keys(self) -> Collection[str]:
        """The labels of nodes that pods' terms name as domains."""
        ...

    def matching(self, selectors: Selectors, *, terminating: bool = True) -> Tally:
        """Pods that all of the selectors select; with or without those that are terminating."""
        ...

    def carrying(self, carried: Carried) -> Tally:
        """Pods that carry that term or port."""
        ...

    def carried(self, topic: Hashable) -> Collection[Carried]:
        """What known pods carry of a topic: terms by their selector, ports by protocol and number."""
        ...
