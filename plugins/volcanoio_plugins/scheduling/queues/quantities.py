"""Quantities compared with limits, and formatted for messages (Volcano: pkg/scheduler/api/resource_info.go).

They are in scheduling units; those shared by weight may be fractional, hence the tolerance.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

from volcanoio.model.resources import CPU, MEMORY, PODS

Quantities: TypeAlias = Mapping[str, int] | Mapping[str, float]

TOLERANCE = 0.1
"""Two amounts that differ by less are equal."""


def ordered(names: Iterable[str]) -> list[str]:
    """Sort names for display: cpu, memory, then the others alphabetically."""
    first = {CPU: 0, MEMORY: 1}
    return sorted(names, key=lambda name: (first.get(name, 2), name))


def exceeding(left: Quantities, limit: Quantities, demand: Quantities) -> list[str]:
    """Return the resources of a demand for which left is above the limit; exact, a missing limit is 0, pods do not
    count.
    """
    over = [name for name, amount in demand.items() if amount > 0 and name != PODS and left[name] > limit.get(name, 0)]
    return ordered(over) if over else over


def shortage(what: str, word: str, names: Iterable[str]) -> str:
    """Return `what: word cpu, word memory`, the message of a rejected demand."""
    return _shortage(what, word, tuple(names))


@lru_cache(maxsize=256)
def _shortage(what: str, word: str, names: tuple[str, ...]) -> str:
    """Cached, because thousands of jobs are rejected for the same few resources."""
    return f"{what}: {', '.join(f'{word} {name}' for name in names)}"
