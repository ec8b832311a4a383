"""Plugin resource-strategy-fit: packs or spreads each resource (Volcano: pkg/scheduler/plugins/resource-strategy-fit).

score = Σ w·(allocatable − used − request)/allocatable / Σ w for LeastAllocated, Σ w·(used + request)/allocatable for
MostAllocated. A node that would overflow scores 0; a missing resource adds nothing but its weight counts. Two more
rules protect scarce resources: a score that keeps other pods off nodes that have them (`sra`), and a filter that keeps
enough cpu and memory free beside them (`proportional`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import ArgumentError, convert
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Job, NodeRow, Nodes, Shape, Task
from volcanoio.model.documents import decode_json
from volcanoio.model.resources import CPU, MEMORY

MAX_SCORE = 100
PREFIX = "*"
"""Last character of a name that stands for all names with that prefix."""


class Term(NamedTuple):
    """One requested resource; `most`: fuller nodes are better."""

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
        """Return the weighted requests of a shape, by name."""
        found = ((name, amount, self._of(name)) for name, amount in sorted(shape.requests.items()) if amount > 0)
        return tuple(Term(name, amount, *item) for name, amount, item in found if item is not None)

    def _of(self, name: str) -> tuple[int, bool] | None:
        if (exact := self._exact.get(name)) is not None:
            return exact
        return next((item for prefix, item in self._prefixes if name.startswith(prefix)), None)

    @staticmethod
    def score(terms: Sequence[Term], nodes: Nodes) -> NDArray[np.float64]:
        """Score all nodes, 0 to 1."""
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
        """Score one node, 0 to 1: the same operations in the same order."""
        total, weights = 0.0, 0
        for resource, request, weight, most in terms:
            weights += weight
            if not (capacity := node.allocatable(resource)) or not weight:
                continue
            if (final := node.used(resource) + request) > capacity:
                return 0.0
            total += (final if most else capacity - final) * weight / capacity
        return total / weights if weights else 0.0


BYTES_PER_MILLI = 1_000_000
"""A memory ratio is in units of 10^9 bytes per whole unit of the scarce resource, whose amounts are milli."""


class ScarceArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`resources` are comma-separated; each weighs 1 unless `resourceWeight` has another weight."""

    enable: bool = False
    resources: str = ""
    weight: int = 1
    resource_weight: dict[str, int] = msgspec.field(default_factory=dict, name="resourceWeight")


class ProportionalArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ratios of cpu and memory for the listed `resources`, 1 by default.

    Keys of `resourceProportion` are `<resource>.cpu` and `<resource>.memory`.
    """

    enable: bool = False
    resources: str = ""
    resource_proportion: dict[str, float] = msgspec.field(default_factory=dict, name="resourceProportion")


class Scarce:
    """score = (1 − Σ w of listed resources that the node has / Σ w) × 100 × weight.

    It is 0 if the node does not have a requested resource.
    """

    def __init__(self, given: ScarceArguments) -> None:
        weights = {name: given.resource_weight.get(name, 1) for name in _split(given.resources)}
        self._weights = {name: weight if weight >= 0 else 1 for name, weight in sorted(weights.items())}
        self._sum = sum(self._weights.values())
        self._factor = float(MAX_SCORE * given.weight)
        self.enabled = given.enable and given.weight > 0 and self._sum > 0

    def score(self, shape: Shape, nodes: Nodes) -> NDArray[np.float64]:
        """Score all nodes."""
        held = np.zeros(len(nodes), np.int64)
        for name, weight in self._weights.items():
            held += weight * (nodes.allocatable(name) > 0)
        offered = np.ones(len(nodes), np.bool_)
        for name, amount in shape.requests.items():
            if amount > 0:
                offered &= nodes.allocatable(name) > 0
        return np.where(offered, (1 - held / self._sum) * self._factor, 0.0)

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        """Score one node."""
        for name, amount in shape.requests.items():
            if amount > 0 and node.allocatable(name) <= 0:
                return 0.0
        held = sum(weight for name, weight in self._weights.items() if node.allocatable(name) > 0)
        return (1 - held / self._sum) * self._factor


class Proportional:
    """Keeps cpu and memory free beside scarce resources: ratio × idle amount of each listed resource.

    It applies to pods that request none of these resources.
    """

    def __init__(self, given: ProportionalArguments, owner: str) -> None:
        names = _split(given.resources)
        for key in given.resource_proportion:
            if key.rpartition(".")[0] not in names or key.rpartition(".")[2] not in (CPU, MEMORY):
                msg = (
                    f'{owner}: "{key}" of resourceProportion is not <resource>.cpu or <resource>.memory of a resource '
                    "that proportional.resources lists; correct it or list the resource"
                )
                raise ArgumentError(msg, key="proportional")
        ratios = {key: ratio for key, ratio in given.resource_proportion.items() if ratio >= 0}
        self._ratios = [(name, ratios.get(f"{name}.{CPU}", 1.0), ratios.get(f"{name}.{MEMORY}", 1.0)) for name in names]
        self._enabled = given.enable

    def restricts(self, shape: Shape) -> bool:
        """Return whether pods of the shape must leave cpu and memory free."""
        return self._enabled and not any(shape.requests.get(name, 0) > 0 for name, _, _ in self._ratios)

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return nodes that keep enough free after one more pod of the shape."""
        ok = np.ones(len(nodes), np.bool_)
        if not self.restricts(shape):
            return Feasibility(ok)
        cpu = nodes.idle(CPU) - shape.requests.get(CPU, 0)
        memory = nodes.idle(MEMORY) - shape.requests.get(MEMORY, 0)
        reasons = []
        for name, cpu_ratio, memory_ratio in self._ratios:
            idle = nodes.idle(name)
            failed = (nodes.allocatable(name) > 0) & (
                (cpu < idle * cpu_ratio) | (memory < idle * (memory_ratio * BYTES_PER_MILLI))
            )
            if failed.any():
                reasons.append((f"proportional of resource {name} check failed", failed))
                ok &= ~failed
        return Feasibility(ok, tuple(reasons))


def _split(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


SCORING_TYPE = "volcano.sh/resource-strategy-scoring-type"
SCORING_WEIGHTS = "volcano.sh/resource-strategy-weight"
DEFAULT_WEIGHT = 10

_AMOUNTS = Depends.NODE_AMOUNTS | Depends.NODE_USAGE


class ResourceStrategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The scoring strategy of one resource, and its weight; a weight that is not positive means 1."""

    type: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    weight: int = 1


_DEFAULT = {CPU: ResourceStrategy(), MEMORY: ResourceStrategy()}


class StrategyFitArguments(msgspec.Struct, frozen=True):
    """Strategies by resource name or `prefix*`, by default of cpu and memory.

    `resourceStrategyFitWeight` 0 disables the score; negative means the default.
    """

    weight: int = msgspec.field(default=DEFAULT_WEIGHT, name="resourceStrategyFitWeight")
    resources: dict[str, ResourceStrategy] = {}
    sra: ScarceArguments = ScarceArguments()
    proportional: ProportionalArguments = ProportionalArguments()


class _PodStrategy(msgspec.Struct, frozen=True):
    """The strategy in a pod's annotations, which replaces the configured one."""

    type: Literal["LeastAllocated", "MostAllocated"]
    weights: dict[str, int]


class ResourceStrategyFit:
    """Scores nodes by the strategy of each requested resource, and protects scarce resources."""

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

    def trait(self, task: Task, job: Job) -> str:  # noqa: ARG002 - depends on the pod's annotations only
        """Return the strategy in the pod's annotations if it is valid, else "" for the configured one."""
        annotations = task.pod.metadata.annotations
        if SCORING_TYPE not in annotations or SCORING_WEIGHTS not in annotations:
            return ""
        try:
            weights = decode_json(annotations[SCORING_WEIGHTS], dict[str, int])
            pod_strategy = msgspec.convert({"type": annotations[SCORING_TYPE], "weights": weights}, _PodStrategy)
        except msgspec.DecodeError:
            return ""
        return msgspec.json.encode(pod_strategy, order="sorted").decode()

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on idle amounts for pods that must leave cpu and memory free."""
        return _AMOUNTS if self._proportional.restricts(shape) else Depends.NOTHING

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return nodes that keep enough cpu and memory beside their scarce resources."""
        return self._proportional.feasible(shape, nodes)

    def score_depends(self, shape: Shape) -> Depends:
        """Depend on the node's amounts if the shape has weighted requests."""
        if self._factor and self._terms(shape):
            return _AMOUNTS
        return Depends.NODE_AMOUNTS if self._scarce.enabled else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:  # noqa: ARG002 - not relative to other nodes
        """Score all nodes."""
        total = np.zeros(len(nodes))
        if self._factor and (terms := self._terms(shape)):
            total += Strategy.score(terms, nodes) * self._factor
        if self._scarce.enabled:
            total += self._scarce.score(shape, nodes)
        return total

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        """Score one node: the same operations in the same order."""
        total = 0.0
        if self._factor and (terms := self._terms(shape)):
            total += Strategy.score_on(terms, node) * self._factor
        if self._scarce.enabled:
            total += self._scarce.score_on(shape, node)
        return total

    def _terms(self, shape: Shape) -> tuple[Term, ...]:
        if (terms := self._terms_of.get(shape.id)) is None:
            strategy = self._strategy
            if trait := shape.traits.get(self.name):
                pod_strategy = msgspec.json.decode(trait, type=_PodStrategy)
                strategy = Strategy(
                    {
                        name: (weight if weight >= 0 else 1, pod_strategy.type == "MostAllocated")
                        for name, weight in pod_strategy.weights.items()
                    }
                )
            terms = self._terms_of[shape.id] = strategy.terms(shape)
        return terms
