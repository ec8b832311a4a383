"""Pods per topology domain, and rules that forbid domains.

`DomainCounts` sums pod counts of the session over the nodes of each domain and follows their changes; `AllowedNodes`
keeps the nodes that no rule forbids as pods are added and removed.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.podterms import NodeCounts, PodCounts
from volcanoio.framework.scheduling.views import Shape
from volcanoio_plugins.scheduling.kubernetes.nodeindex import Mask, NodeIndex, Topology

MAX_CACHED = 16
"""Number of shapes for which a filter or scorer caches its state (up to 300 kB each at 10,000 nodes)."""
_NOTHING: Sequence[int] = ()

Cached = TypeVar("Cached")


class DomainCounts:
    """`counts` by domain; pods on nodes outside `within` do not count. The domain `topology.missing` has none."""

    __slots__ = ("_index", "_node_counts", "_version", "counts", "topology", "within")

    def __init__(
        self, node_counts: NodeCounts, topology: Topology, index: NodeIndex, within: Mask | None = None
    ) -> None:
        self.topology = topology
        self.within = within
        self.counts: NDArray[np.int64] = np.zeros(topology.missing + 1, np.int64)
        self._index = index
        self._node_counts = node_counts
        self._version = node_counts.version
        self._add(node_counts.by_node.items())

    def update(self) -> Sequence[int] | None:
        """Return the domains that changed since the last call, perhaps repeated; None when all were recounted."""
        if (version := self._node_counts.version) == self._version:
            return _NOTHING
        changes = self._node_counts.since(self._version)
        self._version = version
        if changes is None:
            self.counts[:] = 0
            self._add(self._node_counts.by_node.items())
            return None
        return self._add(changes)

    def _add(self, changes: Iterable[tuple[str, int]]) -> list[int]:
        changed = []
        within, topology, counts = self.within, self.topology, self.counts
        for node, amount in changes:
            if (row := self._index.row_of(node)) is None or (within is not None and not within.item(row)):
                continue
            if (domain := topology.codes.item(row)) != topology.missing:
                counts[domain] += amount
                changed.append(domain)
        return changed


class ShapeCache(Generic[Cached]):
    """State by shape, valid while the nodes and the counted selectors are the same."""

    def __init__(self, index: NodeIndex, make: Callable[[Shape, PodCounts], Cached | None]) -> None:
        self._index = index
        self._make = make
        self._cached: dict[int, Cached | None] = {}
        self._versions: tuple[int, int] | None = None

    def of(self, shape: Shape) -> Cached | None:
        """Return the state of a shape; None if no pod matters to it."""
        if shape.terms is None and not shape.matched:
            return None
        pods = self._index.session.pods
        if self._versions != (versions := (self._index.update().version, pods.version)):
            self._versions = versions
            self._cached.clear()
        if shape.id in self._cached:
            return self._cached[shape.id]
        if len(self._cached) >= MAX_CACHED:
            del self._cached[next(iter(self._cached))]
        known = self._cached[shape.id] = self._make(shape, pods)
        return known


class DomainRule(Protocol):
    """Forbids domains: `wrong` is by domain, the last entry for nodes without the label."""

    wrong: Mask

    @property
    def topology(self) -> Topology:
        """The domains."""
        ...

    def update(self) -> Sequence[int] | None:
        """Update `wrong`; return the domains where it changed, None if any may have changed."""
        ...


class ForbidsPods:
    """Forbids domains with a matching pod."""

    def __init__(self, pods: DomainCounts) -> None:
        self._pods = pods
        self.wrong: Mask = pods.counts > 0

    @property
    def topology(self) -> Topology:
        """The domains."""
        return self._pods.topology

    def update(self) -> Sequence[int] | None:
        """Update `wrong`; return the domains where it changed, None if any may have changed."""
        if (domains := self._pods.update()) is None:
            self.wrong = self._pods.counts > 0
            return None
        return flip(self.wrong, [(domain, self._pods.counts.item(domain) > 0) for domain in domains])


class AllowedNodes:
    """The nodes in no forbidden domain: `ok` by node."""

    def __init__(self, rules: Sequence[DomainRule], size: int) -> None:
        self._rules = rules
        self._against: NDArray[np.int16] = np.zeros(size, np.int16)
        self.ok: Mask = np.ones(size, np.bool_)
        self._recompute()

    def update(self) -> Mask:
        """Return the current `ok`."""
        again = False
        for rule in self._rules:
            if (domains := rule.update()) is None:
                again = True
                continue
            for domain in domains:
                rows = rule.topology.rows_of(domain)
                self._against[rows] += 1 if rule.wrong.item(domain) else -1
                self.ok[rows] = self._against[rows] == 0
        if again:
            self._recompute()
        return self.ok

    def _recompute(self) -> None:
        self._against[:] = 0
        for rule in self._rules:
            if rule.wrong.any():
                self._against += rule.wrong[rule.topology.codes]
        np.equal(self._against, 0, out=self.ok)


def flip(wrong: Mask, verdicts: Sequence[tuple[int, bool]]) -> list[int]:
    """Apply new values for domains; return those that changed."""
    flipped = []
    for domain, verdict in verdicts:
        if verdict is not wrong.item(domain):
            wrong[domain] = verdict
            flipped.append(domain)
    return flipped


def forbidden(rules: Sequence[DomainRule], size: int) -> Mask:
    """Return the nodes that any of the rules forbids."""
    failing: Mask = np.zeros(size, np.bool_)
    for rule in rules:
        failing |= rule.wrong[rule.topology.codes]
    return failing
