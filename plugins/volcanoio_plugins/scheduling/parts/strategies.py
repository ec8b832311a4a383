"""Scores of requested resources, each by its own strategy: the emptier or the fuller node is better.

score = Σ w·(allocatable − used − request)/allocatable / Σ w where emptier is better, Σ w·(used + request)/allocatable
where fuller is. A node that would overflow scores 0; a resource that it lacks adds nothing and its weight counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.views import NodeRow, Nodes, Shape

MAX_SCORE = 100
PREFIX = "*"
"""What a name ends in that stands for all that begin like it."""


class Term(NamedTuple):
    """One requested resource; `most`: the fuller node is better."""

    resource: str
    request: int
    weight: int
    most: bool


class Strategy:
    """Weight and direction by resource: by its name, else by the longest `prefix*`."""

    def __init__(self, resources: Mapping[str, tuple[int, bool]]) -> None:
        self._exact = {name: item for name, item in resources.items() if not name.endswith(PREFIX)}
        prefixes = [(name.removesuffix(PREFIX), item) for name, item in resources.items() if name.endswith(PREFIX)]
        self._prefixes = sorted(prefixes, key=lambda pair: (-len(pair[0]), pair[0]))

    def terms(self, shape: Shape) -> tuple[Term, ...]:
        """What a shape requests and has a weight here, by name."""
        found = ((name, amount, self._of(name)) for name, amount in sorted(shape.requests.items()) if amount > 0)
        return tuple(Term(name, amount, *item) for name, amount, item in found if item is not None)

    def _of(self, name: str) -> tuple[int, bool] | None:
        exact = self._exact.get(name)
        if exact is not None:
            return exact
        return next((item for prefix, item in self._prefixes if name.startswith(prefix)), None)

    @staticmethod
    def score(terms: Sequence[Term], nodes: Nodes) -> NDArray[np.float64]:
        """0 to 1 for all nodes."""
        size = len(nodes)
        total, fits, weights = np.zeros(size), np.ones(size, np.bool_), 0
        for resource, request, weight, most in terms:
            weights += weight
            if not weight:
                continue
            capacity = nodes.allocatable(resource)
            final = nodes.used(resource) + request
            has = capacity != 0
            fits &= (final <= capacity) | ~has
            part = final if most else capacity - final
            total += np.where(has, part * weight / np.where(has, capacity, 1), 0.0)
        return np.where(fits, total / weights, 0.0) if weights else total

    @staticmethod
    def score_on(terms: Sequence[Term], node: NodeRow) -> float:
        """0 to 1 for one node: the same operations in the same order."""
        total, weights = 0.0, 0
        for resource, request, weight, most in terms:
            weights += weight
            capacity = node.allocatable(resource)
            if not capacity or not weight:
                continue
            final = node.used(resource) + request
            if final > capacity:
                return 0.0
            total += (final if most else capacity - final) * weight / capacity
        return total / weights if weights else 0.0
