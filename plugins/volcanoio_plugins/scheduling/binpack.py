"""Plugin binpack: fuller nodes first (Volcano: pkg/scheduler/plugins/binpack)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import ArgumentError, convert
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import AmountsAt, Nodes, Shape, pair
from volcanoio.model.resources import CPU, MEMORY
from volcanoio_plugins.scheduling.nodes.nodescores import positive

MAX_SCORE = 100
_RESOURCE_WEIGHT = "binpack.resources."


class BinpackArguments(msgspec.Struct, frozen=True):
    """Weights of the whole score, of cpu and of memory; `resources` lists others, comma separated.

    Each of those takes a weight under `binpack.resources.<name>`, 1 where none is given.
    """

    weight: int = msgspec.field(default=1, name="binpack.weight")
    cpu: int = msgspec.field(default=1, name="binpack.cpu")
    memory: int = msgspec.field(default=1, name="binpack.memory")
    resources: str = msgspec.field(default="", name="binpack.resources")


class Binpack:
    """score = Σ w·(used + requested)/allocatable / Σ w × 100 × weight over requested resources with a weight.

    A node that would overflow scores 0; a resource that the node lacks adds nothing and its weight counts.
    """

    name = "binpack"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        fixed = {key: value for key, value in arguments.items() if not key.startswith(_RESOURCE_WEIGHT)}
        given = convert(fixed, BinpackArguments, self.name)
        listed = [name.strip() for name in given.resources.split(",") if name.strip()]
        others = {key.removeprefix(_RESOURCE_WEIGHT): arguments[key] for key in arguments if key not in fixed}
        for name, value in others.items():
            if name not in listed:
                msg = (
                    f'{self.name}: "{_RESOURCE_WEIGHT}{name}" weighs what binpack.resources does not list; add it there'
                )
                raise ArgumentError(msg, key=f"{_RESOURCE_WEIGHT}{name}")
            if not isinstance(value, int) or isinstance(value, bool):
                msg = f'{self.name}: "{_RESOURCE_WEIGHT}{name}" takes a whole number, without quotes'
                raise ArgumentError(msg, key=f"{_RESOURCE_WEIGHT}{name}")
        weights = {CPU: given.cpu, MEMORY: given.memory, **{name: others.get(name, 1) for name in listed}}
        self._weights = {name: weight if weight >= 0 else 1 for name, weight in weights.items()}
        self._factor = float(MAX_SCORE * given.weight) if given.weight > 0 else 0.0
        self._terms_of: dict[int, tuple[tuple[str, int, int], ...]] = {}

    def score_depends(self, shape: Shape) -> Depends:
        """The node's own amounts, if the shape asks for anything that has a weight."""
        return Depends.NODE_AMOUNTS | Depends.NODE_USAGE if self._factor and self._terms(shape) else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:  # noqa: ARG002 - not relative to other nodes
        """The score of all nodes."""
        size, terms = len(nodes), self._terms(shape)
        weight_sum = sum(weight for _, _, weight in terms)
        if not self._factor or not weight_sum:
            return np.zeros(size)
        if len(terms) == 2 and terms[0][0] == CPU and terms[1][0] == MEMORY and nodes.all_have_basics:
            return self._of_both(terms, weight_sum, nodes)
        total = np.zeros(size)
        fits = np.ones(size, np.bool_)
        for resource, request, weight in terms:
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
        total /= weight_sum
        total *= self._factor
        total *= fits
        return total

    def _of_both(self, terms: tuple[tuple[str, int, int], ...], weight_sum: int, nodes: Nodes) -> NDArray[np.float64]:
        """The score of nodes that all have cpu and memory, where these two count: the usual case, in fewer steps."""
        (_, cpu, cpu_weight), (_, memory, memory_weight) = terms
        capacity, final = nodes.basics("allocatable"), nodes.basics("used") + pair(cpu, memory)
        fits = final <= capacity
        if cpu_weight != 1 or memory_weight != 1:
            final *= pair(cpu_weight, memory_weight)
            fits |= pair(cpu_weight, memory_weight) == 0
        parts: NDArray[np.float64] = final / capacity
        total: NDArray[np.float64] = parts[0]
        total += parts[1]
        total /= weight_sum
        total *= self._factor
        total *= fits[0] & fits[1]
        return total

    def score_from(self, shape: Shape, at: AmountsAt) -> Callable[[Sequence[int]], float]:
        """What scores one node: the same operations in the same order."""
        factor, terms = self._factor, self._terms(shape)
        weight_sum = sum(weight for _, _, weight in terms)
        found = ((at.allocatable(name), at.used(name), request, weight) for name, request, weight in terms if weight)
        counted = [(offered, used, *rest) for offered, used, *rest in found if offered is not None and used is not None]

        def score(amounts: Sequence[int]) -> float:
            total = 0.0
            for offered, used, request, weight in counted:
                if capacity := amounts[offered]:
                    final = amounts[used] + request
                    if final > capacity:
                        return 0.0
                    total += final * weight / capacity
            return total / weight_sum * factor if weight_sum else 0.0

        return score

    def _terms(self, shape: Shape) -> tuple[tuple[str, int, int], ...]:
        """(resource, request, weight) of what the shape requests and has a weight."""
        terms = self._terms_of.get(shape.id)
        if terms is None:
            terms = tuple(
                (name, amount, self._weights[name])
                for name, amount in sorted(shape.requests.items())
                if amount > 0 and name in self._weights
            )
            self._terms_of[shape.id] = terms
        return terms
