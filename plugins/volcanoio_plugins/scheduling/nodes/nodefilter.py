"""Kubernetes' filters by what nodes are: NodeUnschedulable, NodeAffinity and TaintToleration, in this order."""

from __future__ import annotations

import numpy as np

from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio_plugins.scheduling.nodes.nodeindex import Mask, NodeIndex
from volcanoio_plugins.scheduling.nodes.nodematch import UNSCHEDULABLE_TAINT, first_untolerated, tolerated

UNSCHEDULABLE = "node(s) were unschedulable"
NO_DEVICES = "node(s) cannot be given resource claims: dynamic resource allocation is not available yet"
"""Bound without its devices, a pod would hold its node's room and never start."""
AFFINITY = "node(s) didn't match Pod's node affinity/selector"


class NodeFilter:
    """Says which nodes a shape may go to whatever runs there; affinity and taints may be left out."""

    def __init__(self, index: NodeIndex, *, affinity: bool, taints: bool) -> None:
        self._index = index
        self._affinity = affinity
        self._taints = taints

    def feasible_depends(self, shape: Shape) -> Depends:  # noqa: ARG002 - the same for all shapes
        """Labels, taints and the cordon of the row's own node."""
        return Depends.NODE_SPEC

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """The nodes that pass all filters, and those that fail by each; none for a pod with claims of devices."""
        if shape.devices:
            return Feasibility(np.zeros(len(nodes), np.bool_), ((NO_DEVICES, np.ones(len(nodes), np.bool_)),))
        index = self._index.over(nodes)
        reasons: list[tuple[str, Mask]] = []
        if not tolerated(UNSCHEDULABLE_TAINT, shape.tolerations):
            reasons.append((UNSCHEDULABLE, np.asarray(index.cordons.values, np.bool_)[index.cordons.codes]))
        if self._affinity and (matching := affine(index, shape)) is not None:
            reasons.append((AFFINITY, ~matching))
        if self._taints:
            reasons.extend(tainted(index, shape))
        ok = np.ones(len(nodes), np.bool_)
        for _, failed in reasons:
            ok &= ~failed
        return Feasibility(ok, tuple((text, failed) for text, failed in reasons if failed.any()))


def affine(index: NodeIndex, shape: Shape) -> Mask | None:
    """Nodes that match the selector and the required affinity; None when there is neither."""
    affinity = shape.affinity.node_affinity if shape.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if not shape.node_selector and required is None:
        return None
    mask = index.selected(shape.node_selector)
    if required is not None:
        mask &= index.matches_any(required.node_selector_terms)
    return mask


def tainted(index: NodeIndex, shape: Shape) -> list[tuple[str, Mask]]:
    """Nodes with a taint that is not tolerated, by the text of the first such taint."""
    by_text: dict[str, list[int]] = {}
    for code, taints in enumerate(index.taints.values):
        if (taint := first_untolerated(taints, shape.tolerations)) is not None:
            text = f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
            by_text.setdefault(text, []).append(code)
    masks = []
    for text, codes in sorted(by_text.items()):
        table = np.zeros(len(index.taints.values), np.bool_)
        table[codes] = True
        masks.append((text, table[index.taints.codes]))
    return masks
