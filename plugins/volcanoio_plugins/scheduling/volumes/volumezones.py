"""Kubernetes' filter VolumeZone: a volume's labels of zone and region (pkg/scheduler/framework/plugins/volumezone)."""

from __future__ import annotations

import numpy as np

from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio_plugins.scheduling.nodes.nodeindex import Mask, NodeIndex

CONFLICT = "node(s) had no available volume zone"
_STANDS_FOR = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Old labels, and those by which newer nodes say the same."""
_LABELS = (*_STANDS_FOR, *_STANDS_FOR.values())
_BETWEEN = "__"
"""Separates several zones in a volume's label."""


class VolumeZones:
    """Nodes in a zone and region of every bound volume; nodes without any such label are in all of them."""

    def __init__(self, index: NodeIndex) -> None:
        self._index = index

    def feasible_depends(self, shape: Shape) -> Depends:
        """The labels of the row's own node, where there is a volume with zones."""
        zoned = any(claim.volume is not None and claim.volume.zones for claim in shape.claims)
        return Depends.NODE_SPEC if zoned else Depends.NOTHING

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """The nodes that are in the volumes' zones."""
        ok = np.ones(len(nodes), np.bool_)
        zones = [zone for claim in shape.claims if claim.volume is not None for zone in claim.volume.zones]
        if not zones:
            return Feasibility(ok)
        index = self._index.over(nodes)
        for label, said in zones:
            ok &= _within(index, label, said.split(_BETWEEN))
        ok |= ~_placed(index)
        return Feasibility(ok, ((CONFLICT, ~ok),))


def _within(index: NodeIndex, label: str, zones: list[str]) -> Mask:
    """Nodes whose label, or where it is missing its newer form, is one of the zones."""
    column = index.label(label)
    mask = np.isin(column.codes, [column.code(zone) for zone in zones])
    newer = _STANDS_FOR.get(label)
    if newer is not None:
        other = index.label(newer)
        mask |= (column.codes == column.code(None)) & np.isin(other.codes, [other.code(zone) for zone in zones])
    return mask


def _placed(index: NodeIndex) -> Mask:
    """Nodes with any label of zone or region."""
    mask: Mask = np.zeros(index.size, np.bool_)
    for label in _LABELS:
        column = index.label(label)
        mask |= column.codes != column.code(None)
    return mask
