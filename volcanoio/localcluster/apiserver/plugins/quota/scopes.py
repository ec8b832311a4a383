"""Which objects a quota is about: its scopes (Kubernetes: pkg/quota/v1/evaluator/core/pods.go)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from volcanoio.localcluster.apiserver.kinds.podspec import quality_of_service
from volcanoio.model.base import Manifest


class Scope(NamedTuple):
    """One requirement. `operator` is Exists, DoesNotExist, In or NotIn."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


def scopes_of(spec: Manifest) -> tuple[Scope, ...]:
    """All requirements of a quota's spec; an object must meet each."""
    plain = [Scope(name) for name in spec.get("scopes") or ()]
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    selected = [Scope(one["scopeName"], one["operator"], tuple(one.get("values") or ())) for one in expressions]
    return (*plain, *selected)


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
            return _meets(scope, spec.get("priorityClassName") or "")
        case "CrossNamespacePodAffinity":
            return any(_crosses(term) for term in _affinity_terms(spec))
    return False


def _claim_in(scope: Scope, claim: Manifest) -> bool:
    name = (claim.get("spec") or {}).get("volumeAttributesClassName") or ""
    return scope.name == "VolumeAttributesClass" and _meets(scope, name)


def _meets(scope: Scope, value: str) -> bool:
    match scope.operator:
        case "Exists":
            return bool(value)
        case "DoesNotExist":
            return not value
        case "In":
            return value in scope.values
    return value not in scope.values


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
