"""Pods by topology domain: a tally of the session, added up over the nodes of each domain and followed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.podterms import PodCounts, Tally
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio_plugins.scheduling.nodes.nodeindex import Mask, NodeIndex, Topology

KEPT = 16
"""For how many shapes a filter or scorer keeps what it knows (up to 300 kB each at 10,000 nodes)."""
_NOTHING: Sequence[int] = ()

Known = TypeVar("Known")


class DomainCounts:
    """`counts` by domain; pods on nodes outside `within` do not count. The domain `topology.missing` has none."""

    __slots__ = ("_index", "_tally", "_version", "counts", "topology", "within")

    def __init__(self, tally: Tally, topology: Topology, index: NodeIndex, within: Mask | None = None) -> None:
        self.topology = topology
        self.within = within
        self.counts: NDArray[np.int64] = np.zeros(topology.missing + 1, np.int64)
        self._index = index
        self._tally = tally
        self._version = tally.version
        self._add(tally.by_node.items())

    def follow(self) -> Sequence[int] | None:
        """The domains that changed since the last call, some maybe twice; None when all were counted again."""
        version = self._tally.version
        if version == self._version:
            return _NOTHING
        changes = self._tally.since(self._version)
        self._version = version
        if changes is None:
            self.counts[:] = 0
            self._add(self._tally.by_node.items())
            return None
        return self._add(changes)

    def _add(self, changes: Iterable[tuple[str, int]]) -> list[int]:
        changed = []
        within, topology, counts = self.within, self.topology, self.counts
        for node, amount in changes:
            row = self._index.row_of(node)
            if row is None or (within is not None and not within.item(row)):
                continue
            domain = topology.codes.item(row)
            if domain != topology.missing:
                counts[domain] += amount
                changed.append(domain)
        return changed


class ByShape(Generic[Known]):
    """What a filter or scorer by pods knows of each shape: good while the nodes, and what is counted, are the same."""

    def __init__(self, index: NodeIndex, make: Callable[[Shape, PodCounts], Known | None]) -> None:
        self._index = index
        self._make = make
        self._nodes: Nodes | None = None
        self._pods: PodCounts | None = None
        self._known: dict[int, Known | None] = {}
        self._of: tuple[int, int] | None = None
        self._checked = False

    def open(self, session: SessionView) -> None:
        """These are nodes and pods now."""
        self._nodes, self._pods, self._checked = session.nodes, session.pods, False

    def of(self, shape: Shape) -> Known | None:
        """What is known of a shape; None where no pod matters to it."""
        if self._pods is None or self._nodes is None or (shape.terms is None and not shape.matched):
            return None
        if not self._checked or self._of != (self._index.version, self._pods.version):
            self._index.over(self._nodes)
            self._checked = True
            if self._of != (self._index.version, self._pods.version):
                self._of = (self._index.version, self._pods.version)
                self._known.clear()
        if shape.id in self._known:
            return self._known[shape.id]
        if len(self._known) >= KEPT:
            del self._known[next(iter(self._known))]
        known = self._known[shape.id] = self._make(shape, self._pods)
        return known
