"""Plugin resource-strategy-fit: packs or spreads each resource (Volcano: pkg/scheduler/plugins/resource-strategy-fit).

Beside it two guards of scarce resources: a score that keeps other pods off nodes that have them (`sra`), and a filter
that keeps enough cpu and memory beside them (`proportional`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Job, NodeRow, Nodes, Shape, Task
from volcanoio.model.resources import CPU, MEMORY
from volcanoio_plugins.scheduling.parts.scarcity import Proportional, ProportionalArguments, Scarce, ScarceArguments
from volcanoio_plugins.scheduling.parts.strategies import MAX_SCORE, Strategy, Term

SCORING_TYPE = "volcano.sh/resource-strategy-scoring-type"
SCORING_WEIGHTS = "volcano.sh/resource-strategy-weight"
DEFAULT_WEIGHT = 10

_AMOUNTS = Depends.NODE_AMOUNTS | Depends.NODE_USAGE


class ResourceStrategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one resource is scored, and how much it weighs; a weight that is not above 0 means 1."""

    type: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    weight: int = 1


_DEFAULT = {CPU: ResourceStrategy(), MEMORY: ResourceStrategy()}


class StrategyFitArguments(msgspec.Struct, frozen=True):
    """`resources` by name or `prefix*`; none means cpu and memory.

    `resourceStrategyFitWeight` 0 scores nothing; negative means the default.
    """

    weight: int = msgspec.field(default=DEFAULT_WEIGHT, name="resourceStrategyFitWeight")
    resources: dict[str, ResourceStrategy] = {}
    sra: ScarceArguments = ScarceArguments()
    proportional: ProportionalArguments = ProportionalArguments()


class _Wish(msgspec.Struct, frozen=True):
    """What a pod's annotations ask for in place of the configuration."""

    type: Literal["LeastAllocated", "MostAllocated"]
    weights: dict[str, int]


class ResourceStrategyFit:
    """Scores nodes by the strategy of each requested resource, and guards scarce resources."""

    name = "resource-strategy-fit"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, StrategyFitArguments, self.name)
        weight = given.weight if given.weight >= 0 else DEFAULT_WEIGHT
        self._factor = float(MAX_SCORE * weight)
        self._strategy = Strategy(
            {
                name: (item.weight if item.weight > 0 else 1, item.type == "MostAllocated")
                for name, item in (given.resources or _DEFAULT).items()
            }
        )
        self._scarce = Scarce(given.sra)
        self._proportional = Proportional(given.proportional, self.name)
        self._terms_of: dict[int, tuple[Term, ...]] = {}

    def trait(self, task: Task, job: Job) -> str:  # noqa: ARG002 - annotations of the pod alone
        """What the pod's annotations ask for, where they make sense; otherwise the configuration holds."""
        annotations = task.pod.metadata.annotations
        if SCORING_TYPE not in annotations or SCORING_WEIGHTS not in annotations:
            return ""
        try:
            weights = msgspec.json.decode(annotations[SCORING_WEIGHTS], type=dict[str, int])
            wish = msgspec.convert({"type": annotations[SCORING_TYPE], "weights": weights}, _Wish)
        except msgspec.DecodeError:
            return ""
        return msgspec.json.encode(wish, order="sorted").decode()

    def feasible_depends(self, shape: Shape) -> Depends:
        """What is idle, for pods that must leave room beside scarce resources."""
        return _AMOUNTS if self._proportional.concerns(shape) else Depends.NOTHING

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Nodes that keep enough cpu and memory beside their scarce resources."""
        return self._proportional.feasible(shape, nodes)

    def score_depends(self, shape: Shape) -> Depends:
        """The node's own amounts, if the shape asks for anything that has a weight."""
        if self._factor and self._terms(shape):
            return _AMOUNTS
        return Depends.NODE_AMOUNTS if self._scarce.enabled else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:  # noqa: ARG002 - not relative to other nodes
        """The score of all nodes."""
        total = np.zeros(len(nodes))
        if self._factor and (terms := self._terms(shape)):
            total += Strategy.score(terms, nodes) * self._factor
        if self._scarce.enabled:
            total += self._scarce.score(shape, nodes)
        return total

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        """The score of one node: the same operations in the same order."""
        total = 0.0
        if self._factor and (terms := self._terms(shape)):
            total += Strategy.score_on(terms, node) * self._factor
        if self._scarce.enabled:
            total += self._scarce.score_on(shape, node)
        return total

    def _terms(self, shape: Shape) -> tuple[Term, ...]:
        """What the shape requests and has a weight, by its own wish or by the configuration."""
        terms = self._terms_of.get(shape.id)
        if terms is None:
            strategy = self._strategy
            if said := shape.traits.get(self.name):
                wish = msgspec.json.decode(said, type=_Wish)
                strategy = Strategy(
                    {
                        name: (weight if weight >= 0 else 1, wish.type == "MostAllocated")
                        for name, weight in wish.weights.items()
                    }
                )
            terms = self._terms_of[shape.id] = strategy.terms(shape)
        return terms
