"""Plugin resource-strategy-fit: each resource is packed or spread; scarce resources stay free (sra, proportional)."""

from __future__ import annotations

import json
from typing import Any

from tests.oracle.cluster import Node, Task
from tests.oracle.plugins.plugin import Plugin

TYPE, WEIGHTS = (f"volcano.sh/resource-strategy-{name}" for name in ("scoring-type", "weight"))


class ResourceStrategyFit(Plugin):
    def passes_statically(self, task: Task, node: Node) -> bool:
        return True

    def predicate(self, task: Task, node: Node) -> bool:
        """Check proportional: a task without listed resources leaves cpu and memory for what is idle of them."""
        given = self.arguments.get("proportional", {})
        names = _listed(given)
        if not given.get("enable") or any(task.requests.get(name) for name in names):
            return True
        for name in names:
            if node.allocatable.get(name, 0) <= 0:
                continue
            cpu, memory = (given.get("resourceProportion", {}).get(f"{name}.{part}", 1.0) for part in ("cpu", "memory"))
            idle = node.idle(name)
            if node.idle("cpu") - task.requests.get("cpu", 0) < idle * cpu:
                return False
            if node.idle("memory") - task.requests.get("memory", 0) < idle * (memory * 1_000_000):
                return False
        return True

    def score(self, task: Task, node: Node) -> float:
        weight = self.arguments.get("resourceStrategyFitWeight", 10)
        weight = weight if weight >= 0 else 10
        total = 0.0
        if weight:
            total += self._fit(task, node) * float(100 * weight)
        return total + self._scarce(task, node)

    def _strategy(self, task: Task, name: str) -> tuple[int, str] | None:
        """Return weight and type of a resource: from the pod, by its name, or by the longest prefix."""
        given: dict[str, Any] = self.arguments.get("resources") or {"cpu": {}, "memory": {}}
        if TYPE in task.annotations and WEIGHTS in task.annotations:
            weights = json.loads(task.annotations[WEIGHTS])
            given = {key: {"type": task.annotations[TYPE], "weight": weight} for key, weight in weights.items()}
        prefixes = [key for key in given if key.endswith("*") and name.startswith(key[:-1])]
        key = name if name in given else max(prefixes, key=len, default="")
        if not key:
            return None
        return given[key].get("weight", 1), given[key].get("type", "LeastAllocated")

    def _fit(self, task: Task, node: Node) -> float:
        total, weights = 0.0, 0
        for name, amount in sorted(task.requests.items()):
            strategy = self._strategy(task, name)
            if strategy is None:
                continue
            weight, kind = strategy
            weights += weight
            capacity, final = node.allocatable.get(name, 0), node.used(name) + amount
            if not capacity or not weight:
                continue
            if final > capacity:
                return 0.0
            total += (final if kind == "MostAllocated" else capacity - final) * weight / capacity
        return total / weights if weights else 0.0

    def _scarce(self, task: Task, node: Node) -> float:
        """Score sra: nodes with fewer of the listed resources are better; 0 if a requested resource is missing."""
        given = self.arguments.get("sra", {})
        weights = {name: given.get("resourceWeight", {}).get(name, 1) for name in _listed(given)}
        if not given.get("enable") or given.get("weight", 1) <= 0 or not sum(weights.values()):
            return 0.0
        if any(node.allocatable.get(name, 0) <= 0 for name in task.requests):
            return 0.0
        held = sum(weight for name, weight in weights.items() if node.allocatable.get(name, 0) > 0)
        return float((1 - held / sum(weights.values())) * float(100 * given.get("weight", 1)))


def _listed(given: Any) -> list[str]:
    return [name.strip() for name in given.get("resources", "").split(",") if name.strip()]
