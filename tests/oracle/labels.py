"""Kubernetes' selectors and tolerations, over manifests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Labels = Mapping[str, str]
HARD, SOFT = ("NoSchedule", "NoExecute"), "PreferNoSchedule"


def holds(requirement: Mapping[str, Any], labels: Labels) -> bool:
    """Whether labels satisfy one requirement."""
    value, values = labels.get(requirement["key"]), requirement.get("values", [])
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdigit() and int(value) > int(values[0])
        case "Lt":
            return value is not None and value.isdigit() and int(value) < int(values[0])
    raise AssertionError(requirement)


def selects(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Whether a label selector selects: none selects nothing, an empty one everything."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        holds(each, labels) for each in selector.get("matchExpressions", [])
    )


def term_matches(term: Mapping[str, Any], node: str, labels: Labels) -> bool:
    """Whether a node matches a term of a node selector: an empty one matches none."""
    expressions, fields = term.get("matchExpressions", []), term.get("matchFields", [])
    if not expressions and not fields:
        return False
    return all(holds(each, labels) for each in expressions) and all(
        holds(each, {"metadata.name": node}) for each in fields
    )


def affine(spec: Mapping[str, Any], node: str, labels: Labels) -> bool:
    """Whether a node has what a pod's selector and required node affinity ask for."""
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(term_matches(term, node, labels) for term in required["nodeSelectorTerms"])


def tolerates(spec: Mapping[str, Any], taint: Mapping[str, str], effects: Iterable[str] | None = None) -> bool:
    """Whether a pod tolerates a taint, by its tolerations of those effects alone where given."""
    for each in spec.get("tolerations", []):
        if effects is not None and each.get("effect", "") not in effects:
            continue
        if each.get("effect", "") not in ("", taint["effect"]) or each.get("key", "") not in ("", taint["key"]):
            continue
        if each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", ""):
            return True
    return False


def untolerated(spec: Mapping[str, Any], taints: Iterable[Mapping[str, str]]) -> bool:
    """Whether any taint keeps a pod off."""
    return any(taint["effect"] in HARD and not tolerates(spec, taint) for taint in taints)
