"""Plugin binpack: fuller nodes first (Volcano: pkg/scheduler/plugins/binpack)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import AmountColumns, Nodes, Shape
from volcanoio.model.resources import CPU, MEMORY
from volcanoio_plugins.scheduling.kubernetes.noderesources import positive
from volcanoio_plugins.scheduling.resource_weights import resource_weights, without_weights

MAX_SCORE = 100
_BY_AMOUNTS = Depends.NODE_AMOUNTS | Depends.NODE_USAGE
_RESOURCES = "binpack.resources"


class _RequestTerms(NamedTuple):
    """The weighted requests of a shape: resource, request and weight of each, and the sum of weights.

    `cpu_and_memory`: these are exactly cpu and memory, each of weight 1.
    """

    each: tuple[tuple[str, int, int], ...]
    weight: int
    cpu_and_memory: bool


class BinpackArguments(msgspec.Struct, frozen=True):
    """Weights of the whole score, of cpu and of memory; `resources` lists others, comma-separated.

    Each of those has a weight under `binpack.resources.<name>`, 1 by default.
    """

    weight: int = msgspec.field(default=1, name="binpack.weight")
    cpu: int = msgspec.field(default=1, name="binpack.cpu")
    memory: int = msgspec.field(default=1, name="binpack.memory")
    resources: str = msgspec.field(default="", name="binpack.resources")


class Binpack:
    """score = Σ w·(used + requested)/allocatable / Σ w × 100 × weight over requested resources with a weight.

    A node that would overflow scores 0; a resource that the node does not have adds nothing, and its weight counts.
    """

    name = "binpack"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(without_weights(arguments, _RESOURCES), BinpackArguments, self.name)
        self._weights = resource_weights(self.name, arguments, _RESOURCES, cpu=given.cpu, memory=given.memory)
        self._factor = float(MAX_SCORE * given.weight) if given.weight > 0 else 0.0
        self._terms_of: dict[int, _RequestTerms] = {}

    def score_depends(self, shape: Shape) -> Depends:
        """Depend on the node's amounts if the shape has weighted requests."""
        return _BY_AMOUNTS if self._factor and self._terms(shape).each else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:  # noqa: ARG002 - not relative to other nodes
        """Score all nodes."""
        size, terms = len(nodes), self._terms(shape)
        if not self._factor or not terms.weight:
            return np.zeros(size)
        if terms.cpu_and_memory and nodes.all_have_cpu_memory:
            return self._score_cpu_memory(terms, nodes)
        total = np.zeros(size)
        fits = np.ones(size, np.bool_)
        for resource, request, weight in terms.each:
            if not weight:
                continue
            capacity = nodes.allocatable(resource)
            final = nodes.used(resource) + request
            if positive(capacity):
                fits &= final <= capacity
                total += final * weight / capacity
            else:
                has = capacity != 0
                fits &= (final <= capacity) | ~has
                total += np.where(has, final * weight / np.where(has, capacity, 1), 0.0)
        total /= terms.weight
        total *= self._factor
        total *= fits
        return total

    def _score_cpu_memory(self, terms: _RequestTerms, nodes: Nodes) -> NDArray[np.float64]:
        """Score nodes that all have cpu and memory, with equal weights: the usual case, faster."""
        (_, cpu, _), (_, memory, _) = terms.each
        utilization = nodes.utilization(cpu, memory)
        total: NDArray[np.float64] = utilization[0] + utilization[1]
        total *= self._factor / 2  # exact, as is the half of a sum
        if not nodes.all_fit:
            fits = utilization <= 1  # exact: below 2^52 only equal amounts divide to 1
            total *= np.logical_and(fits[0], fits[1])
        return total

    def score_from(self, shape: Shape, at: AmountColumns) -> Callable[[Sequence[int]], float]:
        """Return a scorer of one node: the same operations in the same order."""
        factor, (each, weight_sum, cpu_and_memory) = self._factor, self._terms(shape)
        found = ((at.allocatable(name), at.used(name), request, weight) for name, request, weight in each if weight)
        counted = [(offered, used, *rest) for offered, used, *rest in found if offered is not None and used is not None]

        def score(amounts: Sequence[int]) -> float:
            total = 0.0
            for offered, used, request, weight in counted:
                if capacity := amounts[offered]:
                    if (final := amounts[used] + request) > capacity:
                        return 0.0
                    total += final * weight / capacity
            return total / weight_sum * factor if weight_sum else 0.0

        if not cpu_and_memory or len(counted) != len(each):
            return score
        (cpu_at, cpu_used, cpu_asked, _), (memory_at, memory_used, memory_asked, _) = counted
        half = factor / 2  # exact, as is the half of a sum

        def score_cpu_memory(amounts: Sequence[int]) -> float:
            cpu, memory = amounts[cpu_at], amounts[memory_at]
            if not cpu or not memory:
                return score(amounts)
            used, utilization = amounts[cpu_used] + cpu_asked, amounts[memory_used] + memory_asked
            return 0.0 if used > cpu or utilization > memory else (used / cpu + utilization / memory) * half

        return score_cpu_memory

    def _terms(self, shape: Shape) -> _RequestTerms:
        if (terms := self._terms_of.get(shape.id)) is None:
            each = tuple(
                (name, amount, self._weights[name])
                for name, amount in sorted(shape.requests.items())
                if amount > 0 and name in self._weights
            )
            cpu_and_memory = [(name, weight) for name, _, weight in each] == [(CPU, 1), (MEMORY, 1)]
            terms = self._terms_of[shape.id] = _RequestTerms(each, sum(weight for _, _, weight in each), cpu_and_memory)
        return terms
