"""On which nodes a daemon's pods belong, and how a pod is tied to its node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from volcanoio.localcluster.controllers.nodes.taints import NO_EXECUTE, tolerates
from volcanoio.model.base import Manifest
from volcanoio.model.core import Node, Pod, Taint, Toleration

_NAME = "metadata.name"
_TOLERATED = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TESTS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: _number(value) > _number(values[0]),
    "Lt": lambda value, values: _number(value) < _number(values[0]),
}


def _number(text: str | None) -> float:
    """A number, or one that compares with nothing."""
    return int(text) if text is not None and text.lstrip("-").isdigit() else float("nan")


def belongs(template: Mapping[str, Any], node: Node) -> tuple[bool, bool]:
    """Whether a pod of the template is to be on the node, and whether one that is there may stay."""
    spec = template.get("spec") or {}
    labels = node.metadata.labels
    if spec.get("nodeName") not in (None, "", node.metadata.name):
        return False, False
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False, False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    if affinity is not None and not any(_term(term, node) for term in affinity.get("nodeSelectorTerms") or ()):
        return False, False
    tolerations = [msgspec.convert(one, Toleration) for one in (*(spec.get("tolerations") or ()), *tolerated(spec))]
    bad = [
        taint
        for taint in node.spec.taints
        if taint.effect in ("NoSchedule", NO_EXECUTE) and not _is_tolerated(taint, tolerations)
    ]
    return not bad, not any(taint.effect == NO_EXECUTE for taint in bad)


def _is_tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return any(tolerates(one, taint) for one in tolerations)


def _term(term: Mapping[str, Any], node: Node) -> bool:
    """Whether all requirements of a term hold; an empty term matches nothing."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    labels = node.metadata.labels
    return bool(expressions or fields) and (
        all(_test(one, labels.get(one.get("key", ""))) for one in expressions)
        and all(_test(one, node.metadata.name if one.get("key") == _NAME else None) for one in fields)
    )


def _test(one: Mapping[str, Any], value: str | None) -> bool:
    test = _TESTS.get(one.get("operator", ""))
    values = one.get("values") or ()
    return test is not None and (bool(values) or one["operator"] in ("Exists", "DoesNotExist")) and test(value, values)


def tolerated(spec: Mapping[str, Any]) -> list[Manifest]:
    """The tolerations that a daemon's pods have besides their own."""
    wanted = [*_TOLERATED, *((_HOST_NETWORK,) if spec.get("hostNetwork") else ())]
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in wanted]


def tied(spec: Mapping[str, Any], node: str) -> Manifest:
    """The spec of a pod that goes to that node and nowhere else."""
    field = {"key": _NAME, "operator": "In", "values": [node]}
    affinity = dict(spec.get("affinity") or {})
    around = dict(affinity.get("nodeAffinity") or {})
    terms = (around.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    around[_REQUIRED] = {"nodeSelectorTerms": [{**term, "matchFields": [field]} for term in terms]}
    affinity["nodeAffinity"] = around
    known = spec.get("tolerations") or []
    more = [one for one in tolerated(spec) if one not in known]
    return {**spec, "affinity": affinity, "tolerations": [*known, *more]}


def node_of(pod: Pod) -> str:
    """The node a pod is on, or is tied to."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    for term in required.node_selector_terms if required is not None else ():
        for field in term.match_fields:
            if (field.key, field.operator, len(field.values)) == (_NAME, "In", 1):
                return field.values[0]
    return ""
