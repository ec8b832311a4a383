"""Kubernetes' filters NodeVolumeLimits, VolumeZone and, of VolumeRestrictions, ReadWriteOncePod claims.

Sources: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go, volumezone and volumerestrictions.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.podterms import NodeCounts
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape, VolumeClaim
from volcanoio.model import kinds
from volcanoio.model.storage import READ_WRITE_ONCE_POD, CSINode
from volcanoio_plugins.scheduling.kubernetes.nodeindex import Mask, NodeIndex

EXCEEDED = "node(s) exceed max volume count"
IN_USE = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
UNCOUNTED = frozenset({"rancher.io/local-path", "hostpath.csi.k8s.io"})
"""Provisioners whose volumes Volcano does not count by default (`--ignored-provisioners`)."""
UNLIMITED = np.iinfo(np.int64).max
_CSI_NODES, _ATTACHMENTS = kinds.CSI_NODE.resource, kinds.VOLUME_ATTACHMENT.resource


class _Driver:
    """A driver's limits and usage by row, updated as tasks are added and removed."""

    def __init__(self, limits: dict[str, int], node_counts: NodeCounts, index: NodeIndex) -> None:
        self._node_counts = node_counts
        self._index = index
        self._version = -1
        self.limit: NDArray[np.int64] = np.full(index.size, UNLIMITED, np.int64)
        for node, count in limits.items():
            if (row := index.row_of(node)) is not None:
                self.limit[row] = count
        self.used: NDArray[np.int64] = np.zeros(index.size, np.int64)

    def update(self) -> None:
        version, node_counts = self._node_counts.version, self._node_counts
        if version != self._version:
            changes = node_counts.since(self._version) if self._version >= 0 else None
            if changes is None:
                self.used[:] = 0
                changes = list(node_counts.by_node.items())
            for node, amount in changes:
                if (row := self._index.row_of(node)) is not None:
                    self.used[row] += amount
            self._version = version


class VolumeLimits:
    """Filters nodes by their volume limit per driver, from CSINode.

    Attached volumes count, in use or not; a volume that is used or attached on the node already is not counted again.
    """

    watches: tuple[str, ...] = (_CSI_NODES, _ATTACHMENTS)
    applies_to = ("claims",)

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._limits: dict[str, dict[str, int]] = {}
        self._drivers: dict[str, _Driver] = {}
        self._seen: tuple[int, int] = (-1, -1)

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on the other pods if a driver of the shape's claims has a limit."""
        return Depends.SOURCE | Depends.PODS if self._limited(shape) else Depends.SOURCE

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the nodes that can attach the volumes of the shape."""
        ok = np.ones(len(nodes), np.bool_)
        limited = self._limited(shape) if shape.claims else ()
        if not limited:
            return Feasibility(ok)
        if nodes is not self._index.session.nodes:
            every = self.feasible(shape, self._index.session.nodes)
            rows = [row for name in nodes.names if (row := self._index.row_of(name)) is not None]
            return Feasibility(every.ok[rows], ((EXCEEDED, ~every.ok[rows]),))
        for name in limited:
            if (driver := self._drivers.get(name)) is None:
                driver = _Driver(self._limits[name], self._index.session.volumes.in_use(name), self._index)
                self._drivers[name] = driver
            driver.update()
            new: NDArray[np.int64] = np.zeros(len(nodes), np.int64)
            for claim in shape.claims:
                if claim.driver == name:
                    new += 1
                    for node in self._nodes_with(claim):
                        if (row := self._index.row_of(node)) is not None:
                            new[row] -= 1
            ok &= (new == 0) | (driver.used <= driver.limit - new)
        return Feasibility(ok, ((EXCEEDED, ~ok),))

    def _nodes_with(self, claim: VolumeClaim) -> Collection[str]:
        attached = claim.volume.attached_nodes if claim.volume is not None else ()
        used = self._index.session.volumes.used_on(claim.key) if claim.key else ()
        return {*used, *attached} if used and attached else used or attached

    def _limited(self, shape: Shape) -> list[str]:
        """Return the drivers of the shape's claims that have a limit on any node."""
        self._update_limits()
        drivers = dict.fromkeys(claim.driver for claim in shape.claims)
        return [driver for driver in drivers if driver in self._limits and driver not in UNCOUNTED]

    def _update_limits(self) -> None:
        session = self._index.session
        seen = session.version(_CSI_NODES), self._index.update().version
        if seen == self._seen:
            return
        self._seen = seen
        self._drivers.clear()
        self._limits.clear()
        for name, known in session.objects(_CSI_NODES).items():
            if isinstance(known, CSINode):
                for driver in known.spec.drivers:
                    if driver.allocatable is not None and driver.allocatable.count is not None:
                        self._limits.setdefault(driver.name, {})[name] = driver.allocatable.count


class ReadWriteOncePodFilter:
    """Excludes all nodes while another pod uses a claim with the access mode ReadWriteOncePod."""

    applies_to = ("claims",)

    def __init__(self, index: NodeIndex) -> None:
        self._index = index

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on pods if several pods name such a claim."""
        return Depends.PODS if any(map(_is_exclusive, shape.claims)) else Depends.SKIP

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return all nodes or none."""
        exclusive = filter(_is_exclusive, shape.claims)
        taken = any(self._index.session.volumes.used_on(claim.key) for claim in exclusive)
        everywhere = np.ones(len(nodes), np.bool_)
        return Feasibility(~everywhere, ((IN_USE, everywhere),)) if taken else Feasibility(everywhere)


def _is_exclusive(claim: VolumeClaim) -> bool:
    return bool(claim.key) and READ_WRITE_ONCE_POD in claim.access_modes


CONFLICT = "node(s) had no available volume zone"
_NEWER_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Deprecated labels and their replacements."""
_LABELS = (*_NEWER_LABELS, *_NEWER_LABELS.values())
_SEPARATOR = "__"
"""Separates several zones in a volume's label."""


class VolumeZones:
    """Filters nodes by zone and region of bound volumes; nodes without any such label pass."""

    applies_to = ("claims",)

    def __init__(self, index: NodeIndex) -> None:
        self._index = index

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on the labels of the row's own node if a volume has zones."""
        zoned = any(claim.volume is not None and claim.volume.zones for claim in shape.claims)
        return Depends.NODE_SPEC if zoned else Depends.SKIP

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the nodes in the volumes' zones."""
        ok = np.ones(len(nodes), np.bool_)
        if not (zones := [zone for claim in shape.claims if claim.volume is not None for zone in claim.volume.zones]):
            return Feasibility(ok)
        index = self._index.over(nodes)
        for label, value in zones:
            ok &= _within(index, label, value.split(_SEPARATOR))
        ok |= ~_has_zone_label(index)
        return Feasibility(ok, ((CONFLICT, ~ok),))


def _within(index: NodeIndex, label: str, zones: list[str]) -> Mask:
    """Return the nodes whose label, or its replacement if missing, is one of the zones."""
    column = index.label(label)
    mask = np.isin(column.codes, [column.code(zone) for zone in zones])
    if (newer := _NEWER_LABELS.get(label)) is not None:
        other = index.label(newer)
        mask |= (column.codes == column.code(None)) & np.isin(other.codes, [other.code(zone) for zone in zones])
    return mask


def _has_zone_label(index: NodeIndex) -> Mask:
    mask: Mask = np.zeros(index.size, np.bool_)
    for label in _LABELS:
        column = index.label(label)
        mask |= column.codes != column.code(None)
    return mask
