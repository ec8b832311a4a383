"""Guards of scarce resources: other pods avoid the nodes that have them, and leave cpu and memory beside them.

Source: Volcano pkg/scheduler/plugins/resource-strategy-fit (sra and proportional).
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.scheduling.verdicts import Feasibility
from volcanoio.framework.scheduling.views import NodeRow, Nodes, Shape
from volcanoio.model.resources import CPU, MEMORY
from volcanoio_plugins.scheduling.parts.strategies import MAX_SCORE

BYTES_PER_MILLI = 1_000_000
"""A ratio of memory is in units of 10^9 bytes beside one whole of the scarce resource, amounts of which are milli."""


class ScarceArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`resources` are comma separated; each weighs 1 unless `resourceWeight` says otherwise."""

    enable: bool = False
    resources: str = ""
    weight: int = 1
    resource_weight: dict[str, int] = msgspec.field(default_factory=dict, name="resourceWeight")


class ProportionalArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`resourceProportion` has `<resource>.cpu` and `<resource>.memory` for what `resources` lists; else they are 1."""

    enable: bool = False
    resources: str = ""
    resource_proportion: dict[str, float] = msgspec.field(default_factory=dict, name="resourceProportion")


class Scarce:
    """score = (1 − Σ w of listed resources that the node has / Σ w) × 100 × weight; 0 if it lacks what is requested."""

    def __init__(self, given: ScarceArguments) -> None:
        weights = {name: given.resource_weight.get(name, 1) for name in _listed(given.resources)}
        self._weights = {name: weight if weight >= 0 else 1 for name, weight in sorted(weights.items())}
        self._sum = sum(self._weights.values())
        self._factor = float(MAX_SCORE * given.weight)
        self.enabled = given.enable and given.weight > 0 and self._sum > 0

    def score(self, shape: Shape, nodes: Nodes) -> NDArray[np.float64]:
        """The score of all nodes."""
        held = np.zeros(len(nodes), np.int64)
        for name, weight in self._weights.items():
            held += weight * (nodes.allocatable(name) > 0)
        offered = np.ones(len(nodes), np.bool_)
        for name, amount in shape.requests.items():
            if amount > 0:
                offered &= nodes.allocatable(name) > 0
        return np.where(offered, (1 - held / self._sum) * self._factor, 0.0)

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        """The score of one node."""
        for name, amount in shape.requests.items():
            if amount > 0 and node.allocatable(name) <= 0:
                return 0.0
        held = sum(weight for name, weight in self._weights.items() if node.allocatable(name) > 0)
        return (1 - held / self._sum) * self._factor


class Proportional:
    """Pods that ask for none of the listed resources must leave ratio × idle of cpu and memory beside each of them."""

    def __init__(self, given: ProportionalArguments, owner: str) -> None:
        names = _listed(given.resources)
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

    def concerns(self, shape: Shape) -> bool:
        """Whether pods of the shape must leave anything."""
        return self._enabled and not any(shape.requests.get(name, 0) > 0 for name, _, _ in self._ratios)

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Nodes that keep enough after one more pod of the shape."""
        ok = np.ones(len(nodes), np.bool_)
        if not self.concerns(shape):
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


def _listed(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
