"""Validation of tolerations, affinity and topology spread (Kubernetes: pkg/apis/core/validation)."""

from typing import Any

from volcanoio.model.base import Manifest
from volcanoio.model.validation.dns_names import qualified_rule
from volcanoio.model.validation.field_errors import FieldError, forbidden, invalid, required, unsupported

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION_OPERATORS = ("Equal", "Exists")
_SPREAD_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _maps(value: Any) -> list[Manifest]:
    """Return the objects of a list; other values are errors of the schema."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def toleration_errors(tolerations: Any, path: str) -> list[FieldError]:
    """Return the errors of `tolerations`."""
    errors: list[FieldError] = []
    for at, one in enumerate(_maps(tolerations)):
        where = f"{path}[{at}]"
        key, operator, effect = one.get("key"), one.get("operator") or "Equal", one.get("effect")
        if key and (rule := qualified_rule(str(key))):
            errors.append(invalid(f"{where}.key", key, rule))
        if not key and operator != "Exists":
            rule = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{where}.operator", operator, rule))
        if operator not in _TOLERATION_OPERATORS:
            errors.append(unsupported(f"{where}.operator", operator, _TOLERATION_OPERATORS))
        elif operator == "Exists" and one.get("value"):
            errors.append(invalid(f"{where}.operator", one["value"], "value must be empty when `operator` is 'Exists'"))
        if effect and effect not in _EFFECTS:
            errors.append(unsupported(f"{where}.effect", effect, _EFFECTS))
        if one.get("tolerationSeconds") is not None and effect != "NoExecute":
            rule = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{where}.effect", effect or "", rule))
    return errors


def affinity_errors(affinity: Any, path: str) -> list[FieldError]:
    """Return the errors of `affinity`."""
    if not isinstance(affinity, dict):
        return [invalid(path, affinity, "must be an object")]
    errors: list[FieldError] = []
    if isinstance(node := affinity.get("nodeAffinity"), dict):
        errors += _node_affinity_errors(node, f"{path}.nodeAffinity")
    for field in ("podAffinity", "podAntiAffinity"):
        if isinstance(pod := affinity.get(field), dict):
            for at, term in enumerate(_maps(pod.get(_REQUIRED))):
                errors += _pod_term_errors(term, f"{path}.{field}.{_REQUIRED}[{at}]")
            for at, weighted in enumerate(_maps(pod.get(_PREFERRED))):
                where = f"{path}.{field}.{_PREFERRED}[{at}]"
                errors += _weight_errors(weighted, where)
                errors += _pod_term_errors(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")
    return errors


def _node_affinity_errors(node: Manifest, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if isinstance(needed := node.get(_REQUIRED), dict):
        terms = _maps(needed.get("nodeSelectorTerms"))
        where = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        if not terms:
            errors.append(required(where, "must have at least one node selector term"))
        for at, term in enumerate(terms):
            errors += node_selector_term_errors(term, f"{where}[{at}]")
    for at, weighted in enumerate(_maps(node.get(_PREFERRED))):
        where = f"{path}.{_PREFERRED}[{at}]"
        errors += _weight_errors(weighted, where)
        errors += node_selector_term_errors(weighted.get("preference") or {}, f"{where}.preference")
    return errors


def _weight_errors(weighted: Manifest, path: str) -> list[FieldError]:
    if not isinstance(weight := weighted.get("weight"), int) or not 1 <= weight <= 100:
        return [invalid(f"{path}.weight", weight, "must be in the range 1-100")]
    return []


def node_selector_term_errors(term: Any, path: str) -> list[FieldError]:
    """Return the errors of a term of a node selector."""
    if not isinstance(term, dict):
        return [invalid(path, term, "must be an object")]
    errors: list[FieldError] = []
    for field in ("matchExpressions", "matchFields"):
        for at, one in enumerate(_maps(term.get(field))):
            where = f"{path}.{field}[{at}]"
            operator, values = one.get("operator"), one.get("values") or []
            if not isinstance(values, list):
                errors.append(invalid(f"{where}.values", values, "must be a list of strings"))
            elif operator not in _OPERATORS:
                errors.append(unsupported(f"{where}.operator", operator or "", _OPERATORS))
            elif operator in {"In", "NotIn"} and not values:
                errors.append(required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
            elif operator in {"Exists", "DoesNotExist"} and values:
                rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(forbidden(f"{where}.values", rule))
            elif operator in {"Gt", "Lt"} and len(values) != 1:
                errors.append(
                    required(f"{where}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
                )
            if rule := qualified_rule(str(one.get("key") or "")):
                errors.append(invalid(f"{where}.key", one.get("key"), rule))
    return errors


def _pod_term_errors(term: Manifest, path: str) -> list[FieldError]:
    key = term.get("topologyKey") if isinstance(term, dict) else None
    if not key:
        return [required(f"{path}.topologyKey", "can not be empty")]
    rule = qualified_rule(str(key))
    return [invalid(f"{path}.topologyKey", key, rule)] if rule else []


def spread_errors(constraints: Any, path: str) -> list[FieldError]:
    """Return the errors of `topologySpreadConstraints`."""
    errors: list[FieldError] = []
    for at, one in enumerate(_maps(constraints)):
        where = f"{path}[{at}]"
        skew, action = one.get("maxSkew"), one.get("whenUnsatisfiable")
        if not isinstance(skew, int) or skew < 1:
            errors.append(invalid(f"{where}.maxSkew", skew, "must be greater than zero"))
        if not one.get("topologyKey"):
            errors.append(required(f"{where}.topologyKey", "can not be empty"))
        if action not in _SPREAD_ACTIONS:
            errors.append(unsupported(f"{where}.whenUnsatisfiable", action or "", _SPREAD_ACTIONS))
    return errors
