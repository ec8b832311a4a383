"""Whether a node matches selectors and taints, one node at a time: Kubernetes' rules.

Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity, k8s.io/api/core/v1 (Toleration.ToleratesTaint).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from volcanoio.model.core import NodeSelectorTerm, PreferredSchedulingTerm, Taint, Toleration

HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
SOFT_EFFECT = "PreferNoSchedule"
UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def is_empty(term: NodeSelectorTerm) -> bool:
    """Whether a term has no requirement: a required one then matches no node, a preferred one counts for nothing."""
    return not term.match_expressions and not term.match_fields


def effective(preferences: Iterable[PreferredSchedulingTerm]) -> Iterator[PreferredSchedulingTerm]:
    """Preferences that weigh anything."""
    return (term for term in preferences if term.weight and not is_empty(term.preference))


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any toleration covers a taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def first_untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that keeps a pod off the node."""
    return next((taint for taint in taints if taint.effect in HARD_EFFECTS and not tolerated(taint, tolerations)), None)


def soft_untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> int:
    """How many taints make the node less welcome: PreferNoSchedule, tolerated by none that names it or all effects."""
    relevant = [toleration for toleration in tolerations if toleration.effect in ("", SOFT_EFFECT)]
    return sum(1 for taint in taints if taint.effect == SOFT_EFFECT and not tolerated(taint, relevant))
