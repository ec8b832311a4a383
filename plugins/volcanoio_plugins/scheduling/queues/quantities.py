"""Comparisons of amounts as several plugins make them (Volcano: pkg/scheduler/api/resource_info.go).

Amounts are in scheduling units; what is shared out by weight may be fractional, hence the tolerance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from volcanoio.model.resources import CPU, MEMORY, PODS

Quantities: TypeAlias = Mapping[str, int] | Mapping[str, float]

TOLERANCE = 0.1
"""Two amounts that differ by less are equal."""


def fits_within(left: Quantities, right: Quantities) -> bool:
    """Whether left is at most right for every resource; a missing one is 0."""
    return all(left.get(name, 0) - right.get(name, 0) < TOLERANCE for name in {**left, **right})


def share(part: float, whole: float) -> float:
    """part / whole; of nothing, anything is all of it."""
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole


def ordered(names: Iterable[str]) -> list[str]:
    """Names as people list them: cpu, memory, then the others by name."""
    first = {CPU: 0, MEMORY: 1}
    return sorted(names, key=lambda name: (first.get(name, 2), name))


def exceeding(left: Quantities, limit: Quantities, demand: Quantities) -> list[str]:
    """The resources of a demand for which left is above the limit; exact, a missing limit is 0, pods do not count."""
    over = [name for name, amount in demand.items() if amount > 0 and name != PODS and left[name] > limit.get(name, 0)]
    return ordered(over) if over else over


def shortage(what: str, word: str, names: Iterable[str]) -> str:
    """`what: word cpu, word memory`, the text of a demand that is refused."""
    return f"{what}: {', '.join(f'{word} {name}' for name in names)}"
