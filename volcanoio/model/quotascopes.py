"""The scopes of a ResourceQuota: requirements on what it counts (Kubernetes: pkg/quota/v1/evaluator/core)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Scope(NamedTuple):
    """One requirement. `operator` is Exists, DoesNotExist, In or NotIn."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()

    def meets(self, value: str) -> bool:
        """Whether that value of what the scope names, "" for none, is as required."""
        match self.operator:
            case "Exists":
                return bool(value)
            case "DoesNotExist":
                return not value
            case "In":
                return value in self.values
        return self.operator == "NotIn" and value not in self.values


def scopes_of(scopes: Iterable[str], selector: Mapping[str, Any] | None) -> tuple[Scope, ...]:
    """All requirements of a quota's `scopes` and `scopeSelector`; an object must meet each."""
    expressions = (selector or {}).get("matchExpressions") or ()
    selected = [
        Scope(one.get("scopeName", ""), one.get("operator", ""), tuple(one.get("values") or ())) for one in expressions
    ]
    return (*map(Scope, scopes), *selected)
