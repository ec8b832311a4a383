"""Plugin predicates: which nodes a pod may go to (Volcano: pkg/scheduler/plugins/predicates).

Kubernetes' filters NodeUnschedulable, NodeAffinity and TaintToleration in Volcano's order and with their texts. Fit of
resources, the pod count among them, is the session's own. The filters for ports, pod affinity, spread and volumes are
not here yet; their switches are known, so that a file of Volcano's loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio_plugins.scheduling.nodeindex import Mask, NodeIndex
from volcanoio_plugins.scheduling.nodematch import UNSCHEDULABLE_TAINT, first_untolerated, tolerated

UNSCHEDULABLE = "node(s) were unschedulable"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"


class PredicatesArguments(msgspec.Struct, frozen=True):
    """Which filters are on, and the arguments of those that are not here yet."""

    node_affinity: bool = msgspec.field(default=True, name="predicate.NodeAffinityEnable")
    taint_toleration: bool = msgspec.field(default=True, name="predicate.TaintTolerationEnable")
    node_ports: bool = msgspec.field(default=True, name="predicate.NodePortsEnable")
    pod_affinity: bool = msgspec.field(default=True, name="predicate.PodAffinityEnable")
    volume_limits: bool = msgspec.field(default=True, name="predicate.NodeVolumeLimitsEnable")
    volume_zone: bool = msgspec.field(default=True, name="predicate.VolumeZoneEnable")
    topology_spread: bool = msgspec.field(default=True, name="predicate.PodTopologySpreadEnable")
    volume_binding: bool = msgspec.field(default=True, name="predicate.VolumeBindingEnable")
    resource_allocation: bool = msgspec.field(default=False, name="predicate.DynamicResourceAllocationEnable")
    cache: bool = msgspec.field(default=False, name="predicate.CacheEnable")
    """Nothing to turn on: answers are kept by shape until a node changes."""


class Predicates:
    """Filters by what nodes are, not by what runs on them."""

    name = "predicates"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._enabled = convert(arguments, PredicatesArguments, self.name)
        self._index = NodeIndex()

    def open(self, session: SessionView) -> None:
        """Nodes may have changed since the last cycle."""
        self._index.begin(session.nodes)

    def feasible_depends(self, shape: Shape) -> Depends:  # noqa: ARG002 - the same for all shapes
        """Labels, taints and the cordon of the row's own node."""
        return Depends.NODE_SPEC

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """The nodes that pass all filters, and those that fail by each."""
        index = self._index.over(nodes)
        reasons: list[tuple[str, Mask]] = []
        if not tolerated(UNSCHEDULABLE_TAINT, shape.tolerations):
            reasons.append((UNSCHEDULABLE, np.asarray(index.cordons.values, np.bool_)[index.cordons.codes]))
        if self._enabled.node_affinity and (matching := _matching(index, shape)) is not None:
            reasons.append((AFFINITY, ~matching))
        if self._enabled.taint_toleration:
            reasons.extend(_tainted(index, shape))
        ok = np.ones(len(nodes), np.bool_)
        for _, failed in reasons:
            ok &= ~failed
        return Feasibility(ok, tuple((text, failed) for text, failed in reasons if failed.any()))


def _matching(index: NodeIndex, shape: Shape) -> Mask | None:
    """Nodes that match the selector and the required affinity; None when there is neither."""
    affinity = shape.affinity.node_affinity if shape.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if not shape.node_selector and required is None:
        return None
    mask = index.selected(shape.node_selector)
    if required is not None:
        mask &= index.matches_any(required.node_selector_terms)
    return mask


def _tainted(index: NodeIndex, shape: Shape) -> list[tuple[str, Mask]]:
    """Nodes with a taint that is not tolerated, by the text of the first such taint."""
    by_text: dict[str, list[int]] = {}
    for code, taints in enumerate(index.taints.values):
        if (taint := first_untolerated(taints, shape.tolerations)) is not None:
            text = f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
            by_text.setdefault(text, []).append(code)
    return [(text, np.isin(index.taints.codes, codes)) for text, codes in sorted(by_text.items())]
