"""Where a volume can be made for a claim: its class's provisioner, topologies and room.

Source: Kubernetes pkg/scheduler/framework/plugins/volumebinding/binder.go (checkVolumeProvisions, hasEnoughCapacity).
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.volumes import VolumeClaim
from volcanoio.model import kinds
from volcanoio.model.core import NodeSelectorTerm, Requirement
from volcanoio.model.quantity import value
from volcanoio.model.storage import (
    NO_PROVISIONER,
    VOLUMES_REACHABLE,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    StorageClass,
    TopologyTerm,
)
from volcanoio_plugins.scheduling.nodes.nodeindex import Mask, NodeIndex

_CLASSES, _DRIVERS = kinds.STORAGE_CLASS.resource, kinds.CSI_DRIVER.resource
_CAPACITIES, _CSI_NODES = kinds.CSI_CAPACITY.resource, kinds.CSI_NODE.resource


class Reachable(Enum):
    """From where a volume that is made for one node can be used."""

    ANYWHERE = "anywhere"
    UNKNOWN = "unknown"


ANYWHERE = Reachable.ANYWHERE


class VolumeMaking:
    """Masks of the nodes for which a claim's class makes volumes."""

    watches: tuple[str, ...] = (_CLASSES, _DRIVERS, _CAPACITIES, _CSI_NODES)

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._session: SessionView
        self._bound_to_places: frozenset[str] = frozenset()
        """Drivers of which some node says that its place matters."""
        self._seen = -1

    def open(self, session: SessionView) -> None:
        """Objects may have changed."""
        self._session = session
        if session.version(_CSI_NODES) != self._seen:
            self._seen = session.version(_CSI_NODES)
            self._bound_to_places = frozenset(
                driver.name
                for node in session.objects(_CSI_NODES).values()
                if isinstance(node, CSINode)
                for driver in node.spec.drivers
                if driver.topology_keys
            )

    def nodes(self, claim: VolumeClaim, index: NodeIndex) -> tuple[Mask, Mask]:
        """The nodes for which a volume can be made, and those with the room for it."""
        everywhere = np.ones(index.size, np.bool_)
        storage_class = self._class(claim)
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return ~everywhere, everywhere
        can_make = everywhere
        if storage_class.allowed_topologies:
            can_make = index.matches_any([_term(term) for term in storage_class.allowed_topologies])
        driver = self._session.objects(_DRIVERS).get(storage_class.provisioner)
        if not isinstance(driver, CSIDriver) or not driver.spec.storage_capacity:
            return can_make, everywhere
        return can_make, self._with_room(claim, index)

    def reach(self, claim: VolumeClaim) -> Reachable:
        """Whether a volume made for one node can be used from all: its driver knows no places, or its class says so."""
        storage_class = self._class(claim)
        if storage_class is None:
            return Reachable.UNKNOWN
        if storage_class.metadata.annotations.get(VOLUMES_REACHABLE) == "everywhere":
            return ANYWHERE
        name = storage_class.provisioner
        known = name in self._session.objects(_DRIVERS)
        return ANYWHERE if known and name not in self._bound_to_places else Reachable.UNKNOWN

    def _class(self, claim: VolumeClaim) -> StorageClass | None:
        found = self._session.objects(_CLASSES).get(claim.storage_class)
        return found if isinstance(found, StorageClass) else None

    def _with_room(self, claim: VolumeClaim, index: NodeIndex) -> Mask:
        mask = np.zeros(index.size, np.bool_)
        for known in self._session.objects(_CAPACITIES).values():
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
