"""Plugin binpack: fuller nodes score higher."""

from __future__ import annotations

from tests.oracle.cluster import Node, Task
from tests.oracle.plugins.plugin import Plugin


class Binpack(Plugin):
    def open(self) -> None:
        given = self.arguments
        names = [name.strip() for name in given.get("binpack.resources", "").split(",") if name.strip()]
        self.weights: dict[str, int] = {"cpu": given.get("binpack.cpu", 1), "memory": given.get("binpack.memory", 1)}
        self.weights |= {name: given.get(f"binpack.resources.{name}", 1) for name in names}
        self.weights = {name: weight if weight >= 0 else 1 for name, weight in self.weights.items()}
        self.weight: int = given.get("binpack.weight", 1)

    def score(self, task: Task, node: Node) -> float:
        asked = [name for name in sorted(task.requests) if name in self.weights]
        weights = sum(self.weights[name] for name in asked)
        if self.weight <= 0 or not weights:
            return 0.0
        total = 0.0
        for name in asked:
            capacity, final = node.allocatable.get(name, 0), node.used(name) + task.requests[name]
            if not capacity or not self.weights[name]:
                continue
            if final > capacity:
                return 0.0
            total += final * self.weights[name] / capacity
        return total / weights * (100.0 * self.weight)
