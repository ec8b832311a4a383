"""Kubernetes' filters NodeVolumeLimits and, of VolumeRestrictions, claims that one pod alone may use.

Sources: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go, .../volumerestrictions.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.podterms import Tally
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio.framework.scheduling.volumes import VolumeClaim, VolumesView
from volcanoio.model import kinds
from volcanoio.model.storage import READ_WRITE_ONCE_POD, CSINode
from volcanoio_plugins.scheduling.nodes.nodeindex import NodeIndex

EXCEEDED = "node(s) exceed max volume count"
ALONE = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
UNCOUNTED = frozenset({"rancher.io/local-path", "hostpath.csi.k8s.io"})
"""Provisioners whose volumes Volcano does not count by default (`--ignored-provisioners`)."""
UNLIMITED = np.iinfo(np.int64).max
_CSI_NODES, _ATTACHMENTS = kinds.CSI_NODE.resource, kinds.VOLUME_ATTACHMENT.resource


class _Driver:
    """A driver's limits by row, and what is in use; followed as tasks come and go."""

    def __init__(self, limits: dict[str, int], tally: Tally, index: NodeIndex) -> None:
        self._tally = tally
        self._index = index
        self._version = -1
        self.limit: NDArray[np.int64] = np.full(index.size, UNLIMITED, np.int64)
        for node, count in limits.items():
            row = index.row_of(node)
            if row is not None:
                self.limit[row] = count
        self.used: NDArray[np.int64] = np.zeros(index.size, np.int64)

    def follow(self) -> None:
        """Take in what was placed since."""
        version, tally = self._tally.version, self._tally
        if version != self._version:
            changes = tally.since(self._version) if self._version >= 0 else None
            if changes is None:
                self.used[:] = 0
                changes = list(tally.by_node.items())
            for node, amount in changes:
                row = self._index.row_of(node)
                if row is not None:
                    self.used[row] += amount
            self._version = version


class VolumeLimits:
    """How many volumes of a driver a node takes, as its CSINode says.

    What is attached counts, used or not; a volume that is used or attached there already is not new.
    """

    watches: tuple[str, ...] = (_CSI_NODES, _ATTACHMENTS)

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._limits: dict[str, dict[str, int]] = {}
        self._drivers: dict[str, _Driver] = {}
        self._seen: tuple[int, int] = (-1, -1)
        self._session: SessionView
        self._volumes: VolumesView

    def open(self, session: SessionView) -> None:
        """Limits may have changed."""
        self._session = session
        self._volumes = session.volumes
        self._index.over(session.nodes)
        seen = session.version(_CSI_NODES), self._index.version
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

    def feasible_depends(self, shape: Shape) -> Depends:
        """Where a driver of the shape's claims has a limit: what else is on the nodes."""
        if not shape.claims:
            return Depends.NOTHING
        return Depends.SOURCE | Depends.PODS if self._limited(shape) else Depends.SOURCE

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """The nodes that take the volumes of the shape."""
        ok = np.ones(len(nodes), np.bool_)
        limited = self._limited(shape) if shape.claims else ()
        if not limited:
            return Feasibility(ok)
        if self._index.over(nodes) is not self._index:
            every = self.feasible(shape, self._session.nodes)
            at = self._index.over(self._session.nodes)
            rows = [row for name in nodes.names if (row := at.row_of(name)) is not None]
            return Feasibility(every.ok[rows], ((EXCEEDED, ~every.ok[rows]),))
        for name in limited:
            driver = self._drivers.get(name)
            if driver is None:
                driver = _Driver(self._limits[name], self._volumes.in_use(name), self._index)
                self._drivers[name] = driver
            driver.follow()
            new: NDArray[np.int64] = np.zeros(len(nodes), np.int64)
            for claim in shape.claims:
                if claim.driver == name:
                    new += 1
                    for node in self._nodes_with(claim):
                        row = self._index.row_of(node)
                        if row is not None:
                            new[row] -= 1
            ok &= (new == 0) | (driver.used <= driver.limit - new)
        return Feasibility(ok, ((EXCEEDED, ~ok),))

    def _nodes_with(self, claim: VolumeClaim) -> Collection[str]:
        """The nodes on which the volume of a claim counts already."""
        attached = claim.volume.attached if claim.volume is not None else ()
        used = self._volumes.used_on(claim.key) if claim.key else ()
        return {*used, *attached} if used and attached else used or attached

    def _limited(self, shape: Shape) -> list[str]:
        drivers = dict.fromkeys(claim.driver for claim in shape.claims)
        return [driver for driver in drivers if driver in self._limits and driver not in UNCOUNTED]


class LoneUsers:
    """A claim with the access mode ReadWriteOncePod keeps its pod off while another pod on a node uses it."""

    def __init__(self) -> None:
        self._volumes: VolumesView

    def open(self, session: SessionView) -> None:
        """Pods may have come and gone."""
        self._volumes = session.volumes

    def feasible_depends(self, shape: Shape) -> Depends:
        """Where such a claim is named by several pods: where these are."""
        return Depends.PODS if any(map(_alone, shape.claims)) else Depends.NOTHING

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """All nodes or none."""
        taken = any(_alone(claim) and self._volumes.used_on(claim.key) for claim in shape.claims)
        everywhere = np.ones(len(nodes), np.bool_)
        return Feasibility(~everywhere, ((ALONE, everywhere),)) if taken else Feasibility(everywhere)


def _alone(claim: VolumeClaim) -> bool:
    return bool(claim.key) and READ_WRITE_ONCE_POD in claim.access_modes
