"""Rules of a `metav1.LabelSelector` (apimachinery `pkg/apis/meta/v1/validation`)."""

from __future__ import annotations

from typing import Any

from volcanoio.engine.admission.dnsnames import label_errors, qualified_rule, value_rule
from volcanoio.engine.admission.fielderrors import FieldError, forbidden, invalid, required


def label_selector_errors(selector: Any, path: str) -> list[FieldError]:
    """The broken rules of a label selector; none for an absent one."""
    if not isinstance(selector, dict):
        return []
    found = label_errors(selector.get("matchLabels"), f"{path}.matchLabels")
    for at, one in enumerate(selector.get("matchExpressions") or ()):
        found += _requirement_errors(one, f"{path}.matchExpressions[{at}]")
    return found


def _requirement_errors(one: dict[str, Any], path: str) -> list[FieldError]:
    operator, values, key = one.get("operator", ""), one.get("values") or (), one.get("key", "")
    found: list[FieldError] = []
    if operator in {"In", "NotIn"}:
        if not values:
            found.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.append(forbidden(f"{path}.values", rule))
    else:
        found.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    if rule := qualified_rule(key):
        found.append(invalid(f"{path}.key", key, rule))
    found += [
        invalid(f"{path}.values[{at}]", value, rule) for at, value in enumerate(values) if (rule := value_rule(value))
    ]
    return found
