"""Plugin usage: nodes above a threshold get no tasks, less used nodes score higher, and new tasks are estimated.

Unlike Volcano: tasks placed in this session count by their requests alone, and the risk factor applies to all estimates
of a node together, if cpu and memory, by their weights, reach the threshold.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.cluster import Node, Task
from tests.oracle.plugins.plugin import Plugin
from tests.oracle.plugins.times import epoch
from volcanoio.model.resources import amounts

STALE = 300.0


class Usage(Plugin):
    def open(self) -> None:
        self.figures: dict[str, Any] = self.session.memory.get("figures", {})
        self.before = {
            node.name: {name: node.used(name) for name in ("cpu", "memory")} for node in self.session.cluster.nodes
        }
        self.young = {
            node.name: [task for task in node.tasks if task.job is not None and self._young(task)]
            for node in self.session.cluster.nodes
        }

    def fresh(self, node: Node) -> bool:
        return node.name in self.figures and self.figures[node.name]["at"] + STALE >= self.session.now

    def predicate(self, task: Task, node: Node) -> bool:
        limits = self.arguments.get("thresholds", {})
        if not self.fresh(node):
            return True
        figures = self.figures[node.name]
        return bool(figures["cpu"] <= limits.get("cpu", 80.0) and figures["memory"] <= limits.get("mem", 80.0))

    def score(self, task: Task, node: Node) -> float:
        cpu_weight, memory_weight = self._weights()
        if not self.fresh(node) or not cpu_weight + memory_weight:
            return 0.0
        cpu, memory = self._parts(node)
        factor = 100.0 * self.arguments.get("usage.weight", 5) / (cpu_weight + memory_weight)
        return float(((1 - cpu) * cpu_weight + (1 - memory) * memory_weight) * factor)

    def _weights(self) -> tuple[int, int]:
        return self.arguments.get("cpu.weight", 1), self.arguments.get("memory.weight", 1)

    def _parts(self, node: Node) -> tuple[float, float]:
        plain = self._part(node, "cpu", risky=False), self._part(node, "memory", risky=False)
        weights = self._weights()
        together = (plain[0] * weights[0] + plain[1] * weights[1]) / max(sum(weights), 1)
        if together < self._given("risk_threshold", 0.6):
            return plain
        return self._part(node, "cpu", risky=True), self._part(node, "memory", risky=True)

    def _part(self, node: Node, name: str, *, risky: bool) -> float:
        factor = self._given("risk_factor", 1.2) if risky else 1.0
        real = self.figures[node.name][name] / 100
        estimated = sum(self._estimate(task, name, factor) for task in self.young[node.name])
        ratio = self._given("request_ratio", 0.7)
        ratio = min(ratio * factor, 1.0) if risky else ratio
        placed = (node.used(name) - self.before[node.name][name]) * ratio
        return float(min(real + (estimated + placed) / max(node.allocatable.get(name, 0), 1), 1.0))

    def _young(self, task: Task) -> bool:
        """Return whether the task is being bound, or has run for less than the interval of the metrics."""
        if task.state in ("allocated", "bound"):
            return True
        started = task.status.get("startTime")
        every = next((each["every"] for each in self.figures.values()), 30.0)
        return task.state == "running" and (epoch(started) if started else 0.0) + every > self.session.now

    def _estimate(self, task: Task, name: str, factor: float) -> float:
        if not task.requests.get("cpu") and not task.requests.get("memory"):
            least = self._given("be_cpu", 250) if name == "cpu" else self._given("be_mem", 200) * (1 << 20)
            return float(least) * factor
        request = task.requests.get(name, 0)
        limits = amounts(task.spec["containers"][0].get("resources", {}).get("limits", {}))
        limit = max(limits.get(name, 0), request)
        amount = request * self._given("request_ratio", 0.7) + (limit - request) * self._given("burst_ratio", 0.0)
        return float(min(amount * factor, limit))

    def _given(self, name: str, default: float) -> Any:
        return self.arguments.get("estimator", {}).get(name, default)
