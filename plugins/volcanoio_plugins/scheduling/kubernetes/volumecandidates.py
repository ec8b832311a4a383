"""Volumes that a claim may be bound to, best first, and nodes where one can be provisioned for it.

Sources: Kubernetes k8s.io/component-helpers/storage/volume (FindMatchingVolume; among volumes of equal size the name
decides here, so that a replay agrees); pkg/scheduler/framework/plugins/volumebinding/binder.go (checkVolumeProvisions,
hasEnoughCapacity): the provisioner, topologies and capacity of the class.
"""

import bisect
from collections.abc import Collection, Iterable
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.views import VolumeClaim
from volcanoio.model import kinds
from volcanoio.model.core import NodeSelectorTerm, Requirement
from volcanoio.model.quantity import value
from volcanoio.model.selectors import satisfied
from volcanoio.model.storage import (
    NO_PROVISIONER,
    VOLUMES_REACHABLE,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    StorageClass,
    TopologyTerm,
)
from volcanoio_plugins.scheduling.kubernetes.nodeindex import Mask, NodeIndex

Rows = NDArray[np.intp]
Terms = tuple[NodeSelectorTerm, ...]
AVAILABLE = "Available"


def size_of(volume: PersistentVolume) -> int:
    """Return the capacity of a volume in bytes."""
    return value(volume.spec.capacity.get("storage", 0))


def affinity_terms(volume: PersistentVolume) -> Terms | None:
    """Return the terms of its node affinity; None if every node reaches it."""
    affinity = volume.spec.node_affinity
    return None if affinity is None or affinity.required is None else affinity.required.node_selector_terms


def matches(volume: PersistentVolume, claim: VolumeClaim) -> bool:
    """Return whether an unclaimed volume matches a claim, regardless of nodes."""
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


class ReachableNodes:
    """The rows that reach volumes, cached per node affinity until a node changes."""

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._version = -1
        self._rows: dict[Terms, Rows] = {}

    def rows(self, terms: Terms) -> Rows:
        """Return the nodes that one of the terms selects."""
        if self._version != self._index.version:
            self._version = self._index.version
            self._rows.clear()
        if (known := self._rows.get(terms)) is None:
            known = self._rows[terms] = self._find(terms)
        return known

    def _find(self, terms: Terms) -> Rows:
        """Look up the row of a local volume, whose affinity names one host, instead of matching all nodes."""
        if len(terms) == 1 and not terms[0].match_fields and len(terms[0].match_expressions) == 1:
            only = terms[0].match_expressions[0]
            code = self._index.label(only.key).code(only.values[0]) if len(only.values) == 1 else -1
            if only.operator == "In" and code >= 0:
                return self._index.topology(only.key).rows_of(code)
        return np.flatnonzero(self._index.matches_any(terms))


class PlansView(Protocol):
    """The part of `volumebinding.VolumePlans` that `CandidateVolumes` reads."""

    planned: set[str]
    changes: list[tuple[str, int]]
    session: int

    def update(self) -> None:
        """Bring these up to date."""
        ...


class CandidateVolumes:
    """The free volumes that match a claim. `counts` has by row how many of them the node reaches."""

    def __init__(self, volumes: Iterable[PersistentVolume], reach: ReachableNodes, size: int) -> None:
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
        """Add a volume that matches."""
        name, terms = volume.metadata.name, affinity_terms(volume)
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
        """Remove a volume that no longer matches or was deleted."""
        if name not in self.rank:
            return
        if name in self._taken:
            self._taken.discard(name)
        else:
            self._count(name, -1)
        terms = self._group_of.pop(name)
        (self._everywhere if terms is None else self._groups[terms]).remove(name)
        del self.rank[name]

    def without(self, plans: PlansView) -> NDArray[np.int64]:
        """Return `counts` less the volumes that are planned for others."""
        plans.update()
        if self._session != plans.session:
            self._session = plans.session
            for name in (plans.planned & self.rank.keys()) ^ self._taken:
                self._take(name, planned=name in plans.planned)
        else:
            for name, amount in plans.changes[self._seen :]:
                if name in self.rank:
                    self._take(name, planned=amount > 0)
        self._seen = len(plans.changes)
        return self.counts

    def best(self, row: int, planned: Collection[str]) -> str:
        """Return the smallest reachable volume that is not in use, "" for none."""
        reaching = [self._everywhere, *(self._groups[terms] for terms in self._at.get(row, ()))]
        found = [next((name for name in names if name not in planned), "") for names in reaching]
        return min((name for name in found if name), key=self.rank.__getitem__, default="")

    def _take(self, name: str, *, planned: bool) -> None:
        (self._taken.add if planned else self._taken.discard)(name)
        self._count(name, -1 if planned else 1)

    def _count(self, name: str, amount: int) -> None:
        if (terms := self._group_of[name]) is None:
            self.counts += amount
        else:
            self.counts[self._rows[terms]] += amount


_CLASSES, _DRIVERS = kinds.STORAGE_CLASS.resource, kinds.CSI_DRIVER.resource
_CAPACITIES, _CSI_NODES = kinds.CSI_CAPACITY.resource, kinds.CSI_NODE.resource


class Reachable(Enum):
    """Which nodes can use a volume that is provisioned for one node."""

    ANYWHERE = "anywhere"
    UNKNOWN = "unknown"


ANYWHERE = Reachable.ANYWHERE


class Provisioning:
    """Computes the nodes for which a claim's class provisions volumes."""

    watches: tuple[str, ...] = (_CLASSES, _DRIVERS, _CAPACITIES, _CSI_NODES)

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._topology_drivers: frozenset[str] = frozenset()
        """Drivers with topology keys on any node."""
        self._seen = -1

    def nodes(self, claim: VolumeClaim, index: NodeIndex) -> tuple[Mask, Mask]:
        """Return the nodes for which a volume can be provisioned, and those with the capacity for it."""
        everywhere = np.ones(index.size, np.bool_)
        if (storage_class := self._class(claim)) is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return ~everywhere, everywhere
        can_provision = everywhere
        if storage_class.allowed_topologies:
            can_provision = index.matches_any([_term(term) for term in storage_class.allowed_topologies])
        driver = self._index.session.objects(_DRIVERS).get(storage_class.provisioner)
        if not isinstance(driver, CSIDriver) or not driver.spec.storage_capacity:
            return can_provision, everywhere
        return can_provision, self._with_capacity(claim, index)

    def reach(self, claim: VolumeClaim) -> Reachable:
        """Return whether a volume provisioned for one node can be used from all.

        That holds if its driver has no topology keys, or its class is annotated so.
        """
        if (storage_class := self._class(claim)) is None:
            return Reachable.UNKNOWN
        if storage_class.metadata.annotations.get(VOLUMES_REACHABLE) == "everywhere":
            return ANYWHERE
        name = storage_class.provisioner
        known = name in self._index.session.objects(_DRIVERS)
        return ANYWHERE if known and not self._has_topology(name) else Reachable.UNKNOWN

    def _has_topology(self, driver: str) -> bool:
        """Return whether a driver has topology keys on any node."""
        session = self._index.session
        if (version := session.version(_CSI_NODES)) != self._seen:
            self._seen = version
            self._topology_drivers = frozenset(
                each.name
                for node in session.objects(_CSI_NODES).values()
                if isinstance(node, CSINode)
                for each in node.spec.drivers
                if each.topology_keys
            )
        return driver in self._topology_drivers

    def _class(self, claim: VolumeClaim) -> StorageClass | None:
        found = self._index.session.objects(_CLASSES).get(claim.storage_class)
        return found if isinstance(found, StorageClass) else None

    def _with_capacity(self, claim: VolumeClaim, index: NodeIndex) -> Mask:
        mask = np.zeros(index.size, np.bool_)
        for known in self._index.session.objects(_CAPACITIES).values():
            if not isinstance(known, CSIStorageCapacity) or known.storage_class_name != claim.storage_class:
                continue
            limit = known.capacity if known.maximum_volume_size is None else known.maximum_volume_size
            if limit is not None and known.node_topology is not None and value(limit) >= claim.size:
                mask |= index.matches(NodeSelectorTerm(match_expressions=known.node_topology.requirements))
        return mask


def _term(term: TopologyTerm) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=tuple(
            Requirement(key=wanted.key, operator="In", values=wanted.values) for wanted in term.match_label_expressions
        )
    )
