"""Rules about a container's requests and limits (Kubernetes: pkg/apis/core/validation)."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from volcanoio.engine.admission.dnsnames import qualified_rule
from volcanoio.engine.admission.fielderrors import FieldError, invalid, required
from volcanoio.model import quantity

_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@lru_cache(maxsize=4096)
def _amount(text: str) -> Fraction | None:
    try:
        return quantity.parse(text)
    except quantity.QuantityError:
        return None


@lru_cache(maxsize=1024)
def _name_rule(name: str) -> str:
    if name in _STANDARD or name.startswith("hugepages-"):
        return ""
    if "/" not in name:
        return "must be a standard resource type or fully qualified"
    return qualified_rule(name)


def resource_errors(resources: Any, path: str) -> list[FieldError]:
    """What is wrong with `resources`: names, amounts, and requests above limits."""
    if not resources:
        return []
    if not isinstance(resources, dict):
        return [invalid(path, resources, "must be an object with requests and limits")]
    errors: list[FieldError] = []
    limits = _amounts(resources.get("limits"), f"{path}.limits", errors)
    requests = _amounts(resources.get("requests"), f"{path}.requests", errors)
    for name, (shown, asked) in requests.items():
        limit = limits.get(name)
        overcommits = name in _STANDARD
        if limit is None:
            if not overcommits:
                errors.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        elif overcommits and asked > limit[1]:
            errors.append(
                invalid(f"{path}.requests", shown, f"must be less than or equal to {name} limit of {limit[0]}")
            )
        elif not overcommits and asked != limit[1]:
            errors.append(invalid(f"{path}.requests", shown, f"must be equal to {name} limit of {limit[0]}"))
    return errors


def _amounts(named: Any, path: str, errors: list[FieldError]) -> dict[str, tuple[str, Fraction]]:
    """Valid amounts by name, as text and number; the others become errors."""
    if not isinstance(named, dict):
        if named is not None:
            errors.append(invalid(path, named, "must be an object of quantities"))
        return {}
    found: dict[str, tuple[str, Fraction]] = {}
    for name, value in named.items():
        text = str(value)
        amount = None if isinstance(value, bool) else _amount(text)
        rule = _name_rule(name)
        if rule:
            errors.append(invalid(f"{path}[{name}]", name, rule))
            if "/" not in name:
                errors.append(invalid(f"{path}[{name}]", name, "must be a standard resource for containers"))
        elif amount is None:
            errors.append(invalid(f"{path}[{name}]", value, _QUANTITY_RULE))
        elif amount < 0:
            errors.append(invalid(f"{path}[{name}]", text, "must be greater than or equal to 0"))
        elif name not in _STANDARD and amount.denominator != 1:
            errors.append(invalid(f"{path}[{name}]", text, "must be an integer"))
        else:
            found[name] = (text, amount)
    return found
