"""Which objects a quota is about: its scopes (Kubernetes: pkg/quota/v1/evaluator/core/pods.go)."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.localcluster.apiserver.kinds.podspec import quality_of_service
from volcanoio.model.base import Manifest
from volcanoio.model.quotascopes import Scope


def in_scope(scopes: tuple[Scope, ...], resource: str, obj: Manifest) -> bool:
    """Whether a quota with these scopes counts the object: kinds that know no scopes are in none."""
    if resource == "pods":
        return all(_pod_in(scope, obj["spec"]) for scope in scopes)
    if resource == "persistentvolumeclaims":
        return all(_claim_in(scope, obj) for scope in scopes)
    return not scopes


def _pod_in(scope: Scope, spec: Manifest) -> bool:
    match scope.name:
        case "Terminating":
            return is_terminating(spec)
        case "NotTerminating":
            return not is_terminating(spec)
        case "BestEffort":
            return quality_of_service(spec) == "BestEffort"
        case "NotBestEffort":
            return quality_of_service(spec) != "BestEffort"
        case "PriorityClass":
            return scope.meets(spec.get("priorityClassName") or "")
        case "CrossNamespacePodAffinity":
            return any(_crosses(term) for term in _affinity_terms(spec))
    return False


def _claim_in(scope: Scope, claim: Manifest) -> bool:
    name = (claim.get("spec") or {}).get("volumeAttributesClassName") or ""
    return scope.name == "VolumeAttributesClass" and scope.meets(name)


def is_terminating(spec: Manifest) -> bool:
    """Whether a pod ends by itself at a deadline."""
    return spec.get("activeDeadlineSeconds") is not None


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _affinity_terms(spec: Manifest) -> list[Any]:
    affinity = spec.get("affinity") or {}
    found: list[Any] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        found += rules.get(_REQUIRED) or ()
        found += [one.get("podAffinityTerm") or {} for one in rules.get(_PREFERRED) or ()]
    return found


def _crosses(term: Manifest) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None
