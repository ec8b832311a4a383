"""Kubernetes' filters and scorers by node labels and taints: NodeUnschedulable, NodeAffinity and TaintToleration.

The filters run in this order. The scores, by preferred node affinity and soft taints, are relative to the feasible
nodes.
"""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio.model.core import PreferredSchedulingTerm, Toleration
from volcanoio.model.selectors import UNSCHEDULABLE_TAINT, effective, first_untolerated, soft_untolerated, tolerated
from volcanoio_plugins.scheduling.kubernetes import noderesources
from volcanoio_plugins.scheduling.kubernetes.nodeindex import Mask, NodeIndex

UNSCHEDULABLE = "node(s) were unschedulable"
NO_DEVICES = "node(s) cannot be given resource claims: predicate.DynamicResourceAllocationEnable is not set"
"""A pod bound without its devices would occupy its node and never start."""
AFFINITY = "node(s) didn't match Pod's node affinity/selector"


class NodeFilter:
    """Filters nodes by their own properties; affinity and taints are optional.

    `devices`: another filter handles claims of devices; otherwise no node is feasible for pods with such claims.
    """

    def __init__(self, index: NodeIndex, *, affinity: bool, taints: bool, devices: bool = False) -> None:
        self._index = index
        self._affinity = affinity
        self._taints = taints
        self._devices = devices

    def feasible_depends(self, shape: Shape) -> Depends:  # noqa: ARG002 - the same for all shapes
        """Depend on labels, taints and the cordon of the row's own node."""
        return Depends.NODE_SPEC

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the nodes that pass all filters, and those that fail by each; none for device claims."""
        if shape.has_device_claims and not self._devices:
            return Feasibility(np.zeros(len(nodes), np.bool_), ((NO_DEVICES, np.ones(len(nodes), np.bool_)),))
        index = self._index.over(nodes)
        reasons: list[tuple[str, Mask]] = []
        if not tolerated(UNSCHEDULABLE_TAINT, shape.tolerations):
            cordons = index.cordons
            reasons.append((UNSCHEDULABLE, np.asarray(cordons.values, np.bool_)[cordons.codes]))
        if self._affinity and (matching := affine(index, shape)) is not None:
            reasons.append((AFFINITY, ~matching))
        if self._taints:
            reasons.extend(tainted(index, shape))
        ok = np.ones(len(nodes), np.bool_)
        for _, failed in reasons:
            ok &= ~failed
        return Feasibility(ok, tuple((text, failed) for text, failed in reasons if failed.any()))


def affine(index: NodeIndex, shape: Shape) -> Mask | None:
    """Return the nodes that match selector and required affinity; None if the shape has neither."""
    affinity = shape.affinity.node_affinity if shape.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    if not shape.node_selector and required is None:
        return None
    mask = index.selected(shape.node_selector)
    if required is not None:
        mask &= index.matches_any(required.node_selector_terms)
    return mask


def tainted(index: NodeIndex, shape: Shape) -> list[tuple[str, Mask]]:
    """Return the nodes with an untolerated taint, by the text of the first such taint."""
    by_text: dict[str, list[int]] = {}
    column = index.taints
    for code, taints in enumerate(column.values):
        if (taint := first_untolerated(taints, shape.tolerations)) is not None:
            text = f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
            by_text.setdefault(text, []).append(code)
    masks = []
    for text, codes in sorted(by_text.items()):
        table = np.zeros(len(column.values), np.bool_)
        table[codes] = True
        masks.append((text, table[column.codes]))
    return masks


Floats = NDArray[np.float64]
_RELATIVE = Depends.NODE_SPEC | Depends.FEASIBLE_SET


class Preference:
    """Points by node, scaled to 0..100 of the maximum of the feasible nodes, times a weight.

    The maximum is nearly always the same, so the last result is cached.
    """

    def __init__(self, points: NDArray[np.int64], weight: int, *, reverse: bool) -> None:
        self._points = points
        self._weight = weight
        self._reverse = reverse
        self._most = -1
        self._scaled: Floats = np.zeros(0)

    def scaled(self, feasible: Mask) -> Floats:
        """Return the scores; never write to them."""
        if (most := int(np.where(feasible, self._points, 0).max(initial=0))) != self._most:
            self._most = most
            self._scaled = (noderesources.scaled(self._points, most, reverse=self._reverse) * self._weight).astype(
                float
            )
        return self._scaled


class _Preferences(ABC):
    """The common part of both scorers: preferences by shape, cached for a session."""

    def __init__(self, index: NodeIndex, weight: int, *, reverse: bool) -> None:
        self._index = index
        self._weight = weight
        self._reverse = reverse
        self._session = 0
        self._known: dict[int, Preference] = {}

    def score(self, shape: Shape, nodes: Nodes, feasible: Mask) -> Floats:
        """Score all nodes."""
        if self._session != self._index.sessions:
            self._session = self._index.sessions
            self._known.clear()
        index = self._index.over(nodes)
        if index is not self._index:
            return Preference(self._points(shape, index), self._weight, reverse=self._reverse).scaled(feasible)
        if (known := self._known.get(shape.base_id)) is None:
            known = Preference(self._points(shape, index), self._weight, reverse=self._reverse)
            if shape.base_id >= 0:
                self._known[shape.base_id] = known
        return known.scaled(feasible)

    @abstractmethod
    def _points(self, shape: Shape, index: NodeIndex) -> NDArray[np.int64]:
        """Return the points of each node, before they are scaled."""


class AffinityScorer(_Preferences):
    """Prefers nodes that match more, or heavier, preferred terms of node affinity."""

    applies_to = ("affinity",)

    def __init__(self, index: NodeIndex, weight: int) -> None:
        super().__init__(index, weight, reverse=False)

    def score_depends(self, shape: Shape) -> Depends:
        """Depend on the feasible nodes if the shape has preferred terms."""
        return _RELATIVE if preferred(shape) else Depends.NOTHING

    def _points(self, shape: Shape, index: NodeIndex) -> NDArray[np.int64]:
        points = np.zeros(index.size, np.int64)
        for term in preferred(shape):
            points += index.matches(term.preference) * term.weight
        return points


class TaintScorer(_Preferences):
    """Avoids nodes with PreferNoSchedule taints that the shape does not tolerate."""

    def __init__(self, index: NodeIndex, weight: int) -> None:
        super().__init__(index, weight, reverse=True)
        self._avoids: dict[tuple[Toleration, ...], bool] = {}
        """By tolerations: many shapes have the same, mostly none."""
        self._version = -1

    def score_depends(self, shape: Shape) -> Depends:
        """Depend on the feasible nodes if any node has such a taint."""
        index, tolerations = self._index.update(), shape.tolerations
        if self._version != index.version:
            self._version = index.version
            self._avoids.clear()
        if (avoids := self._avoids.get(tolerations)) is None:
            present = index.taints.present()
            avoids = self._avoids[tolerations] = any(soft_untolerated(taints, tolerations) for taints in present)
        return _RELATIVE if avoids else Depends.NOTHING

    def _points(self, shape: Shape, index: NodeIndex) -> NDArray[np.int64]:
        taints = index.taints
        table = [soft_untolerated(values, shape.tolerations) for values in taints.values]
        return np.array(table, np.int64)[taints.codes]


def preferred(shape: Shape) -> tuple[PreferredSchedulingTerm, ...]:
    """Return the effective preferred terms of the shape."""
    affinity = shape.affinity.node_affinity if shape.affinity else None
    return tuple(effective(affinity.preferred_during_scheduling_ignored_during_execution)) if affinity else ()
