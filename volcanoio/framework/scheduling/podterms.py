"""Pods' requirements on other pods, and counts of pods on nodes.

Terms are those of Kubernetes' specs, resolved for their pod: namespaces are filled in, `matchLabelKeys` and
`mismatchLabelKeys` are part of the selector. Equal terms of different pods are equal values.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from enum import IntEnum
from typing import Protocol, TypeAlias

import msgspec

from volcanoio.model.core import Requirement


class PodSelector(msgspec.Struct, frozen=True):
    """A selector of pods by namespace and labels.

    `namespaces` are names; `namespace_labels` selects further ones by their labels (None: no others, (): all). `labels`
    are requirements that must all hold, None matches no pod.
    """

    namespaces: tuple[str, ...] = ()
    namespace_labels: tuple[Requirement, ...] | None = None
    labels: tuple[Requirement, ...] | None = ()


Selectors: TypeAlias = tuple[PodSelector, ...]
"""Selectors that must all match a pod."""


class TermRole(IntEnum):
    """The kind of a pod affinity term."""

    REQUIRED_AFFINITY = 0
    REQUIRED_ANTI_AFFINITY = 1
    PREFERRED_AFFINITY = 2
    PREFERRED_ANTI_AFFINITY = 3


class PodTerm(msgspec.Struct, frozen=True):
    """A term of pod affinity or anti-affinity; `weight` is 0 for a required term."""

    role: TermRole
    topic: PodSelector
    topology_key: str
    weight: int = 0


class HostPort(msgspec.Struct, frozen=True):
    """A host port of a pod; `topic` is protocol and number, `ip` 0.0.0.0 means all addresses."""

    topic: tuple[str, int]
    ip: str


Carried: TypeAlias = PodTerm | HostPort
"""Requirements of placed pods that restrict other pods."""


class SpreadConstraint(msgspec.Struct, frozen=True):
    """A topology spread constraint. `hard`: DoNotSchedule. `matches_self`: whether the selector selects the pod.

    `selector` None counts no pod: Kubernetes' empty selector. `honors_affinity` and `honors_taints` exclude nodes that
    the pod's node affinity, or the node's taints, rule out.
    """

    selector: PodSelector | None
    matches_self: bool
    topology_key: str
    max_skew: int
    min_domains: int
    hard: bool
    honors_affinity: bool
    honors_taints: bool


class PodTerms(msgspec.Struct, frozen=True):
    """All requirements of a pod on other pods.

    `satisfies_own_affinity`: the pod matches its own required affinity, so it may be the first of its group.
    """

    affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    ports: tuple[HostPort, ...] = ()
    satisfies_own_affinity: bool = False

    def of(self, role: TermRole) -> tuple[PodTerm, ...]:
        """Return the terms of a role."""
        return tuple(term for term in self.affinity if term.role is role)

    @property
    def carried(self) -> tuple[Carried, ...]:
        """The requirements that restrict other pods once the pod is on a node."""
        return (*self.affinity, *self.ports)

    @property
    def required_affinity_selectors(self) -> Selectors:
        """The selectors of required affinity: only pods that all of them select count."""
        return tuple(dict.fromkeys(term.topic for term in self.of(TermRole.REQUIRED_AFFINITY)))


class NodeCounts(Protocol):
    """How many pods of a kind are on which node: updated as pods are placed, moved and removed."""

    @property
    def version(self) -> int:
        """Grows with every change, by one a pod."""
        ...

    @property
    def by_node(self) -> Mapping[str, int]:
        """Pods by the node's name, also where such a node is not known (any more); nodes without any are left out."""
        ...

    def since(self, version: int) -> Sequence[tuple[str, int]] | None:
        """Return the changes after a version, each a node and 1 or -1; None if it is too old: read `by_node`."""
        ...


class PodCounts(Protocol):
    """The pods on nodes: bound, binding, running, terminating, and those that this session has placed there.

    What the session has evicted is left out. Only what was asked for is counted: the terms in pods' specs, and what
    plugins ask for at least once a cycle.
    """

    @property
    def version(self) -> int:
        """Changes when other terms are counted than before; counts are valid while it is the same."""
        ...

    @property
    def topology_keys(self) -> Collection[str]:
        """The labels of nodes that pods' terms name as domains."""
        ...

    def matching(self, selectors: Selectors, *, terminating: bool = True) -> NodeCounts:
        """Pods that all of the selectors select; with or without those that are terminating."""
        ...

    def carrying(self, carried: Carried) -> NodeCounts:
        """Pods that carry that term or port."""
        ...

    def carried(self, topic: Hashable) -> Collection[Carried]:
        """Return what known pods have of a topic: terms by their selector, ports by protocol and number."""
        ...
