"""Which volumes a claim may have, the best first.

Source: Kubernetes k8s.io/component-helpers/storage/volume, FindMatchingVolume; among volumes of equal size the name
decides here, so that a replay agrees.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.volumes import VolumeClaim
from volcanoio.model.core import NodeSelectorTerm
from volcanoio.model.quantity import value
from volcanoio.model.requirements import satisfied
from volcanoio.model.storage import PersistentVolume
from volcanoio_plugins.scheduling.nodes.nodeindex import NodeIndex

Rows = NDArray[np.intp]
Terms = tuple[NodeSelectorTerm, ...]
AVAILABLE = "Available"


def size_of(volume: PersistentVolume) -> int:
    """The capacity of a volume in bytes."""
    return value(volume.spec.capacity.get("storage", 0))


def reach_of(volume: PersistentVolume) -> Terms | None:
    """The terms of its node affinity; None where every node reaches it."""
    affinity = volume.spec.node_affinity
    return None if affinity is None or affinity.required is None else affinity.required.node_selector_terms


def matches(volume: PersistentVolume, claim: VolumeClaim) -> bool:
    """Whether a volume that belongs to nobody suits a claim, nodes aside."""
    spec, labels = volume.spec, volume.metadata.labels
    return (
        spec.claim_ref is None
        and volume.metadata.deletion_timestamp is None
        and volume.status.phase == AVAILABLE
        and spec.storage_class_name == claim.storage_class
        and spec.volume_mode == claim.volume_mode
        and set(claim.access_modes).issubset(spec.access_modes)
        and size_of(volume) >= claim.size
        and all(satisfied(wanted, labels.get(wanted.key)) for wanted in claim.selector or ())
    )


class Reach:
    """The rows that reach volumes, kept per node affinity until a node changes."""

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._version = -1
        self._rows: dict[Terms, Rows] = {}

    def rows(self, terms: Terms) -> Rows:
        """The nodes that one of the terms selects."""
        if self._version != self._index.version:
            self._version = self._index.version
            self._rows.clear()
        known = self._rows.get(terms)
        if known is None:
            known = self._rows[terms] = self._find(terms)
        return known

    def _find(self, terms: Terms) -> Rows:
        """A local volume names one host: its row is looked up instead of asking all nodes."""
        if len(terms) == 1 and not terms[0].match_fields and len(terms[0].match_expressions) == 1:
            only = terms[0].match_expressions[0]
            code = self._index.label(only.key).code(only.values[0]) if len(only.values) == 1 else -1
            if only.operator == "In" and code >= 0:
                return self._index.topology(only.key).rows_of(code)
        return np.flatnonzero(self._index.matches_any(terms))


class Plans(Protocol):
    """What `Candidates` reads of `volumeplans.VolumePlans`."""

    taken: set[str]
    changes: list[tuple[str, int]]
    session: int

    def follow(self) -> None:
        """Bring these up to date."""
        ...


class Candidates:
    """The free volumes that suit a claim. `counts` has by row how many of them the node reaches."""

    def __init__(self, volumes: Iterable[PersistentVolume], reach: Reach, size: int) -> None:
        self._reach = reach
        self._everywhere: list[str] = []
        self._groups: dict[Terms, list[str]] = {}
        self._rows: dict[Terms, Rows] = {}
        self._group_of: dict[str, Terms | None] = {}
        self._at: dict[int, list[Terms]] = {}
        self._taken: set[str] = set()
        self._session = -1
        self._seen = 0
        self.rank: dict[str, tuple[int, str]] = {}
        self.counts: NDArray[np.int64] = np.zeros(size, np.int64)
        for volume in volumes:
            self.add(volume)

    def __bool__(self) -> bool:
        return bool(self.rank)

    def add(self, volume: PersistentVolume) -> None:
        """A volume suits from now on."""
        name, terms = volume.metadata.name, reach_of(volume)
        self.rank[name] = (size_of(volume), name)
        self._group_of[name] = terms
        if terms is not None and terms not in self._groups:
            self._groups[terms] = []
            rows = self._rows[terms] = self._reach.rows(terms)
            for row in rows.tolist():
                self._at.setdefault(row, []).append(terms)
        bisect.insort(self._everywhere if terms is None else self._groups[terms], name, key=self.rank.__getitem__)
        self._count(name, 1)

    def remove(self, name: str) -> None:
        """A volume does not suit any more, or is gone."""
        if name not in self.rank:
            return
        if name in self._taken:
            self._taken.discard(name)
        else:
            self._count(name, -1)
        terms = self._group_of.pop(name)
        (self._everywhere if terms is None else self._groups[terms]).remove(name)
        del self.rank[name]

    def without(self, plans: Plans) -> NDArray[np.int64]:
        """`counts`, less the volumes that are planned for others."""
        plans.follow()
        if self._session != plans.session:
            self._session = plans.session
            for name in (plans.taken & self.rank.keys()) ^ self._taken:
                self._take(name, taken=name in plans.taken)
        else:
            for name, amount in plans.changes[self._seen :]:
                if name in self.rank:
                    self._take(name, taken=amount > 0)
        self._seen = len(plans.changes)
        return self.counts

    def best(self, row: int, taken: Collection[str]) -> str:
        """The smallest volume that the node reaches and nobody has taken; "" when there is none."""
        reaching = [self._everywhere, *(self._groups[terms] for terms in self._at.get(row, ()))]
        found = [next((name for name in names if name not in taken), "") for names in reaching]
        return min((name for name in found if name), key=self.rank.__getitem__, default="")

    def _take(self, name: str, *, taken: bool) -> None:
        (self._taken.add if taken else self._taken.discard)(name)
        self._count(name, -1 if taken else 1)

    def _count(self, name: str, amount: int) -> None:
        terms = self._group_of[name]
        if terms is None:
            self.counts += amount
        else:
            self.counts[self._rows[terms]] += amount
