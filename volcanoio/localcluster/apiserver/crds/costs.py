"""What the CEL rules of a schema may cost at worst: a definition whose rules could take too long is refused.

Limits and texts: apiextensions `validation.go`.
"""

from __future__ import annotations

from typing import Final

from volcanoio.engine.admission.fielderrors import FieldError, forbidden

RULE_LIMIT: Final = 10_000_000
"""The cost of one rule, times how often its value may occur in an object."""
SCHEMA_LIMIT: Final = 100_000_000
"""The cost of all rules of a schema."""
_REQUEST: Final = 3 * 1024 * 1024
_NAMED: Final = 4
"""How many of the most expensive rules are named."""


def occurrences(times: int | None, least: int) -> float:
    """How often a value may occur: as often as lists and maps around it say, or as its bytes fit a request."""
    return times if times is not None else _REQUEST // (least + 1)


class Costs:
    """The costs of one schema's rules."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: list[tuple[float, str]] = []

    def judge(self, path: str, cost: float, what: str) -> list[FieldError]:
        """Count the cost of a rule or its message (`what`); returns the error of one that costs too much."""
        self._seen.append((cost, path))
        return [forbidden(path, _excess(what, cost, RULE_LIMIT))] if cost > RULE_LIMIT else []

    def total(self) -> list[FieldError]:
        """The errors of all rules together."""
        total = sum(cost for cost, _ in self._seen)
        if total <= SCHEMA_LIMIT:
            return []
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        dearest = sorted(self._seen, key=lambda one: -one[0])[:_NAMED]
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found = [forbidden(path, text) for _, path in dearest]
        return [*found, forbidden(self._path, _excess(what, total, SCHEMA_LIMIT))]


def _excess(what: str, cost: float, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    hint = (
        "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings "
        "are declared)"
    )
    return f"{what} exceeds budget by factor of {shown} {hint}"
